//! The differences between two profiles: by function, and by stack.

use std::collections::{BTreeMap, HashSet};

use crate::folded::Folded;

/// Shares of two profiles, in percent of the samples of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Function or stack.
    pub name: String,
    /// In the first one.
    pub before_percent: f64,
    /// In the second one.
    pub after_percent: f64,
}

impl Row {
    /// The increase in the second one.
    pub fn change(&self) -> f64 {
        self.after_percent - self.before_percent
    }
}

/// Shares of samples in which a function is on the stack, counted once per stack; the largest
/// change first.
pub fn by_function(before: &Folded, after: &Folded) -> Vec<Row> {
    rows(&functions(before), total(before), &functions(after), total(after))
}

/// Shares of whole stacks; the largest change first.
pub fn by_stack(before: &Folded, after: &Folded) -> Vec<Row> {
    rows(before, total(before), after, total(after))
}

/// All samples of a profile.
pub fn total(folded: &Folded) -> u64 {
    folded.values().sum()
}

fn functions(folded: &Folded) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (stack, count) in folded {
        // A recursive function counts once per stack.
        let names: HashSet<&str> = stack.split(';').collect();
        for name in names {
            *counts.entry(name.to_owned()).or_default() += count;
        }
    }
    counts
}

fn rows(
    before: &BTreeMap<String, u64>,
    before_total: u64,
    after: &BTreeMap<String, u64>,
    after_total: u64,
) -> Vec<Row> {
    let percent = |counts: &BTreeMap<String, u64>, name: &String, total: u64| {
        if total == 0 {
            return 0.0;
        }
        100.0 * counts.get(name).copied().unwrap_or(0) as f64 / total as f64
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|name| Row {
            name: name.clone(),
            before_percent: percent(before, name, before_total),
            after_percent: percent(after, name, after_total),
        })
        .collect();
    rows.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_not_counts_are_compared() {
        let before = Folded::from([("main;a".into(), 5), ("main;b".into(), 5)]);
        let after =
            Folded::from([("main;a".into(), 30), ("main;a;a".into(), 60), ("c".into(), 10)]);
        let rows = by_function(&before, &after);
        let row = |name: &str| rows.iter().find(|row| row.name == name).expect("a row").clone();
        assert_eq!((row("a").before_percent, row("a").after_percent), (50.0, 90.0));
        assert_eq!(row("main").change(), -10.0);
        assert_eq!(row("c").change(), 10.0);
        assert_eq!(rows[0].name, "b");
        let rows = by_stack(&before, &after);
        assert_eq!((rows[0].name.as_str(), rows[0].change()), ("main;a;a", 60.0));
    }

    #[test]
    fn an_empty_profile_has_no_shares() {
        let rows = by_function(&Folded::new(), &Folded::from([("a".into(), 1)]));
        assert_eq!((rows[0].before_percent, rows[0].after_percent), (0.0, 100.0));
    }
}
