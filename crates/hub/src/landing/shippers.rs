//! Which shippers of an origin are alive, and what they say of themselves.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tacho_ship::protocol::{HEARTBEAT_S, HEARTBEATS_MISSED, Heartbeat};

use super::Refusal;
use super::replica::UNFINISHED;

/// Instances that are remembered: a client could invent them.
const INSTANCES_MAX: usize = 16;
/// Generations that a shipper may begin at once, and the time until it may begin another one.
const GENERATIONS_BURST: i64 = 10;
const GENERATION_PAUSE_US: i64 = 60_000_000;
const SECOND_US: i64 = 1_000_000;

/// The shippers of one origin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Shippers {
    instances: BTreeMap<String, Instance>,
    /// Until when past generations count (leaky bucket).
    generations_until_us: i64,
}

/// One process of a shipper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// When something of it was received, µs since 1970-01-01 UTC, the hub's clock.
    pub last_us: i64,
    /// When the next heartbeat is due after that, s; 0: it has ended in the orderly way.
    pub next_s: u32,
    /// Its last heartbeat, and when that came.
    pub heartbeat: Option<(Heartbeat, i64)>,
}

impl Instance {
    /// Whether it counts as gone.
    #[must_use]
    pub fn is_gone(&self, now_us: i64) -> bool {
        let patience_us = i64::from(self.next_s) * i64::from(HEARTBEATS_MISSED) * SECOND_US;
        now_us.saturating_sub(self.last_us) >= patience_us
    }

    /// Whether its last word was that it ends.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.next_s == 0
    }

    /// Clock of the host minus that of the hub at the last heartbeat, µs.
    #[must_use]
    pub fn skew_us(&self) -> Option<i64> {
        self.heartbeat.as_ref().map(|(heartbeat, at)| heartbeat.time_us.saturating_sub(*at))
    }
}

/// Beside the directories of an origin's generations.
const FILE: &str = "shippers.json";

impl Shippers {
    /// Those that were alive before a restart of the hub: they may still be, and a second shipper
    /// must not begin a generation in the meantime.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(root: &Path) -> io::Result<Self> {
        match std::fs::read(root.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            // A file of another release, or one that a power failure has emptied.
            text => Ok(serde_json::from_slice(&text?).unwrap_or_default()),
        }
    }

    /// Writes the file, without a sync: after a power failure all of them have to come again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, root: &Path) -> io::Result<()> {
        let unfinished = root.join(format!("{UNFINISHED}{FILE}"));
        std::fs::write(&unfinished, serde_json::to_vec(self)?)?;
        std::fs::rename(unfinished, root.join(FILE))
    }

    /// A `PUT` has come.
    pub fn heard_put(&mut self, instance: &str, now_us: i64) {
        let known = self.instance(instance, now_us);
        known.last_us = now_us;
        if known.next_s == 0 {
            known.next_s = HEARTBEAT_S;
        }
    }

    /// A heartbeat has come. A client without an instance counts as one.
    pub fn heard(&mut self, instance: Option<&str>, heartbeat: Heartbeat, now_us: i64) {
        let known = self.instance(instance.unwrap_or_default(), now_us);
        known.last_us = now_us;
        known.next_s = heartbeat.next_s;
        known.heartbeat = Some((heartbeat, now_us));
    }

    /// Another instance that is not gone: the name of its host, or its own.
    #[must_use]
    pub fn other_alive(&self, instance: Option<&str>, now_us: i64) -> Option<String> {
        let is_other = |name: &str| instance != Some(name);
        let (name, other) =
            self.instances.iter().find(|(name, other)| is_other(name) && !other.is_gone(now_us))?;
        let heartbeat = other.heartbeat.as_ref();
        Some(heartbeat.map_or_else(|| name.clone(), |(heartbeat, _)| heartbeat.host.clone()))
    }

    /// The one that was heard of last.
    #[must_use]
    pub fn newest(&self) -> Option<&Instance> {
        self.instances.values().max_by_key(|instance| instance.last_us)
    }

    /// Limits how often a generation can begin: each one costs the hub names for all files.
    ///
    /// # Errors
    /// Too often.
    pub fn may_begin_generation(&mut self, now_us: i64) -> Result<(), Refusal> {
        let from_us = self.generations_until_us.max(now_us);
        if from_us - now_us >= GENERATIONS_BURST * GENERATION_PAUSE_US {
            return Err(Refusal::TooMany);
        }
        self.generations_until_us = from_us + GENERATION_PAUSE_US;
        Ok(())
    }

    fn instance(&mut self, name: &str, now_us: i64) -> &mut Instance {
        if !self.instances.contains_key(name) && self.instances.len() >= INSTANCES_MAX {
            let oldest = self.instances.iter().min_by_key(|(_, instance)| instance.last_us);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.instances.remove(&oldest);
            }
        }
        let new = Instance { last_us: now_us, next_s: HEARTBEAT_S, heartbeat: None };
        self.instances.entry(name.to_owned()).or_insert(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(next_s: u32) -> Heartbeat {
        let text = format!(r#"{{"time_us":5,"version":"1","host":"db1","next_s":{next_s}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn an_instance_is_gone_after_three_heartbeats_or_an_orderly_end() {
        let mut shippers = Shippers::default();
        shippers.heard(Some("a"), heartbeat(10), 0);
        assert_eq!(shippers.other_alive(Some("b"), 29_999_999).as_deref(), Some("db1"));
        assert_eq!(shippers.other_alive(Some("a"), 29_999_999), None);
        assert_eq!(shippers.other_alive(Some("b"), 30_000_000), None);
        shippers.heard_put("a", 29_000_000);
        assert!(shippers.other_alive(Some("b"), 58_999_999).is_some());
        shippers.heard(Some("a"), heartbeat(0), 50_000_000);
        assert_eq!(shippers.other_alive(Some("b"), 50_000_000), None);
        assert_eq!(shippers.newest().unwrap().skew_us(), Some(5 - 50_000_000));
    }

    #[test]
    fn a_restart_does_not_forget_who_is_alive() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Shippers::load(directory.path()).unwrap().newest().is_none());
        let mut shippers = Shippers::default();
        shippers.heard(Some("a"), heartbeat(10), 0);
        shippers.save(directory.path()).unwrap();
        let loaded = Shippers::load(directory.path()).unwrap();
        assert!(loaded.other_alive(Some("b"), 29_999_999).is_some());
        std::fs::write(directory.path().join(FILE), "").unwrap();
        assert!(Shippers::load(directory.path()).unwrap().newest().is_none());
    }

    #[test]
    fn a_client_can_neither_fill_the_memory_nor_fork_without_end() {
        let mut shippers = Shippers::default();
        for number in 0..100 {
            shippers.heard_put(&number.to_string(), number);
        }
        assert_eq!(shippers.instances.len(), INSTANCES_MAX);
        assert!(shippers.instances.contains_key("99"));
        let begun = (0..100).filter(|_| shippers.may_begin_generation(7).is_ok()).count();
        assert_eq!(begun as i64, GENERATIONS_BURST);
        assert!(shippers.may_begin_generation(7 + GENERATION_PAUSE_US).is_ok());
    }
}
