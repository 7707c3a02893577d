//! A profile as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::averages::{self, Averages, what};
use crate::profile::{Entry, Profile, Times};
use crate::state::ThreadState;
use crate::verdict::{Finding, NOTABLE_PERCENT};

/// What to display.
#[derive(Clone, Copy, Debug)]
pub struct Show {
    /// Include threads that wait for work.
    pub with_idle: bool,
    /// Include the findings.
    pub verdict: bool,
    /// Number of stacks.
    pub stacks: usize,
}

/// How many states of the process list are listed.
const SQL_STATES_SHOWN: usize = 3;

/// The whole text.
pub fn text(profile: &Profile, findings: &[Finding], show: Show) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, profile, findings, show);
    text
}

fn write_all(
    out: &mut String,
    profile: &Profile,
    findings: &[Finding],
    show: Show,
) -> std::fmt::Result {
    let total = profile.samples(show.with_idle);
    let idle = profile.samples(true) - profile.samples(false);
    writeln!(
        out,
        "{}, process {}: {} rounds in {:.1} s, up to {} threads",
        profile.program,
        profile.pid,
        profile.rounds,
        profile.duration_ms as f64 / 1000.0,
        profile.threads_max
    )?;
    let left_out = if show.with_idle { "among them" } else { "left out:" };
    writeln!(out, "{total} samples; {left_out} {idle} of threads that wait for work")?;
    write_states(out, profile, show.with_idle, total)?;
    if show.verdict {
        write_findings(out, findings)?;
    }
    write_stacks(out, profile, show, total)?;
    writeln!(out)?;
    write_cost(out, profile)
}

/// The states of the threads.
fn write_states(
    out: &mut String,
    profile: &Profile,
    with_idle: bool,
    total: u64,
) -> std::fmt::Result {
    let mut by_state: BTreeMap<ThreadState, u64> = BTreeMap::new();
    for entry in profile.seen(with_idle) {
        *by_state.entry(entry.state).or_default() += entry.count;
    }
    let averages = Averages::of(profile);
    writeln!(out, "\n{}", averages.sentence())?;
    if let Some(counted) = averages::counted(profile) {
        writeln!(out, "{}", averages::counted_sentence(counted))?;
    }
    writeln!(out, "\n   share  threads  state")?;
    for state in ThreadState::ALL {
        if let Some(count) = by_state.get(&state) {
            let (share, threads) = (percent(*count, total), averages.threads(*count));
            let name = state.name();
            writeln!(out, "{share:>6.1} %  {threads:>7.1}  {name:<9}  {}", what(state))?;
        }
    }
    Ok(())
}

fn write_findings(out: &mut String, findings: &[Finding]) -> std::fmt::Result {
    writeln!(out)?;
    let (notable, others): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.percent >= NOTABLE_PERCENT);
    if notable.is_empty() {
        writeln!(out, "No known pattern is in {NOTABLE_PERCENT} % of the samples or more.")?;
    }
    for finding in notable {
        writeln!(
            out,
            "{}: {:.1} % of the samples ({})",
            finding.name, finding.percent, finding.samples
        )?;
        writeln!(out, "  {}", finding.meaning)?;
        writeln!(out, "  {}", finding.advice)?;
        let states = finding.states.iter().map(|(state, n)| format!("{} {n}", state.name()));
        writeln!(out, "  threads there: {}", states.collect::<Vec<_>>().join(", "))?;
        if let Some(sql) = top(&finding.sql) {
            writeln!(out, "  process list: {sql}")?;
        }
    }
    if !others.is_empty() {
        let names = others.iter().map(|f| format!("{} {:.1} %", f.name, f.percent));
        writeln!(out, "Also seen: {}", names.collect::<Vec<_>>().join(", "))?;
    }
    Ok(())
}

/// The most frequent one.
pub(crate) fn top(counts: &BTreeMap<String, u64>) -> Option<String> {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1));
    let shown = sorted.iter().take(SQL_STATES_SHOWN).map(|(text, n)| format!("{text} ({n})"));
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

fn write_stacks(out: &mut String, profile: &Profile, show: Show, total: u64) -> std::fmt::Result {
    let mut entries: Vec<&Entry> = profile.seen(show.with_idle).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    if show.stacks == 0 || entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nMost frequent stacks, innermost function first:")?;
    for entry in entries.into_iter().take(show.stacks) {
        let share = percent(entry.count, total);
        let state = entry.state.name();
        let names: Vec<&str> = profile.stack(entry).map(|frame| &*frame.function).collect();
        writeln!(out, "{share:>6.1} %  {state:<9}  {}", names.join(","))?;
        if let Some(sql) = top(&entry.sql) {
            writeln!(out, "                     process list: {sql}")?;
        }
        if let Some(kernel) = top(&entry.kernel) {
            writeln!(out, "                     in the kernel: {kernel}")?;
        }
    }
    Ok(())
}

/// The cost for the server, and for this command.
pub fn cost(profile: &Profile) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_cost(&mut text, profile);
    text
}

fn write_cost(out: &mut String, profile: &Profile) -> std::fmt::Result {
    let stops = &profile.stops;
    let count = stops.held.count() as u64;
    let all = count + stops.samples_without;
    writeln!(out, "Stopped for it: {count} of {all} samples, one thread at a time")?;
    if count > 0 {
        writeln!(out, "  each for {}", times(&stops.held))?;
        writeln!(
            out,
            "  each for at most {}, with the time it ran or waited for a CPU until it stopped",
            times(&stops.held_max)
        )?;
    }
    if stops.given_up > 0 {
        writeln!(out, "  {} did not stop in time and were left alone", stops.given_up)?;
    }
    if stops.refused > 0 {
        writeln!(out, "  {} were refused by the kernel", stops.refused)?;
    }
    let cost = &profile.cost;
    writeln!(
        out,
        "This command: {:.1} % of a CPU; one round took {} (median), {} (longest){}",
        percent(cost.cpu_ms, profile.duration_ms),
        short(cost.round.percentile(50)),
        short(cost.round.max()),
        match cost.rounds_missed {
            0 => String::new(),
            missed => format!("; {missed} rounds left out because one took too long"),
        }
    )?;
    for (reason, count) in &profile.cut_off {
        writeln!(out, "Different stacks that do not reach their start: {count}, {reason}")?;
    }
    Ok(())
}

fn times(times: &Times) -> String {
    format!(
        "{} (median), {} (99 %), {} (longest), {} in all",
        short(times.percentile(50)),
        short(times.percentile(99)),
        short(times.max()),
        short(times.sum())
    )
}

/// A duration in a suitable unit.
pub fn short(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    if ns < 1e6 {
        format!("{:.0} µs", ns / 1e3)
    } else if ns < 1e9 {
        format!("{:.1} ms", ns / 1e6)
    } else {
        format!("{:.2} s", ns / 1e9)
    }
}

/// A share in percent; 0 if the total is 0.
pub fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { 100.0 * part as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(short(Duration::from_nanos(18_478)), "18 µs");
        assert_eq!(short(Duration::from_micros(1_379)), "1.4 ms");
        assert_eq!(short(Duration::from_millis(2_345)), "2.35 s");
    }

    #[test]
    fn an_empty_profile_says_so() {
        let profile = Profile::new(7, "mariadbd");
        let text = text(&profile, &[], Show { with_idle: false, verdict: true, stacks: 3 });
        assert!(text.contains("mariadbd, process 7: 0 rounds"), "{text}");
        assert!(text.contains("0 samples") && text.contains("No known pattern"), "{text}");
    }

    #[test]
    fn a_finding_says_what_to_do() {
        let finding = Finding {
            name: "log mutex".into(),
            samples: 3,
            percent: 75.0,
            meaning: "They queue.".into(),
            advice: "Turn it off.".into(),
            state: Some(ThreadState::Lock),
            states: [(ThreadState::Lock, 3), (ThreadState::Running, 1)].into(),
            sql: [("Query: Init".to_owned(), 2)].into(),
        };
        let small = Finding { name: "other".into(), percent: 1.0, ..finding.clone() };
        let profile = Profile::new(7, "mariadbd");
        let text =
            text(&profile, &[finding, small], Show { with_idle: true, verdict: true, stacks: 3 });
        for part in [
            "log mutex: 75.0 % of the samples (3)",
            "  They queue.\n  Turn it off.\n",
            "threads there: running 1, lock 3",
            "process list: Query: Init (2)",
            "Also seen: other 1.0 %",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }
}
