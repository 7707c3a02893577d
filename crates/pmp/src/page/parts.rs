//! The parts of the page that need no script.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escape;
use crate::averages::{self, Averages, number, what};
use crate::modules::Frame;
use crate::profile::{Entry, Profile};
use crate::report::{percent, top};
use crate::state::ThreadState;
use crate::verdict::{Finding, NOTABLE_PERCENT};

/// Number of stacks on the page.
const STACKS_MAX: usize = 30;

/// Number of functions of a stack that are visible before it is opened.
const FUNCTIONS_SHOWN: usize = 4;

/// Number of places of locks on the page.
const LOCKS_MAX: usize = 10;

pub(super) fn title(profile: &Profile) -> String {
    format!("Stacks of {}, process {}", escape(&profile.program), profile.pid)
}

/// What was sampled, and what the kernel says about it.
pub(super) fn run(profile: &Profile, averages: &Averages) -> String {
    let busy = profile.samples(false);
    let mut text = format!(
        "{} rounds in {:.1} s, up to {} threads. {busy} samples of threads with work, {} of \
         threads that wait for work.",
        profile.rounds,
        profile.duration_ms as f64 / 1000.0,
        profile.threads_max,
        averages.idle
    );
    if let Some(counted) = averages::counted(profile) {
        text.push(' ');
        text.push_str(&averages::counted_sentence(counted));
    }
    escape(&text)
}

pub(super) fn findings(findings: &[Finding], averages: &Averages) -> String {
    let (notable, others) = by_size(findings);
    if notable.is_empty() {
        return format!(
            "<p>No known pattern is in {NOTABLE_PERCENT} % of the samples or more.</p>{}",
            also_seen(&others)
        );
    }
    let mut html = String::new();
    for finding in notable {
        // The color of the state that it is about.
        let class = finding.state.map_or("other", ThreadState::name);
        let _ = write!(
            html,
            "<div class=\"finding\" style=\"border-color:var(--{class})\"><p><b>{}</b>: {} on \
             average, {:.1} % of the samples</p><p>{}</p>",
            escape(&finding.name),
            threads(averages.threads(finding.samples)),
            finding.percent,
            escape(&finding.meaning),
        );
        if let Some(sql) = top(&finding.sql) {
            let _ = write!(html, "<p class=\"quiet\">Process list: {}</p>", escape(&sql));
        }
        html.push_str("</div>");
    }
    html + &also_seen(&others) + "<p class=\"minor\"><a href=\"#advice\">What to do</a></p>"
}

fn also_seen(others: &[&Finding]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let names: Vec<_> =
        others.iter().map(|it| format!("{} {:.1} %", escape(&it.name), it.percent)).collect();
    format!("<p class=\"minor quiet\">Also seen: {}</p>", names.join(", "))
}

fn by_size(findings: &[Finding]) -> (Vec<&Finding>, Vec<&Finding>) {
    findings.iter().partition(|finding| finding.percent >= NOTABLE_PERCENT)
}

fn threads(threads: f64) -> String {
    let noun = if number(threads) == "1.0" { "thread" } else { "threads" };
    format!("{} {noun}", number(threads))
}

/// The bar, and what its colors mean.
pub(super) fn states(profile: &Profile, averages: &Averages, with_idle: bool) -> String {
    let total = profile.samples(false);
    let (mut bar, mut list) = (String::new(), String::new());
    for (state, samples) in &averages.by_state {
        let class = state.name();
        let average = threads(averages.threads(*samples));
        let share = percent(*samples, total);
        let _ = write!(
            bar,
            "<span class=\"{class}\" style=\"flex-grow:{samples}\" title=\"{class}: {average}, \
             {share:.1} %\"></span>"
        );
        let _ = write!(
            list,
            "<li class=\"{class}\"><span class=\"chip\"></span><b class=\"label\">{class}</b>\
             <span class=\"number\">{average}</span><span class=\"number\">{share:.1} %</span>\
             <small>{}</small></li>",
            what(*state)
        );
    }
    if averages.idle > 0 {
        let average = threads(averages.threads(averages.idle));
        let samples = averages.idle;
        let _ = write!(
            bar,
            "<span class=\"idle\" style=\"flex-grow:{samples}\" title=\"idle: {average}\"></span>"
        );
        let _ = write!(
            list,
            "<li class=\"idle\"><span class=\"chip\"></span><b class=\"label\">idle</b>\
             <span class=\"number\">{average}</span><span class=\"number\">not counted</span>\
             <small>waiting for work; the shares leave them out</small></li>"
        );
    }
    if list.is_empty() {
        return "<p>No samples.</p>".to_owned();
    }
    let class = if with_idle { " class=\"with-idle\"" } else { "" };
    format!(
        "<div{class}><div class=\"bar\" aria-hidden=\"true\">{bar}</div></div>\
         <ul class=\"states\">{list}</ul>"
    )
}

/// Where threads wait for locks: the innermost function of the program.
pub(super) fn locks(profile: &Profile, averages: &Averages) -> String {
    let total = profile.samples(false);
    let mut places: BTreeMap<(&str, ThreadState), u64> = BTreeMap::new();
    for entry in profile.seen(false) {
        if matches!(entry.state, ThreadState::Lock | ThreadState::Condition) {
            let is_own = |frame: &&Frame| frame.is_program && frame.is_named;
            let mut frames = profile.stack(entry);
            let name = frames.find(is_own).map_or("[unknown]", |frame| &*frame.function);
            *places.entry((name, entry.state)).or_default() += entry.count;
        }
    }
    if places.is_empty() {
        return String::new();
    }
    let mut sorted: Vec<_> = places.into_iter().collect();
    sorted.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let mut rows = String::new();
    for ((name, state), samples) in sorted.into_iter().take(LOCKS_MAX) {
        let _ = write!(
            rows,
            "<tr>{}<td class=\"wide\"><code>{}</code></td></tr>",
            share_cells(samples, total, averages, state, false),
            escape(name)
        );
    }
    format!(
        "<section aria-labelledby=\"locks\"><h2 id=\"locks\">Where threads wait for locks</h2>\
         {}{rows}</tbody></table></section>",
        table_head("Innermost named function of the program")
    )
}

fn table_head(what: &str) -> String {
    format!(
        "<table><thead><tr><th class=\"share\">Share</th><th class=\"share\">Threads</th>\
         <th class=\"state\">ThreadState</th><th>{what}</th></tr></thead><tbody>"
    )
}

fn share_cells(
    samples: u64,
    total: u64,
    averages: &Averages,
    state: ThreadState,
    is_idle: bool,
) -> String {
    let name = if is_idle { "idle" } else { state.name() };
    format!(
        "<td class=\"share\">{:.1} %</td><td class=\"share\">{}<span class=\"unit\"> threads</span></td>\
         <td class=\"state {name}\"><span class=\"chip\"></span> {name}</td>",
        percent(samples, total),
        number(averages.threads(samples)),
    )
}

pub(super) fn stacks(profile: &Profile, averages: &Averages) -> String {
    let total = profile.samples(false);
    let mut entries: Vec<&Entry> = profile.seen(false).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    if entries.is_empty() {
        return "<p>No samples.</p>".to_owned();
    }
    let mut html = String::new();
    if entries.len() > STACKS_MAX {
        let _ = write!(
            html,
            "<p>The {STACKS_MAX} most frequent of {}; summary.txt has all.</p>",
            entries.len()
        );
    }
    html.push_str(&table_head("Functions, innermost first"));
    for entry in entries.into_iter().take(STACKS_MAX) {
        let names: Vec<&str> = profile.stack(entry).map(|frame| &*frame.function).collect();
        let _ = write!(
            html,
            "<tr>{}<td class=\"wide\">{}",
            share_cells(entry.count, total, averages, entry.state, entry.idle),
            functions(&names)
        );
        for (what, counts) in [("Process list", &entry.sql), ("In the kernel", &entry.kernel)] {
            if let Some(counts) = top(counts) {
                let _ = write!(html, "<small>{what}: {}</small>", escape(&counts));
            }
        }
        html.push_str("</td></tr>");
    }
    html + "</tbody></table>"
}

/// The innermost functions, and all of them when it is opened.
fn functions(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(FUNCTIONS_SHOWN).map(|name| escape(name)).collect();
    let shown = shown.join(" ← ");
    if names.len() <= FUNCTIONS_SHOWN {
        return format!("<code>{shown}</code> ");
    }
    let all: Vec<_> =
        names.iter().map(|name| format!("<li><code>{}</code></li>", escape(name))).collect();
    let more = names.len() - FUNCTIONS_SHOWN;
    format!(
        "<details><summary><code>{shown} ← {more} more</code></summary><ol>{}</ol></details>",
        all.concat()
    )
}

pub(super) fn advice(findings: &[Finding]) -> String {
    let (notable, _) = by_size(findings);
    if notable.is_empty() {
        return "<p>Nothing that this command knows: look at the widest frames and the most \
                frequent stacks.</p>"
            .to_owned();
    }
    let items: Vec<_> = notable
        .iter()
        .map(|it| format!("<dt>{}</dt><dd>{}</dd>", escape(&it.name), escape(&it.advice)))
        .collect();
    format!("<dl>{}</dl>", items.concat())
}
