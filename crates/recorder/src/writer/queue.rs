//! The order of the lines.

use crate::join::Ready;

/// The order in which what is ready becomes lines. The items themselves are large, and stay
/// where the join has put them.
#[derive(Default)]
pub(super) struct Queue {
    /// When each was complete, and its place in `Writer::ready`, in the order of the lines.
    pub(super) order: Vec<(i64, u32)>,
    /// How many of `order` are in lines.
    pub(super) done: usize,
}

impl Queue {
    /// Puts the items that are new into order, behind the others.
    pub(super) fn sort_new(&mut self, ready: &[Ready]) {
        let sorted = self.order.len();
        let new = ready.iter().enumerate().skip(sorted);
        self.order.extend(new.map(|(place, item)| (item.ts_us(), place as u32)));
        // By time, and then by place: within a connection the order is that of its records.
        self.order[sorted..].sort_unstable();
    }

    /// Forgets the items when all are in lines.
    pub(super) fn clear_if_done(&mut self, ready: &mut Vec<Ready>) {
        if self.done == self.order.len() {
            self.clear(ready);
        }
    }

    pub(super) fn clear(&mut self, ready: &mut Vec<Ready>) {
        ready.clear();
        self.order.clear();
        self.done = 0;
    }
}
