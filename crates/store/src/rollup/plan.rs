//! Which files a statistic reads.

use std::path::PathBuf;

/// What the files of a part have. Later ones are coarser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// Records.
    Records,
    /// Rollups by minute.
    Minutes,
    /// Rollups by hour.
    Hours,
}

impl PartKind {
    /// The length of the minute or hour of UTC that a row counts, µs; 1 for a record.
    pub const fn step_us(self) -> i64 {
        match self {
            Self::Records => 1,
            Self::Minutes => 60_000_000,
            Self::Hours => 3_600_000_000,
        }
    }

    /// The coarsest one of which no row is on both sides of a time, µs since 1970.
    pub fn fitting(time_us: i64) -> Self {
        let fits = |it: &Self| time_us % it.step_us() == 0;
        [Self::Hours, Self::Minutes].into_iter().find(fits).unwrap_or(Self::Records)
    }
}

/// Files, and the time range that a statistic takes from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What they have.
    pub kind: PartKind,
    /// The files.
    pub files: Vec<PathBuf>,
    /// The begin, µs since 1970.
    pub from_us: i64,
    /// The end, µs since 1970, not included.
    pub to_us: i64,
}

/// A segment as the plan sees it.
pub struct Candidate<'a> {
    /// Its earliest time, µs since 1970.
    pub min_ts_us: i64,
    /// Its latest time, µs since 1970.
    pub max_ts_us: i64,
    /// Its file.
    pub records: &'a PathBuf,
    /// Its rollups by minute and by hour, if it has them.
    pub rollups: Option<&'a [PathBuf; 2]>,
}

impl Candidate<'_> {
    /// The file of a kind; of a segment without rollups there is none.
    fn file(&self, kind: PartKind) -> Option<&PathBuf> {
        let [minutes, hours] = self.rollups?;
        Some(match kind {
            PartKind::Records => self.records,
            PartKind::Minutes => minutes,
            PartKind::Hours => hours,
        })
    }
}

/// Parts that have each record from `from_us` to before `to_us` once. Of segments with rollups,
/// whole hours come from the rollups by hour if `coarsest` allows it, whole minutes around them
/// from those by minute, and what is left at the ends from the records. The first part has
/// `empty`, so that there is a file with the columns.
pub fn plan(
    candidates: &[Candidate],
    empty: PathBuf,
    (from_us, to_us): (i64, i64),
    coarsest: PartKind,
) -> Vec<Part> {
    let is_inside = |it: &&Candidate, from_us, to_us| {
        from_us < to_us && it.max_ts_us >= from_us && it.min_ts_us < to_us
    };
    let bare = candidates
        .iter()
        .filter(|it| is_inside(it, from_us, to_us))
        .filter(|it| it.rollups.is_none() || coarsest == PartKind::Records)
        .map(|it| it.records.clone());
    let files = std::iter::once(empty).chain(bare).collect();
    let mut parts = vec![Part { kind: PartKind::Records, files, from_us, to_us }];
    if coarsest == PartKind::Records {
        return parts;
    }
    parts.extend(
        ranges((from_us, to_us), coarsest)
            .into_iter()
            .map(|(kind, from_us, to_us)| {
                let inside = candidates.iter().filter(|it| is_inside(it, from_us, to_us));
                let files = inside.filter_map(|it| it.file(kind).cloned()).collect();
                Part { kind, files, from_us, to_us }
            })
            .filter(|part| !part.files.is_empty()),
    );
    parts
}

/// The pieces of a range, and of what kind each is.
fn ranges((from_us, to_us): (i64, i64), coarsest: PartKind) -> Vec<(PartKind, i64, i64)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut middle = (PartKind::Records, from_us, to_us);
    for kind in [PartKind::Minutes, PartKind::Hours] {
        let (finer, from_us, to_us) = middle;
        let step_us = kind.step_us();
        let first_us = from_us.saturating_add(step_us - 1).div_euclid(step_us) * step_us;
        let last_us = to_us.div_euclid(step_us).saturating_mul(step_us);
        if kind > coarsest || first_us >= last_us {
            break;
        }
        before.push((finer, from_us, first_us));
        after.push((finer, last_us, to_us));
        middle = (kind, first_us, last_us);
    }
    after.reverse();
    before.push(middle);
    before.append(&mut after);
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = PartKind::Minutes.step_us();
    const HOUR: i64 = PartKind::Hours.step_us();

    /// Two hours with rollups, and a segment without.
    fn parts(from_us: i64, to_us: i64, coarsest: PartKind) -> Vec<(PartKind, String, i64, i64)> {
        let names = ["a", "b", "c"].map(PathBuf::from);
        let rollups = ["a", "b"].map(|name| ["m", "h"].map(|end| format!("{name}{end}").into()));
        let of = |min_ts_us, max_ts_us, at: usize| Candidate {
            min_ts_us,
            max_ts_us,
            records: &names[at],
            rollups: rollups.get(at),
        };
        let candidates =
            [of(0, HOUR - 1, 0), of(HOUR, 2 * HOUR - 1, 1), of(2 * HOUR - MINUTE, 2 * HOUR, 2)];
        let text = |part: Part| {
            let files: Vec<_> = part.files.iter().map(|it| it.to_string_lossy()).collect();
            (part.kind, files.join(" "), part.from_us, part.to_us)
        };
        let parts = plan(&candidates, PathBuf::from("0"), (from_us, to_us), coarsest);
        parts.into_iter().map(text).collect()
    }

    #[test]
    fn pieces_of_a_minute_come_from_the_records() {
        use PartKind::{Hours, Minutes, Records};
        let part = |kind, files: &str, from, to| (kind, files.to_owned(), from, to);
        let all = (0, 2 * HOUR);
        assert_eq!(
            parts(all.0, all.1, Hours),
            [part(Records, "0 c", all.0, all.1), part(Hours, "ah bh", all.0, all.1)]
        );
        assert_eq!(
            parts(all.0, all.1, Minutes),
            [part(Records, "0 c", all.0, all.1), part(Minutes, "am bm", all.0, all.1)]
        );
        assert_eq!(parts(all.0, all.1, Records), [part(Records, "0 a b c", all.0, all.1)]);
        let (from, to) = (-HOUR - 7, HOUR + 2 * MINUTE + 5);
        assert_eq!(
            parts(from, to, Hours),
            [
                part(Records, "0", from, to),
                part(Hours, "ah", -HOUR, HOUR),
                part(Minutes, "bm", HOUR, HOUR + 2 * MINUTE),
                part(Records, "b", HOUR + 2 * MINUTE, to),
            ]
        );
        // Within a minute, and over the edge of two of them.
        for (from, to) in [(MINUTE + 1, 2 * MINUTE - 1), (2 * MINUTE - 1, 2 * MINUTE + 1)] {
            let wanted = [part(Records, "0", from, to), part(Records, "a", from, to)];
            assert_eq!(parts(from, to, Hours), wanted);
        }
        assert_eq!(parts(5, 5, Hours), [part(Records, "0", 5, 5)]);
        assert_eq!(parts(i64::MIN, i64::MAX, Hours).len(), 2);
    }

    #[test]
    fn the_pieces_of_a_range_join() {
        for (from, to) in [(0, 0), (-1, 1), (1, 5 * HOUR), (MINUTE - 1, 3 * HOUR + MINUTE + 1)] {
            let ranges = ranges((from, to), PartKind::Hours);
            assert_eq!((ranges[0].1, ranges[ranges.len() - 1].2), (from, to));
            assert!(ranges.windows(2).all(|pair| pair[0].2 == pair[1].1), "{ranges:?}");
        }
        assert_eq!(PartKind::fitting(7 * HOUR), PartKind::Hours);
        assert_eq!(PartKind::fitting(-MINUTE), PartKind::Minutes);
        assert_eq!(PartKind::fitting(MINUTE + 1), PartKind::Records);
    }
}
