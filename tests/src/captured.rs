//! A capture beside a server, and its log compared with that of the server's plugin.
//!
//! Both logs must have the same lines for each connection over TCP. `docs/guide/capture.md` lists
//! the differences, and [`is_explained`] has those of them that are not about whole lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::hub::Process;
use crate::{log, program, wait};

/// The address of all clients: they are on this machine.
pub(crate) const CLIENT: &str = "127.0.0.1";

/// `tacho capture` of an interface.
#[derive(Debug)]
pub struct Capture {
    process: Process,
    log: PathBuf,
}

impl Capture {
    /// Captures the packets of the server on this port of the loopback interface, with its log and
    /// its messages in a directory, which is made.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(port: u16, directory: &Path) -> Result<Self> {
        Self::start_with(port, directory, &[])
    }

    /// The same with more options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(port: u16, directory: &Path, options: &[&str]) -> Result<Self> {
        Self::start_on("lo", &format!("{CLIENT}:{port}"), directory, options)
    }

    /// The same of another interface and server (`--server`).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        interface: &str,
        server: &str,
        directory: &Path,
        options: &[&str],
    ) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let (log, messages) = (directory.join("log"), directory.join("capture.err"));
        let mut command = tacho();
        command
            .args(["--interface", interface, "--server", server, "--utc", "--metrics-file"])
            .arg(metrics(directory))
            .args(options)
            .arg("--log")
            .arg(&log);
        let mark = format!("capturing on {interface}");
        let process = start("tacho capture", &mut command, &messages, &mark)?;
        Ok(Self { process, log })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its log directory.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Suspends it, or resumes it.
    ///
    /// # Errors
    /// It has ended.
    pub fn pause(&self, is_paused: bool) -> Result<()> {
        self.process.pause(is_paused)
    }

    /// Ends it. Packets that the kernel has not handed over yet are not recorded: wait for the end
    /// of the sessions before.
    ///
    /// # Errors
    /// It does not end in the orderly way.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

impl Drop for Capture {
    /// Orderly, or its arena would stay in memory.
    fn drop(&mut self) {
        // It fails if it has ended before.
        let _ = self.process.stop();
    }
}

/// The file with the counters of a capture in this directory.
#[must_use]
pub fn metrics(directory: &Path) -> PathBuf {
    directory.join("capture.prom")
}

/// A counter, without its prefix: `packets_total`. `None`: it is not written yet.
#[must_use]
pub fn counter(directory: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(metrics(directory)).ok()?;
    let wanted = format!("tacho_capture_{name}{{");
    let line = text.lines().find(|line| line.starts_with(&wanted))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// tcpdump on the loopback interface.
#[derive(Debug)]
pub struct PacketFile {
    process: Process,
    path: PathBuf,
}

impl PacketFile {
    /// Writes the packets of the server on this port to a file in a directory, which is made.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(port: u16, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join("packets.pcap");
        let mut command = Command::new("tcpdump");
        command
            .args(["-i", "lo", "-U", "-B", "65536", "-s", "0", "-w"])
            .arg(&path)
            .arg(format!("tcp port {port}"));
        let messages = directory.join("tcpdump.err");
        let process = start("tcpdump", &mut command, &messages, "listening on lo")?;
        Ok(Self { process, path })
    }

    /// Ends it when the file has the end of so many sessions.
    ///
    /// # Errors
    /// It does not end in the orderly way.
    ///
    /// # Panics
    /// They never come.
    pub fn stop_after(&mut self, count: usize) -> Result<&Path> {
        wait::until("all sessions have an end in the packet file", || {
            // It may end within a packet.
            let output = tacho().arg("--read").arg(&self.path).output().expect("tacho");
            let text = String::from_utf8_lossy(&output.stdout);
            text.matches(r#""event":"disconnect""#).count() >= count
        });
        self.process.stop()?;
        Ok(&self.path)
    }
}

fn tacho() -> Command {
    let mut command = Command::new(program("tacho"));
    command.arg("capture");
    command
}

/// Starts a program, and waits until it prints this.
fn start(
    name: &'static str,
    command: &mut Command,
    messages: &Path,
    mark: &str,
) -> Result<Process> {
    command.stdin(Stdio::null()).stderr(File::create(messages)?);
    let mut process = Process::start(name, command)?;
    let text = || fs::read_to_string(messages).unwrap_or_default();
    wait::until("it has started, or ended", || text().contains(mark) || !process.is_running());
    ensure!(text().contains(mark), "{name} has not started: {}", text());
    Ok(process)
}

/// The lines of each connection over TCP, in their order.
pub type Sessions = BTreeMap<u64, Vec<Value>>;

/// Waits until both logs have the end of so many sessions over TCP.
///
/// # Panics
/// One of them never has, or declares that something is lost.
pub fn wait_for_ends(plugin: &Path, captured: &Path, count: usize) {
    for log in [plugin, captured] {
        wait::until("all sessions have an end in the log", || ended(log) >= count);
    }
}

/// A log that is being written may end within a line: then it cannot be read yet. The ends of
/// sessions of which something was lost may never come.
fn ended(directory: &Path) -> usize {
    let mut count = 0;
    let address = format!(r#""ip":"{CLIENT}""#);
    let read = log::read(directory, |line, text| {
        assert_ne!(line.event, "lost", "{text}");
        count += usize::from(line.event == "disconnect" && text.contains(&address));
    });
    read.map_or(0, |_| count)
}

/// Reads them from a log, which must not declare that something is lost.
///
/// # Panics
/// It does, or it cannot be read.
#[must_use]
pub fn sessions(directory: &Path) -> Sessions {
    const EVENTS: [&str; 5] =
        ["statement", "connect", "connect_failed", "change_user", "disconnect"];
    let mut sessions = Sessions::new();
    log::read(directory, |line, text| {
        assert_ne!(line.event, "lost", "{text}");
        let value = serde_json::from_str::<Value>(text).expect("JSON");
        if let Some(conn) = line.conn.filter(|_| EVENTS.contains(&&*line.event))
            && value["ip"] == CLIENT
        {
            sessions.entry(conn).or_default().push(value);
        }
    })
    .expect("a readable log");
    for lines in sessions.values_mut() {
        complete(lines);
        lines.sort_by_key(|line| line["conn_seq"].as_u64());
    }
    sessions
}

/// All lines of a log, in their order. A `running` line and the one that completes it are one.
///
/// # Panics
/// It cannot be read.
#[must_use]
pub fn lines(directory: &Path) -> Vec<Value> {
    let mut lines = Vec::new();
    log::read(directory, |_, text| lines.push(serde_json::from_str(text).expect("JSON")))
        .expect("a readable log");
    complete(&mut lines);
    lines
}

/// How often a log has this text so far. Its last line may not be complete yet.
///
/// # Panics
/// It cannot be read.
#[must_use]
pub fn count(directory: &Path, text: &str) -> usize {
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a log file");
    let files = log::files(directory).expect("the log");
    files.iter().map(|path| read(path).matches(text).count()).sum()
}

/// Makes one line of a `running` line and the one that completes it.
fn complete(lines: &mut Vec<Value>) {
    let (later, mut whole): (Vec<Value>, Vec<Value>) =
        std::mem::take(lines).into_iter().partition(|line| line["running_seq"].is_u64());
    for line in later {
        let begun = whole.iter_mut().find(|begun| begun["seq"] == line["running_seq"]);
        if let (Some(Value::Object(begun)), Value::Object(line)) = (begun, line) {
            begun.extend(line);
        }
    }
    *lines = whole;
}

/// Fields that both logs must have alike.
const FIELDS: [&str; 13] = [
    "event",
    "user",
    "db",
    "command",
    "sql",
    "sql_b64",
    "sql_charset",
    "outcome",
    "errno",
    "sqlstate",
    "error",
    "rows_sent",
    "rows_affected",
];

/// # Panics
/// The logs differ in something that [`is_explained`] does not know.
pub fn assert_same(plugin: &Sessions, captured: &Sessions) {
    let mut differences = Vec::new();
    let none = Vec::new();
    for conn in plugin.keys().chain(captured.keys()).collect::<BTreeSet<_>>() {
        let one = plugin.get(conn).unwrap_or(&none);
        let other = without_refused_end(captured.get(conn).unwrap_or(&none), one);
        let one = as_captured(one, other);
        if one.len() != other.len() {
            differences.push(format!("{conn}: {} and {} lines", one.len(), other.len()));
        }
        for (one, other) in one.iter().zip(other) {
            let differs =
                |field: &&str| one[*field] != other[*field] && !is_explained(field, one, other);
            if let Some(field) = FIELDS.into_iter().find(differs) {
                differences.push(format!("{field}:\nplugin  {one}\ncapture {other}"));
            }
        }
    }
    let shown = differences.iter().take(20).map(String::as_str).collect::<Vec<_>>();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

/// Differences of fields that the guide lists ("Compared with the plugin").
fn is_explained(field: &str, plugin: &Value, captured: &Value) -> bool {
    let is = |name: &str, value: &str| captured[name] == value;
    let is_unknown = plugin[field].is_null();
    let is_refused =
        is("event", "connect_failed") || is("event", "change_user") && is("outcome", "error");
    match field {
        "error" | "sqlstate" | "db" if is_refused => is_unknown,
        // MySQL repeats a part of a statement with its bytes, but gives its plugins another text.
        "error" => {
            let text = plugin[field].as_str().unwrap_or_default();
            text.ends_with("to use near <redacted>") && captured["error_b64"].is_string()
        }
        // Of a connection whose login was refused because there is no such database.
        "db" if is("event", "disconnect") => is_unknown && is("db", "nosuch"),
        "db" => is("command", "Init DB") && plugin["db"] == captured["sql"],
        "sql" | "sql_b64" if is("command", "Execute") => has_parameters(plugin, captured),
        "sql" | "sql_charset" => is("command", "Init DB") && is_unknown,
        "command" => is("command", "Reset connection") && plugin[field] == "Reset Connection",
        "rows_sent" => {
            let text = captured["sql"].as_str().unwrap_or_default();
            text.starts_with("ANALYZE TABLE") && plugin[field] == 0
        }
        _ => false,
    }
}

/// Without the end of a refused login, which MySQL's plugins do not record.
fn without_refused_end<'v>(captured: &'v [Value], plugin: &[Value]) -> &'v [Value] {
    match captured {
        [refused, end] if refused["event"] == "connect_failed" && plugin.len() == 1 => {
            assert_eq!(end["event"], "disconnect", "{end}");
            &captured[..1]
        }
        _ => captured,
    }
}

/// Whether the plugin's text is the captured one with something in place of each `?`.
fn has_parameters(plugin: &Value, captured: &Value) -> bool {
    let (Some(mut filled), Some(text)) = (plugin["sql"].as_str(), captured["sql"].as_str()) else {
        return false;
    };
    let mut parts = text.split('?');
    let first = parts.next().unwrap_or_default();
    let Some(rest) = filled.strip_prefix(first) else { return false };
    filled = rest;
    for part in parts {
        let Some(at) = filled.find(part) else { return false };
        filled = &filled[at + part.len()..];
    }
    text.ends_with('?') || filled.is_empty()
}

/// The plugin's lines of a session in the form of a capture, which has one record for a packet with
/// several statements, and none for the command that changes the user beside the change itself.
fn as_captured(plugin: &[Value], captured: &[Value]) -> Vec<Value> {
    let mut lines: Vec<Value> = Vec::new();
    for line in plugin.iter().filter(|line| line["command"] != "Change user") {
        let last = lines.len().checked_sub(1);
        let packet = last.and_then(|at| joined(&lines[at], line, captured.get(at)?));
        match (last, packet) {
            (Some(at), Some(packet)) => lines[at] = packet,
            _ => lines.push(line.clone()),
        }
    }
    lines
}

/// A statement, and the one behind it in the same packet, as one line; `None`: the packet that was
/// captured does not continue with it.
fn joined(before: &Value, next: &Value, captured: &Value) -> Option<Value> {
    let text = |line: &Value| line["sql"].as_str().map(str::to_owned);
    let (mut sql, packet) = (text(before)?, text(captured)?);
    let rest = packet.strip_prefix(&sql)?;
    let following = rest.trim_start_matches([';', ' ', '\n', '\t']);
    let own = text(next)?;
    if following.len() == rest.len() || !following.starts_with(&own) {
        return None;
    }
    sql.push_str(&rest[..rest.len() - following.len()]);
    sql.push_str(&own);
    let mut line = before.clone();
    line["sql"] = sql.into();
    for field in ["outcome", "errno", "sqlstate", "error"] {
        line[field] = next[field].clone();
    }
    for field in ["rows_sent", "rows_affected"] {
        let counts = [before, next].map(|line| line[field].as_u64());
        let sum = counts.iter().flatten().sum::<u64>();
        line[field] = if counts == [None; 2] { Value::Null } else { sum.into() };
    }
    if line["outcome"] == "error" {
        // Whatever the statements before it have changed: there is no OK packet at the end.
        line["rows_affected"] = Value::Null;
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(values: &[Value]) -> Sessions {
        Sessions::from([(7, values.to_vec())])
    }

    #[test]
    fn statements_of_one_packet_are_one_line_of_a_capture() {
        let plugin = lines(&[
            json!({"command": "Query", "sql": "DO 1", "outcome": "ok", "rows_affected": 2}),
            json!({"command": "Query", "sql": "SELECT 1", "outcome": "ok", "rows_sent": 1}),
            json!({"command": "Query", "sql": "SELECT 1", "outcome": "ok", "rows_sent": 1}),
            json!({"command": "Change user"}),
        ]);
        let packet = "DO 1 ; SELECT 1";
        let captured = lines(&[
            json!({"command": "Query", "sql": packet, "outcome": "ok", "rows_affected": 2,
                   "rows_sent": 1}),
            json!({"command": "Query", "sql": "SELECT 1", "outcome": "ok", "rows_sent": 1}),
        ]);
        assert_same(&plugin, &captured);
    }

    #[test]
    #[should_panic(expected = "2 differences")]
    fn other_fields_and_missing_lines_are_differences() {
        let plugin = lines(&[json!({"command": "Query", "sql": "A"}), json!({"sql": "B"})]);
        let captured = lines(&[json!({"command": "Query", "sql": "B"})]);
        assert_same(&plugin, &captured);
    }

    #[test]
    fn parameters_are_filled_in_at_their_places_only() {
        let line = |sql: &str| json!({"command": "Execute", "sql": sql});
        let captured = line("SELECT ? FROM t WHERE id = ?");
        let is_same = |sql: &str| is_explained("sql", &line(sql), &captured);
        assert!(is_same("SELECT 'a' FROM t WHERE id = 'x y'"));
        assert!(!is_same("SELECT 'a' FROM u WHERE id = 1"));
        assert!(!is_same("DELETE FROM t WHERE id = 1"));
        let captured = line("SELECT ? FROM t");
        assert!(!is_explained("sql", &line("SELECT 1 FROM t, u"), &captured));
    }

    #[test]
    fn a_running_line_is_completed() {
        let mut lines = vec![
            json!({"seq": 4, "sql": "A", "outcome": "running"}),
            json!({"seq": 5, "running_seq": 4, "outcome": "ok"}),
        ];
        complete(&mut lines);
        assert_eq!(lines.len(), 1);
        assert_eq!((&lines[0]["sql"], &lines[0]["outcome"]), (&json!("A"), &json!("ok")));
    }
}
