use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;

const GUIDE: &str = "docs/guide/status.md";

fn checks() -> String {
    let mut out = "| check | what it finds out | warning | critical | metric |\n\
                   |---|---|---|---|---|\n"
        .to_owned();
    for check in Check::ALL {
        let spec = check.spec();
        let [warn, crit] = defaults(*check);
        let metric = spec.measure.map(|it| format!("`{}`", it.metric.spec().name));
        let metric = metric.unwrap_or_default();
        let (name, help) = (spec.name, spec.help);
        writeln!(out, "| `{name}` | {help} | {warn} | {crit} | {metric} |").unwrap();
    }
    out
}

fn metrics() -> String {
    let mut out = "| metric | meaning |\n|---|---|\n".to_owned();
    for metric in Metric::ALL {
        let spec = metric.spec();
        writeln!(out, "| `{}` | {} |", spec.name, spec.help).unwrap();
    }
    out
}

fn replaced(page: &str, mark: &str, table: &str) -> String {
    let begin = format!("<!-- {mark}: generated from crates/tacho/src/status/spec.rs -->\n\n");
    let end = "\n<!-- end of generated -->";
    let (before, rest) = page.split_once(&begin).expect("the mark of the table");
    let (_, after) = rest.split_once(end).expect("the end of the table");
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_guide_follows_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(GUIDE);
    let page = std::fs::read_to_string(&path).unwrap();
    let expected = replaced(&replaced(&page, "checks", &checks()), "metrics", &metrics());
    if std::env::var_os("TACHO_BLESS").is_some() {
        if page != expected {
            std::fs::write(&path, expected).unwrap();
        }
        return;
    }
    let wrong = page.lines().zip(expected.lines()).find(|(found, wanted)| found != wanted);
    assert!(page == expected, "{GUIDE} is old (TACHO_BLESS=1 writes it): {wrong:#?}");
}

#[test]
fn names_are_unique_and_have_their_units() {
    let mut names = BTreeSet::new();
    for metric in Metric::ALL {
        let MetricSpec { name, unit, help } = metric.spec();
        assert!(names.insert(name), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(!help.ends_with('.') && !help.contains(['\\', '\n']), "{name}: {help}");
        let has = |ending: &str| name.ends_with(ending);
        assert_eq!(has("_seconds"), unit == Unit::Seconds, "{name}");
        assert_eq!(has("_bytes") || has("_bytes_per_day"), unit == Unit::Bytes, "{name}");
        assert_eq!(has("_percent"), unit == Unit::Percent, "{name}");
        assert_eq!(has("_total"), unit == Unit::Counter, "{name}");
    }
    for check in Check::ALL {
        assert_eq!(Check::named(check.spec().name), Some(*check));
    }
    assert_eq!(Check::named("nothing"), None);
}

#[test]
fn the_critical_threshold_is_the_worse_one() {
    for measure in Check::ALL.iter().filter_map(|check| check.spec().measure) {
        let (Some(warn), Some(crit)) = (measure.warn, measure.crit) else { continue };
        assert_eq!(measure.bad == Bad::Above, crit > warn, "{:?}", measure.metric);
    }
}

#[test]
fn help_fits_a_terminal() {
    let lines = help_lines();
    assert!(lines.lines().all(|line| line.chars().count() <= 100), "{lines}");
    assert!(lines.contains("  > 10s    > 1m\n"), "{lines}");
    assert!(lines.contains("  < 24h    < 1h\n"), "{lines}");
}
