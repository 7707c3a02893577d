//! Groups and their figures, in bounded memory.
//!
//! The number of different digests or users in a log has no limit, and a client can make any number
//! of them. So there is a limit of groups. Beyond it, the groups with the smallest values are added
//! to one common remainder; a group that appears again later begins at 0. A group can lack at most
//! the sum of the largest values that were so added, [`Folded::lack_max`] (the bound of "lossy
//! counting"), so the largest groups are found wherever they are in the log.

use std::cmp::Reverse;
use std::collections::HashMap;

use tacho_record::Field;

use super::kept::Kept;
use super::stats::{Measure, Stats};
use crate::view::View;

/// One group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its figures.
    pub stats: Stats,
    /// What is kept of one of its lines.
    pub kept: Kept,
    /// Of a session: its login was read.
    pub has_begun: bool,
    /// Of a session: its end was read.
    pub has_ended: bool,
}

impl Group {
    /// A line of a session.
    pub fn saw_session(&mut self, line: &impl View) {
        self.stats.saw(line.ts().as_microsecond());
        match &*line.text(Field::event) {
            "connect" => self.has_begun = true,
            "disconnect" => self.has_ended = true,
            _ => {}
        }
    }

    /// Adds another part of the same group.
    fn merge(&mut self, other: Self) {
        self.stats.merge(&other.stats);
        self.kept.merge(other.kept);
        self.has_begun |= other.has_begun;
        self.has_ended |= other.has_ended;
    }
}

/// A group with its key.
pub type Keyed = (Box<[u8]>, Group);

/// All groups of one reader, or of all.
#[derive(Clone, Debug)]
pub struct Groups {
    groups: HashMap<Box<[u8]>, Group>,
    limit: usize,
    /// The measure whose largest groups are kept.
    keep: Measure,
    folded: Folded,
}

/// The groups that did not fit.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// How often a group was given up.
    pub count: u64,
    /// Their figures.
    pub stats: Stats,
    /// What each remaining group can lack, in the measure that groups are kept by.
    pub lack_max: u64,
}

impl Groups {
    /// At most `limit` groups, of which those with the largest values of `sort` are kept.
    pub fn new(limit: usize, sort: Measure) -> Self {
        let keep = match sort {
            // A percentile is no sum: a group with few long statements must not go first.
            Measure::P50 | Measure::P95 | Measure::P99 => Measure::Max,
            sum => sum,
        };
        Self { groups: HashMap::new(), limit: limit.max(1), keep, folded: Folded::default() }
    }

    /// Updates the group of a key.
    pub fn update(&mut self, key: &[u8], update: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(key) {
            return update(group);
        }
        if self.groups.len() >= 2 * self.limit {
            self.fold();
        }
        update(self.groups.entry(key.into()).or_default());
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: Self) {
        self.folded.count += other.folded.count;
        self.folded.stats.merge(&other.folded.stats);
        self.folded.lack_max = self.folded.lack_max.saturating_add(other.folded.lack_max);
        if self.groups.is_empty() {
            self.groups = other.groups;
            return;
        }
        for (key, group) in other.groups {
            match self.groups.get_mut(&key) {
                Some(mine) => mine.merge(group),
                None => {
                    self.groups.insert(key, group);
                }
            }
        }
        if self.groups.len() > 2 * self.limit {
            self.fold();
        }
    }

    /// Keeps the largest groups and adds up the others.
    fn fold(&mut self) {
        let mut values: Vec<(u64, u64)> = self.groups.values().map(|g| self.order(g)).collect();
        let Some(at) = values.len().checked_sub(self.limit + 1) else { return };
        let (_, border, _) = values.select_nth_unstable(at);
        let border = *border;
        let above = values.iter().filter(|value| **value > border).count();
        // Groups at the border: so many that the limit is reached.
        let mut places = self.limit - above;
        let keep = self.keep;
        let folded = &mut self.folded;
        self.groups.retain(|_, group| {
            let value = (group.stats.measure(keep), group.stats.count);
            if value > border {
                return true;
            }
            if value == border && places > 0 {
                places -= 1;
                return true;
            }
            folded.count += 1;
            folded.stats.merge(&group.stats);
            false
        });
        folded.lack_max = folded.lack_max.saturating_add(border.0);
    }

    fn order(&self, group: &Group) -> (u64, u64) {
        (group.stats.measure(self.keep), group.stats.count)
    }

    /// The groups, largest first, and those that did not fit.
    pub fn sorted(mut self, sort: Measure) -> (Vec<Keyed>, Folded) {
        if self.groups.len() > self.limit {
            self.fold();
        }
        let mut groups: Vec<Keyed> = self.groups.into_iter().collect();
        // By key as well, so that equal groups do not change their places from call to call.
        groups.sort_by_cached_key(|(key, group)| {
            (Reverse(group.stats.measure(sort)), Reverse(group.stats.count), key.clone())
        });
        (groups, self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stats::Figures;
    use super::*;
    use tacho_record::Line;

    fn figures(us: u64) -> Figures {
        let text = format!(
            r#"{{"v":1,"seq":1,"ts":"2026-11-21T10:00:00Z","event":"statement","query_time_us":{us}}}"#
        );
        Figures::of(&Line::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_largest_groups_are_found_and_nothing_is_lost() {
        let mut groups = Groups::new(100, Measure::Count);
        let line = figures(5);
        // Ten heavy groups among 5,000 that occur once.
        for number in 0..5_000_u32 {
            groups.update(format!("once {number}").as_bytes(), |group| group.stats.add(&line));
            groups.update(format!("heavy {}", number % 10).as_bytes(), |group| {
                group.stats.add(&line)
            });
        }
        let (sorted, folded) = groups.sorted(Measure::Count);
        assert!(sorted.len() <= 100 && folded.count >= 4_900, "{} {}", sorted.len(), folded.count);
        for (key, group) in &sorted[..10] {
            assert!(key.starts_with(b"heavy"), "{}", String::from_utf8_lossy(key));
            assert!(group.stats.count <= 500 && group.stats.count + folded.lack_max >= 500);
        }
        let shown: u64 = sorted.iter().map(|(_, group)| group.stats.count).sum();
        assert_eq!(shown + folded.stats.count, 10_000);
    }

    #[test]
    fn parts_of_a_log_add_up() {
        let mut left = Groups::new(10, Measure::Max);
        let mut right = Groups::new(10, Measure::Max);
        left.update(b"a", |group| group.stats.add(&figures(1)));
        right.update(b"a", |group| group.stats.add(&figures(9)));
        right.update(b"b", |group| group.stats.add(&figures(3)));
        left.merge(right);
        let (sorted, folded) = left.sorted(Measure::Max);
        let all: Vec<_> =
            sorted.iter().map(|(key, g)| (&**key, g.stats.count, g.stats.max_us)).collect();
        assert_eq!(all, [(&b"a"[..], 2, 9), (b"b", 1, 3)]);
        assert_eq!(folded.count, 0);
    }
}
