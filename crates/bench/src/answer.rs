//! The answer of a run in words: what auditing costs here.
//!
//! A figure becomes a cost with its interval, an upper bound, or the statement that the machine is
//! too noisy ([`verdict`]). The report draws nothing that is not one of the first two.

mod verdict;
mod words;

use std::fmt::Write as _;

use serde::Serialize;

use crate::figures::Design;
use crate::lines::{InstructionsLine, Line, LoadLine, ResultLine, RunLine};
use crate::method::{NONE, NONE_AGAIN, Switch};
use verdict::{Aspect, CostVerdict};

pub use words::Phrase;

/// The method that the answer is about, if it was measured.
const SUBJECT: &str = "tacho";

/// An answer about one figure of a method under a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostAnswer {
    /// The load.
    #[serde(flatten)]
    pub load: LoadLine,
    /// The method.
    pub method: String,
    /// How it was switched.
    pub switch: Switch,
    /// Name of the figure.
    pub figure: &'static str,
    /// How sure it is.
    pub certainty: Certainty,
    /// In percent: positive is worse than without the method. Missing if it is unknown.
    pub cost: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Lower end of the A/A interval.
    pub floor_low: f64,
    /// Upper end of the A/A interval.
    pub floor_high: f64,
    /// The same in words, beside the method's name.
    pub words: String,
}

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// A cost, or a gain.
    Known,
    /// An upper bound.
    Bound,
    /// Too noisy, or too few pairs.
    Unknown,
}

/// What is to be said about a method under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// The load.
    pub load: String,
    /// How many pairs or rounds it is based on.
    pub basis: String,
    /// The answer.
    pub lead: Phrase,
    /// How sure it is.
    pub certainty: Certainty,
    /// The other aspect.
    pub second: Option<String>,
    /// What to do if there is no answer.
    pub advice: Option<String>,
}

/// The figures of all methods that the report draws, in the order of the results.
pub fn answers(lines: &[Line]) -> Vec<CostAnswer> {
    let Some(run) = run_of(lines) else { return Vec::new() };
    results(lines).flat_map(|result| of_result(run, result)).map(|(answer, _)| answer).collect()
}

/// The answers in words: about Tachograph under each load or, if it was not measured, about each
/// method.
pub fn sentences(lines: &[Line]) -> Vec<Sentence> {
    let Some(run) = run_of(lines) else { return Vec::new() };
    let about_subject = results(lines).any(|result| result.method == SUBJECT);
    results(lines)
        .filter(|result| !about_subject || result.method == SUBJECT)
        .filter_map(|result| sentence(run, result))
        .chain(of_instructions(run, lines))
        .collect()
}

/// The answers for a terminal.
pub fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut shown = String::new();
    for Sentence { load, lead, second, .. } in sentences(lines) {
        if load != shown {
            let _ = writeln!(text, "\n{load}:");
            shown = load;
        }
        let second = second.map_or(String::new(), |second| format!(" {second}"));
        let _ = writeln!(text, "  {lead}{second}");
    }
    text
}

fn run_of(lines: &[Line]) -> Option<&RunLine> {
    lines.iter().find_map(|line| if let Line::Run(run) = line { Some(&**run) } else { None })
}

/// Of methods: the A/A pairs are beside each of them.
fn results(lines: &[Line]) -> impl Iterator<Item = &ResultLine> {
    lines
        .iter()
        .filter_map(|line| if let Line::Result(result) = line { Some(&**result) } else { None })
        .filter(|result| result.method != NONE_AGAIN)
}

fn of_result(run: &RunLine, result: &ResultLine) -> Vec<(CostAnswer, (Aspect, CostVerdict))> {
    let design = design(run);
    Aspect::of_run(result.load.rate.is_some(), design)
        .into_iter()
        .filter_map(|aspect| {
            let figure = result.figures.get(aspect.figure())?;
            let noise_max = run.settings.noise_max;
            let verdict = verdict::judge(aspect, figure, result.pairs, design, noise_max);
            let (floor_low, floor_high) = aspect.costs(figure.floor_low, figure.floor_high);
            let cost = match verdict {
                CostVerdict::Known(cost) | CostVerdict::AtMost { cost, .. } => Some(cost),
                CostVerdict::Unknown(_) => None,
            };
            let answer = CostAnswer {
                load: result.load.clone(),
                method: result.method.clone(),
                switch: result.switch,
                figure: aspect.figure(),
                certainty: certainty(&verdict),
                cost: cost.map(|cost| cost.percent),
                low: cost.map(|cost| cost.low),
                high: cost.map(|cost| cost.high),
                floor_low,
                floor_high,
                words: words::short(&verdict),
            };
            Some((answer, (aspect, verdict)))
        })
        .collect()
}

fn design(run: &RunLine) -> Design {
    if run.settings.side_by_side.is_some() { Design::SideBySide } else { Design::Neighbours }
}

fn certainty(verdict: &CostVerdict) -> Certainty {
    match verdict {
        CostVerdict::Known(_) => Certainty::Known,
        CostVerdict::AtMost { .. } => Certainty::Bound,
        CostVerdict::Unknown(_) => Certainty::Unknown,
    }
}

fn sentence(run: &RunLine, result: &ResultLine) -> Option<Sentence> {
    let found = of_result(run, result);
    let known = |(answer, _): &(CostAnswer, _)| answer.certainty != Certainty::Unknown;
    // An answer about the other aspect is better than none.
    let lead_at = found.iter().position(known).unwrap_or(0);
    let (answer, (aspect, verdict)) = found.get(lead_at)?;
    let title = words::as_subject(title(run, &result.method));
    let baseline = run.settings.side_by_side.as_ref().map(|wanted| &*wanted.baseline);
    let baseline = baseline.filter(|name| *name != NONE).map(|name| self::title(run, name));
    let second = found.iter().enumerate().find(|(at, _)| *at != lead_at).map(|(_, other)| &other.1);
    let is_unknown = answer.certainty == Certainty::Unknown;
    let figure = result.figures.get(aspect.figure())?;
    Some(Sentence {
        load: load(run, &result.load),
        basis: basis(run, result),
        lead: words::sentence(*aspect, verdict, &title, true, baseline),
        certainty: answer.certainty,
        second: second
            .filter(|_| !is_unknown)
            .map(|(aspect, verdict)| words::second(*aspect, verdict)),
        advice: is_unknown.then(|| words::advice(run, *aspect, verdict, figure)),
    })
}

fn title<'a>(run: &'a RunLine, name: &'a str) -> &'a str {
    run.methods.iter().find(|method| method.name == name).map_or(name, |method| &method.title)
}

fn load(run: &RunLine, load: &LoadLine) -> String {
    let connections = if load.threads == 1 { "connection" } else { "connections" };
    let each = if run.settings.side_by_side.is_some() { " to each server" } else { "" };
    let rate = load.rate.map_or(String::new(), |rate| format!(", {rate} events/s"));
    format!("{}, {} {connections}{each}{rate}", load.workload, load.threads)
}

fn basis(run: &RunLine, result: &ResultLine) -> String {
    let (one, many) = match design(run) {
        Design::Neighbours => ("pair of blocks", "pairs of blocks"),
        Design::SideBySide => ("round", "rounds"),
    };
    format!("{} {}", result.pairs, if result.pairs == 1 { one } else { many })
}

fn of_instructions(run: &RunLine, lines: &[Line]) -> Vec<Sentence> {
    let counted: Vec<&InstructionsLine> = lines
        .iter()
        .filter_map(|line| if let Line::Instructions(line) = line { Some(line) } else { None })
        .collect();
    let Some(none) = counted.iter().find(|line| line.method == NONE) else { return Vec::new() };
    let about_subject = counted.iter().any(|line| line.method == SUBJECT);
    counted
        .iter()
        .filter(|line| line.method != NONE && (!about_subject || line.method == SUBJECT))
        .map(|line| {
            let title = words::as_subject(title(run, &line.method));
            let (number, share) = words::added(line.query, none.query);
            let (all, share_of_all) = words::added(line.process, none.process);
            Sentence {
                load: "point select".to_owned(),
                basis: "user-mode instructions, counted by callgrind".to_owned(),
                lead: Phrase {
                    before: format!("{title} adds "),
                    number: format!("{number} instructions"),
                    after: format!(" ({share}) to a statement in the client's thread."),
                },
                certainty: Certainty::Known,
                second: Some(format!(
                    "In all threads of the server it adds {all} ({share_of_all})."
                )),
                advice: None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
