//! One page: the verdict, the states, the flame graph, tables, and what to do. It loads nothing
//! from the network. Its parts are in `assets/`.

mod data;
mod parts;

use crate::averages::Averages;
use crate::profile::Profile;
use crate::verdict::Finding;

const TEMPLATE: &str = include_str!("../assets/page.html");

const STYLES: [&str; 3] = [
    include_str!("../assets/page.css"),
    include_str!("../assets/states.css"),
    include_str!("../assets/flame.css"),
];

/// In the order in which they use each other.
const SCRIPTS: [&str; 5] = [
    include_str!("../assets/names.js"),
    include_str!("../assets/tree.js"),
    include_str!("../assets/search.js"),
    include_str!("../assets/graph.js"),
    include_str!("../assets/keys.js"),
];

/// Generates the page. With `with_idle` it first shows threads that wait for work, too.
pub fn page(profile: &Profile, findings: &[Finding], with_idle: bool) -> String {
    let averages = Averages::of(profile);
    fill(TEMPLATE, |place| match place {
        "title" => parts::title(profile),
        "styles" => STYLES.concat(),
        "run" => parts::run(profile, &averages),
        "averages" => escape(&averages.sentence()),
        "findings" => parts::findings(findings, &averages),
        "states" => parts::states(profile, &averages, with_idle),
        "locks" => parts::locks(profile, &averages),
        "stacks" => parts::stacks(profile, &averages),
        "cost" => escape(&crate::report::cost(profile)),
        "advice" => parts::advice(findings),
        "data" => data::json(profile, with_idle),
        "scripts" => SCRIPTS.concat(),
        unknown => unreachable!("assets/page.html has a place {unknown:?}"),
    })
}

/// Replaces each `{{place}}` of the template. What is filled in may have braces, too.
fn fill(template: &str, text_at: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once("}}").unwrap_or((part, ""));
        page.push_str(&text_at(place));
        page.push_str(rest);
    }
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::Frame;
    use crate::state::ThreadState;
    use crate::verdict::Patterns;

    fn frame(function: &str) -> Frame {
        Frame {
            function: function.to_owned(),
            module: "m".to_owned(),
            is_named: true,
            is_program: true,
        }
    }

    fn profile(stacks: &[(ThreadState, bool, u64, &[&str])]) -> Profile {
        let mut profile = Profile::new(1, "<b>&\"x\"");
        profile.rounds = 10;
        for (state, idle, count, functions) in stacks {
            let stack = functions.iter().map(|name| profile.frame(frame(name))).collect();
            let entry = profile.entry(stack, *state, "t", |_, _| *idle);
            profile.entries[entry].count = *count;
        }
        profile
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let stacks: &[(ThreadState, bool, u64, &[&str])] =
            &[(ThreadState::Running, false, 1, &["std::vector<int>::at", "</script>{{title}}"])];
        let mut profile = profile(stacks);
        profile.entries[0].sql.insert("Query: <script>".into(), 1);
        let html = page(&profile, &[], false);
        assert!(html.contains("&lt;b&gt;&amp;&quot;x&quot;") && !html.contains("<b>&"));
        assert!(html.contains("std::vector&lt;int&gt;::at"));
        assert!(html.contains("Query: &lt;script&gt;"));
        // A name neither ends the data nor is a place of the template.
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(html.contains("&lt;/script&gt;{{title}}"));
        assert!(!html.contains("http://") && !html.contains("https://"));
    }

    #[test]
    fn the_finding_comes_before_the_advice() {
        let lock: &[&str] = &["MYSQL_QUERY_LOG::write", "LOGGER::general_log_write"];
        let profile = profile(&[
            (ThreadState::Running, false, 12, &["JOIN::exec"]),
            (ThreadState::Runnable, false, 24, &["JOIN::exec"]),
            (ThreadState::Lock, false, 30, lock),
            (ThreadState::Network, true, 99, &["poll"]),
        ]);
        let patterns = Patterns::built_in().expect("the table");
        let findings = patterns.findings(&profile);
        let html = page(&profile, &findings, false);
        let order = [
            "1.2 threads ran, 2.4 waited for a processor and 3.0 for a lock",
            "<b>log mutex</b>: 3.0 threads on average, 45.5 % of the samples",
            "<b>wait for a processor</b>: 2.4 threads",
            "class=\"bar\"",
            "id=\"search\"",
            "id=\"locks\"",
            "MYSQL_QUERY_LOG::write",
            "Stopped for it",
            "Switch the general log off",
        ];
        assert!(html.contains("style=\"border-color:var(--runnable)\"><p><b>wait for a processor"));
        let mut from = 0;
        for text in order {
            let at = html[from..].find(text).unwrap_or_else(|| panic!("{text:?} is not next"));
            from += at;
        }
    }

    #[test]
    fn every_state_has_a_color() {
        let styles = STYLES.concat();
        for name in ThreadState::ALL.map(ThreadState::name).iter().chain(&["idle"]) {
            let rule = format!(".{name} {{ --state: var(--{name}); }}");
            assert!(styles.contains(&rule), "{rule}");
            // Light and dark.
            assert_eq!(styles.matches(&format!("  --{name}: #")).count(), 2, "{name}");
        }
    }

    #[test]
    fn an_empty_profile_has_a_page() {
        let html = page(&Profile::new(1, "x"), &[], false);
        assert!(html.contains("No samples") && html.contains("</html>"));
    }
}
