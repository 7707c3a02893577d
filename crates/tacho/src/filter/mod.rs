//! The filters of lines.

use regex::Regex;
use tacho_filter::glob;
use tacho_logdir::read::Window;
use tacho_record::Field;
use tacho_record::line::members::FieldSet;

use crate::cli::{FilterArgs, Run};
use crate::view::View;

/// All filters of one call. Every line passes an empty list.
#[derive(Debug, Default)]
pub struct Filter {
    window: Window,
    users: Vec<Pattern>,
    dbs: Vec<Pattern>,
    hosts: Vec<Pattern>,
    conns: Vec<u64>,
    runs: Vec<Run>,
    /// The run of [`Run::Last`]; later runs also match.
    last_run: u64,
    events: Vec<String>,
    sql_commands: Vec<Pattern>,
    errnos: Vec<u32>,
    outcomes: Vec<String>,
    digests: Vec<String>,
    sql: Option<Regex>,
}

impl Filter {
    /// Makes the filter of a command line.
    ///
    /// # Errors
    /// When `--grep` is not a regular expression.
    pub fn new(args: &FilterArgs, window: Window) -> Result<Self, regex::Error> {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        let folded = |texts: &[String]| texts.iter().map(|text| Pattern::folded(text)).collect();
        Ok(Self {
            window,
            users: patterns(&args.user),
            dbs: patterns(&args.db),
            hosts: folded(&args.host),
            conns: args.conn.clone(),
            runs: args.run.clone(),
            last_run: 0,
            events: args.event.clone(),
            sql_commands: folded(&args.sql_command),
            errnos: args.errno.clone(),
            outcomes: args.outcome.clone(),
            digests: args.digest.clone(),
            sql: args.grep.as_deref().map(Regex::new).transpose()?,
        })
    }

    /// Whether the newest run of the log must be known.
    pub fn wants_last_run(&self) -> bool {
        self.runs.contains(&Run::Last)
    }

    /// Sets the newest run.
    pub fn set_last_run(&mut self, run: u64) {
        self.last_run = run;
    }

    /// Whether lines of several runs could be mistaken for those of one connection.
    pub fn may_mix_runs(&self) -> bool {
        !self.conns.is_empty() && !matches!(self.runs[..], [Run::Number(_)])
    }

    /// The fields of a line that [`Filter::matches`] looks at.
    pub fn fields(&self) -> FieldSet {
        let groups: [(bool, &[Field]); 9] = [
            (true, &[Field::ts, Field::event]),
            (!self.users.is_empty(), &[Field::user, Field::priv_user]),
            (!self.dbs.is_empty(), &[Field::db, Field::tables]),
            (!self.hosts.is_empty(), &[Field::host, Field::ip]),
            (!self.conns.is_empty() || !self.runs.is_empty(), &[Field::conn, Field::run]),
            (!self.sql_commands.is_empty(), &[Field::sql_command]),
            (!self.errnos.is_empty() || !self.outcomes.is_empty(), &[Field::errno, Field::outcome]),
            (!self.digests.is_empty(), &[Field::digest]),
            (self.sql.is_some(), &[Field::sql]),
        ];
        groups
            .iter()
            .filter(|(used, _)| *used)
            .flat_map(|(_, fields)| fields.iter().copied())
            .collect()
    }

    /// The range of times.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether only chosen kinds of events pass.
    pub fn chooses_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn has_run(&self, line: &impl View) -> bool {
        let of_line = line.number(Field::run);
        any(&self.runs, |run| match run {
            Run::Number(run) => of_line == Some(*run),
            // A run that begins later has a higher number.
            Run::Last => of_line.unwrap_or(0) >= self.last_run,
        })
    }

    fn has_db(&self, line: &impl View) -> bool {
        if any(&self.dbs, |p| p.matches(&line.text(Field::db))) {
            return true;
        }
        let mut found = false;
        line.tables(&mut |tables| {
            found = tables
                .iter()
                .any(|t| self.dbs.iter().any(|p| p.matches(&t.db) || p.matches(&t.new_db)));
        });
        found
    }

    /// Whether the line passes the filters.
    pub fn matches(&self, line: &impl View) -> bool {
        let event = line.text(Field::event);
        if !self.window.contains(line.ts()) || !any(&self.events, |name| *name == event) {
            return false;
        }
        // The lost records might have matched, so hiding the gap would be misleading.
        event == "lost" || self.passes(line)
    }

    /// Whether a line of the right event and time passes the other filters.
    fn passes(&self, line: &impl View) -> bool {
        let matches = |pattern: &Pattern, field| pattern.matches(&line.text(field));
        let number = |field| line.number(field);
        any(&self.users, |p| matches(p, Field::user) || matches(p, Field::priv_user))
            && self.has_db(line)
            && any(&self.hosts, |p| matches(p, Field::host) || matches(p, Field::ip))
            && any(&self.conns, |conn| Some(*conn) == number(Field::conn))
            && self.has_run(line)
            && any(&self.sql_commands, |p| matches(p, Field::sql_command))
            && any(&self.errnos, |errno| u64::from(*errno) == number(Field::errno).unwrap_or(0))
            && any(&self.outcomes, |name| *name == line.text(Field::outcome))
            && any(&self.digests, |digest| has_digest(&line.text(Field::digest), digest))
            && self.sql.as_ref().is_none_or(|regex| regex.is_match(&line.text(Field::sql)))
    }
}

/// Whether the digest of a line begins with `digest`, with or without the version prefix.
fn has_digest(of_line: &str, digest: &str) -> bool {
    let hash = of_line.split_once(':').map_or("", |(_, hash)| hash);
    !hash.is_empty() && (of_line.starts_with(digest) || hash.starts_with(digest))
}

fn any<T>(wanted: &[T], matches: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(matches)
}

/// A name in which `*` stands for any characters. It never matches a missing name, except as
/// the empty pattern.
#[derive(Debug, PartialEq, Eq)]
struct Pattern {
    glob: Vec<u8>,
    /// Ignore the case of ASCII letters.
    fold: bool,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let mut glob = Vec::with_capacity(text.len());
        for byte in text.bytes() {
            // Only the star has a meaning here.
            if matches!(byte, b'?' | b'\\') {
                glob.push(b'\\');
            }
            glob.push(byte);
        }
        Self { glob, fold: false }
    }

    fn folded(text: &str) -> Self {
        Self { fold: true, ..Self::new(text) }
    }

    fn matches(&self, name: &str) -> bool {
        if name.is_empty() {
            return self.glob.is_empty();
        }
        glob::matches(&self.glob, name.as_bytes(), self.fold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;
    use tacho_record::{EventKind, Line, Outcome};

    fn filter(args: &[&str]) -> Filter {
        let cli = Cli::parse_from(["tacho", "tail"].iter().chain(args));
        let Command::Tail(args) = cli.command else { panic!("another command") };
        Filter::new(&args.filter, Window::default()).unwrap()
    }

    fn matches(args: &[&str], fields: &str) -> bool {
        let text = format!(r#"{{"v":1,"seq":1,"ts":"2026-11-21T10:00:00Z",{fields}}}"#);
        filter(args).matches(&Line::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn stars() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        assert!(matches("app", "app") && !matches("app", "apps") && !matches("app", "App"));
        assert!(matches("app*", "app") && matches("app*", "app_rw") && !matches("app*", "xapp"));
        assert!(matches("*.10", "192.168.0.10") && !matches("*.10", "192.168.0.100"));
        assert!(matches("a*b*c", "aXbYc") && matches("a*b*c", "abc") && matches("a*a", "aa"));
        assert!(!matches("a*a", "a") && !matches("a*b*c", "acb"));
        assert!(matches("*", "x") && !matches("*", "") && matches("", ""));
        assert!(Pattern::folded("DB*.Example").matches("db1.EXAMPLE"));
        assert!(matches("ü*", "über"));
        assert!(matches("a?", "a?") && !matches("a?", "ab") && matches("a\\*", "a\\b"));
        assert!(!matches("a\\*", "a*"));
    }

    const STATEMENT: &str = r#""event":"statement","outcome":"error","errno":1064,"run":3,"conn":7,
        "user":"app_rw","priv_user":"app","host":"Web1","ip":"10.0.0.5","db":"shop",
        "sql_command":"create_table","sql":"CREATE TABLE t",
        "tables":[{"access":"create","db":"archive","table":"t"}]"#;

    #[test]
    fn each_filter_alone() {
        for (option, yes, no) in [
            ("--user", "app_rw", "App_rw"),
            ("--user", "app", "root"),
            ("--db", "shop", "sho"),
            ("--db", "arch*", "mysql"),
            ("--host", "web*", "db*"),
            ("--host", "10.0.0.*", "10.0.1.*"),
            ("--conn", "7", "8"),
            ("--run", "3", "4"),
            ("--event", "statement", "connect"),
            ("--sql-command", "CREATE_*", "select"),
            ("--errno", "1064", "0"),
            ("--outcome", "error", "ok"),
            ("--grep", "(?i)create table", "create table"),
        ] {
            assert!(matches(&[option, yes], STATEMENT), "{option} {yes}");
            assert!(!matches(&[option, no], STATEMENT), "{option} {no}");
            // One matching value of a list suffices.
            let list = format!("{no},{yes}");
            if option != "--grep" {
                assert!(matches(&[option, &list], STATEMENT), "{option} {list}");
            }
        }
    }

    #[test]
    fn every_possible_value_can_be_filtered() {
        for kind in EventKind::ALL.map(EventKind::name) {
            let line = STATEMENT.replace("statement", kind);
            assert!(matches(&["--event", kind], &line), "{kind}");
        }
        for outcome in Outcome::ALL.map(Outcome::name) {
            let line = STATEMENT.replace("\"error\"", &format!("\"{outcome}\""));
            assert!(matches(&["--outcome", outcome], &line), "{outcome}");
        }
    }

    #[test]
    fn all_filters_must_match() {
        assert!(matches(&["--user", "app", "--conn", "7"], STATEMENT));
        assert!(!matches(&["--user", "app", "--conn", "8"], STATEMENT));
    }

    #[test]
    fn only_the_event_filter_hides_a_gap() {
        let lost = r#""event":"lost","count":3,"cause":"dropped""#;
        assert!(matches(&["--user", "app", "--grep", "x", "--outcome", "ok"], lost));
        assert!(!matches(&["--event", "statement"], lost));
        assert!(matches(&["--event", "lost"], lost));
    }

    #[test]
    fn broken_regex_is_refused() {
        let cli = Cli::parse_from(["tacho", "tail", "--grep", "("]);
        let Command::Tail(args) = cli.command else { panic!("another command") };
        assert!(Filter::new(&args.filter, Window::default()).is_err());
    }
}
