//! Where a process computes, or how long and why it waits, measured by kernel probes: with kernel
//! functions, and waits are measured completely, not sampled. The program `bpftrace` does the work;
//! it needs root.
//!
//! The kernel follows frame pointers. Functions without one are missing in the user part of a
//! stack, and so may be their callers.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::folded::Folded;
use crate::modules::Modules;
use crate::task::Tid;

/// Samples per second on each CPU; not a round number, to avoid the kernel's own ticks.
const ON_CPU_HZ: u32 = 99;

/// Path of the kernel's list of tracepoints, if it is mounted.
const TRACEFS: &str = "/sys/kernel/tracing";

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Where it computes: samples.
    OnCpu,
    /// Where it waits: microseconds.
    OffCpu,
}

/// bpftrace did not deliver.
#[derive(Debug, thiserror::Error)]
pub enum BpftraceError {
    /// It is not installed.
    #[error("--bpftrace needs the program bpftrace; install the package bpftrace")]
    NotInstalled,
    /// This process may not use it.
    #[error("--bpftrace needs root; run it with sudo")]
    NotRoot,
    /// It reported an error.
    #[error("bpftrace failed: {0}")]
    Refused(String),
    /// Its output cannot be parsed.
    #[error("cannot read the output of bpftrace: {0}")]
    Form(String),
    /// It could not be run.
    #[error("cannot run bpftrace: {0}")]
    Io(#[from] io::Error),
}

impl Kind {
    /// The unit of the numbers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::OnCpu => "samples",
            Self::OffCpu => "µs",
        }
    }

    fn script(self, pid: Tid, duration: Duration) -> String {
        let body = match self {
            Self::OnCpu => format!(
                "profile:hz:{ON_CPU_HZ} / pid == {pid} / {{ @out[kstack, ustack] = count(); }}"
            ),
            // In this tracepoint the current thread is the one that leaves the CPU.
            Self::OffCpu => format!(
                "tracepoint:sched:sched_switch / pid == {pid} / {{ \
                   @start[tid] = nsecs; @kernel[tid] = kstack; @user[tid] = ustack; }} \
                 tracepoint:sched:sched_switch / @start[args->next_pid] / {{ \
                   $next = args->next_pid; \
                   @out[@kernel[$next], @user[$next]] = sum((nsecs - @start[$next]) / 1000); \
                   delete(@start[$next]); delete(@kernel[$next]); delete(@user[$next]); }} \
                 END {{ clear(@start); clear(@kernel); clear(@user); }}"
            ),
        };
        format!("{body} interval:ms:{} {{ exit(); }}", duration.as_millis())
    }
}

/// Runs it. Kernel functions end with `_[k]`.
///
/// # Errors
/// It is not installed, or may not run.
pub fn run(
    kind: Kind,
    pid: Tid,
    duration: Duration,
    modules: &Modules,
) -> Result<Folded, BpftraceError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(BpftraceError::NotRoot);
    }
    let mut command = if needs_tracefs() {
        // In a separate mount namespace: nothing changes for the machine.
        let mut command = Command::new("unshare");
        let mount = format!("mount -t tracefs tracefs {TRACEFS} && exec bpftrace \"$@\"");
        command.args(["--mount", "sh", "-c", &mount, "bpftrace"]);
        command
    } else {
        Command::new("bpftrace")
    };
    // unshare would only report that something is not found.
    if which("bpftrace").is_none() {
        return Err(BpftraceError::NotInstalled);
    }
    let output = command
        .args(["-f", "json", "-e", &kind.script(pid, duration)])
        // Without this, each address is looked up anew in the files of the process, which took 30 s
        // of CPU for 3 s of samples.
        .env("BPFTRACE_CACHE_USER_SYMBOLS", "1")
        .stdin(Stdio::null())
        .output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // Some versions write errors of the script to stdout.
        let text = format!("{}{stdout}", String::from_utf8_lossy(&output.stderr));
        return Err(BpftraceError::Refused(text.trim().to_owned()));
    }
    parse(&stdout, modules)
}

fn needs_tracefs() -> bool {
    !fs::exists(format!("{TRACEFS}/events")).unwrap_or(false)
}

fn which(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|p| p.is_file())
}

/// One JSON object per line; the one with the stacks is
/// `{"type": "map", "data": {"@out": {"\n    f+1\n,\n    g+2\n": 12}}}`.
fn parse(text: &str, modules: &Modules) -> Result<Folded, BpftraceError> {
    let mut folded = Folded::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let form = || BpftraceError::Form(line.chars().take(200).collect());
        let object: serde_json::Value = serde_json::from_str(line).map_err(|_| form())?;
        if object["type"] != "map" {
            continue;
        }
        let Some(stacks) = object["data"]["@out"].as_object() else { continue };
        for (stack, count) in stacks {
            let count = count.as_u64().ok_or_else(form)?;
            *folded.entry(fold(stack, modules)).or_default() += count;
        }
    }
    Ok(folded)
}

/// Kernel functions and user functions, innermost first, with a comma on its own between.
fn fold(stack: &str, modules: &Modules) -> String {
    let mut is_kernel = true;
    let mut kernel = Vec::new();
    let mut user = Vec::new();
    for line in stack.lines() {
        // The comma may stand before the first user function.
        let line = match line.trim_start().strip_prefix(',') {
            Some(rest) if is_kernel => {
                is_kernel = false;
                rest
            }
            _ => line,
        };
        let name = line.trim();
        if name.is_empty() {
            continue;
        }
        if is_kernel {
            kernel.push(format!("{}_[k]", without_offset(name)));
        } else {
            user.push(user_function(name, modules));
        }
    }
    let frames: Vec<String> = user.into_iter().rev().chain(kernel.into_iter().rev()).collect();
    if frames.is_empty() { "[nothing]".to_owned() } else { frames.join(";") }
}

/// `f+12` without the offset.
fn without_offset(name: &str) -> &str {
    name.rsplit_once('+').map_or(name, |(name, _)| name)
}

fn user_function(name: &str, modules: &Modules) -> String {
    // Addresses without a name in bpftrace may have a name, or a location, here.
    let address = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    if let Some(address) = address {
        return modules.frame(address).function.replace(';', ":");
    }
    let name = without_offset(name);
    // Without parameters, as everywhere here; `operator()` keeps its own.
    let from = name.find("operator()").map_or(0, |at| at + "operator()".len());
    let end = name[from..].find('(').map_or(name.len(), |at| from + at);
    let name = if end == 0 { name } else { &name[..end] };
    name.replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_output_of_bpftrace() {
        let text = concat!(
            r#"{"type": "attached_probes", "data": {"probes": 3}}"#,
            "\n",
            r#"{"type": "map", "data": {"@out": {"\n    __schedule+1576\n    futex_wait+1\n,"#,
            r#"\n    pthread_cond_wait+5\n    do_command(THD*, bool)+161\n": 12, "#,
            r#"",\n    main+3\n": 5}}}"#,
            "\n\n",
        );
        let folded = parse(text, &Modules::default()).expect("stacks");
        let expected = Folded::from([
            ("do_command;pthread_cond_wait;futex_wait_[k];__schedule_[k]".to_owned(), 12),
            ("main".to_owned(), 5),
        ]);
        assert_eq!(folded, expected);
        assert!(parse("oops", &Modules::default()).is_err());
        assert!(parse("", &Modules::default()).expect("nothing").is_empty());
    }

    #[test]
    fn names_lose_their_parameters() {
        let modules = Modules::default();
        assert_eq!(user_function("a::b(int, c<d>)+7", &modules), "a::b");
        assert_eq!(user_function("x::operator()(int)+7", &modules), "x::operator()");
        assert_eq!(user_function("0x10", &modules), "[unmapped]");
        assert_eq!(user_function("(anonymous)+1", &modules), "(anonymous)");
    }
}
