//! The order of the lines.

use crate::join::Ready;

/// When an item was complete, and its index in `Intake::ready`.
type Entry = (i64, u32);

/// The order in which ready items become lines. The items themselves are large, and stay where the
/// join put them.
#[derive(Default)]
pub(super) struct Queue {
    /// In the order of the lines.
    order: Vec<Entry>,
    /// How many of `order` are in lines.
    done: usize,
    /// For [`sort`].
    sorted: Vec<Entry>,
}

impl Queue {
    /// Sorts new items behind the others.
    pub(super) fn sort_new(&mut self, ready: &[Ready]) {
        let known = self.order.len();
        let new = ready.iter().enumerate().skip(known);
        self.order.extend(new.map(|(place, item)| (item.ts_us(), place as u32)));
        sort(&mut self.order[known..], &mut self.sorted);
    }

    /// Takes the next item and returns its index.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        let (_, index) = self.order.get(self.done)?;
        self.done += 1;
        Some(*index as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Clears the queue if all items are in lines.
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

/// Up to this many entries, sorting by comparison is used.
const COMPARED_MAX: usize = 100;

/// Sorts by time, and then by index, which is the order in which `entries` arrive: within a
/// connection this is the order of its records.
///
/// The times of a round are within about 100 ms, so they differ in two or three bytes only:
/// distributing the entries by each of these bytes takes less time than comparing them.
fn sort(entries: &mut [Entry], sorted: &mut Vec<Entry>) {
    if entries.is_sorted_by_key(|(ts_us, _)| *ts_us) {
        return;
    }
    if entries.len() <= COMPARED_MAX {
        return entries.sort_unstable();
    }
    let earliest = entries.iter().fold(i64::MAX, |earliest, (ts_us, _)| earliest.min(*ts_us));
    let latest = entries.iter().fold(i64::MIN, |latest, (ts_us, _)| latest.max(*ts_us));
    let differing_bits = u64::BITS - latest.abs_diff(earliest).leading_zeros();
    sorted.resize(entries.len(), (0, 0));
    // From the lowest byte on: each step keeps the order of the previous steps among equal bytes.
    for shift in (0..differing_bits).step_by(8) {
        let byte =
            |(ts_us, _): &Entry| usize::from((ts_us.wrapping_sub(earliest) as u64 >> shift) as u8);
        let mut places = [0; 256];
        for entry in entries.iter() {
            places[byte(entry)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for entry in entries.iter() {
            let place: &mut usize = &mut places[byte(entry)];
            sorted[*place] = *entry;
            *place += 1;
        }
        entries.copy_from_slice(sorted);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Realistic times: close together, far from each other, and extreme values.
    fn times() -> impl Strategy<Value = Vec<i64>> {
        let near =
            |width: i64| (any::<i64>(), prop::collection::vec(0..width, 0..3 * COMPARED_MAX));
        let widths = prop::sample::select(&[2, 0x100, 0x1_0001, i64::MAX][..]);
        widths
            .prop_flat_map(near)
            .prop_map(|(first, times)| times.iter().map(|ts| first.wrapping_add(*ts)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn entries_are_sorted_by_time_and_then_by_place(times in times(), left in 0..300_usize) {
            let mut entries: Vec<Entry> = times.into_iter().zip(7..).collect();
            let mut expected = entries.clone();
            expected.sort();
            // Content of an earlier round does not matter.
            sort(&mut entries, &mut vec![(1, 1); left]);
            prop_assert_eq!(entries, expected);
        }
    }
}
