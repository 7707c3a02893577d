//! The kernel's counters of a process and the machine, for a server on this machine.
//!
//! Everything is a counter since the start of the process or machine; a block is the
//! difference of two readings.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use anyhow::{Context, Result, ensure};
use procfs::process::{Process, Task};
use procfs::{
    CpuInfo, Current, CurrentSI, KernelStats, LoadAverage, Meminfo, ProcError, ProcResult,
};

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
/// The process has ended, or /proc is not readable.
pub fn read_process(pid: u32) -> Result<ProcessTimes> {
    // First, next to the counter of queries: reading the threads takes long.
    let cpu_ns = cpu_clock_ns(pid)?;
    let process = Process::new(pid.try_into().context("a process id")?)?;
    let stat = process.stat()?;
    let mut threads = BTreeMap::new();
    for task in process.tasks()? {
        match task.and_then(|task| Ok((task.tid, thread_times(&task)?))) {
            Ok((tid, times)) => {
                threads.insert(tid.try_into().context("a thread id")?, times);
            }
            // The thread has ended since it was listed.
            Err(ProcError::NotFound(_)) => {}
            Err(ProcError::Io(error, _)) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error).with_context(|| format!("a thread of process {pid}")),
        }
    }
    Ok(ProcessTimes { cpu_ns, user_ticks: stat.utime, sys_ticks: stat.stime, threads })
}

fn thread_times(task: &Task) -> ProcResult<ThreadTimes> {
    let (times, status) = (task.schedstat()?, task.status()?);
    Ok(ThreadTimes {
        comm: status.name,
        run_ns: times.sum_exec_runtime,
        wait_ns: times.run_delay,
        voluntary_switches: status.voluntary_ctxt_switches.unwrap_or(0),
        involuntary_switches: status.nonvoluntary_ctxt_switches.unwrap_or(0),
    })
}

/// The kernel's clock of the processor time of a process: to the ns, and with the threads that
/// have ended, which /proc has only in ticks of 10 ms.
///
/// # Errors
/// The process has ended.
pub(crate) fn cpu_clock_ns(pid: u32) -> Result<u64> {
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
    let cpu = KernelStats::current().ok().map(|stat| stat.total);
    let ticks = cpu.as_ref().map_or(0, |cpu| {
        // The time of guests is in `user` and `nice` already.
        let rest = [cpu.iowait, cpu.irq, cpu.softirq, cpu.steal];
        cpu.user + cpu.nice + cpu.system + cpu.idle + rest.iter().flatten().sum::<u64>()
    });
    MachineTimes {
        steal_ticks: cpu.and_then(|cpu| cpu.steal),
        ticks,
        pressure_cpu_us: pressure_us("cpu"),
        pressure_io_us: pressure_us("io"),
        pressure_memory_us: pressure_us("memory"),
    }
}

/// Not by `procfs`, which needs the line `full` that Linux has for processors since 5.13.
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
    let model = CpuInfo::current().ok().and_then(|cpu| cpu.model_name(0).map(str::to_owned));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        model: model.unwrap_or_else(|| "unknown".to_owned()),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        kernel: release.trim().to_owned(),
        load_average: LoadAverage::current().map_or(0.0, |load| f64::from(load.one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
