//! Memory that connections give up if they use too much, and the end of some if there are too many.
//!
//! The limit is asked after each change of what a connection holds, so more is held only while one
//! segment is read.

use super::flow::Flow;
use super::{Flows, Key};
use crate::mysql::Output;

impl Flows {
    /// A connection may hold more than before: if it is too much for all of them, some is given up.
    pub(super) fn keep_limit(&mut self, now_us: i64, out: &mut dyn Output) {
        self.figures.peak_bytes = self.figures.peak_bytes.max(self.held_bytes);
        if !self.allowances.bytes.allows(self.held_bytes) {
            self.shed(now_us, out);
        }
    }

    /// Too much memory is used: the connections that hold the most of it give it up.
    #[cold]
    fn shed(&mut self, now_us: i64, out: &mut dyn Output) {
        let limit = self.allowances.bytes.limit();
        // An eighth more than necessary, because this visits all of them.
        let wanted = limit / 8 * 7;
        for key in self.holders() {
            if self.held_bytes <= wanted {
                return;
            }
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            flow.shed(now_us, out);
            flow.count_memory(&mut self.held_bytes);
            if !flow.has_hole() {
                self.holes.remove(&key);
            }
        }
        // The names of the users and databases of very many connections, or a very small limit.
        for key in self.holders() {
            if self.held_bytes <= limit {
                return;
            }
            self.remove(key, out, Flow::abandon);
        }
    }

    /// The connections that hold memory, those with the most of it first.
    fn holders(&self) -> Vec<Key> {
        let holders = self.flows.iter().map(|(key, flow)| (flow.counted_bytes(), *key));
        let mut holders = holders.filter(|(bytes, _)| *bytes > 0).collect::<Vec<_>>();
        holders.sort_unstable_by(|one, other| other.cmp(one));
        holders.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets the connections that have been silent for longest, if there are too many.
    pub(super) fn make_room(&mut self, out: &mut dyn Output) {
        if self.allowances.connections.allows(self.flows.len() + 1) {
            return;
        }
        // Those that only knock must not displace the others.
        let age = |flow: &Flow| (flow.has_data(), flow.last_us());
        let mut ages = self.flows.iter().map(|(key, flow)| (age(flow), *key)).collect::<Vec<_>>();
        // A tenth at once: this visits all of them.
        let count = (ages.len() / 10).max(1);
        ages.select_nth_unstable(count - 1);
        for (_, key) in ages.into_iter().take(count) {
            self.remove(key, out, Flow::abandon);
        }
    }
}
