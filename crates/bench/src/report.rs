//! The report: one self-contained HTML file, which can be passed on.
//!
//! The answer is in the page as text. Its script draws the rest from the result lines and from
//! [`answer::answers`], and decides nothing itself about what is a finding.

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::answer::{self, Certainty, CostAnswer, Sentence};
use crate::lines::Line;

const PAGE: &str = include_str!("../assets/report/page.html");
const STYLE: &str = include_str!("../assets/report/page.css");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

/// The script of the page, in files of one idea each. A file uses only those before it.
const SCRIPT: [&str; 5] = [
    include_str!("../assets/report/data.js"),
    include_str!("../assets/report/pictures.js"),
    include_str!("../assets/report/tables.js"),
    include_str!("../assets/report/curves.js"),
    include_str!("../assets/report/page.js"),
];

/// What the script reads.
#[derive(Serialize)]
struct Data<'a> {
    lines: &'a [Line],
    answers: Vec<CostAnswer>,
}

/// The page for the lines of a run.
///
/// # Errors
/// A line cannot be written as JSON.
pub fn render(lines: &[Line]) -> Result<String> {
    let data = Data { lines, answers: answer::answers(lines) };
    // Inside a script element only `</script` and `<!--` have a meaning; a `<` in a JSON text is
    // always in a string, where it may be escaped.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let sentences = answer::sentences(lines);
    let mut page = String::new();
    let mut rest = PAGE;
    // Only the places of the page itself are filled, not those in a text of the results.
    while let Some((before, after)) = rest.split_once("{{") {
        let (place, after) = after.split_once("}}").context("a place without an end")?;
        page.push_str(before);
        page.push_str(&match place {
            "title" => title(&sentences),
            "uplot.css" => UPLOT_STYLE.to_owned(),
            "page.css" => STYLE.to_owned(),
            "answer" => answer(lines, &sentences),
            "data" => data.clone(),
            "uplot.js" => UPLOT_SCRIPT.to_owned(),
            // The files share their names with each other, and with nothing else.
            "page.js" => format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPT.concat()),
            place => bail!("there is nothing for {place}"),
        });
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

fn title(sentences: &[Sentence]) -> String {
    let answer = sentences.first().map(|sentence| sentence.lead.to_string());
    escape(&answer.map_or("tacho bench".to_owned(), |answer| format!("{answer} – tacho bench")))
}

/// The answers, in words and large.
fn answer(lines: &[Line], sentences: &[Sentence]) -> String {
    let mut html = String::new();
    let has_ended = lines.iter().any(|line| matches!(line, Line::End(_)));
    if !has_ended {
        html.push_str(
            "<p class=\"warning\">The run did not finish: a part of it is missing.</p>\n",
        );
    }
    if sentences.is_empty() {
        html.push_str("<p class=\"lead unknown\">There is no result yet.</p>\n");
    }
    let size = if sentences.len() > 1 { "several" } else { "one" };
    html.push_str(&format!("<div class=\"answers {size}\">\n"));
    for sentence in sentences {
        html.push_str(&one(sentence));
    }
    html.push_str("</div>\n");
    html
}

fn one(sentence: &Sentence) -> String {
    let Sentence { load, basis, lead, certainty, second, advice } = sentence;
    let certainty = match certainty {
        Certainty::Known => "known",
        Certainty::Bound => "bound",
        Certainty::Unknown => "unknown",
    };
    let mut html = format!("<section class=\"answer {certainty}\">\n<h2 class=\"lead\">");
    html.push_str(&escape(&lead.before));
    if !lead.number.is_empty() {
        html.push_str(&format!("<b>{}</b>", escape(&lead.number)));
    }
    html.push_str(&escape(&lead.after));
    html.push_str("</h2>\n");
    for (class, text) in [("second", second), ("advice", advice)] {
        if let Some(text) = text {
            html.push_str(&format!("<p class=\"{class}\">{}</p>\n", unbroken(text)));
        }
    }
    html.push_str(&format!("<p class=\"basis\">{}, {}</p>\n", escape(load), escape(basis)));
    html.push_str("</section>\n");
    html
}

/// A text as HTML in which no line ends within an option, or a number and what belongs to it.
fn unbroken(text: &str) -> String {
    let text = escape(text).replace(" %", "\u{a0}%").replace(" ± ", "\u{a0}±\u{a0}");
    let mut html = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find("--") {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        let length = rest[at..].find(|c| !is_name(c)).unwrap_or(rest.len() - at);
        let (before, option) = rest[..at + length].split_at(at);
        html.push_str(&format!("{before}<code>{option}</code>"));
        rest = &rest[at + length..];
    }
    html + rest
}

/// A text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{EndLine, InstructionsLine};

    /// What the script of a page reads.
    fn data(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("id=\"report\">").expect("the data");
        let (data, _) = rest.split_once("</script>").expect("its end");
        serde_json::from_str(data).expect("JSON")
    }

    #[test]
    fn a_note_cannot_end_its_script() {
        let note = "</script><script>alert(1)</script> {{page.js}}".to_owned();
        let end = EndLine { seconds: 1.0, too_noisy: false, notes: vec![note.clone()] };
        let page = render(&[Line::End(end.clone())]).expect("a page");
        assert!(!page.contains("<script>alert"));
        let lines: Vec<Line> = serde_json::from_value(data(&page)["lines"].clone()).expect("lines");
        assert_eq!(lines, [Line::End(end)]);
        assert!(!page.contains("{{uplot.js}}") && page.contains("uPlot="));
        assert!(page.contains("There is no result yet."));
    }

    #[test]
    fn nothing_is_fetched() {
        let page = render(&[]).expect("a page");
        for fetching in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(fetching), "{fetching}");
        }
    }

    #[test]
    fn options_and_percentages_stay_in_one_line() {
        let html = "limit is 10\u{a0}% (<code>--noise-max</code>). Use <code>--pairs</code> 40";
        assert_eq!(unbroken("limit is 10 % (--noise-max). Use --pairs 40"), html);
        assert_eq!(unbroken("a < b, --end"), "a &lt; b, <code>--end</code>");
    }

    #[test]
    fn a_title_of_a_method_is_text() {
        let counted = |method: &str, query| {
            let line = InstructionsLine { method: method.to_owned(), query, writer: 0, process: 9 };
            Line::Instructions(line)
        };
        let mut lines = vec![counted("none", 1000), counted("<img>", 1043)];
        assert_eq!(answer::sentences(&lines), [], "there is no run");
        lines.insert(0, Line::Run(Box::new(crate::again::tests::run_line())));
        let page = render(&lines).expect("a page");
        let wanted = "&lt;img&gt; adds <b>43 instructions</b> (4.3 %) to a statement";
        assert!(page.contains(wanted) && !page.contains("<img>"), "{page}");
    }
}
