//! What is wrong now.

use tacho_ship::protocol::Origin;

use super::{Raise, Rule};
use crate::clock;
use crate::landing::incident::is_signed;
use crate::landing::shippers::Shippers;
use crate::landing::{Incident, OriginView};
use crate::retention::storage::Storage;
use crate::verification::{Seal, SealState};

/// Difference of the clocks that is not reported, µs.
const SKEW_US: u64 = 5_000_000;
/// How long after the start a shipper may need to be heard of, µs.
const START_US: i64 = 60_000_000;
/// How long lines may wait for their frame, µs.
const TAIL_US: i64 = 300_000_000;
/// A disk that will be full in fewer days is an alert.
const FORECAST_DAYS: u64 = 7;

/// One server, at one moment.
pub struct Moment<'a> {
    /// The server.
    pub origin: &'a Origin,
    /// Its replica.
    pub view: &'a OriginView,
    /// Its shippers.
    pub shippers: &'a Shippers,
    /// Its seal.
    pub seal: Option<&'a Seal>,
    /// Since when there are lines without a frame, or the file is awaited that a rotation
    /// announces, µs since 1970-01-01 UTC.
    pub unsealed_since_us: Option<i64>,
    /// When the hub has started.
    pub started_us: i64,
    /// Now.
    pub now: clock::Moment,
}

impl Moment<'_> {
    /// What is wrong with the server.
    #[must_use]
    pub fn conditions(&self) -> Vec<Raise> {
        let mut found = Vec::new();
        self.shipping(&mut found);
        if let Some(seal) = self.seal {
            self.sealing(seal, &mut found);
        }
        found
    }

    fn raise(&self, rule: Rule, subject: impl Into<String>, message: impl Into<String>) -> Raise {
        Raise {
            rule,
            server: Some(self.origin.clone()),
            subject: subject.into(),
            message: message.into(),
            examples: Vec::new(),
            count: Some(1),
        }
    }

    fn shipping(&self, found: &mut Vec<Raise>) {
        let Some(shipper) = self.shippers.newest() else {
            if self.view.files > 0 && self.now.wall_us.saturating_sub(self.started_us) >= START_US {
                let text = "no shipper has been heard of since the hub started";
                found.push(self.raise(Rule::ShipperSilent, "", text));
            }
            return;
        };
        if shipper.has_ended() {
            let text = "it ended in the orderly way; new records stay on the host";
            found.push(self.raise(Rule::ShipperStopped, "", text));
            return;
        }
        if shipper.is_gone(self.now) {
            let text = "no heartbeat for three times the announced interval: host, network or \
                        shipper are down, or the shipper was killed";
            found.push(self.raise(Rule::ShipperSilent, "", text));
            return;
        }
        let Some((heartbeat, _)) = &shipper.heartbeat else { return };
        if heartbeat.recorder == Some(false) {
            let text = "no recorder holds the lock of the log directory: the server is down, or \
                        auditing is switched off";
            found.push(self.raise(Rule::RecorderStopped, "", text));
        }
        if shipper.skew_us().is_some_and(|skew| skew.unsigned_abs() > SKEW_US) {
            let text = "its clock differs from that of the hub by more than 5 s";
            found.push(self.raise(Rule::ClockSkew, "", text));
        }
        if !heartbeat.problems.is_empty() {
            let text = "see the examples";
            let mut raise = self.raise(Rule::ShipperProblem, "", text);
            raise.examples = heartbeat
                .problems
                .iter()
                .map(|problem| {
                    let file = problem.file.as_ref().map(ToString::to_string).unwrap_or_default();
                    format!("{} {file}: {}", problem.code, problem.message)
                })
                .collect();
            found.push(raise);
        }
    }

    fn sealing(&self, seal: &Seal, found: &mut Vec<Raise>) {
        let subject = of_generation(seal.generation);
        let rule = match seal.state {
            SealState::Sealed => None,
            SealState::Unsealed => Some(Rule::Unsealed),
            SealState::Gap => Some(Rule::Gap),
            SealState::Broken => Some(Rule::SealBroken),
        };
        if let Some(rule) = rule {
            let mut raise = self.raise(rule, &subject, &seal.message);
            raise.examples.clone_from(&seal.findings);
            if rule == Rule::SealBroken {
                raise.count = Some(seal.broken.max(1));
            }
            found.push(raise);
        }
        if seal.lost_lines > 0 {
            let text = "the log has records that declare a loss (event:lost)";
            let mut raise = self.raise(Rule::Lost, &subject, text);
            raise.count = Some(seal.lost_lines);
            found.push(raise);
        }
        let waited = self.unsealed_since_us.map(|since| self.now.wall_us.saturating_sub(since));
        if rule.is_none() && waited.is_some_and(|us| us >= TAIL_US) {
            let text = if seal.awaits_file {
                "the file that a rotation announces has not arrived for 5 minutes"
            } else {
                "records have had no frame for 5 minutes"
            };
            found.push(self.raise(Rule::UnsealedTail, "", text));
        }
    }
}

/// The subject of an alert about a generation.
#[must_use]
pub fn of_generation(generation: u64) -> String {
    format!("generation {generation}")
}

/// The state of the hub's disk.
#[must_use]
pub fn of_disk(free_bytes: u64, reserve_bytes: u64) -> Option<Raise> {
    let (rule, message) = if free_bytes < reserve_bytes {
        (Rule::DiskFull, "the hub accepts no logs until there is space; shippers wait")
    } else if free_bytes / 2 < reserve_bytes {
        (Rule::DiskLow, "the hub stops accepting logs soon")
    } else {
        return None;
    };
    Some(of_hub(rule, String::new(), message))
}

/// The disk will be full before the retention makes space. While it is full already, another alert
/// says so.
#[must_use]
pub fn of_forecast(storage: &Storage) -> Option<Raise> {
    let days = storage.full_in_days.filter(|days| *days < FORECAST_DAYS)?;
    let message = "at the rate of the last days the hub stops accepting logs within 7 days, before \
                   retention makes space: add space, or shorten the retention";
    let mut raise = of_hub(Rule::DiskForecast, String::new(), message);
    raise.examples = vec![match days {
        0 => "full within a day".to_owned(),
        1 => "full in 1 day".to_owned(),
        days => format!("full in {days} days"),
    }];
    storage.accepts_logs.then_some(raise)
}

/// Retention fails, for a log or for all of them.
#[must_use]
pub fn of_retention(server: Option<Origin>, error: String) -> Raise {
    let message = "files whose time is over cannot be removed; the hub tries it every 5 seconds";
    let examples = vec![error];
    Raise { server, examples, ..of_hub(Rule::RetentionFailed, String::new(), message) }
}

/// The hub cannot write its own log.
#[must_use]
pub fn of_own_log(reason: &str) -> Raise {
    let message = format!("requests of people are refused until it can: {reason}");
    of_hub(Rule::OwnLog, String::new(), message)
}

fn of_hub(rule: Rule, subject: String, message: impl Into<String>) -> Raise {
    let (message, examples) = (message.into(), Vec::new());
    Raise { rule, server: None, subject, message, examples, count: Some(1) }
}

/// A channel whose oldest message waits for too long.
#[must_use]
pub fn of_channel(channel: String, error: &str) -> Raise {
    let message = format!("{channel} has accepted nothing for 10 minutes");
    let examples = vec![error.to_owned()];
    Raise { examples, ..of_hub(Rule::Undelivered, channel, message) }
}

/// An incident as an alert.
#[must_use]
pub fn of_incident(incident: &Incident) -> Raise {
    let (rule, subject) = match incident {
        Incident::Contradiction { file, .. } => (Rule::Contradiction, file.to_string()),
        Incident::TwoShippers { other, .. } => (Rule::TwoShippers, other.clone()),
        Incident::ReplicaCut { file, .. } => (Rule::ReplicaCut, file.to_string()),
        Incident::Fork { request, generation, checkpoint, .. } => {
            // A recorder puts on the disk what it signs: no power failure explains it.
            let is_signed = is_signed(request, checkpoint.as_deref());
            let rule = if is_signed { Rule::Tampered } else { Rule::Fork };
            (rule, of_generation(*generation))
        }
    };
    let message = incident.to_string();
    let server = Some(incident.origin().clone());
    Raise { rule, server, subject, message, examples: Vec::new(), count: None }
}
