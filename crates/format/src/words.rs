//! Wordings that several formats share.

use std::io::Write as _;

use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome, Record, TableUse};

use crate::escape::{Escape, name};

/// Error number of a statement that was running when the server died, in formats that only have a
/// number for the outcome: CR_SERVER_LOST, which its client received (mysql/errmsg.h).
pub const SERVER_LOST: u32 = 2013;

/// `name` of the product in formats that have such a field.
pub const PRODUCT: &str = "Tachograph";
/// Its version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Appends a decimal number.
pub fn number(out: &mut Vec<u8>, number: impl Into<u64>) {
    // Writing to a `Vec` cannot fail.
    let _ = write!(out, "{}", number.into());
}

/// Appends microseconds as seconds with six decimals.
pub fn seconds(out: &mut Vec<u8>, us: u64) {
    let _ = write!(out, "{}.{:06}", us / 1_000_000, us % 1_000_000);
}

/// The outcome as a number: 0 is success.
pub fn status(record: &Record) -> u32 {
    match record.outcome {
        Some(Outcome::Interrupted) if record.errno == 0 => SERVER_LOST,
        _ => record.errno,
    }
}

/// The severity, from 1 to 10.
pub fn severity(record: &Record, event: EventKind) -> u32 {
    match (event, record.outcome) {
        (EventKind::Lost, _) => 9,
        (_, Some(Outcome::Interrupted)) => 7,
        (EventKind::ConnectFailed, _) => 6,
        (_, Some(Outcome::Error)) => 4,
        (EventKind::Start | EventKind::Stop | EventKind::Config | EventKind::Notice, _) => 3,
        _ => 1,
    }
}

/// When it ended, µs since 1970-01-01 UTC.
pub fn end_us(record: &Record) -> i64 {
    let duration = i64::try_from(record.query_time_us.unwrap_or(0)).unwrap_or(i64::MAX);
    record.ts_us.saturating_add(duration)
}

/// Host name, or the address if there is none.
pub fn host<'a>(record: &Record<'a>) -> &'a [u8] {
    if record.host.is_empty() { record.ip } else { record.host }
}

/// Whether another record, `disconnect` or `change_user`, has the same content.
pub fn is_said_elsewhere(record: &Record) -> bool {
    record.event == Some(EventKind::Statement)
        && record.outcome == Some(Outcome::Ok)
        && matches!(record.command, b"Quit" | b"Change user")
}

/// Whether the record has a sentence that describes it: statements have none.
pub fn has_sentence(event: EventKind) -> bool {
    matches!(
        event,
        EventKind::Lost
            | EventKind::Start
            | EventKind::Stop
            | EventKind::Config
            | EventKind::Notice
    )
}

/// Appends the sentence for a record of the recorder itself, or of the server.
pub fn sentence<E: Escape>(out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    match record.event {
        Some(EventKind::Lost) => {
            match record.count {
                Some(count) => number(out, count),
                None => out.extend_from_slice(b"an unknown number of"),
            }
            out.extend_from_slice(b" records lost, cause ");
            name::<E>(out, record.cause);
            if let Some(start_us) = record.start_ts_us {
                out.extend_from_slice(b", from ");
                out.extend_from_slice(clock.format(start_us));
            }
            out.extend_from_slice(b" to ");
            out.extend_from_slice(clock.format(record.ts_us));
        }
        Some(EventKind::Start) => {
            out.extend_from_slice(b"recording started, server ");
            name::<E>(out, record.server);
        }
        Some(EventKind::Stop) => out.extend_from_slice(b"recording stopped"),
        Some(EventKind::Config) => {
            name::<E>(out, record.variable);
            out.extend_from_slice(b": ");
            name::<E>(out, record.old_value);
            out.extend_from_slice(b" -> ");
            name::<E>(out, record.new_value);
        }
        Some(EventKind::Notice) => notice::<E>(out, record),
        _ => {}
    }
}

/// `message user app: started (host: web1, user: anna)`.
fn notice<E: Escape>(out: &mut Vec<u8>, record: &Record) {
    name::<E>(out, record.class);
    for part in [record.action, record.object, record.producer] {
        if !part.is_empty() {
            out.push(b' ');
            name::<E>(out, part);
        }
    }
    if !record.detail.is_empty() {
        out.extend_from_slice(b": ");
        name::<E>(out, record.detail);
    }
    for (index, attribute) in record.attributes.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b" (" } else { b", " });
        name::<E>(out, attribute.key);
        out.extend_from_slice(b": ");
        name::<E>(out, attribute.value);
    }
    if !record.attributes.is_empty() {
        out.push(b')');
    }
}

/// Appends `read db.table` or `rename db.table to db.table`, with `, ` between several.
pub fn tables<E: Escape>(out: &mut Vec<u8>, tables: &[TableUse]) {
    for (index, used) in tables.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(used.access.name().as_bytes());
        out.push(b' ');
        name::<E>(out, used.db);
        out.push(b'.');
        name::<E>(out, used.table);
        if !used.new_table.is_empty() {
            out.extend_from_slice(b" to ");
            name::<E>(out, used.new_db);
            out.push(b'.');
            name::<E>(out, used.new_table);
        }
    }
}

/// Appends `account[user] @ host [address]`, the server's own form (`make_user_name` in
/// MariaDB 10.11, sql/log.cc; Percona's `general_user` is the same).
pub fn user_at_host<E: Escape>(out: &mut Vec<u8>, record: &Record) {
    name::<E>(out, record.priv_user);
    out.push(b'[');
    name::<E>(out, record.user);
    out.extend_from_slice(b"] @ ");
    name::<E>(out, record.host);
    out.extend_from_slice(b" [");
    name::<E>(out, record.ip);
    out.push(b']');
}
