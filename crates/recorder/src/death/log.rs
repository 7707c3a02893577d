//! Compares what the producers were answered with what is in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::server::{LOG_DIRECTORY, World};

/// What the log must have of a statement.
#[derive(Debug)]
struct Statement {
    text: String,
    /// Tag of its end, if that was accepted.
    end: Option<u64>,
    /// It may be truncated or missing: it was arriving when the server died.
    broken_off: bool,
    /// It was open when recording stopped, so no line completes its `running` line.
    left_running: bool,
}

/// What the producers were answered.
#[derive(Debug, Default)]
pub(super) struct Expected {
    statements: BTreeMap<u64, Statement>,
    /// The statement of each end.
    ends: BTreeMap<u64, u64>,
    tables: BTreeSet<u64>,
    users: BTreeSet<u64>,
    lost: u64,
    stops: u64,
}

impl Expected {
    pub(super) fn statement(&mut self, tag: u64, text: &str) {
        let text = text.to_owned();
        let statement = Statement { text, end: None, broken_off: false, left_running: false };
        self.statements.insert(tag, statement);
    }

    pub(super) fn broken_off(&mut self, tag: u64, text: &str) {
        self.statement(tag, text);
        self.of(tag).broken_off = true;
    }

    pub(super) fn end(&mut self, statement: u64, tag: u64) {
        self.of(statement).end = Some(tag);
        self.ends.insert(tag, statement);
    }

    pub(super) fn left_running(&mut self, tag: u64) {
        self.of(tag).left_running = true;
    }

    pub(super) fn table(&mut self, tag: u64) {
        self.tables.insert(tag);
    }

    pub(super) fn user(&mut self, tag: u64) {
        self.users.insert(tag);
    }

    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    pub(super) fn stop(&mut self) {
        self.stops += 1;
    }

    pub(super) fn accepted_count(&self) -> usize {
        self.statements.len()
    }

    pub(super) fn lost_count(&self) -> u64 {
        self.lost
    }

    fn of(&mut self, tag: u64) -> &mut Statement {
        self.statements.get_mut(&tag).expect("a statement of this tag")
    }
}

/// What the log has.
#[derive(Debug, Default)]
struct Logged {
    /// Statements by tag: outcome, text, rows sent.
    statements: BTreeMap<u64, (String, String, Option<u64>)>,
    /// `running` lines that are not completed, by `seq`.
    running: BTreeMap<u64, u64>,
    /// Statements whose completion says that they are still running.
    still_running: BTreeSet<u64>,
    ends: BTreeSet<u64>,
    tables: BTreeSet<u64>,
    users: BTreeSet<u64>,
    pairs: BTreeSet<(u64, u64)>,
    lost: BTreeMap<String, u64>,
    stops: u64,
}

fn tag_of(text: &str, mark: char) -> u64 {
    let digits: String =
        text.strip_prefix(mark).expect("a mark").chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a tag")
}

fn text<'v>(line: &'v Value, field: &str) -> &'v str {
    line[field].as_str().unwrap_or("")
}

impl Logged {
    fn see(&mut self, line: &Value, raw: &str) {
        match text(line, "event") {
            "start" => return,
            "stop" => {
                self.stops += 1;
                return;
            }
            "lost" => {
                let count = line["count"].as_u64().expect("a count");
                *self.lost.entry(text(line, "cause").to_owned()).or_default() += count;
                return;
            }
            "statement" => self.see_statement(line, raw),
            "table" => {}
            "connect" | "disconnect" => {
                assert!(self.users.insert(tag_of(text(line, "user"), 'u')), "twice: {raw}");
            }
            _ => panic!("unknown event: {raw}"),
        }
        for table in line["tables"].as_array().into_iter().flatten() {
            assert!(self.tables.insert(tag_of(text(table, "table"), 'T')), "twice: {raw}");
        }
        if line["running_seq"].is_null()
            && let Some(conn_seq) = line["conn_seq"].as_u64()
        {
            let pair = (line["conn"].as_u64().expect("a connection"), conn_seq);
            assert!(self.pairs.insert(pair), "number given twice: {raw}");
        }
    }

    fn see_statement(&mut self, line: &Value, raw: &str) {
        let outcome = text(line, "outcome").to_owned();
        let rows_sent = line["rows_sent"].as_u64();
        if let Some(tag) = rows_sent {
            assert!(self.ends.insert(tag), "end twice: {raw}");
        }
        if let Some(seq) = line["running_seq"].as_u64() {
            let tag = self.running.remove(&seq).expect("the running line, not yet completed");
            let whole = self.statements.get_mut(&tag).expect("the statement of that line");
            if outcome == "running" {
                // Only what was recorded of it until recording stopped.
                self.still_running.insert(tag);
            }
            (whole.0, whole.2) = (outcome, rows_sent);
            return;
        }
        let Some(sql) = line["sql"].as_str() else {
            panic!("a statement without text: {raw}");
        };
        let tag = tag_of(sql, 't');
        if outcome == "running" {
            self.running.insert(line["seq"].as_u64().expect("seq"), tag);
        }
        let double = self.statements.insert(tag, (outcome, sql.to_owned(), rows_sent));
        assert!(double.is_none(), "twice: {raw}");
    }
}

/// Reads the whole log and compares.
pub(super) fn check(world: &World) {
    let mut found = Logged::default();
    let mut seq = 0;
    for path in world.fs.files_in(Path::new(LOG_DIRECTORY)) {
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let content = String::from_utf8(world.fs.read(&path)).expect("UTF-8");
        assert!(content.is_empty() || content.ends_with('\n'), "a torn line");
        for raw in content.lines() {
            let line: Value = serde_json::from_str(raw).expect("JSON");
            seq += 1;
            assert_eq!(line["seq"].as_u64(), Some(seq), "{raw}");
            found.see(&line, raw);
        }
    }
    compare(&world.expected, &found);
}

fn compare(expected: &Expected, found: &Logged) {
    for (tag, statement) in &expected.statements {
        let Some((outcome, text, rows_sent)) = found.statements.get(tag) else {
            assert!(statement.broken_off, "missing: statement {tag}");
            continue;
        };
        if statement.broken_off {
            assert!(statement.text.starts_with(text.as_str()), "statement {tag}");
            assert!(outcome == "interrupted", "statement {tag} is {outcome}");
            continue;
        }
        assert!(*text == statement.text, "statement {tag}: {} bytes", text.len());
        if statement.end.is_some() {
            assert_eq!(*rows_sent, statement.end, "statement {tag} has another's end");
            assert_eq!(outcome, "ok", "statement {tag}");
        }
    }
    for tag in found.statements.keys() {
        assert!(expected.statements.contains_key(tag), "made up: statement {tag}");
    }
    assert!(found.ends.iter().eq(expected.ends.keys()), "ends");
    assert_eq!(found.tables, expected.tables, "tables");
    assert_eq!(found.users, expected.users, "sessions");
    for tag in found.running.values().chain(&found.still_running) {
        assert!(expected.statements[tag].left_running, "statement {tag} is not completed");
    }
    assert!(found.stops <= expected.stops, "more ends than there were");
    let lost = found.lost.get("dropped").copied().unwrap_or(0);
    assert_eq!(lost, expected.lost, "lost records by cause");
    assert!(found.lost.keys().all(|cause| cause == "dropped"), "{:?}", found.lost);
}
