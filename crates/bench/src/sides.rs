//! Two private servers at the same time, each with the same load: one with a method, the other
//! without. Then they exchange their roles.
//!
//! Other work on the machine slows both servers down, so the ratio of their processor times per
//! query is stable where that of neighbouring blocks is not. One round of a method is two halves of
//! one block each:
//!
//! ```text
//!             half 1       half 2
//! server a    method       baseline
//! server b    baseline     method      ratio of the round: √(a₁/b₁ · b₂/a₂)
//! ```
//!
//! The geometric mean cancels any difference of the two servers: data, addresses, ports. Within a
//! block the loads take turns of 50 ms: two loads that run in the same instant compete for the
//! processors, one gets twice the throughput of the other by chance, and the cost of a query
//! depends on that. Each round measures all methods that are not exact enough yet, in rotating
//! order, and the A/A pair, which has the baseline on both servers.
//! `docs/decisions/2026-11-27-servers-side-by-side.md` has the reasons.

mod rounds;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::blocks::Bench;
use crate::load::{Load, LoadPlan};
use crate::method::{Method, NONE};
use crate::output::Output;
use crate::plan::{self, Cell, Group};
use crate::priority;
use crate::run::{self, Options, Outcome, SideBySide};
use crate::stop::Stop;
use crate::switch::Switcher;
use crate::target::Target;
use crate::undo::Undo;
use rounds::Task;
use tacho_sandbox::dialect::Dialect;

/// One of the two servers, with its load.
struct Side {
    /// In the lines: `a` or `b`.
    name: &'static str,
    /// Ends before its server.
    load: Option<Load>,
    bench: Bench,
    /// For the files of its load.
    work: PathBuf,
}

impl Side {
    fn start(
        name: &'static str,
        shared: &Path,
        dialect: &Dialect,
        options: &Options,
        stop: &Stop,
    ) -> Result<(Self, BTreeMap<String, String>)> {
        let work = shared.join(name);
        let directory = work.join("server");
        let (target, missing) =
            Target::start_private(shared, &directory, dialect, &options.methods, &options.private)?;
        let mut conn = target.connect()?;
        run::lock(&mut conn)?;
        let undo = Undo::begin(&mut conn)?;
        let switcher = Switcher::new(&mut conn, &target, undo, &work)?;
        let bench = Bench::new(target, conn, switcher, stop.clone(), options.timing);
        Ok((Self { name, load: None, bench, work }, missing))
    }

    fn start_load(&mut self, plan: &LoadPlan) -> Result<()> {
        self.load = Some(plan.start(&self.work, &self.bench.stop)?);
        self.bench.forget_probes();
        Ok(())
    }

    fn stop_load(&mut self) -> Result<()> {
        self.load.take().map_or(Ok(()), Load::stop)
    }

    fn load(&mut self) -> Result<&mut Load> {
        self.load.as_mut().context("no load")
    }

    fn end(mut self) -> Result<()> {
        self.stop_load()?;
        let restored = self.bench.put_back();
        // The server must be stopped in any case.
        let stopped = self.bench.target.stop();
        restored.and(stopped)
    }
}

/// Runs the measurements, with both servers below `work`.
///
/// # Errors
/// Something failed, or the run was interrupted.
pub fn run(
    options: &Options,
    wanted: &SideBySide,
    work: &Path,
    stop: &Stop,
    out: &mut Output,
) -> Result<Outcome> {
    let dialect = Dialect::of_installation(&options.private.installation)?;
    let options = &Options { methods: options.methods_for(&dialect), ..options.clone() };
    out.progress("starting two private servers …");
    let (first, missing) = Side::start("a", work, &dialect, options, stop)?;
    stop.check()?;
    let (second, _) = Side::start("b", work, &dialect, options, stop)?;
    let mut sides = [first, second];
    priority::raise();
    let measured = measure(&mut sides, options, wanted, &missing, out);
    out.end_progress();
    let [first, second] = sides.map(Side::end);
    // An error of the run is the cause of those at its end.
    let outcome = measured?;
    first.and(second)?;
    Ok(outcome)
}

fn measure(
    sides: &mut [Side; 2],
    options: &Options,
    wanted: &SideBySide,
    missing: &BTreeMap<String, String>,
    out: &mut Output,
) -> Result<Outcome> {
    let began = Instant::now();
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (methods, notes) = usable(sides, options, missing, out)?;
    let (baseline, methods) = split(methods, &wanted.baseline)?;
    ensure!(!methods.is_empty(), "no method can be used on this server:\n{}", notes.join("\n"));
    let groups = groups(&methods, &baseline);
    let cells = plan::cells(&options.workloads, &options.threads, &options.rates);
    let bench = &mut sides[0].bench;
    run::describe(bench, options, baseline.clone(), &groups, notes, started, out)?;
    for side in &*sides {
        run::fill(&side.bench, options, &cells, &side.work, out)?;
    }
    let most = match options.timing.deadline {
        Some(deadline) => deadline,
        None => run::estimate(&groups, cells.len(), &options.timing),
    };
    out.say(&format!(
        "two servers side by side, at most {} rounds of two blocks of {} s: at most about {}; \
         a method is done when its CPU per query is known to ±{:.1} %",
        options.timing.pairs,
        options.timing.block.as_secs_f64(),
        run::spoken(most),
        wanted.interval * 100.0
    ));

    let (mut too_noisy, mut notes) = (false, Vec::new());
    let mut blocks = 0;
    let tasks: Vec<(&Cell, &Group)> =
        cells.iter().flat_map(|cell| groups.iter().map(move |group| (cell, group))).collect();
    for (index, (cell, group)) in tasks.iter().enumerate() {
        let plans = [0, 1].map(|side| run::load_of(cell, &sides[side].bench, options));
        let mut task = Task {
            cell,
            group,
            baseline: &baseline,
            plans,
            timing: options.timing,
            interval: wanted.interval,
            until: options.timing.deadline.map(|deadline| {
                Instant::now() + share(deadline.saturating_sub(began.elapsed()), &tasks[index..])
            }),
            began,
            blocks,
        };
        let pairs = task.run(sides, out)?;
        blocks = task.blocks;
        too_noisy |= run::report(cell, group, &pairs, options, &mut notes, out)?;
    }
    run::end(began, too_noisy, notes, out)
}

/// The methods that both servers support, and notes about the others. Each is switched on and off
/// on both.
fn usable(
    sides: &mut [Side; 2],
    options: &Options,
    missing: &BTreeMap<String, String>,
    out: &mut Output,
) -> Result<(Vec<Method>, Vec<String>)> {
    let [first, second] = sides;
    let (methods, mut notes) = run::usable(&mut first.bench, options, missing, out)?;
    let left = Options { methods, ..options.clone() };
    let (methods, more) = run::usable(&mut second.bench, &left, &BTreeMap::new(), out)?;
    notes.extend(more);
    Ok((methods, notes))
}

/// The baseline, and the methods that are compared with it.
fn split(mut methods: Vec<Method>, baseline: &str) -> Result<(Method, Vec<Method>)> {
    if baseline == NONE {
        return Ok((Method::none(NONE), methods));
    }
    let at = methods.iter().position(|method| method.name == baseline);
    let baseline = methods.remove(at.context("the baseline cannot be used")?);
    Ok((baseline, methods))
}

/// As [`plan::groups`], but no method is switched in a quicker way than the baseline.
fn groups(methods: &[Method], baseline: &Method) -> Vec<Group> {
    let methods: Vec<Method> = methods
        .iter()
        .map(|method| Method { switch: method.switch.max(baseline.switch), ..method.clone() })
        .collect();
    plan::groups(&methods)
}

/// The share of the first of these tasks in the remaining time: as that of its methods.
fn share(remaining: Duration, tasks: &[(&Cell, &Group)]) -> Duration {
    let methods = |(_, group): &(&Cell, &Group)| group.methods.len() as f64;
    let all: f64 = tasks.iter().map(methods).sum();
    remaining.mul_f64(tasks.first().map_or(0.0, methods) / all.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::{Methods, NONE_AGAIN, Switch};
    use crate::workload::Workload;

    fn chosen(names: &[&str]) -> Vec<Method> {
        let known = Methods::built_in().expect("good files");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        known.choose(&names).expect("known")
    }

    #[test]
    fn a_baseline_is_not_compared_with_itself() {
        let methods = chosen(&["tacho", "server_audit", "general_log"]);
        let (baseline, others) = split(methods.clone(), "server_audit").expect("it is there");
        assert_eq!(baseline.name, "server_audit");
        let names: Vec<&str> = others.iter().map(|method| &*method.name).collect();
        assert_eq!(names, ["tacho", "general_log"]);
        assert!(split(others.clone(), "server_audit").is_err());
        assert_eq!(split(methods.clone(), NONE).expect("always"), (Method::none(NONE), methods));

        // Its restarts are everyone's.
        let groups = groups(&others, &baseline);
        let names: Vec<&str> = groups[0].methods.iter().map(|method| &*method.name).collect();
        assert_eq!((groups.len(), groups[0].switch), (1, Switch::Restart));
        assert_eq!(names, [NONE_AGAIN, "tacho", "general_log"]);
    }

    #[test]
    fn the_time_is_shared_by_methods() {
        let groups = plan::groups(&chosen(&["tacho", "general_log", "server_audit"]));
        let cells = plan::cells(&Workload::built_in()[..1], &[64], &[None]);
        let tasks: Vec<(&Cell, &Group)> = groups.iter().map(|group| (&cells[0], group)).collect();
        // A/A, tacho and general_log; then A/A and server_audit.
        assert_eq!(share(Duration::from_secs(100), &tasks), Duration::from_secs(60));
        assert_eq!(share(Duration::from_secs(40), &tasks[1..]), Duration::from_secs(40));
    }
}
