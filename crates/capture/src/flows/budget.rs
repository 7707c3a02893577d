//! Limits of memory and connections, also if several threads share them.
//!
//! Each thread has a part for itself, which no other thread's connections can take. The other half
//! is common: any thread takes from it what it needs. So the limit holds for all threads together,
//! and a thread that has much more than the others is not limited to its part.

use std::sync::{Arc, Mutex, PoisonError};

use crate::mysql::Limits;

/// Limits of all connections.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Memory of all connections for texts and waiting segments, bytes.
    pub bytes: usize,
    /// Connections.
    pub connections: usize,
    /// Limits of each.
    pub each: Limits,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { bytes: 512 << 20, connections: 100_000, each: Limits::default() }
    }
}

/// Memory is taken from the common half in pieces of this size, bytes.
const BYTES_AT_A_TIME: usize = 1 << 20;
/// Connections are.
const CONNECTIONS_AT_A_TIME: usize = 100;

/// The limits of the connections of a thread.
pub(super) struct Allowances {
    pub bytes: Allowance,
    pub connections: Allowance,
    pub each: Limits,
}

impl Budget {
    /// All of it.
    pub(super) fn whole(self) -> Allowances {
        Allowances {
            bytes: Allowance::whole(self.bytes),
            connections: Allowance::whole(self.connections),
            each: self.each,
        }
    }

    /// Parts for so many threads.
    pub(super) fn split(self, threads: u32) -> Vec<Allowances> {
        if threads <= 1 {
            return vec![self.whole()];
        }
        let threads = threads as usize;
        let bytes = Allowance::split(self.bytes, BYTES_AT_A_TIME, threads);
        let connections = Allowance::split(self.connections, CONNECTIONS_AT_A_TIME, threads);
        let both = bytes.into_iter().zip(connections);
        let each = || self.each.clone();
        both.map(|(bytes, connections)| Allowances { bytes, connections, each: each() }).collect()
    }
}

/// How much of something a thread may use.
pub(super) struct Allowance {
    /// What it has for itself, and what it has taken from the common half.
    own: usize,
    taken: usize,
    at_a_time: usize,
    common: Arc<Mutex<usize>>,
}

impl Allowance {
    /// All of a limit: nothing is common.
    fn whole(limit: usize) -> Allowance {
        Allowance { own: limit, taken: 0, at_a_time: 1, common: Arc::default() }
    }

    /// Parts of a limit.
    fn split(limit: usize, at_a_time: usize, threads: usize) -> Vec<Allowance> {
        let own = limit / 2 / threads;
        let common = Arc::new(Mutex::new(limit - own * threads));
        let part = |_| Allowance { own, taken: 0, at_a_time, common: Arc::clone(&common) };
        (0..threads).map(part).collect()
    }

    /// How much it may use now.
    pub fn limit(&self) -> usize {
        self.own + self.taken
    }

    /// Whether so much may be used. Takes it from the common half if necessary, and gives back what
    /// is not needed any more.
    pub fn allows(&mut self, used: usize) -> bool {
        if used <= self.own && self.taken == 0 {
            return true;
        }
        let limit = self.limit();
        let needed = used.saturating_sub(self.own).next_multiple_of(self.at_a_time);
        // One piece more than necessary is kept, so that it is not taken and given all the time.
        if used <= limit && self.taken <= needed + self.at_a_time {
            return true;
        }
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        // At the end less than a piece may be left.
        let taken = needed.min(self.taken + *common);
        *common = *common + self.taken - taken;
        self.taken = taken;
        used <= self.own + taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_keep_the_limit() {
        let mut parts = Allowance::split(8000, 100, 4);
        assert_eq!(parts.iter().map(Allowance::limit).collect::<Vec<_>>(), [1000; 4]);
        // One of them may have all of the common half.
        assert!(parts[0].allows(4950));
        assert_eq!(parts[0].limit(), 5000);
        assert!(parts[0].allows(5000) && !parts[0].allows(5001));
        // The others have what is theirs.
        for part in &mut parts[1..] {
            assert!(part.allows(1000) && !part.allows(1001));
        }
        assert_eq!(parts.iter().map(Allowance::limit).sum::<usize>(), 8000);
        // What it does not need any more is there for others.
        assert!(parts[0].allows(1210));
        assert_eq!(parts[0].limit(), 1300);
        assert!(parts[1].allows(4700) && !parts[1].allows(4701));
        assert_eq!(parts.iter().map(Allowance::limit).sum::<usize>(), 8000);
    }

    #[test]
    fn a_single_thread_has_everything() {
        let mut one = Allowance::whole(8001);
        assert!(one.allows(8001) && !one.allows(8002) && one.allows(0));
        assert_eq!(one.limit(), 8001);
    }
}
