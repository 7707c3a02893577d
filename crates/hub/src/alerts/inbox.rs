//! Incidents that wait for the monitor to store their alerts.
//!
//! The landing reports them while it holds a replica, for which the monitor may be waiting: so a
//! report never waits. Clients can cause refused requests without end, of which only so many are
//! kept. A fork or a copy that was cut is always kept, and first in the queue: until its alert is
//! stored, retention does not know that there is evidence to keep.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::landing::{Incident, OnIncident};
use crate::say::say;

/// Incidents that clients can cause without end; more are only said.
const INCIDENTS_MAX: usize = 1000;

/// The queue; a clone shares it. Made before the landing, which reports incidents.
#[derive(Clone, Default)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wakeup: Condvar,
}

#[derive(Default)]
struct Queue {
    incidents: VecDeque<Incident>,
    is_stopped: bool,
}

/// Why a wait has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// An incident.
    Incident(Incident),
    /// Nothing has happened.
    Timeout,
    /// The hub stops.
    Stop,
}

impl Inbox {
    /// For the landing. Says every incident, except for repetitions.
    #[must_use]
    pub fn reporter(&self) -> OnIncident {
        let inbox = self.clone();
        let last = Mutex::new(String::new());
        Arc::new(move |incident| {
            let text = incident.to_string();
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if *last != text {
                say(&text);
                *last = text;
            }
            drop(last);
            if !inbox.put(incident) {
                say("too many incidents: this one has no alert");
            }
        })
    }

    /// Whether it was kept.
    fn put(&self, incident: Incident) -> bool {
        let mut queue = self.queue();
        match incident {
            Incident::Fork { .. } | Incident::ReplicaCut { .. } => {
                queue.incidents.push_front(incident);
            }
            _ if queue.incidents.len() >= INCIDENTS_MAX => return false,
            _ => queue.incidents.push_back(incident),
        }
        self.shared.wakeup.notify_one();
        true
    }

    /// Waits for an incident. Those that are there are given also when the hub stops.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> News {
        let is_quiet = |queue: &mut Queue| queue.incidents.is_empty() && !queue.is_stopped;
        let waited = self.shared.wakeup.wait_timeout_while(self.queue(), timeout, is_quiet);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match queue.incidents.pop_front() {
            Some(incident) => News::Incident(incident),
            None if queue.is_stopped => News::Stop,
            None => News::Timeout,
        }
    }

    /// Ends the wait, and every later one.
    pub fn stop(&self) {
        self.queue().is_stopped = true;
        self.shared.wakeup.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(offset: u64) -> Incident {
        let (origin, file) = ("db1".parse().unwrap(), "removed.chain".parse().unwrap());
        Incident::Contradiction { origin, generation: 1, file, offset }
    }

    #[test]
    fn a_flood_of_refused_requests_does_not_hide_a_cut_copy() {
        let inbox = Inbox::default();
        let kept = (0..2 * INCIDENTS_MAX as u64).filter(|offset| inbox.put(refused(*offset)));
        assert_eq!(kept.count(), INCIDENTS_MAX);
        let (origin, file) = ("db2".parse().unwrap(), "removed.chain".parse().unwrap());
        let cut = Incident::ReplicaCut { origin, file, offset: 7, length: 3 };
        inbox.reporter()(cut.clone());
        inbox.stop();
        assert_eq!(inbox.next(Duration::ZERO), News::Incident(cut));
        for offset in 0..INCIDENTS_MAX as u64 {
            assert_eq!(inbox.next(Duration::ZERO), News::Incident(refused(offset)));
        }
        assert_eq!(inbox.next(Duration::MAX), News::Stop);
        assert_eq!(Inbox::default().next(Duration::ZERO), News::Timeout);
    }
}
