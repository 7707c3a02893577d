//! What a database server is doing: part of a heartbeat, if the shipper has an account there.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most processes in an [`Activity`].
pub const PROCESSES_MAX: usize = 50;
/// Most status variables in an [`Activity`].
pub const STATUS_MAX: usize = 120;
/// Longest text in an [`Activity`], characters.
pub const TEXT_CHARS_MAX: usize = 500;
/// Most JSON of an [`Activity`], bytes: a heartbeat has room for it and for its problems.
const JSON_BYTES_MAX: usize = 40 << 10;

/// Status and sessions of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// When the server was asked, µs since 1970-01-01 UTC, the clock of the host.
    pub time_us: i64,
    /// Version of the server.
    pub version: String,
    /// Global status variables, as `SHOW GLOBAL STATUS` names and writes them, and
    /// `max_connections`.
    pub status: BTreeMap<String, String>,
    /// Sessions, those that run the longest statements first.
    pub processes: Vec<Process>,
    /// All sessions.
    pub process_count: u64,
    /// Why the server could not be asked; the rest is empty then.
    pub error: Option<String>,
}

/// A session, as `SHOW PROCESSLIST` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Number of the connection.
    pub id: u64,
    /// Account.
    pub user: String,
    /// Host of the client, and its port.
    pub host: String,
    /// Default database.
    pub db: Option<String>,
    /// `Query`, `Sleep` or another command.
    pub command: String,
    /// How long it has been in this state, s.
    pub time_s: u64,
    /// What it is doing.
    pub state: Option<String>,
    /// The statement without its literals.
    pub digest_text: Option<String>,
}

impl Activity {
    /// One of a server that could not be asked.
    #[must_use]
    pub fn failed(time_us: i64, error: &str) -> Self {
        Self { time_us, error: Some(error.to_owned()), ..Self::default() }.limited()
    }

    /// The same within the limits: texts are cut, sessions that run the shortest are left out.
    #[must_use]
    pub fn limited(mut self) -> Self {
        cut(&mut self.version);
        self.error.as_mut().map(cut);
        self.status = self.status.into_iter().take(STATUS_MAX).collect();
        self.status.values_mut().for_each(cut);
        self.processes.truncate(PROCESSES_MAX);
        for process in &mut self.processes {
            process.limit();
        }
        while !self.processes.is_empty() && self.json_bytes() > JSON_BYTES_MAX {
            self.processes.pop();
        }
        // A server can write anything into its variables.
        if self.json_bytes() > JSON_BYTES_MAX {
            self.status.clear();
        }
        self
    }

    fn json_bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |json| json.len())
    }
}

impl Process {
    fn limit(&mut self) {
        cut(&mut self.user);
        cut(&mut self.host);
        cut(&mut self.command);
        for text in [&mut self.db, &mut self.state, &mut self.digest_text] {
            text.as_mut().map(cut);
        }
    }
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_server_says_fits_into_a_heartbeat() {
        let long = "\u{1}".repeat(2000);
        let process =
            Process { user: long.clone(), digest_text: Some(long.clone()), ..Process::default() };
        let activity = Activity {
            version: long.clone(),
            status: (0..500).map(|number| (format!("Tacho_{number:03}"), long.clone())).collect(),
            processes: vec![process; 200],
            process_count: 200,
            ..Activity::default()
        };
        let limited = activity.clone().limited();
        assert!(serde_json::to_vec(&limited).unwrap().len() <= JSON_BYTES_MAX);
        assert_eq!((limited.version.len(), limited.process_count), (TEXT_CHARS_MAX, 200));

        let status = [("Uptime".to_owned(), "5".to_owned())].into();
        let short = Activity { status, ..activity }.limited();
        assert_eq!(short.status.len(), 1);
        assert!(!short.processes.is_empty() && short.processes.len() < PROCESSES_MAX);
        let text = short.processes[0].digest_text.as_deref().unwrap();
        assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
    }
}
