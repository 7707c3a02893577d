//! One page with the verdict, flame graph and stacks. It loads nothing from the network.

use std::fmt::Write as _;

use crate::profile::{Entry, Profile};
use crate::report::{Show, percent, text, top};
use crate::verdict::{Finding, NOTABLE_PERCENT};

/// Number of stacks on the page.
const STACKS_MAX: usize = 200;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1240px;\
    padding:0 1em;color:#222;background:#fff}h1{font-size:1.4em}h2{font-size:1.15em;\
    margin-top:2em}table{border-collapse:collapse;width:100%}td,th{text-align:left;\
    vertical-align:top;padding:.25em .8em .25em 0;border-bottom:1px solid #ddd}\
    td.n{text-align:right;white-space:nowrap}code,pre{font:13px/1.4 ui-monospace,monospace;\
    overflow-wrap:anywhere}.finding{border-left:4px solid #c0392b;padding:.2em 1em;margin:1em 0;\
    background:#faf4f3}.small{border-color:#999;background:#f6f6f6}.flame{overflow-x:auto}\
    .advice{font-weight:600}";

/// Generates the page. `flame` is the picture of [`crate::flame::svg`].
pub fn page(profile: &Profile, findings: &[Finding], flame: &[u8], with_idle: bool) -> String {
    let mut html = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut html, profile, findings, flame, with_idle);
    html
}

fn write_page(
    out: &mut String,
    profile: &Profile,
    findings: &[Finding],
    flame: &[u8],
    with_idle: bool,
) -> std::fmt::Result {
    let title = format!("Stacks of {}, process {}", escape(&profile.program), profile.pid);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<h2>Verdict</h2>\n"
    )?;
    if findings.is_empty() {
        out.push_str("<p>No known pattern found.</p>\n");
    }
    for finding in findings {
        let class = if finding.percent < NOTABLE_PERCENT { "finding small" } else { "finding" };
        writeln!(
            out,
            "<div class=\"{class}\"><b>{}</b>: {:.1} % of the samples<br>{}<br>\
             <span class=\"advice\">{}</span></div>",
            escape(&finding.name),
            finding.percent,
            escape(&finding.meaning),
            escape(&finding.advice)
        )?;
    }
    out.push_str("<h2>Flame graph</h2>\n<div class=\"flame\">");
    out.push_str(without_xml_head(&String::from_utf8_lossy(flame)));
    out.push_str("</div>\n<h2>Summary</h2>\n<pre>");
    out.push_str(&escape(&text(profile, &[], Show { with_idle, verdict: false, stacks: 0 })));
    out.push_str("</pre>\n<h2>Stacks</h2>\n");
    write_stacks(out, profile, with_idle)?;
    out.push_str("</body></html>\n");
    Ok(())
}

fn write_stacks(out: &mut String, profile: &Profile, with_idle: bool) -> std::fmt::Result {
    let total = profile.samples(with_idle);
    let mut entries: Vec<&Entry> = profile.seen(with_idle).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    if entries.len() > STACKS_MAX {
        writeln!(out, "<p>The {STACKS_MAX} most frequent of {}.</p>", entries.len())?;
    }
    out.push_str(
        "<table><tr><th>Share</th><th>State</th><th>Functions, innermost first</th>\
         <th>Process list</th></tr>\n",
    );
    for entry in entries.into_iter().take(STACKS_MAX) {
        let names: Vec<String> =
            profile.stack(entry).map(|frame| escape(&frame.function)).collect();
        let sql = top(&entry.sql).unwrap_or_default();
        writeln!(
            out,
            "<tr><td class=\"n\">{:.1} %</td><td>{}</td><td><code>{}</code></td><td>{}</td></tr>",
            percent(entry.count, total),
            entry.state.name(),
            names.join(" ← "),
            escape(&sql)
        )?;
    }
    out.push_str("</table>\n");
    Ok(())
}

/// The picture in the form that HTML accepts.
fn without_xml_head(svg: &str) -> &str {
    svg.find("<svg").map_or(svg, |start| &svg[start..])
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::Frame;
    use crate::state::State;

    #[test]
    fn text_from_outside_is_escaped() {
        let mut profile = Profile::new(1, "<b>&\"x\"");
        let frame = profile.frame(Frame {
            function: "std::vector<int>::at".into(),
            module: "m".into(),
            is_named: true,
            is_program: true,
        });
        let entry = profile.entry(vec![frame], State::Running, "t", |_, _| false);
        profile.entries[entry].count = 1;
        profile.entries[entry].sql.insert("Query: <script>".into(), 1);
        let html = page(&profile, &[], b"<?xml?><svg>picture</svg>", false);
        assert!(html.contains("&lt;b&gt;&amp;&quot;x&quot;") && !html.contains("<b>&"));
        assert!(html.contains("std::vector&lt;int&gt;::at"));
        assert!(!html.contains("<script>"));
        assert!(html.contains("<svg>picture</svg>") && !html.contains("<?xml"));
        assert!(!html.contains("http://") && !html.contains("https://"));
    }
}
