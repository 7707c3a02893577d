//! Which shippers of an origin are alive, and what they say of themselves.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tacho_ship::protocol::{HEARTBEAT_S, HEARTBEATS_MISSED, Heartbeat};

use super::Refusal;
use super::names::UNFINISHED;
use crate::clock::Moment;

/// Instances that are remembered: a client could invent them.
const INSTANCES_MAX: usize = 16;
/// Generations that a shipper may begin at once, and the time until it may begin another one.
const GENERATIONS_BURST: i64 = 10;
const GENERATION_PAUSE_US: i64 = 60_000_000;
const SECOND_US: i64 = 1_000_000;
/// The longest time to the next heartbeat that is believed: more than any hub asks for. Otherwise
/// one heartbeat could hide for years that the shipper is gone.
const NEXT_S_MAX: u32 = 6 * HEARTBEAT_S;

/// The shippers of one origin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Shippers {
    instances: BTreeMap<String, Instance>,
    /// Until when past generations count (leaky bucket), on the steady clock.
    #[serde(skip)]
    generations_until_us: i64,
}

/// One process of a shipper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// When something of it was received.
    pub last: Moment,
    /// When the next heartbeat is due after that, s; 0: it has ended in the orderly way.
    pub next_s: u32,
    /// Its last heartbeat, and when that came, µs since 1970-01-01 UTC, the hub's clock.
    pub heartbeat: Option<(Heartbeat, i64)>,
}

impl Instance {
    /// Whether it counts as gone.
    #[must_use]
    pub fn is_gone(&self, now: Moment) -> bool {
        let patience_us = i64::from(self.next_s) * i64::from(HEARTBEATS_MISSED) * SECOND_US;
        now.since_us(&self.last) >= patience_us
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
            text => {
                let mut shippers: Self = serde_json::from_slice(&text?).unwrap_or_default();
                // How long the hub was down says nothing about them.
                let now = Moment::now();
                for instance in shippers.instances.values_mut() {
                    instance.last.steady_us = now.steady_us;
                }
                Ok(shippers)
            }
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
    pub fn heard_put(&mut self, instance: &str, now: Moment) {
        let known = self.instance(instance, now);
        known.last = now;
        if known.next_s == 0 {
            known.next_s = HEARTBEAT_S;
        }
    }

    /// A heartbeat has come. A client without an instance counts as one.
    pub fn heard(&mut self, instance: Option<&str>, heartbeat: Heartbeat, now: Moment) {
        let known = self.instance(instance.unwrap_or_default(), now);
        known.last = now;
        known.next_s = heartbeat.next_s.min(NEXT_S_MAX);
        known.heartbeat = Some((heartbeat, now.wall_us));
    }

    /// Another instance that is not gone: the name of its host, or its own.
    #[must_use]
    pub fn other_alive(&self, instance: Option<&str>, now: Moment) -> Option<String> {
        let is_other = |name: &str| instance != Some(name);
        let (name, other) =
            self.instances.iter().find(|(name, other)| is_other(name) && !other.is_gone(now))?;
        let heartbeat = other.heartbeat.as_ref();
        Some(heartbeat.map_or_else(|| name.clone(), |(heartbeat, _)| heartbeat.host.clone()))
    }

    /// The last heartbeat of each.
    pub fn heartbeats(&self) -> impl Iterator<Item = &Heartbeat> {
        self.instances.values().filter_map(|it| it.heartbeat.as_ref()).map(|(it, _)| it)
    }

    /// The one that was heard of last.
    #[must_use]
    pub fn newest(&self) -> Option<&Instance> {
        self.instances.values().max_by_key(|instance| instance.last.steady_us)
    }

    /// Limits how often a generation can begin: each one costs the hub names for all files.
    ///
    /// # Errors
    /// Too often.
    pub fn may_begin_generation(&mut self, now: Moment) -> Result<(), Refusal> {
        let from_us = self.generations_until_us.max(now.steady_us);
        let over_us = from_us - now.steady_us - (GENERATIONS_BURST - 1) * GENERATION_PAUSE_US;
        if over_us > 0 {
            let wait_s = u32::try_from(over_us / SECOND_US + 1).unwrap_or(u32::MAX);
            return Err(Refusal::TooManyGenerations { wait_s });
        }
        self.generations_until_us = from_us + GENERATION_PAUSE_US;
        Ok(())
    }

    fn instance(&mut self, name: &str, now: Moment) -> &mut Instance {
        if !self.instances.contains_key(name) && self.instances.len() >= INSTANCES_MAX {
            let oldest = self.instances.iter().min_by_key(|(_, instance)| instance.last.steady_us);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.instances.remove(&oldest);
            }
        }
        let new = Instance { last: now, next_s: HEARTBEAT_S, heartbeat: None };
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
        shippers.heard(Some("a"), heartbeat(10), Moment::at(0));
        assert_eq!(shippers.other_alive(Some("b"), Moment::at(29_999_999)).as_deref(), Some("db1"));
        assert_eq!(shippers.other_alive(Some("a"), Moment::at(29_999_999)), None);
        assert_eq!(shippers.other_alive(Some("b"), Moment::at(30_000_000)), None);
        shippers.heard_put("a", Moment::at(29_000_000));
        assert!(shippers.other_alive(Some("b"), Moment::at(58_999_999)).is_some());
        shippers.heard(Some("a"), heartbeat(0), Moment::at(50_000_000));
        assert_eq!(shippers.other_alive(Some("b"), Moment::at(50_000_000)), None);
        assert_eq!(shippers.newest().unwrap().skew_us(), Some(5 - 50_000_000));
    }

    #[test]
    fn a_restart_does_not_forget_who_is_alive() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Shippers::load(directory.path()).unwrap().newest().is_none());
        let mut shippers = Shippers::default();
        shippers.heard(Some("a"), heartbeat(10), Moment::at(0));
        shippers.save(directory.path()).unwrap();
        let loaded = Shippers::load(directory.path()).unwrap();
        assert!(loaded.other_alive(Some("b"), Moment::now()).is_some());
        std::fs::write(directory.path().join(FILE), "").unwrap();
        assert!(Shippers::load(directory.path()).unwrap().newest().is_none());
    }

    #[test]
    fn a_client_can_neither_fill_the_memory_nor_fork_without_end() {
        let mut shippers = Shippers::default();
        for number in 0..100 {
            shippers.heard_put(&number.to_string(), Moment::at(number));
        }
        assert_eq!(shippers.instances.len(), INSTANCES_MAX);
        assert!(shippers.instances.contains_key("99"));
        let begun =
            (0..100).filter(|_| shippers.may_begin_generation(Moment::at(7)).is_ok()).count();
        assert_eq!(begun as i64, GENERATIONS_BURST);
        assert!(shippers.may_begin_generation(Moment::at(7 + GENERATION_PAUSE_US)).is_ok());
    }

    #[test]
    fn neither_the_time_of_day_nor_a_heartbeat_can_hide_who_is_gone() {
        let mut shippers = Shippers::default();
        let hour_us = 3_600_000_000;
        let moment = |steady_us: i64, wall_us: i64| Moment { steady_us, wall_us };
        shippers.heard(Some("a"), heartbeat(u32::MAX), moment(0, hour_us));
        let is_alive = |now| shippers.other_alive(Some("b"), now).is_some();
        assert!(is_alive(moment(1_000_000, 5 * hour_us)) && is_alive(moment(1_000_000, 0)));
        // Three times the most that is believed.
        assert!(!is_alive(moment(3 * 60_000_000, 0)));
        assert!(shippers.may_begin_generation(moment(0, hour_us)).is_ok());
        assert!(shippers.may_begin_generation(moment(1, 0)).is_ok());
    }

    #[test]
    fn a_refused_fork_says_when_the_next_one_may_begin() {
        let mut shippers = Shippers::default();
        while shippers.may_begin_generation(Moment::at(0)).is_ok() {}
        let refused = shippers.may_begin_generation(Moment::at(20 * SECOND_US));
        let Err(Refusal::TooManyGenerations { wait_s }) = refused else { panic!("{refused:?}") };
        assert_eq!(wait_s, 41);
        assert!(shippers.may_begin_generation(Moment::at(61 * SECOND_US)).is_ok());
    }
}
