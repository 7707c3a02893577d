//! Sends alerts to a syslog server: RFC 5424, one message for each alert, whose text is JSON.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use tacho_ship::syslog::link::{End, Link};
use tacho_ship::syslog::{Destination, host_of};
use tacho_ship::tls::{self, Tls, TlsError, TlsOptions};

use super::channels::Channel;
use super::notification::{Notification, Notified, plain};
use crate::clock::rfc3339;

/// "log audit", RFC 5424, table 1.
const FACILITY: u8 = 13;
/// Characters of a host's name in a message.
const HOST_MAX: usize = 255;

/// The syslog server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SyslogError {
    /// Not a destination.
    #[error("cannot use --syslog {0:?}: {1}")]
    Destination(String, String),
    /// There are no trusted authorities.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A syslog server.
pub struct Syslog {
    to: Destination,
    tls: Option<Tls>,
    host: String,
}

impl Syslog {
    /// `to`: `udp://`, `tcp://` or `tls://` with host and port, or the path of a socket. `ca`:
    /// authorities to trust instead of the system's.
    ///
    /// # Errors
    /// The destination or the authorities cannot be used.
    pub fn new(to: &str, ca: Option<&Path>) -> Result<Self, SyslogError> {
        let destination: Destination =
            to.parse().map_err(|reason| SyslogError::Destination(to.to_owned(), reason))?;
        let tls = match &destination {
            Destination::Tls(address) => {
                let options = TlsOptions { ca: ca.map(Path::to_owned), ..TlsOptions::default() };
                Some(Tls::new(host_of(address), &options)?)
            }
            _ => None,
        };
        let host = tacho_format::host_name();
        let host = host.chars().filter(char::is_ascii_graphic).take(HOST_MAX).collect();
        Ok(Self { to: destination, tls, host })
    }
}

impl Channel for Syslog {
    fn name(&self) -> &str {
        "syslog"
    }

    /// A receiver of a stream that closes it in order has read everything. Datagrams are not
    /// acknowledged.
    fn send(&mut self, message: &Notification) -> Result<(), String> {
        let mut link =
            Link::open(&self.to, self.tls.as_ref()).map_err(|error| tls::describe(&error))?;
        let stop = AtomicBool::new(false);
        for notified in &message.alerts {
            let text = text(&self.host, message, notified);
            link.send(text.as_bytes(), &stop).map_err(explain)?;
        }
        let Link::Stream(stream) = &mut link else { return Ok(()) };
        stream.check().map_err(explain)?;
        stream.say_goodbye().map_err(explain)?;
        let taken = stream.taken().map_err(|error| error.to_string())?;
        if taken < stream.written() {
            return Err("the receiver has not read the message".to_owned());
        }
        Ok(())
    }
}

fn explain(end: End) -> String {
    match end {
        End::Closed => "the receiver closed the connection".to_owned(),
        End::Broken(error) => tls::describe(&error),
    }
}

fn severity(notified: &Notified) -> u8 {
    match (notified.is_resolved, notified.alert.severity.as_str()) {
        (true, _) | (_, "low") => 5,
        (_, "critical") => 2,
        (_, "high") => 3,
        _ => 4,
    }
}

/// `<PRI>1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG`.
fn text(host: &str, message: &Notification, notified: &Notified) -> String {
    let alert = &notified.alert;
    let priority = FACILITY * 8 + severity(notified);
    let body = json!({
        "notification": message.id,
        "alert": alert.id,
        "status": if notified.is_resolved { "resolved" } else { "firing" },
        "rule": alert.rule,
        "severity": alert.severity,
        "server": alert.server,
        "title": alert.title,
        "message": plain(&alert.message),
        "first_ts": alert.first_ts,
        "last_ts": alert.last_ts,
        "count": alert.count,
    });
    let time = rfc3339(message.created_us);
    format!("<{priority}>1 {time} {host} tacho-hub - {} - {body}", alert.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_rfc_5424() {
        let mut message = Notification::test(5);
        let alert = &mut message.alerts[0];
        alert.alert.severity = "critical".to_owned();
        alert.alert.message = "a\n<13>1 - evil - - - - b".to_owned();
        let line = text("hub", &message, &message.alerts[0]);
        let (head, body) = line.split_once(" - {").unwrap();
        assert_eq!(head, "<106>1 1970-01-01T00:00:00.000005Z hub tacho-hub - test");
        assert_eq!(line.lines().count(), 1);
        let body: serde_json::Value = serde_json::from_str(&format!("{{{body}")).unwrap();
        assert_eq!((&body["status"], &body["rule"]), (&"firing".into(), &"test".into()));
        message.alerts[0].is_resolved = true;
        assert!(text("hub", &message, &message.alerts[0]).starts_with("<109>1 "));
    }

    #[test]
    fn a_destination_is_checked_at_the_start() {
        for bad in ["log:514", "udp://log", "ssl://log:6514"] {
            assert!(Syslog::new(bad, None).is_err(), "{bad}");
        }
        assert_eq!(Syslog::new("udp://127.0.0.1:514", None).unwrap().name(), "syslog");
    }
}
