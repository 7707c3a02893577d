//! RFC 5424, one message per line; the message is our own JSON line, or a line of another format.
//!
//! `<PRI>1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG`. No structured data of our
//! own: the message contains everything, and an SD-ID would need a registered number. The message
//! has no byte order mark, so it formally is MSG-ANY of section 6.4; it is UTF-8.

use std::collections::TryReserveError;

use tacho_record::json::{try_write_line, write_line};
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome, Record};

use crate::words::number;
use crate::{Formatter, cef, ecs, leef, ocsf, size_bound};

/// The message after the header. Formats with one line per record that can express a running
/// statement: there is a message for each line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// The log's own line.
    #[default]
    Json,
    /// ArcSight's Common Event Format, as collectors of that family expect it.
    Cef,
    /// QRadar's Log Event Extended Format 2.0.
    Leef,
    /// Elastic Common Schema.
    Ecs,
    /// Open Cybersecurity Schema Framework.
    Ocsf,
}

/// "log audit", RFC 5424, table 1.
const FACILITY: u32 = 13;

/// RFC 5424, table 2.
#[derive(Clone, Copy)]
enum Severity {
    Critical = 2,
    Warning = 4,
    Notice = 5,
    Informational = 6,
}

fn severity(record: &Record) -> Severity {
    match (record.event, record.outcome) {
        (Some(EventKind::Lost), _) => Severity::Critical,
        (Some(EventKind::ConnectFailed), _) => Severity::Warning,
        (_, Some(Outcome::Error | Outcome::Interrupted)) => Severity::Warning,
        (Some(EventKind::Start | EventKind::Stop | EventKind::Config | EventKind::Notice), _) => {
            Severity::Notice
        }
        _ => Severity::Informational,
    }
}

/// Appends a header field: printable ASCII without blanks, at most `bytes_max` long; `-` is nil.
fn append_field(out: &mut Vec<u8>, value: &[u8], bytes_max: usize) {
    let printable = value.iter().filter(|byte| byte.is_ascii_graphic());
    let start = out.len();
    out.extend(printable.take(bytes_max));
    if out.len() == start {
        out.push(b'-');
    }
}

/// Most bytes of a host name in a header.
const HOSTNAME_BYTES_MAX: usize = 255;
/// Most bytes of a whole header.
const HEADER_BYTES_MAX: usize = 128 + HOSTNAME_BYTES_MAX;

pub fn write(by: &mut Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    let mut body = std::mem::take(&mut by.scratch);
    body.clear();
    match by.body {
        Body::Json => write_line(&mut body, record, clock),
        Body::Cef => cef::write(by, &mut body, record, clock),
        Body::Leef => leef::write(by, &mut body, record, clock),
        Body::Ecs => ecs::write(by, &mut body, record, clock),
        Body::Ocsf => ocsf::write(by, &mut body, record, clock),
    }
    by.scratch = body;
    append(by, out, record, clock);
}

pub fn try_write(
    by: &mut Formatter,
    out: &mut Vec<u8>,
    record: &Record,
    clock: &mut TimeFormatter,
) -> Result<(), TryReserveError> {
    by.scratch.clear();
    if by.body == Body::Json {
        try_write_line(&mut by.scratch, record, clock)?;
        out.try_reserve(by.scratch.len() + HEADER_BYTES_MAX)?;
        append(by, out, record, clock);
        return Ok(());
    }
    let bound = size_bound::size_bound(record, &by.server_host);
    by.scratch.try_reserve(bound)?;
    out.try_reserve(bound.saturating_add(HEADER_BYTES_MAX))?;
    write(by, out, record, clock);
    Ok(())
}

/// Appends the header and the line.
fn append(by: &Formatter, out: &mut Vec<u8>, record: &Record, clock: &mut TimeFormatter) {
    out.push(b'<');
    number(out, FACILITY * 8 + severity(record) as u32);
    out.extend_from_slice(b">1 ");
    out.extend_from_slice(clock.format(record.ts_us));
    out.push(b' ');
    append_field(out, &by.server_host, HOSTNAME_BYTES_MAX);
    out.extend_from_slice(b" tacho - ");
    out.extend_from_slice(record.event.map_or("-", EventKind::name).as_bytes());
    out.extend_from_slice(b" - ");
    out.extend_from_slice(&by.scratch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn the_message_may_have_another_format() {
        let record = Record {
            seq: 5,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::Disconnect),
            user: b"a\nb",
            ..Record::default()
        };
        let clock = &mut TimeFormatter::utc();
        for (body, format) in [
            (Body::Cef, Format::Cef),
            (Body::Leef, Format::Leef),
            (Body::Ecs, Format::Ecs),
            (Body::Ocsf, Format::Ocsf),
        ] {
            let mut by = Formatter::new(Format::Syslog, "db1").with_body(body);
            let (mut out, mut tried, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            by.write(&mut out, &record, clock);
            by.try_write(&mut tried, &record, clock).unwrap();
            Formatter::new(format, "db1").write(&mut alone, &record, clock);
            let header = "<110>1 2026-11-22T03:49:26.500000+00:00 db1 tacho - disconnect - ";
            let expected = [header.as_bytes(), &alone].concat();
            assert_eq!(String::from_utf8(out), String::from_utf8(expected.clone()), "{body:?}");
            assert!(tried == expected, "{body:?}");
        }
    }

    #[test]
    fn a_message_is_a_line() {
        let record = Record {
            seq: 5,
            ts_us: 1_795_319_366_500_000,
            event: Some(EventKind::ConnectFailed),
            outcome: Some(Outcome::Error),
            user: b"a\nb",
            errno: 1045,
            ..Record::default()
        };
        let mut out = Vec::new();
        let mut by = Formatter::new(Format::Syslog, "db 1\u{e4}\n");
        by.write(&mut out, &record, &mut TimeFormatter::utc());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                "<108>1 2026-11-22T03:49:26.500000+00:00 db1 tacho - connect_failed - ",
                r#"{"v":1,"seq":5,"ts":"2026-11-22T03:49:26.500000+00:00","#,
                r#""event":"connect_failed","outcome":"error","user":"a\nb","errno":1045}"#,
                "\n"
            )
        );
    }
}
