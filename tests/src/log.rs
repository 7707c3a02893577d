//! A strict reader of the audit log, with its invariants.
//!
//! It shares no code with the writer, so that a mistake in one is not repeated in the other.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::tagged::{Command, Tag, find_id};
use crate::verdict::TagCounts;

/// A broken log has as many problems as lines; this many are kept.
const PROBLEMS_MAX: usize = 20;

/// The fields that tests use. The whole line must be valid JSON.
#[derive(Debug, Deserialize)]
pub struct Line<'a> {
    /// Version of the format.
    pub v: u64,
    /// Number of the line.
    pub seq: u64,
    /// Local or universal time with microseconds and offset.
    #[serde(borrow)]
    pub ts: Cow<'a, str>,
    /// `statement`, `connect` …
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    /// `ok`, `error`, `running`, `interrupted`.
    #[serde(borrow)]
    pub outcome: Option<Cow<'a, str>>,
    /// Connection id.
    pub conn: Option<u64>,
    /// Number of the event within the connection.
    pub conn_seq: Option<u64>,
    /// User name the client gave.
    #[serde(borrow)]
    pub user: Option<Cow<'a, str>>,
    /// Client command, in the server's words.
    #[serde(borrow)]
    pub command: Option<Cow<'a, str>>,
    /// Statement text.
    #[serde(borrow)]
    pub sql: Option<Cow<'a, str>>,
    /// The `running` line that this one completes.
    pub running_seq: Option<u64>,
    /// Server error number.
    pub errno: Option<u64>,
    /// Number of records of a `lost` line.
    pub count: Option<u64>,
}

impl Line<'_> {
    /// Whether this line represents a statement of a client: a statement that took long has a
    /// `running` line and a later one that completes it.
    pub fn is_statement(&self) -> bool {
        self.event == "statement" && self.running_seq.is_none()
    }
}

/// The log files of a directory, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("audit-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Every file below a directory, of any kind.
///
/// # Panics
/// A directory cannot be read.
pub fn all_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory").map(|e| e.expect("an entry"));
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => all_files(&path),
            path => vec![path],
        })
        .collect()
}

/// Total length of the files of a log, in all their forms and with their sidecars, bytes.
///
/// # Panics
/// The directory cannot be read.
pub fn bytes(directory: &Path) -> u64 {
    let files = all_files(directory).into_iter();
    let files = files.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("audit-"))
    });
    // A file that was removed since the listing has no length.
    files.map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum()
}

/// Calls `visit` with every line of every log file, in order, parsed and as text.
/// Returns the number of bytes read.
///
/// # Errors
/// A file cannot be read, a line is not one valid JSON object, or the last line has no end.
pub fn read(directory: &Path, mut visit: impl FnMut(&Line, &str)) -> Result<u64> {
    let mut bytes_read = 0;
    for path in files(directory)? {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(&path)?);
        let mut buffer = Vec::new();
        for line_number in 1_u64.. {
            buffer.clear();
            let length = reader.read_until(b'\n', &mut buffer)?;
            if length == 0 {
                break;
            }
            bytes_read += length as u64;
            let place = || format!("{}:{line_number}", path.display());
            let Some(text) = buffer.strip_suffix(b"\n") else {
                bail!("{}: the line has no end", place());
            };
            let text = std::str::from_utf8(text).with_context(place)?;
            let line: Line = serde_json::from_str(text).with_context(place)?;
            visit(&line, text);
        }
    }
    Ok(bytes_read)
}

/// Counts the statements with an id of `run`. Pass it every line.
#[derive(Debug)]
pub struct TagCounter {
    run: String,
    counts: TagCounts,
}

impl TagCounter {
    /// For the ids of one run.
    pub fn new(run: &str) -> Self {
        Self { run: run.to_owned(), counts: TagCounts::new() }
    }

    /// Processes one line.
    pub fn see(&mut self, line: &Line) {
        if !line.is_statement() {
            return;
        }
        let command = line.command.as_deref().and_then(Command::from_name);
        let id = line.sql.as_deref().and_then(|sql| find_id(sql, &self.run));
        if let (Some(command), Some(id)) = (command, id) {
            *self.counts.entry(Tag { id: id.to_owned(), command }).or_default() += 1;
        }
    }

    /// How often each occurred.
    pub fn finish(self) -> TagCounts {
        self.counts
    }
}

/// Checks the invariants of every log. Pass it every line, in order.
///
/// - every line has version 1, a time of the documented shape and an event;
/// - `seq` is 1, 2, 3 … over all files;
/// - `(conn, conn_seq)` is unique, except for `running` lines and the one that completes them,
///   which all have that of the first.
///
/// A server counts its connections from the beginning after each start, so they are unique from one
/// `start` line to the next. Recovered lines belong before the `start` line.
#[derive(Debug, Default)]
pub struct Invariants {
    seq: u64,
    /// For each pair since the last `start` line: `seq` of its `running` line, if it is open.
    pairs: HashMap<(u64, u64), Option<u64>>,
    problems: Vec<String>,
    problem_count: u64,
}

impl Invariants {
    /// Processes one line.
    pub fn see(&mut self, line: &Line) {
        if line.seq != self.seq + 1 {
            self.report(format!("seq {} follows {}", line.seq, self.seq));
        }
        self.seq = line.seq;
        if line.v != 1 {
            self.report(format!("seq {}: version {}", line.seq, line.v));
        }
        if !is_timestamp(&line.ts) {
            self.report(format!("seq {}: time {:?}", line.seq, line.ts));
        }
        if line.event.is_empty() {
            self.report(format!("seq {}: no event", line.seq));
        }
        if line.event == "start" {
            self.pairs.clear();
        }
        if let (Some(conn), Some(conn_seq)) = (line.conn, line.conn_seq) {
            self.see_pair((conn, conn_seq), line);
        }
    }

    fn see_pair(&mut self, pair: (u64, u64), line: &Line) {
        let is_running = line.outcome.as_deref() == Some("running");
        let first_seq = line.running_seq.unwrap_or(line.seq);
        let before = self.pairs.insert(pair, is_running.then_some(first_seq));
        let (conn, conn_seq) = pair;
        match (before, line.running_seq) {
            (None, None) => {}
            (Some(Some(running_seq)), Some(named)) if named == running_seq => {}
            (None, Some(named)) => self.report(format!(
                "seq {}: completes {named}, which is no running line of connection {conn}",
                line.seq
            )),
            (Some(_), _) => self
                .report(format!("seq {}: connection {conn} has number {conn_seq} twice", line.seq)),
        }
    }

    fn report(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Number of the last line.
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// The violations; empty if everything is right.
    pub fn finish(mut self) -> Vec<String> {
        let untold = self.problem_count - self.problems.len() as u64;
        if untold > 0 {
            self.problems.push(format!("and {untold} more"));
        }
        self.problems
    }
}

/// `2026-03-29T02:59:59.123456+02:00`: microseconds and a numeric offset, always.
fn is_timestamp(text: &str) -> bool {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd.dddddd+dd:dd";
    text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'+' => byte == b'+' || byte == b'-',
            other => byte == *other,
        })
}

/// Names of log files in a directory that end with `ending`.
///
/// # Panics
/// The directory cannot be read.
pub fn file_names(log: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(log).expect("the log").map(|entry| entry.expect("an entry"));
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("audit-") && name.ends_with(ending)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TS: &str = "2026-03-29T02:59:59.123456+02:00";

    fn write_log(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        for (file, text) in files {
            fs::write(directory.join(file), text).expect("a file");
        }
        directory
    }

    fn check(lines: &[String]) -> Vec<String> {
        let mut invariants = Invariants::default();
        for text in lines {
            invariants.see(&serde_json::from_str(text).expect("a line"));
        }
        invariants.finish()
    }

    fn line(seq: u64, rest: &str) -> String {
        format!(r#"{{"v":1,"seq":{seq},"ts":"{TS}",{rest}}}"#)
    }

    #[test]
    fn reads_files_in_order_and_counts_tags() {
        let directory = write_log(
            "tacho-log-order",
            &[
                (
                    "audit-20260102T000000Z-000002.jsonl",
                    &(line(2, r#""event":"statement","command":"Query","sql":"B /* id:r-1-2 */""#)
                        + "\n"),
                ),
                (
                    "audit-20260101T000000Z-000001.jsonl",
                    &(line(1, r#""event":"statement","command":"Query","sql":"A\n'id:r-1-1'""#)
                        + "\n"),
                ),
                ("audit-20260101T000000Z-000001.jsonl.chain", "not a log"),
            ],
        );
        let mut counter = TagCounter::new("r");
        let mut seqs = Vec::new();
        let bytes = read(&directory, |line, _| {
            seqs.push(line.seq);
            counter.see(line);
        })
        .expect("a readable log");
        assert_eq!(seqs, [1, 2]);
        assert!(bytes > 100);
        let counts = counter.finish();
        assert_eq!(counts.len(), 2);
        let tag = Tag { id: "r-1-2".to_owned(), command: Command::Query };
        assert_eq!(counts.get(&tag), Some(&1));
        fs::remove_dir_all(directory).expect("removing");
    }

    #[test]
    fn refuses_what_is_not_one_object_per_line() {
        let good = line(1, r#""event":"start""#);
        let two = format!("{good}{good}\n");
        let cut = good.clone();
        let raw_control = line(1, "\"event\":\"a\u{1}b\"") + "\n";
        let array = format!("[{good}]\n");
        for (name, text) in [("two", two), ("cut", cut), ("raw", raw_control), ("array", array)] {
            let directory = write_log(
                &format!("tacho-log-{name}"),
                &[("audit-20260101T000000Z-000001.jsonl", &text)],
            );
            assert!(read(&directory, |_, _| {}).is_err(), "{name} was accepted");
            fs::remove_dir_all(directory).expect("removing");
        }
    }

    #[test]
    fn accepts_a_good_log_with_a_restart_and_a_long_statement() {
        let problems = check(&[
            line(1, r#""event":"start""#),
            line(2, r#""event":"statement","conn":3,"conn_seq":1,"outcome":"running""#),
            line(3, r#""event":"statement","conn":4,"conn_seq":1,"outcome":"ok""#),
            line(4, r#""event":"statement","conn":3,"conn_seq":1,"running_seq":2"#),
            line(5, r#""event":"start""#),
            line(6, r#""event":"statement","conn":3,"conn_seq":1,"outcome":"ok""#),
        ]);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn reports_gaps_doubles_and_bad_times() {
        let gap = check(&[line(1, r#""event":"start""#), line(3, r#""event":"stop""#)]);
        assert!(gap[0].contains("seq 3 follows 1"), "{gap:?}");
        let statement = r#""event":"statement","conn":3,"conn_seq":1"#;
        let double = check(&[line(1, statement), line(2, statement)]);
        assert!(double[0].contains("twice"), "{double:?}");
        let orphan = check(&[line(1, &format!(r#"{statement},"running_seq":9"#))]);
        assert!(orphan[0].contains("no running line"), "{orphan:?}");
        let twice = check(&[
            line(1, &format!(r#"{statement},"outcome":"running""#)),
            line(2, &format!(r#"{statement},"running_seq":1"#)),
            line(3, &format!(r#"{statement},"running_seq":1"#)),
        ]);
        assert!(twice[0].contains("seq 3") && twice[0].contains("twice"), "{twice:?}");
        let time = check(&[r#"{"v":1,"seq":1,"ts":"2026-03-29 02:59:59","event":"a"}"#.to_owned()]);
        assert!(time[0].contains("time"), "{time:?}");
    }
}
