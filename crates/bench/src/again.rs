//! Reads the results of an earlier run again: all figures are computed from its blocks, as they
//! were when it ended, with its limit of noise or another.
//!
//! The latency curves are taken from the result lines, because blocks have no histograms.

use anyhow::{Context as _, Result, bail};

use crate::figures::{self, Design, Pair, Pairs};
use crate::lines::{BlockLine, EndLine, Line, LoadLine, MethodLine, ResultLine, RunLine};
use crate::method::{NONE_AGAIN, Switch};
use crate::notes;
use crate::run::Outcome;

/// The lines of a run with figures for this limit of noise; without one, for the run's own. The
/// outcome is that of the same run with this limit.
///
/// A run that was interrupted has results for each method with a complete round, and no end.
///
/// # Errors
/// There is no run line, or results have no blocks.
pub fn judge(lines: &[Line], noise_max: Option<f64>) -> Result<(Vec<Line>, Outcome)> {
    let mut run = lines
        .iter()
        .find_map(|line| if let Line::Run(run) = line { Some((**run).clone()) } else { None })
        .context("there is no line of type \"run\"")?;
    run.settings.noise_max = noise_max.unwrap_or(run.settings.noise_max);
    let old: Vec<&ResultLine> = lines
        .iter()
        .filter_map(|line| if let Line::Result(old) = line { Some(&**old) } else { None })
        .collect();
    let results = results(lines, &run, &old)?;
    for old in old {
        if !results.iter().any(|new| is_same(new, old)) {
            let (method, workload) = (&old.method, &old.load.workload);
            bail!("{method} has a result under {workload}, but no complete pair of blocks");
        }
    }
    let too_noisy = results.iter().any(figures::is_withheld);

    let mut judged = vec![Line::Run(Box::new(run.clone()))];
    judged.extend(lines.iter().filter(|line| matches!(line, Line::Block(_))).cloned());
    judged.extend(lines.iter().filter(|line| matches!(line, Line::Instructions(_))).cloned());
    let notes: Vec<String> =
        results.iter().flat_map(|result| notes::of(result, &run.settings)).collect();
    judged.extend(results.into_iter().map(|result| Line::Result(Box::new(result))));
    judged.extend(lines.iter().filter_map(|line| {
        let Line::End(end) = line else { return None };
        Some(Line::End(EndLine { seconds: end.seconds, too_noisy, notes: notes.clone() }))
    }));
    Ok((judged, Outcome { too_noisy }))
}

fn is_same(one: &ResultLine, other: &ResultLine) -> bool {
    (&one.load, &one.method, one.switch) == (&other.load, &other.method, other.switch)
}

/// Methods that were measured by turns, next to the same A/A pairs.
struct Group<'a> {
    load: &'a LoadLine,
    switch: Switch,
    /// In the order of their first pairs: the A/A pairs begin.
    methods: Vec<(&'a str, Pairs)>,
}

fn results(lines: &[Line], run: &RunLine, old: &[&ResultLine]) -> Result<Vec<ResultLine>> {
    let mut results = Vec::new();
    for group in groups(lines, run)? {
        let Some((_, floor)) = group.methods.iter().find(|(name, _)| *name == NONE_AGAIN) else {
            continue;
        };
        for (name, pairs) in &group.methods {
            if pairs.rounds() == 0 || floor.rounds() == 0 {
                continue;
            }
            let method =
                MethodLine { name: (*name).to_owned(), title: String::new(), switch: group.switch };
            let noise_max = run.settings.noise_max;
            let mut new = figures::result(group.load.clone(), &method, pairs, floor, noise_max);
            if let Some(old) = old.iter().find(|old| is_same(&new, old)) {
                new.latency_curve.clone_from(&old.latency_curve);
                new.latency_curve_off.clone_from(&old.latency_curve_off);
            }
            results.push(new);
        }
    }
    Ok(results)
}

fn groups<'a>(lines: &'a [Line], run: &RunLine) -> Result<Vec<Group<'a>>> {
    let design = match run.settings.side_by_side {
        Some(_) => Design::SideBySide,
        None => Design::Neighbours,
    };
    let mut groups: Vec<Group<'a>> = Vec::new();
    let blocks: Vec<&BlockLine> = lines
        .iter()
        .filter_map(|line| if let Line::Block(block) = line { Some(&**block) } else { None })
        .collect();
    // The blocks of a pair are neighbours in the file, too.
    for two in blocks.chunks(2) {
        let [first, second] = *two else { break };
        let (on, off) =
            if first.method == first.compared { (first, second) } else { (second, first) };
        let is_pair = on.method == on.compared
            && off.method != off.compared
            && (&on.load, &on.compared, on.switch, on.pair, on.half)
                == (&off.load, &off.compared, off.switch, off.pair, off.half);
        if !is_pair {
            bail!("blocks {} and {} are no pair", first.block, second.block);
        }
        let group =
            groups.iter().position(|group| (group.load, group.switch) == (&on.load, on.switch));
        let group = group.unwrap_or_else(|| {
            groups.push(Group { load: &on.load, switch: on.switch, methods: Vec::new() });
            groups.len() - 1
        });
        let methods = &mut groups[group].methods;
        let method = methods.iter().position(|(name, _)| *name == on.compared);
        let method = method.unwrap_or_else(|| {
            methods.push((&on.compared, Pairs::new(design)));
            methods.len() - 1
        });
        let pair = Pair { off: off.measured.clone(), on: on.measured.clone() };
        methods[method].1.pairs.push(pair);
    }
    for group in &mut groups {
        // Rounds rotate the order of the methods.
        group.methods.sort_by_key(|(name, _)| {
            run.methods.iter().position(|m| m.name == *name && m.switch == group.switch)
        });
    }
    Ok(groups)
}

#[cfg(test)]
pub(crate) mod tests;
