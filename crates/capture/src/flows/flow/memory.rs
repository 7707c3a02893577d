//! What a connection holds in memory, and what of it can be given up.

use super::{Flow, Held};
use crate::mysql::Output;
use crate::tcp::half::Half;

impl Flow {
    /// Counts the memory that it holds in that of all connections, bytes.
    pub fn count_memory(&mut self, all_bytes: &mut usize) {
        let held_bytes = self.waiting_bytes() + self.session.held_bytes();
        *all_bytes = *all_bytes - self.counted_bytes + held_bytes;
        self.counted_bytes = held_bytes;
    }

    /// The memory that was counted, bytes.
    pub fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// That of segments which wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        let held_bytes = self.held_bytes + self.held.capacity() * size_of::<Held>();
        held_bytes + self.halves.iter().map(Half::waiting_bytes).sum::<usize>()
    }

    /// Gives up what is in memory.
    pub fn shed(&mut self, now_us: i64, out: &mut dyn Output) {
        self.give_up_all(now_us, out);
        if self.is_to_server() {
            self.session.shed(now_us, out);
        } else {
            self.session.shed_unsure(now_us);
        }
    }
}
