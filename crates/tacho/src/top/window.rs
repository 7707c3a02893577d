//! The counts of the last minute, in sixty parts.

use std::collections::VecDeque;
use std::time::Duration;

use crate::report::query::Query;
use crate::report::tally::Counted;

/// Parts of a window.
const PARTS: i64 = 60;

/// Most groups of a part. A part holds up to twice as many.
pub const GROUPS_MAX: usize = 1_000;

/// What was counted in a part of the time.
#[derive(Debug)]
struct Part {
    /// Its number: the time in units of the length of a part.
    number: i64,
    counted: Counted,
}

/// The last minute, or another time.
#[derive(Debug)]
pub struct Window {
    /// Oldest first.
    parts: VecDeque<Part>,
    part_us: i64,
}

impl Window {
    /// Nothing was counted yet.
    pub fn new(length: Duration) -> Self {
        let part_us = i64::try_from(length.as_micros()).unwrap_or(i64::MAX) / PARTS;
        Self { parts: VecDeque::new(), part_us: part_us.max(1) }
    }

    /// The length of a part, µs.
    pub fn part_us(&self) -> i64 {
        self.part_us
    }

    /// Adds what was counted in the part of this number, or a later one if that has come.
    pub fn add(&mut self, number: i64, counted: Counted) {
        match self.parts.back_mut() {
            Some(last) if last.number >= number => last.counted.merge(counted),
            _ => self.parts.push_back(Part { number, counted }),
        }
    }

    /// All parts of the window that ends at `now_us`. Older ones are forgotten.
    pub fn total(&mut self, now_us: i64, query: &Query) -> Counted {
        let first = now_us.div_euclid(self.part_us) - PARTS + 1;
        while self.parts.front().is_some_and(|part| part.number < first) {
            self.parts.pop_front();
        }
        let mut total = Counted::new(query, 1, GROUPS_MAX);
        self.parts.iter().for_each(|part| total.merge(part.counted.clone()));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::key::By;
    use crate::report::stats::{Figures, Measure};
    use tacho_record::Line;

    const SECOND_US: i64 = 1_000_000;

    fn counted(query: &Query, key: &str) -> Counted {
        let line = r#"{"v":1,"seq":1,"ts":"2026-11-21T10:00:00Z","event":"statement"}"#;
        let figures = Figures::of(&Line::parse(line.as_bytes()).unwrap());
        let mut counted = Counted::new(query, 1, GROUPS_MAX);
        counted.all.add(&figures);
        counted.groups.update(key.as_bytes(), |group| group.stats.add(&figures));
        counted
    }

    #[test]
    fn parts_older_than_the_window_are_forgotten() {
        let query = Query::by(&[By::User], Measure::Count);
        let mut window = Window::new(Duration::from_secs(60));
        assert_eq!(window.part_us(), SECOND_US);
        for second in 100..103 {
            window.add(second, counted(&query, "a"));
        }
        // The clock of the log was set back: nothing is lost.
        window.add(50, counted(&query, "b"));
        let mut count = |second: i64| window.total(second * SECOND_US, &query).all.count;
        assert_eq!((count(102), count(159), count(160), count(161)), (4, 4, 3, 2));
        assert_eq!((count(162), count(100)), (0, 0), "what was forgotten does not come back");
    }
}
