//! Reads all counters at the edge of a block, and computes the difference of two edges.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::histogram::{Counts, Histogram};
use crate::lines::{Cpu, Latency, Measured, Pressure};
use crate::load::Load;
use crate::proc::{self, MachineTimes, ProcessTimes, WRITER_COMM};
use tacho_sandbox::client::{Conn, Queryable};

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// The server's process, if it is on this machine.
    pub pid: Option<u32>,
    /// The method's process beside the server.
    pub companion: Option<u32>,
    /// Threads that do not serve the load: they existed before it.
    pub rest: BTreeSet<u32>,
    /// Files of the method's log, `*` in the last part.
    pub log: Vec<PathBuf>,
    /// Status variable with the bytes that the method has written.
    pub bytes_status: Option<String>,
    /// Status variable with the records that the method has written.
    pub records_status: Option<String>,
}

/// All counters at nearly the same moment: each with its own time of reading.
#[derive(Debug)]
pub struct Edge {
    counts: Option<(Instant, Counts)>,
    /// Processor time at that moment.
    cpu_at_counts_ns: Option<u64>,
    questions: (Instant, u64),
    bytes: Option<u64>,
    records: Option<u64>,
    process: Option<ProcessTimes>,
    companion: Option<ProcessTimes>,
    machine: Option<(Instant, MachineTimes)>,
    log_bytes: Option<u64>,
}

impl Edge {
    /// Time of the reading.
    pub fn at(&self) -> Instant {
        self.questions.0
    }
}

impl Probe {
    /// Reads everything, always in the same order, so that reading takes equally long at both
    /// edges.
    ///
    /// # Errors
    /// The server reports an error, or has ended.
    pub fn read(&self, conn: &mut Conn, load: &Load) -> Result<Edge> {
        let counts = load.counts().map(|counts| (Instant::now(), counts));
        // Before the server is asked: on a busy machine its thread may lose the processor between
        // counting its queries and answering, for longer than a tenth of a block.
        let cpu_at_counts_ns = self.cpu_clocks_ns()?;
        let wanted =
            [Some("Questions".to_owned()), self.bytes_status.clone(), self.records_status.clone()];
        let names: Vec<String> = wanted.iter().flatten().map(|name| format!("'{name}'")).collect();
        let status: Vec<(String, String)> = conn
            .query(format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(",")))
            .context("cannot read the server's status")?;
        let number = |name: &Option<String>| -> Option<u64> {
            let name = name.as_ref()?;
            status.iter().find(|(found, _)| found == name)?.1.parse().ok()
        };
        let questions = number(&wanted[0]).context("the server has no status Questions")?;
        let questions = (Instant::now(), questions);
        let process = self.pid.map(proc::read_process).transpose()?;
        let companion = self.companion.map(proc::read_process).transpose()?;
        let machine = self.pid.map(|_| (Instant::now(), proc::read_machine()));
        let log_bytes = (self.pid.is_some() && !self.log.is_empty())
            .then(|| self.log.iter().map(|pattern| bytes_of(pattern)).sum());
        Ok(Edge {
            counts,
            cpu_at_counts_ns,
            questions,
            bytes: number(&wanted[1]),
            records: number(&wanted[2]),
            process,
            companion,
            machine,
            log_bytes,
        })
    }

    /// Processor time of the server, and of the method's process beside it.
    fn cpu_clocks_ns(&self) -> Result<Option<u64>> {
        let Some(pid) = self.pid else { return Ok(None) };
        let companion = self.companion.map_or(Ok(0), proc::cpu_clock_ns)?;
        Ok(Some(proc::cpu_clock_ns(pid)? + companion))
    }

    /// The differences between two edges, and the latencies of its events.
    pub fn between(&self, from: &Edge, to: &Edge) -> (Measured, Histogram) {
        let queries = to.questions.1.saturating_sub(from.questions.1);
        let seconds = (to.questions.0 - from.questions.0).as_secs_f64();
        let mut measured =
            Measured { queries, qps: queries as f64 / seconds, ..Measured::default() };
        let mut histogram = Histogram::default();
        if let (Some((start, before)), Some((end, after))) = (&from.counts, &to.counts) {
            let counts = after.since(before);
            let seconds = (*end - *start).as_secs_f64();
            measured.events = Some(counts.done);
            measured.tps = Some(counts.done as f64 / seconds);
            measured.retried = Some(counts.retried);
            measured.latency = latency(&counts.histogram);
            histogram = counts.histogram;
            let cpu_ns = to.cpu_at_counts_ns.zip(from.cpu_at_counts_ns);
            measured.events_cpu_s = cpu_ns.map(|(to, from)| self::seconds(to.saturating_sub(from)));
        }
        if let (Some(before), Some(after)) = (&from.process, &to.process) {
            let mut cpu = self.cpu(before, after);
            if let (Some(before), Some(after)) = (&from.companion, &to.companion) {
                add_companion(&mut cpu, before, after);
            }
            measured.cpu = Some(cpu);
        }
        if let (Some((start, before)), Some((end, after))) = (&from.machine, &to.machine) {
            measured.pressure = Some(pressure(before, after, (*end - *start).as_secs_f64()));
        }
        // A log that has become smaller was rotated: its growth is unknown.
        let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
        measured.log_bytes = grown(from.log_bytes, to.log_bytes);
        measured.bytes_written = grown(from.bytes, to.bytes);
        measured.records_written = grown(from.records, to.records);
        (measured, histogram)
    }

    fn cpu(&self, before: &ProcessTimes, after: &ProcessTimes) -> Cpu {
        let (mut writer, mut rest, mut wait) = (0, 0, 0);
        let (mut voluntary, mut involuntary) = (0, 0);
        for (tid, now) in &after.threads {
            // A reused thread id is another thread, with smaller counters.
            let then = before.threads.get(tid).filter(|then| then.run_ns <= now.run_ns);
            let since =
                |of: fn(&proc::ThreadTimes) -> u64| of(now).saturating_sub(then.map_or(0, of));
            let run = since(|thread| thread.run_ns);
            if now.comm == WRITER_COMM {
                writer += run;
            } else if self.rest.contains(tid) {
                rest += run;
            }
            wait += since(|thread| thread.wait_ns);
            voluntary += since(|thread| thread.voluntary_switches);
            involuntary += since(|thread| thread.involuntary_switches);
        }
        let total = after.cpu_ns.saturating_sub(before.cpu_ns);
        let user_s = user_seconds(before, after);
        Cpu {
            total_s: seconds(total),
            user_s,
            sys_s: seconds(total) - user_s,
            // This includes threads that have ended.
            query_s: seconds(total.saturating_sub(writer + rest)),
            writer_s: seconds(writer),
            rest_s: seconds(rest),
            wait_s: seconds(wait),
            voluntary_switches: voluntary,
            involuntary_switches: involuntary,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Time of a process in user mode. Its clock is exact, the ticks of the two modes are not: they
/// only divide it.
fn user_seconds(before: &ProcessTimes, after: &ProcessTimes) -> f64 {
    let user = after.user_ticks.saturating_sub(before.user_ticks) as f64;
    let sys = after.sys_ticks.saturating_sub(before.sys_ticks) as f64;
    let share = if user + sys > 0.0 { user / (user + sys) } else { 1.0 };
    seconds(after.cpu_ns.saturating_sub(before.cpu_ns)) * share
}

/// The work of a process beside the server counts as the writer's.
fn add_companion(cpu: &mut Cpu, before: &ProcessTimes, after: &ProcessTimes) {
    let total_s = seconds(after.cpu_ns.saturating_sub(before.cpu_ns));
    let user_s = user_seconds(before, after);
    cpu.total_s += total_s;
    cpu.user_s += user_s;
    cpu.sys_s += total_s - user_s;
    cpu.writer_s += total_s;
}

fn latency(histogram: &Histogram) -> Option<Latency> {
    let us = |q: f64| Some(histogram.quantile(q)? / 1e3);
    Some(Latency { p50_us: us(0.5)?, p95_us: us(0.95)?, p99_us: us(0.99)?, p999_us: us(0.999)? })
}

fn pressure(before: &MachineTimes, after: &MachineTimes, seconds: f64) -> Pressure {
    let share_us = |before: Option<u64>, after: Option<u64>| {
        Some(after?.checked_sub(before?)? as f64 / 1e6 / seconds)
    };
    let ticks = after.ticks.saturating_sub(before.ticks) as f64;
    let steal = match (before.steal_ticks, after.steal_ticks) {
        (Some(before), Some(after)) if ticks > 0.0 => {
            Some(after.saturating_sub(before) as f64 / ticks)
        }
        _ => None,
    };
    Pressure {
        steal,
        cpu: share_us(before.pressure_cpu_us, after.pressure_cpu_us),
        io: share_us(before.pressure_io_us, after.pressure_io_us),
        memory: share_us(before.pressure_memory_us, after.pressure_memory_us),
    }
}

/// Files that match a path with `*` in its last part.
pub fn files_of(pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    // If it is missing or not readable, its size is unknown.
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            matches(&name, &entry.file_name().to_string_lossy()).then(|| entry.path())
        })
        .collect()
}

fn bytes_of(pattern: &Path) -> u64 {
    files_of(pattern).iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::ThreadTimes;

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("audit-*.jsonl", "audit-1.jsonl"));
        assert!(matches("a*b*", "axxbyy") && matches("*", "") && matches("a", "a"));
        assert!(!matches("audit-*.jsonl", "audit-1.json") && !matches("a", "ab"));
    }

    #[test]
    fn processor_time_goes_to_the_right_threads() {
        let thread = |comm: &str, run_ns| ThreadTimes {
            comm: comm.to_owned(),
            run_ns,
            wait_ns: run_ns / 2,
            voluntary_switches: 3,
            involuntary_switches: 1,
        };
        let before = ProcessTimes {
            cpu_ns: 1_000_000_000,
            user_ticks: 80,
            sys_ticks: 20,
            threads: [(1, thread("mariadbd", 100)), (2, thread("mariadbd", 5_000_000_000))].into(),
        };
        let after = ProcessTimes {
            cpu_ns: 2_000_000_000,
            user_ticks: 110,
            sys_ticks: 30,
            threads: [
                (1, thread("mariadbd", 100_000_100)),
                // The previous thread 2 has ended; this is a new one with the same id.
                (2, thread("mariadbd", 300_000_000)),
                (3, thread(WRITER_COMM, 200_000_000)),
            ]
            .into(),
        };
        let probe = Probe { rest: [1].into(), ..Probe::default() };
        let cpu = probe.cpu(&before, &after);
        assert_eq!((cpu.total_s, cpu.writer_s, cpu.rest_s, cpu.query_s), (1.0, 0.2, 0.1, 0.7));
        assert_eq!((cpu.user_s, cpu.sys_s), (0.75, 0.25));
        assert_eq!((cpu.voluntary_switches, cpu.involuntary_switches), (6, 2));
    }
}
