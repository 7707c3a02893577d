//! Messages about a hub that accepts no data.

use std::time::{Duration, Instant};

use crate::report::Report;
use crate::words::counted;

/// Time between two messages about the same outage.
const TELL_INTERVAL: Duration = Duration::from_secs(600);

/// Reports the begin, the length and the end of an outage.
pub struct Outage {
    hub: String,
    report: Report,
    now: Option<Current>,
}

struct Current {
    since: Instant,
    reported: Instant,
    reason: String,
}

impl Outage {
    /// Nothing is wrong yet.
    pub fn new(hub: String, report: Report) -> Self {
        Self { hub, report, now: None }
    }

    /// A request failed.
    pub fn fail(&mut self, reason: &str) {
        let now = Instant::now();
        let text = match &mut self.now {
            Some(current) if current.reason == reason => {
                if now - current.reported < TELL_INTERVAL {
                    return;
                }
                current.reported = now;
                let minutes = counted((now - current.since).as_secs() / 60, "minute");
                format!("{}: {reason}, for {minutes}; retrying", self.hub)
            }
            current => {
                let since = current.as_ref().map_or(now, |current| current.since);
                *current = Some(Current { since, reported: now, reason: reason.to_owned() });
                format!("{}: {reason}; retrying", self.hub)
            }
        };
        (self.report)(&text);
    }

    /// The hub accepts data.
    pub fn end(&mut self) {
        if let Some(current) = self.now.take() {
            let seconds = current.since.elapsed().as_secs();
            (self.report)(&format!("{}: accepts data again after {seconds} s", self.hub));
        }
    }

    /// Length of the present outage.
    pub fn length(&self) -> Duration {
        self.now.as_ref().map_or(Duration::ZERO, |current| current.since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn an_outage_has_a_begin_and_an_end() {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&texts);
        let report: Report = Arc::new(move |text| taken.lock().unwrap().push(text.to_owned()));
        let mut outage = Outage::new("https://hub".to_owned(), report);
        outage.end();
        outage.fail("connection refused");
        outage.fail("connection refused");
        outage.fail("the disk is full");
        outage.end();
        outage.end();
        assert_eq!(
            *texts.lock().unwrap(),
            [
                "https://hub: connection refused; retrying",
                "https://hub: the disk is full; retrying",
                "https://hub: accepts data again after 0 s",
            ]
        );
    }
}
