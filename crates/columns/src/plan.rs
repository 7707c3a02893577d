//! Which column follows from which: found by trying, and kept for the next frames.

use crate::keyed::{RowKeys, deltas, differences, predicted};
use crate::numbers::cost;

/// What the values of a column are predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyColumn {
    /// The shape of the line.
    Shape,
    /// The number of a column.
    Number(u32),
}

/// How the values of a column are stored if they have no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// As they are.
    Plain,
    /// Numbers: as differences to the one before.
    Delta,
}

/// A column in a frame: in which rows it has which values. Of texts these are codes.
pub(crate) struct Series<'a> {
    pub(crate) column: u32,
    pub(crate) is_text: bool,
    pub(crate) rows: &'a [u32],
    pub(crate) values: &'a [u64],
}

impl Series<'_> {
    fn keyed_cost(&self, keys: &RowKeys) -> f32 {
        match self.is_text {
            true => cost(predicted(keys, self.rows, self.values).iter().copied()),
            false => cost(differences(keys, self.rows, self.values).iter().copied()),
        }
    }

    /// The better way without a key.
    pub(crate) fn simple(&self) -> (Method, f32) {
        let plain = cost(self.values.iter().copied());
        let delta = if self.is_text { f32::INFINITY } else { cost(deltas(self.values)) };
        if delta < plain { (Method::Delta, delta) } else { (Method::Plain, plain) }
    }
}

/// Bits that a key has to save.
const WORTH_BITS: f32 = 64.0;
/// Of this part of the rows the keys may be different. Then nothing is predicted.
const KEYS_PART: f32 = 0.75;

/// The columns in the order in which they are stored, each with its key.
#[derive(Default)]
pub(crate) struct KeyPlan {
    columns: Vec<(u32, Option<KeyColumn>)>,
}

impl KeyPlan {
    /// Tries all columns as keys of all others. The columns that need most come first: they can be
    /// keys of those that follow.
    pub(crate) fn find(rows: usize, shapes: &RowKeys, series: &[Series<'_>]) -> Self {
        let mut costs: Vec<_> = series.iter().map(|series| (series, series.simple().1)).collect();
        costs.sort_by(|one, two| two.1.total_cmp(&one.1));
        let mut keys: Vec<(KeyColumn, RowKeys)> = Vec::new();
        let mut plan = Self::default();
        for (series, simple) in costs {
            let (mut best, mut least) = (None, simple - WORTH_BITS);
            if least > 0.0 {
                let candidates = keys.iter().map(|(key, keys)| (*key, keys));
                for (key, keys) in candidates.chain([(KeyColumn::Shape, shapes)]) {
                    let cost = series.keyed_cost(keys);
                    if cost < least {
                        (best, least) = (Some(key), cost);
                    }
                }
            }
            plan.columns.push((series.column, best));
            let of_series = RowKeys::new(rows, series.rows, series.values);
            let is_key = of_series.count() > 2
                && (of_series.count() as f32) < series.values.len() as f32 * KEYS_PART;
            if is_key {
                keys.push((KeyColumn::Number(series.column), of_series));
            }
        }
        plan
    }

    /// The columns that are there, in order, with their keys. Columns that the plan does not know
    /// come last.
    pub(crate) fn order(&self, present: &[u32]) -> Vec<(u32, Option<KeyColumn>)> {
        // Both are numbers of columns, in order.
        let is_there = |column: u32| present.binary_search(&column).is_ok();
        let known = self.columns.iter().filter(|(column, _)| is_there(*column)).copied();
        let is_new = |column: &&u32| self.columns.iter().all(|(known, _)| known != *column);
        let new = present.iter().filter(is_new).map(|column| (*column, None));
        known.chain(new).collect()
    }
}
