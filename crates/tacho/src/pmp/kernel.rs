//! `tacho pmp --bpftrace`: the kernel's view.

use std::fs;

use tacho_pmp::bpftrace::{self, Kind};
use tacho_pmp::modules::Modules;
use tacho_pmp::report::percent;
use tacho_pmp::{diff, flame, folded};

use super::PmpError;
use super::args::{Bpftrace, Format, PmpArgs};
use crate::say;

fn kind(what: Bpftrace) -> Kind {
    match what {
        Bpftrace::OnCpu => Kind::OnCpu,
        Bpftrace::OffCpu => Kind::OffCpu,
    }
}

/// The name of its files without the ending.
pub fn name(what: Bpftrace) -> &'static str {
    match what {
        Bpftrace::OnCpu => "on-cpu",
        Bpftrace::OffCpu => "off-cpu",
    }
}

/// Runs it and shows the result.
///
/// # Errors
/// bpftrace is not installed, or has no permission.
pub fn run(args: &PmpArgs, what: Bpftrace, pid: i32, program: &str) -> Result<(), PmpError> {
    let (kind, name) = (kind(what), name(what));
    let mut modules = Modules::default();
    modules.refresh(pid).map_err(|error| PmpError::Sample { pid, error })?;
    let stacks = bpftrace::run(kind, pid, args.duration, &modules)?;
    if let Some(directory) = &args.output {
        let write = |ending: &str, contents: &[u8]| {
            let path = directory.join(format!("{name}.{ending}"));
            fs::write(&path, contents).map_err(|error| PmpError::File { path, error })
        };
        write("folded", folded::text(&stacks).as_bytes())?;
        if !stacks.is_empty() {
            let title = format!("{program}, process {pid}, {name}, {}", kind.unit());
            write("svg", &flame::svg(&title, &stacks)?)?;
        }
    }
    if args.format == Format::Folded {
        return super::write_lines(&folded::text(&stacks)).map_err(PmpError::from);
    }
    let total = diff::total(&stacks);
    say::result(&format!("{program}, process {pid}, {name}: {total} {}", kind.unit()))?;
    let mut sorted: Vec<_> = stacks.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1));
    for (stack, count) in sorted.into_iter().take(args.top) {
        let frames: Vec<&str> = stack.rsplit(';').collect();
        say::result(&format!("{:>6.1} %  {}", percent(*count, total), frames.join(",")))?;
    }
    Ok(())
}
