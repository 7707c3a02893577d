//! Which files a statistic reads.

use std::path::PathBuf;

/// The resolution of rollups, µs.
pub const STEP_US: i64 = 60_000_000;

/// What the files of a part have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Records.
    Records,
    /// Rollups by minute.
    Rollups,
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
    /// Its rollup, if it has one that may be used.
    pub rollup: Option<&'a PathBuf>,
}

/// Parts that have each record from `from_us` to before `to_us` once. Of segments with a rollup,
/// the records are read only for the pieces of a minute at the ends of the range. The first part
/// has `empty`, so that there is a file with the columns.
pub fn plan(candidates: &[Candidate], empty: PathBuf, from_us: i64, to_us: i64) -> Vec<Part> {
    // The whole minutes of the range.
    let first_us = from_us.saturating_add(STEP_US - 1).div_euclid(STEP_US) * STEP_US;
    let last_us = to_us.div_euclid(STEP_US).saturating_mul(STEP_US);
    let (first_us, last_us) = if first_us < last_us { (first_us, last_us) } else { (to_us, to_us) };
    let files = |from_us: i64, to_us: i64, of: &dyn Fn(&Candidate) -> Option<PathBuf>| {
        let inside = |it: &&Candidate| it.max_ts_us >= from_us && it.min_ts_us < to_us;
        candidates.iter().filter(inside).filter_map(of).collect::<Vec<_>>()
    };
    let bare = |it: &Candidate| it.rollup.is_none().then(|| it.records.clone());
    let counted = |it: &Candidate| it.rollup.is_some().then(|| it.records.clone());
    let rollup = |it: &Candidate| it.rollup.cloned();
    let part = |kind, from_us, to_us, of: &dyn Fn(&Candidate) -> Option<PathBuf>| {
        let files = if from_us < to_us { files(from_us, to_us, of) } else { Vec::new() };
        Part { kind, files, from_us, to_us }
    };
    let mut bare = part(PartKind::Records, from_us, to_us, &bare);
    bare.files.insert(0, empty);
    let others = [
        part(PartKind::Records, from_us, first_us, &counted),
        part(PartKind::Rollups, first_us, last_us, &rollup),
        part(PartKind::Records, last_us, to_us, &counted),
    ];
    let others = others.into_iter().filter(|part| !part.files.is_empty());
    std::iter::once(bare).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = STEP_US;

    fn parts(from_us: i64, to_us: i64) -> Vec<(PartKind, Vec<&'static str>, i64, i64)> {
        let names = ["0", "1", "1r", "2", "2r", "3"].map(PathBuf::from);
        let of = |min, max, records, rollup: Option<usize>| Candidate {
            min_ts_us: min,
            max_ts_us: max,
            records: &names[records],
            rollup: rollup.map(|at| &names[at]),
        };
        let candidates = [
            of(0, 10 * MINUTE - 1, 1, Some(2)),
            of(10 * MINUTE, 20 * MINUTE - 1, 3, Some(4)),
            of(15 * MINUTE, 20 * MINUTE, 5, None),
        ];
        let all = ["0", "1", "1r", "2", "2r", "3"];
        let name = |path: PathBuf| all.into_iter().find(|name| path == PathBuf::from(name));
        plan(&candidates, PathBuf::from("0"), from_us, to_us)
            .into_iter()
            .map(|it| {
                (it.kind, it.files.into_iter().filter_map(name).collect(), it.from_us, it.to_us)
            })
            .collect()
    }

    #[test]
    fn pieces_of_a_minute_come_from_the_records() {
        use PartKind::{Records, Rollups};
        assert_eq!(
            parts(0, 20 * MINUTE),
            [
                (Records, vec!["0", "3"], 0, 20 * MINUTE),
                (Rollups, vec!["1r", "2r"], 0, 20 * MINUTE),
            ]
        );
        let (from, to) = (MINUTE + 1, 12 * MINUTE + 5);
        assert_eq!(
            parts(from, to),
            [
                (Records, vec!["0"], from, to),
                (Records, vec!["1"], from, 2 * MINUTE),
                (Rollups, vec!["1r", "2r"], 2 * MINUTE, 12 * MINUTE),
                (Records, vec!["2"], 12 * MINUTE, to),
            ]
        );
        // Within a minute, and over the edge of two of them.
        for (from, to) in [(MINUTE + 1, 2 * MINUTE - 1), (2 * MINUTE - 1, 2 * MINUTE + 1)] {
            let wanted = [(Records, vec!["0"], from, to), (Records, vec!["1"], from, to)];
            assert_eq!(parts(from, to), wanted);
        }
        assert_eq!(parts(i64::MIN, i64::MAX).len(), 2);
        assert_eq!(parts(5, 5), [(Records, vec!["0"], 5, 5)]);
    }
}
