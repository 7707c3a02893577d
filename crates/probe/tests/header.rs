//! `include/tacho_probe.h` is written by hand: every number in it is compared with the Rust
//! side here, and the C++ compiler compares it with its own layout.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use tacho_probe::{
    BlockFacts, Blocked, Blocking, Facts, Kept, REWRITE_ANSI_QUOTES, REWRITE_MODE_UNKNOWN,
    REWRITE_NO_BACKSLASH_ESCAPES, RewriteFacts, Rewritten, Thread, Wanted,
};
use tacho_ring::chunk::{Killed, OpenChunk};
use tacho_ring::codec::{self, Bytes, Event, RecordKind};

const HEADER: &str = include_str!("../../../include/tacho_probe.h");

/// `NAME = number` and `sizeof(..) == number` / `offsetof(..) == number`, as they are written.
fn numbers(separator: &str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    HEADER
        .lines()
        .filter_map(|line| line.trim().split_once(separator))
        .filter(|(name, _)| wanted(name))
        .map(|(name, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let name = name.trim_start_matches("TACHO_ASSERT(").to_owned();
            (name, digits.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn constants_are_those_of_the_codec() {
    let kind = |kind: RecordKind| kind as usize;
    let bit = |bit: u32| bit as usize;
    let notice = |number: i32| number as usize;
    let expected: BTreeMap<String, usize> = [
        ("TACHO_KIND_START", kind(RecordKind::Start)),
        ("TACHO_KIND_END", kind(RecordKind::End)),
        ("TACHO_KIND_POINT", kind(RecordKind::Point)),
        ("TACHO_KIND_ERROR", kind(RecordKind::Error)),
        ("TACHO_KIND_TABLE", kind(RecordKind::Table)),
        ("TACHO_KIND_CONNECT", kind(RecordKind::Connect)),
        ("TACHO_KIND_DISCONNECT", kind(RecordKind::Disconnect)),
        ("TACHO_KIND_CHANGE_USER", kind(RecordKind::ChangeUser)),
        ("TACHO_KIND_CONFIG", kind(RecordKind::Config)),
        ("TACHO_KIND_REWRITE", kind(RecordKind::Rewrite)),
        ("TACHO_KIND_NOTICE", kind(RecordKind::Notice)),
        ("TACHO_NOTICE_FLUSH", notice(codec::NOTICE_FLUSH)),
        ("TACHO_NOTICE_AUTHID_CREATE", notice(codec::NOTICE_AUTHID_CREATE)),
        ("TACHO_NOTICE_CREDENTIAL_CHANGE", notice(codec::NOTICE_CREDENTIAL_CHANGE)),
        ("TACHO_NOTICE_AUTHID_RENAME", notice(codec::NOTICE_AUTHID_RENAME)),
        ("TACHO_NOTICE_AUTHID_DROP", notice(codec::NOTICE_AUTHID_DROP)),
        ("TACHO_NOTICE_SET", notice(codec::NOTICE_SET)),
        ("TACHO_NOTICE_USER", notice(codec::NOTICE_USER)),
        ("TACHO_NOTICE_INTERNAL", notice(codec::NOTICE_INTERNAL)),
        ("TACHO_NOTICE_EXECUTE", notice(codec::NOTICE_EXECUTE)),
        ("TACHO_NOTICE_STARTUP", notice(codec::NOTICE_STARTUP)),
        ("TACHO_NOTICE_SHUTDOWN", notice(codec::NOTICE_SHUTDOWN)),
        ("TACHO_REWRITE_ANSI_QUOTES", bit(REWRITE_ANSI_QUOTES)),
        ("TACHO_REWRITE_NO_BACKSLASH_ESCAPES", bit(REWRITE_NO_BACKSLASH_ESCAPES)),
        ("TACHO_REWRITE_MODE_UNKNOWN", bit(REWRITE_MODE_UNKNOWN)),
        ("TACHO_PRESENT_SQL_COMMAND", bit(codec::PRESENT_SQL_COMMAND)),
        ("TACHO_PRESENT_FIGURES", bit(codec::PRESENT_FIGURES)),
        ("TACHO_PRESENT_ROWS_SENT", bit(codec::PRESENT_ROWS_SENT)),
        ("TACHO_PRESENT_ROWS_EXAMINED", bit(codec::PRESENT_ROWS_EXAMINED)),
        ("TACHO_PRESENT_ROWS_AFFECTED", bit(codec::PRESENT_ROWS_AFFECTED)),
        ("TACHO_PRESENT_QUERY_TIME", bit(codec::PRESENT_QUERY_TIME)),
        ("TACHO_PRESENT_LOCK_TIME", bit(codec::PRESENT_LOCK_TIME)),
        ("TACHO_PRESENT_SQLSTATE", bit(codec::PRESENT_SQLSTATE)),
        ("TACHO_PRESENT_OUTERMOST", bit(codec::PRESENT_OUTERMOST)),
        ("TACHO_PRESENT_TEXT", bit(codec::PRESENT_TEXT)),
        ("TACHO_PRESENT_REMAINDER", bit(codec::PRESENT_REMAINDER)),
        ("TACHO_PRESENT_INNERMOST", bit(codec::PRESENT_INNERMOST)),
        ("TACHO_PRESENT_NESTED", bit(codec::PRESENT_NESTED)),
        ("TACHO_PRESENT_AWAITED", bit(codec::PRESENT_AWAITED)),
        ("TACHO_PRESENT_BLOCKED", bit(codec::PRESENT_BLOCKED)),
        ("TACHO_STRING_USER", codec::STRING_USER),
        ("TACHO_STRING_PRIV_USER", codec::STRING_PRIV_USER),
        ("TACHO_STRING_PROXY_USER", codec::STRING_PROXY_USER),
        ("TACHO_STRING_OS_USER", codec::STRING_OS_USER),
        ("TACHO_STRING_HOST", codec::STRING_HOST),
        ("TACHO_STRING_IP", codec::STRING_IP),
        ("TACHO_STRING_DB", codec::STRING_DB),
        ("TACHO_STRING_COMMAND", codec::STRING_COMMAND),
        ("TACHO_STRING_CHARSET", codec::STRING_CHARSET),
        ("TACHO_STRING_RESERVED", codec::STRING_RESERVED),
        ("TACHO_STRING_COUNT", codec::STRING_COUNT),
        ("TACHO_STRING_BYTES_MAX", codec::STRING_BYTES_MAX),
        ("TACHO_WANTED_OFF", Wanted::Off as usize),
        ("TACHO_WANTED_SKIP", Wanted::Skip as usize),
        ("TACHO_WANTED_RECORD", Wanted::Record as usize),
        ("TACHO_WANTED_LOOK", Wanted::Look as usize),
        ("TACHO_WANTED_ASK", Wanted::Ask as usize),
        ("TACHO_FIGURE_COUNT", codec::FIGURES_BYTES / 8),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(numbers(" = ", |name| name.starts_with("TACHO_")), expected);
}

#[test]
fn layouts_are_those_of_the_structs() {
    let open = offset_of!(Thread, open);
    let kept = offset_of!(Thread, kept);
    let expected: BTreeMap<String, usize> = [
        ("sizeof(tacho_bytes)", size_of::<Bytes>()),
        ("sizeof(tacho_facts)", size_of::<Facts>()),
        ("sizeof(tacho_blocking)", size_of::<Blocking>()),
        ("sizeof(tacho_block_facts)", size_of::<BlockFacts>()),
        ("sizeof(tacho_blocked)", size_of::<Blocked>()),
        ("offsetof(tacho_blocked, name)", offset_of!(Blocked, name)),
        ("offsetof(tacho_blocked, message)", offset_of!(Blocked, message)),
        ("sizeof(tacho_rewrite_facts)", size_of::<RewriteFacts>()),
        ("offsetof(tacho_rewrite_facts, conn)", offset_of!(RewriteFacts, conn)),
        ("offsetof(tacho_rewrite_facts, modes)", offset_of!(RewriteFacts, modes)),
        ("sizeof(tacho_rewritten)", size_of::<Rewritten>()),
        ("offsetof(tacho_rewritten, rule_id)", offset_of!(Rewritten, rule_id)),
        ("sizeof(tacho_thread)", size_of::<Thread>()),
        ("offsetof(tacho_thread, idle_word)", open + offset_of!(OpenChunk, idle_word)),
        ("offsetof(tacho_thread, index)", open + offset_of!(OpenChunk, index)),
        ("offsetof(tacho_thread, position)", open + offset_of!(OpenChunk, position)),
        ("offsetof(tacho_thread, owner)", open + offset_of!(OpenChunk, owner)),
        ("offsetof(tacho_thread, lost_conn)", open + offset_of!(OpenChunk, lost_conn)),
        (
            "offsetof(tacho_thread, killed)",
            open + offset_of!(OpenChunk, killed) + offset_of!(Killed, ask),
        ),
        (
            "offsetof(tacho_thread, session)",
            open + offset_of!(OpenChunk, killed) + offset_of!(Killed, session),
        ),
        ("offsetof(tacho_thread, overflow)", open + offset_of!(OpenChunk, overflow)),
        ("offsetof(tacho_thread, instance)", offset_of!(Thread, instance)),
        ("offsetof(tacho_thread, filter_epoch)", kept + offset_of!(Kept, epoch)),
        ("offsetof(tacho_thread, filtered)", kept + offset_of!(Kept, filtered)),
        ("offsetof(tacho_thread, treatment)", kept + offset_of!(Kept, action)),
        ("offsetof(tacho_thread, filter_key)", kept + offset_of!(Kept, key)),
        ("sizeof(tacho_event)", size_of::<Event>()),
        ("offsetof(tacho_event, kind)", offset_of!(Event, kind)),
        ("offsetof(tacho_event, present)", offset_of!(Event, present)),
        ("offsetof(tacho_event, conn)", offset_of!(Event, conn)),
        ("offsetof(tacho_event, query_id)", offset_of!(Event, query_id)),
        ("offsetof(tacho_event, text_id)", offset_of!(Event, text_id)),
        ("offsetof(tacho_event, ts_us)", offset_of!(Event, ts_us)),
        ("offsetof(tacho_event, sql_command)", offset_of!(Event, sql_command)),
        ("offsetof(tacho_event, error_code)", offset_of!(Event, errno_)),
        ("offsetof(tacho_event, sqlstate)", offset_of!(Event, sqlstate)),
        ("offsetof(tacho_event, shown_bytes)", offset_of!(Event, shown_bytes)),
        ("offsetof(tacho_event, reserved)", offset_of!(Event, reserved)),
        ("offsetof(tacho_event, figures)", offset_of!(Event, figures)),
        ("offsetof(tacho_event, strings)", offset_of!(Event, strings)),
        ("offsetof(tacho_event, text)", offset_of!(Event, text)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    assert_eq!(numbers(" == ", |name| name.starts_with("TACHO_ASSERT(")), expected);
}
