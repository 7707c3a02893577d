//! One message about alerts of one rule, and its text for people.

use std::fmt::Write as _;

use super::Alert;
use crate::clock::rfc3339;

/// Characters of a text in a message.
const TEXT_MAX: usize = 1_000;
/// Examples of an alert.
const EXAMPLES_MAX: usize = 3;

/// One message to one channel.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its number: the same at each try.
    pub id: i64,
    /// The rule of its alerts.
    pub rule: String,
    /// When it was made, µs since 1970-01-01 UTC.
    pub created_us: i64,
    /// The alerts, those that are open first.
    pub alerts: Vec<Notified>,
    /// How many more there are.
    pub omitted: usize,
}

/// An alert in a message.
#[derive(Clone, Debug)]
pub struct Notified {
    /// The alert, as it is now.
    pub alert: Alert,
    /// What the message says: it is over.
    pub is_resolved: bool,
}

impl Notification {
    /// For a test of a channel.
    #[must_use]
    pub fn test(now_us: i64) -> Self {
        let alert = Alert {
            id: 0,
            rule: "test".to_owned(),
            severity: "low".to_owned(),
            state: "open".to_owned(),
            server: None,
            title: "Test of the channels for alerts".to_owned(),
            message: "tacho-hub alert test has sent this; nothing is wrong".to_owned(),
            first_ts: rfc3339(now_us),
            last_ts: rfc3339(now_us),
            count: 1,
            examples: Vec::new(),
            note: None,
            acknowledged_by: None,
            deliveries: Vec::new(),
        };
        let alerts = vec![Notified { alert, is_resolved: false }];
        Self { id: now_us, rule: "test".to_owned(), created_us: now_us, alerts, omitted: 0 }
    }

    /// Whether all of its alerts are over.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.alerts.iter().all(|it| it.is_resolved) && self.omitted == 0
    }

    /// `critical`, `high`, `medium` or `low`.
    #[must_use]
    pub fn severity(&self) -> &str {
        self.alerts.first().map_or("low", |it| &it.alert.severity)
    }

    /// One line: `[high] The shipper is silent: db1, db2`.
    #[must_use]
    pub fn subject(&self) -> String {
        let first = self.alerts.first().map(|it| &it.alert);
        let title = first.map_or("", |alert| &alert.title);
        let word = if self.is_resolved() { "resolved" } else { self.severity() };
        let mut servers: Vec<&str> =
            self.alerts.iter().map(|it| it.alert.server.as_deref().unwrap_or("hub")).collect();
        servers.sort_unstable();
        servers.dedup();
        let more = servers.len().saturating_sub(3) + self.omitted;
        servers.truncate(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        // Chat tools can be set to accept only messages that have a word: this one.
        plain(&format!("Tachograph [{word}] {title}: {}{more}", servers.join(", ")))
    }

    /// Lines for people, without the subject.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Notified { alert, is_resolved } in &self.alerts {
            let word = if *is_resolved { "RESOLVED" } else { "OPEN" };
            let server = alert.server.as_deref().unwrap_or("hub");
            lines.push(plain(&format!("{word} {server}: {}", alert.message)));
            let mut times = format!("  since {}", alert.first_ts);
            if *is_resolved {
                let _ = write!(times, " until {}", alert.last_ts);
            }
            if alert.count > 1 {
                let _ = write!(times, ", count {}", alert.count);
            }
            lines.push(plain(&times));
            let examples = alert.examples.iter().take(EXAMPLES_MAX);
            lines.extend(examples.map(|example| plain(&format!("  {example}"))));
        }
        if self.omitted > 0 {
            lines.push(format!("and {} more", self.omitted));
        }
        lines
    }
}

/// A text as one line without characters that could change what people see of the rest: it can come
/// from a statement, from a heartbeat or from another site.
#[must_use]
pub fn plain(text: &str) -> String {
    let is_hostile = |char: char| {
        char.is_control()
            || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}')
    };
    let chars = text.chars().map(|char| if is_hostile(char) { '\u{fffd}' } else { char });
    let mut line: String = chars.take(TEXT_MAX).collect();
    if text.chars().nth(TEXT_MAX).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        assert_eq!(
            plain("a\r\nBcc: b\u{202e}c\u{2028}"),
            "a\u{fffd}\u{fffd}Bcc: b\u{fffd}c\u{fffd}"
        );
        assert_eq!(plain(&"x".repeat(5_000)).chars().count(), TEXT_MAX + 1);
    }

    #[test]
    fn a_message_names_servers_and_what_is_over() {
        let mut message = Notification::test(5);
        assert_eq!(message.subject(), "Tachograph [low] Test of the channels for alerts: hub");
        for name in ["d", "c", "b", "b"] {
            let mut other = message.alerts[0].clone();
            other.alert.server = Some(name.to_owned());
            other.is_resolved = true;
            message.alerts.push(other);
        }
        message.omitted = 7;
        assert!(message.subject().ends_with(": b, c, d and 8 more"), "{}", message.subject());
        assert!(!message.is_resolved());
        let lines = message.lines();
        assert!(lines[2].starts_with("RESOLVED d: tacho-hub alert test"), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "and 7 more");
    }
}
