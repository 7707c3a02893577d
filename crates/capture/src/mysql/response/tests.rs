use super::*;
use crate::mysql::command::{EXECUTE, INIT_DB};
use crate::mysql::frame::Kept;

const OLD: Option<u64> = Some(0);
const NEW: Option<u64> = Some(caps::DEPRECATE_EOF);

fn message(bytes: &[u8]) -> Message<'_> {
    let (total, kept) = (bytes.len() as u64, Kept::InMemory);
    Message { seq: 0, next_seq: 1, bytes, total, is_damaged: false, kept }
}

/// The last step of an answer, all others being `More`, and what is known then.
fn steps(code: u8, session_caps: Option<u64>, packets: &[&[u8]]) -> (Step, Outcome) {
    let mut response = Response::new(Kind::of(code), session_caps);
    let (last, others) = packets.split_last().expect("packets");
    for packet in others {
        assert_eq!(response.step(&message(packet)), Step::More, "{packet:?}");
    }
    (response.step(&message(last)), response.outcome())
}

fn last(code: u8, session_caps: Option<u64>, packets: &[&[u8]]) -> Step {
    steps(code, session_caps, packets).0
}

fn outcome(code: u8, session_caps: Option<u64>, packets: &[&[u8]]) -> Outcome {
    let (step, outcome) = steps(code, session_caps, packets);
    assert_eq!(step, Step::Done, "{packets:?}");
    outcome
}

const OK: &[u8] = b"\0\x03\0\x02\0\0\0";
const OK_MORE: &[u8] = b"\0\x01\0\x0a\0\0\0";
const EOF: &[u8] = b"\xfe\0\0\x02\0";
const EOF_MORE: &[u8] = b"\xfe\0\0\x0a\0";
const EOF_CURSOR: &[u8] = b"\xfe\0\0\x42\0";
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
const END_CURSOR: &[u8] = b"\xfe\0\0\x42\0\0\0";
const ERROR: &[u8] = b"\xff\x15\x04#28000no";
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\x81\0\0\0\0";
const ROW: &[u8] = b"\x011";
const NULL_ROW: &[u8] = b"\xfb";

#[test]
fn results_end_with_both_kinds_of_packets() {
    assert_eq!(outcome(QUERY, OLD, &[OK]).rows_affected, Some(3));
    let rows = outcome(QUERY, OLD, &[b"\x01", COLUMN, EOF, ROW, NULL_ROW, EOF]);
    assert_eq!((rows.rows_sent, rows.rows_affected), (2, None));
    let rows = outcome(QUERY, NEW, &[b"\x02", COLUMN, COLUMN, ROW, ROW, ROW, END]);
    assert_eq!((rows.rows_sent, rows.rows_affected), (3, None));
    for unknown in [&[b"\x01", COLUMN, EOF, ROW, EOF][..], &[b"\x01", COLUMN, ROW, END]] {
        assert_eq!(outcome(QUERY, None, unknown).rows_sent, 1);
    }
    let failed = outcome(QUERY, NEW, &[b"\x01", COLUMN, ROW, ERROR]);
    assert_eq!((failed.rows_sent, failed.failure.map(|it| it.errno)), (1, Some(1045)));
}

#[test]
fn several_results_are_counted_together() {
    let packets = [OK_MORE, b"\x01", COLUMN, EOF, ROW, EOF_MORE, OK];
    let all = outcome(QUERY, OLD, &packets);
    assert_eq!((all.results, all.rows_sent, all.rows_affected), (3, 1, Some(4)));
}

#[test]
fn warnings_are_added_up_and_the_last_id_and_text_count() {
    const FIRST: &[u8] = b"\0\x01\x05\x0a\0\x02\0\x05first";
    const SECOND: &[u8] = b"\0\x02\0\x0a\0\x01\0";
    let of = |it: Outcome| (it.last_insert_id, it.warnings, it.info);
    // The EOF packet behind the columns has the warnings, too.
    let rows = [b"\x01", COLUMN, b"\xfe\x03\0\x02\0", ROW, b"\xfe\x03\0\x02\0"];
    assert_eq!(of(outcome(QUERY, OLD, &rows)), (0, 3, vec![]));
    let rows = [b"\x01", COLUMN, ROW, b"\xfe\0\0\x02\0\x03\0"];
    assert_eq!(of(outcome(QUERY, NEW, &rows)), (0, 3, vec![]));
    let cursor = [b"\x01", COLUMN, b"\xfe\x04\0\x42\0"];
    assert_eq!(of(outcome(EXECUTE, OLD, &cursor)), (0, 4, vec![]));
    let several = [FIRST, SECOND, b"\x01", COLUMN, ROW, b"\xfe\0\0\x02\0\x04\0"];
    assert_eq!(of(outcome(QUERY, NEW, &several)), (5, 7, b"first".to_vec()));
    // As with the rows affected, an error leaves nothing of them.
    assert_eq!(of(outcome(QUERY, NEW, &[FIRST, ERROR])), (0, 0, vec![]));
    // No server sends such a long text.
    let long = [&b"\0\0\0\x02\0\0\0\xfc\x01\x02"[..], &[b'x'; 513]].concat();
    assert_eq!(of(outcome(QUERY, OLD, &[&long])), (0, 0, vec![]));
    let prepared = b"\0\x07\0\0\0\0\0\0\0\0\x06\0";
    assert_eq!(of(outcome(PREPARE, OLD, &[prepared])), (0, 6, vec![]));
}

#[test]
fn rows_of_a_cursor_come_later() {
    assert_eq!(outcome(EXECUTE, OLD, &[b"\x01", COLUMN, EOF_CURSOR]).rows_sent, 0);
    assert_eq!(outcome(EXECUTE, NEW, &[b"\x01", COLUMN, END_CURSOR]).rows_sent, 0);
    assert_eq!(outcome(0x1c, OLD, &[b"\0\0\x01", b"\0\0\x02", EOF]).rows_sent, 2);
}

#[test]
fn descriptions_of_a_prepared_statement_are_skipped() {
    let ok = b"\0\x07\0\0\0\x01\0\x02\0\0\0\0";
    let prepared = Some(Prepared { id: 7, params: 2 });
    let old = outcome(PREPARE, OLD, &[ok, COLUMN, COLUMN, EOF, COLUMN, EOF]);
    assert_eq!(old.prepared, prepared);
    let new = outcome(PREPARE, NEW, &[ok, COLUMN, COLUMN, COLUMN]);
    assert_eq!(new.prepared, prepared);
    let unknown = outcome(PREPARE, None, &[ok, COLUMN, COLUMN, EOF, COLUMN]);
    assert_eq!(unknown.prepared, prepared);
    let nothing = outcome(PREPARE, OLD, &[b"\0\x01\0\0\0\0\0\0\0\0\0\0"]);
    assert_eq!(nothing.prepared, Some(Prepared { id: 1, params: 0 }));
}

#[test]
fn a_result_without_descriptions() {
    let mysql = Some(caps::OPTIONAL_METADATA | caps::DEPRECATE_EOF);
    assert_eq!(outcome(QUERY, mysql, &[b"\x02\0", ROW, END]).rows_sent, 1);
    assert_eq!(outcome(QUERY, mysql, &[b"\x01\x01", COLUMN, ROW, END]).rows_sent, 1);
    let mariadb = Some(caps::MARIADB_CACHE_METADATA);
    assert_eq!(outcome(EXECUTE, mariadb, &[b"\x02\0", EOF, ROW, EOF]).rows_sent, 1);
    assert_eq!(outcome(EXECUTE, mariadb, &[b"\x01\x01", COLUMN, EOF, ROW, EOF]).rows_sent, 1);
}

#[test]
fn progress_is_no_error() {
    let progress = b"\xff\xff\xff\x01\x02\x02\0\0\0\x04work";
    let mariadb = Some(caps::MARIADB_PROGRESS);
    assert_eq!(outcome(QUERY, mariadb, &[progress, progress, OK]).failure, None);
    assert_eq!(outcome(QUERY, None, &[progress, OK]).failure, None);
}

#[test]
fn a_file_of_the_client() {
    let mut response = Response::new(Kind::of(QUERY), OLD);
    assert_eq!(response.step(&message(b"\xfbload.txt")), Step::ClientSends);
    assert!(response.is_file());
    assert_eq!(response.step(&message(OK)), Step::Wrong, "the file has not ended");
    response.end_file();
    assert_eq!(response.step(&message(OK)), Step::Done);
}

#[test]
fn other_commands() {
    for (code, packets) in [
        (INIT_DB, &[OK][..]),
        (0x0e, &[OK]),
        (0x1b, &[EOF]),
        (0x0d, &[END]),
        (0x09, &[b"Uptime: 1"]),
        (0x04, &[COLUMN, COLUMN, EOF]),
        // With changes of the session behind it.
        (0x04, &[COLUMN, b"\xfe\0\0\x02\x40\0\0\0\x04\x02\x02\x01\x31"]),
        (0x0a, &[b"\x01", COLUMN, EOF, EOF]),
        (0x77, &[ERROR]),
        (0x12, &[b"\0event", b"\0event", ERROR]),
    ] {
        let outcome = outcome(code, OLD, packets);
        assert_eq!(outcome.failure.is_some(), packets.last() == Some(&ERROR), "{code}");
    }
}

#[test]
fn what_does_not_fit_is_wrong() {
    for packets in [
        &[&b""[..]][..],
        &[b"\0"],
        &[b"\xff\x15"],
        &[b"\x01", COLUMN, ROW],
        &[b"\x02\0"],
        &[b"\x01\x02\x03"],
    ] {
        assert_eq!(last(QUERY, OLD, packets), Step::Wrong, "{packets:?}");
    }
    assert_eq!(last(PREPARE, OLD, &[EOF]), Step::Wrong);
    assert_eq!(last(0x77, OLD, &[b"\x01"]), Step::Wrong);
    let damaged = Message { is_damaged: true, ..message(OK) };
    assert_eq!(Response::new(Kind::of(QUERY), OLD).step(&damaged), Step::Wrong);
}
