//! The report: one self-contained HTML file, which can be passed on.

use anyhow::Result;

use crate::lines::Line;

const PAGE: &str = include_str!("../assets/report.html");
const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");

/// The page for the lines of a run.
///
/// # Errors
/// A line cannot be written as JSON.
pub fn render(lines: &[Line]) -> Result<String> {
    // Inside a script element only `</script` and `<!--` have a meaning; a `<` in a JSON text is
    // always in a string, where it may be escaped.
    let data = serde_json::to_string(lines)?.replace('<', "\\u003c");
    let mut page = PAGE.to_owned();
    // The data last: placeholders within it must not be replaced.
    for (place, text) in [
        ("/*{uplot.css}*/", UPLOT_STYLE),
        ("/*{report.css}*/", STYLE),
        ("/*{uplot.js}*/", UPLOT_SCRIPT),
        ("/*{report.js}*/", SCRIPT),
        ("/*{lines}*/", &data),
    ] {
        page = page.replacen(place, text, 1);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::EndLine;

    #[test]
    fn a_note_cannot_end_its_script() {
        let note = "</script><script>alert(1)</script> /*{report.js}*/".to_owned();
        let end = EndLine { seconds: 1.0, too_noisy: false, notes: vec![note.clone()] };
        let page = render(&[Line::End(end.clone())]).expect("a page");
        assert!(!page.contains("<script>alert"));
        let (_, rest) = page.split_once("id=\"lines\">").expect("the data");
        let (data, _) = rest.split_once("</script>").expect("its end");
        let lines: Vec<Line> = serde_json::from_str(data).expect("JSON");
        assert_eq!(lines, [Line::End(end)]);
        assert!(!page.contains("/*{uplot.js}*/") && page.contains("uPlot="));
    }
}
