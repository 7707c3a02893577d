//! The kernel's counters of a process and the machine, for a server on this machine.
//!
//! Everything is a counter since the start of the process or machine; a block is the
//! difference of two readings.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Name of the thread that writes tacho's log.
pub const WRITER_COMM: &str = "tacho-writer";

/// Counters of one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTimes {
    /// Its name.
    pub comm: String,
    /// Time on a processor, ns.
    pub run_ns: u64,
    /// Time ready, but waiting for a processor, ns.
    pub wait_ns: u64,
    /// How often it gave up the processor.
    pub voluntary_switches: u64,
    /// How often the processor was taken away.
    pub involuntary_switches: u64,
}

/// Counters of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessTimes {
    /// All threads, including those that have ended, ns.
    pub cpu_ns: u64,
    /// In user mode, clock ticks.
    pub user_ticks: u64,
    /// In the kernel, clock ticks.
    pub sys_ticks: u64,
    /// The living threads.
    pub threads: BTreeMap<u32, ThreadTimes>,
}

/// Reads the counters of a process.
///
/// # Errors
/// It has ended, or /proc is not readable.
pub fn read_process(pid: u32) -> Result<ProcessTimes> {
    let directory = format!("/proc/{pid}");
    // Immediately, next to the counter of queries; reading the threads takes longer.
    let cpu_ns = cpu_clock_ns(pid)?;
    let stat = fs::read_to_string(format!("{directory}/stat"))
        .with_context(|| format!("cannot read {directory}/stat"))?;
    let (user_ticks, sys_ticks) = parse_stat(&stat).context("the form of /proc/PID/stat")?;
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("{directory}/task"))? {
        let path = entry?.path();
        let Some(tid) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        match read_thread(&path) {
            Ok(times) => {
                threads.insert(tid, times);
            }
            // It has ended since it was listed.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        }
    }
    Ok(ProcessTimes { cpu_ns, user_ticks, sys_ticks, threads })
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn read_thread(directory: &Path) -> io::Result<ThreadTimes> {
    let schedstat = fs::read_to_string(directory.join("schedstat"))?;
    let mut numbers = schedstat.split_whitespace().map_while(|word| word.parse().ok());
    let status = fs::read_to_string(directory.join("status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default()
    };
    Ok(ThreadTimes {
        comm: field("Name").to_owned(),
        run_ns: numbers.next().unwrap_or(0),
        wait_ns: numbers.next().unwrap_or(0),
        voluntary_switches: field("voluntary_ctxt_switches").parse().unwrap_or(0),
        involuntary_switches: field("nonvoluntary_ctxt_switches").parse().unwrap_or(0),
    })
}

/// `utime` and `stime`. The name before them is in parentheses and may contain anything.
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut words = rest.split_whitespace().skip(11);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// The kernel's clock of a process's processor time: precise to the ns, and including the threads
/// that have ended, which /proc only has in ticks of 10 ms.
fn cpu_clock_ns(pid: u32) -> Result<u64> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to the local variable they are given and keep nothing.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    ensure!(!failed, "the processor clock of process {pid}: {}", io::Error::last_os_error());
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Counters of the machine. Those that the kernel does not have are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineTimes {
    /// Taken by other guests of the host, ticks of all processors.
    pub steal_ticks: Option<u64>,
    /// All ticks of all processors.
    pub ticks: u64,
    /// Some task waited for a processor, µs.
    pub pressure_cpu_us: Option<u64>,
    /// Some task waited for a disk, µs.
    pub pressure_io_us: Option<u64>,
    /// Some task waited for memory, µs.
    pub pressure_memory_us: Option<u64>,
}

/// Reads the counters of the machine.
pub fn read_machine() -> MachineTimes {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    MachineTimes {
        steal_ticks: ticks.get(7).copied(),
        // Guest time is already included in user and nice.
        ticks: ticks.iter().take(8).sum(),
        pressure_cpu_us: pressure_us("cpu"),
        pressure_io_us: pressure_us("io"),
        pressure_memory_us: pressure_us("memory"),
    }
}

fn pressure_us(of: &str) -> Option<u64> {
    // A kernel without PSI has no such file, or one that cannot be read.
    parse_pressure(&fs::read_to_string(format!("/proc/pressure/{of}")).ok()?)
}

fn parse_pressure(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// A description of the machine, for the report.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cpus: usize,
    /// Their model.
    pub model: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Tasks that were ready to run, averaged over the minute before the run.
    pub load_average: f64,
}

/// Describes this machine.
pub fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| -> String {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
        value.unwrap_or("unknown").to_owned()
    };
    let memory_kib = after(&read("/proc/meminfo"), "MemTotal");
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        model: after(&read("/proc/cpuinfo"), "model name"),
        memory_bytes: memory_kib.trim_end_matches(" kB").parse().unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load_average: read("/proc/loadavg")
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_have_any_name() {
        let stat = "42 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 77 33 0 0 20 0";
        assert_eq!(parse_stat(stat), Some((77, 33)));
        assert_eq!(parse_stat("42"), None);
    }

    #[test]
    fn reads_the_pressure() {
        let text = "some avg10=1.00 avg60=2.00 avg300=3.00 total=123\nfull avg10=0 total=4\n";
        assert_eq!(parse_pressure(text), Some(123));
        assert_eq!(parse_pressure(""), None);
    }

    #[test]
    fn this_process_uses_time() {
        let before = read_process(std::process::id()).expect("our own process");
        let mut x = 1_u64;
        for i in 0..3_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        let after = read_process(std::process::id()).expect("our own process");
        assert!(after.cpu_ns > before.cpu_ns, "{x}");
        assert!(after.threads.values().any(|thread| thread.run_ns > 0));
        assert!(read_process(u32::MAX >> 2).is_err());
        let machine = machine();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
        assert!(read_machine().ticks > 0);
    }
}
