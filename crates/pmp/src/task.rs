//! What the kernel reports of a thread without disturbing it: files under `/proc/<pid>/task`.
//!
//! Not by the crate `procfs`: a sample reads one line of one file for each thread, hundreds of
//! times a second. `procfs` opens a directory for each thread first, and one more for its list.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A thread's id.
pub type Tid = i32;

/// The `/proc` directory of one process.
#[derive(Clone, Debug)]
pub struct Tasks {
    pid: Tid,
}

/// How often and how long a thread ran. A sleeping thread whose numbers have not changed has not
/// run in between: its stack is unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time of waiting for a CPU with something to do.
    pub wait_ns: u64,
    /// How often it got a CPU.
    pub turns: u64,
}

/// The location of a thread, as the kernel reports it without stopping it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// On a CPU, or ready for one: its registers cannot be read from outside.
    Running,
    /// In the kernel, off the CPU.
    Blocked {
        /// Number of the system call; negative: not in one (a page fault).
        syscall: i64,
        /// Its arguments.
        arguments: [u64; 6],
        /// Stack pointer when it left user space.
        sp: u64,
        /// Program counter when it left user space.
        pc: u64,
    },
}

/// Name and state letter of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The thread's own name.
    pub name: String,
    /// `R`, `S`, `D`, … as in `ps`.
    pub state: char,
}

impl Tasks {
    /// The tasks of this process.
    pub fn new(pid: Tid) -> Self {
        Self { pid }
    }

    /// Process id.
    pub fn pid(&self) -> Tid {
        self.pid
    }

    /// The current threads.
    ///
    /// # Errors
    /// The process has ended.
    pub fn list(&self) -> io::Result<Vec<Tid>> {
        let mut tids = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            // Only numeric names are threads.
            if let Some(tid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                tids.push(tid);
            }
        }
        Ok(tids)
    }

    /// How much a thread ran.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn ran(&self, tid: Tid) -> io::Result<Ran> {
        let text = self.read(tid, "schedstat")?;
        let ran = parse_ran(&text).ok_or_else(|| unexpected("schedstat", &text))?;
        if ran != Ran::default() {
            return Ok(ran);
        }
        // A kernel without the counters (CONFIG_SCHED_INFO) shows zeros.
        let text = self.read(tid, "status")?;
        let turns = parse_switches(&text).ok_or_else(|| unexpected("status", &text))?;
        Ok(Ran { turns, ..Ran::default() })
    }

    /// The location of a thread.
    ///
    /// # Errors
    /// The thread has ended, or permission is denied.
    pub fn place(&self, tid: Tid) -> io::Result<Whereabouts> {
        let text = self.read(tid, "syscall")?;
        parse_place(&text).ok_or_else(|| unexpected("syscall", &text))
    }

    /// Name and state.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn stat(&self, tid: Tid) -> io::Result<Stat> {
        let text = self.read(tid, "stat")?;
        parse_stat(&text).ok_or_else(|| unexpected("stat", &text))
    }

    /// The kernel function in which a thread waits, if the kernel reports it.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn wait_channel(&self, tid: Tid) -> io::Result<Option<String>> {
        let text = self.read(tid, "wchan")?;
        Ok(if text.is_empty() || text == "0" { None } else { Some(text) })
    }

    /// The tracer of the process, if there is one.
    ///
    /// # Errors
    /// The process has ended.
    pub fn tracer(&self) -> io::Result<Option<Tid>> {
        let text = self.read(self.pid, "status")?;
        let tracer = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        Ok(tracer.and_then(|tid| tid.trim().parse().ok()).filter(|tid| *tid != 0))
    }

    fn read(&self, tid: Tid, file: &str) -> io::Result<String> {
        let path: PathBuf = format!("/proc/{}/task/{tid}/{file}", self.pid).into();
        // Thread names may contain any bytes.
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }
}

fn unexpected(file: &str, text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected text in {file}: {text:?}"))
}

fn parse_ran(text: &str) -> Option<Ran> {
    let mut words = text.split_ascii_whitespace();
    let run_ns = words.next()?.parse().ok()?;
    let wait_ns = words.next()?.parse().ok()?;
    let turns = words.next()?.parse().ok()?;
    Some(Ran { run_ns, wait_ns, turns })
}

/// How often a thread left a CPU.
fn parse_switches(status: &str) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some(number("voluntary_ctxt_switches:")? + number("nonvoluntary_ctxt_switches:")?)
}

fn parse_place(text: &str) -> Option<Whereabouts> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Whereabouts::Running);
    }
    let syscall: i64 = first.parse().ok()?;
    let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    if syscall >= 0 {
        for argument in &mut arguments {
            *argument = hex()?;
        }
    }
    Some(Whereabouts::Blocked { syscall, arguments, sp: hex()?, pc: hex()? })
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may contain parentheses itself.
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let state = text.get(close + 1..)?.trim_start().chars().next()?;
    Some(Stat { name: text.get(open + 1..close)?.to_owned(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_lines() {
        let ran = Ran { run_ns: 19226, wait_ns: 17, turns: 5 };
        assert_eq!(parse_ran("19226 17 5\n"), Some(ran));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!(parse_switches(status), Some(155));
        assert_eq!(parse_place("running\n"), Some(Whereabouts::Running));
        let text = "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f22\n";
        let place = Whereabouts::Blocked {
            syscall: 202,
            arguments: [0x7f01, 0x189, 0, 0, 0, 0xffff_ffff],
            sp: 0x7f_fd10,
            pc: 0x7f22,
        };
        assert_eq!(parse_place(text), Some(place));
        let fault = Whereabouts::Blocked { syscall: -1, arguments: [0; 6], sp: 1, pc: 2 };
        assert_eq!(parse_place("-1 0x1 0x2\n"), Some(fault));
        assert_eq!(parse_place("202 0x7f01"), None);
        let stat = parse_stat("12 (a (b) c) S 1 12").expect("a stat line");
        assert_eq!(stat, Stat { name: "a (b) c".to_owned(), state: 'S' });
    }

    #[test]
    fn knows_its_own_thread() {
        let pid = std::process::id() as Tid;
        let tasks = Tasks::new(pid);
        let tids = tasks.list().expect("our threads");
        assert!(tids.contains(&pid));
        assert!(tasks.ran(tids[0]).is_ok());
        assert!(tasks.ran(-1).is_err());
    }
}
