//! The command line of `tacho pmp`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::number;
use clap::{Args, Subcommand, ValueEnum};

/// Shown at the end of `tacho pmp --help`.
const PMP_NOTES: &str = "\
Without --pid, --pid-file or --socket: the server that runs here, if it is the only one. With
--socket, --host or --defaults-file, the process list is asked for, too, by the client program
`mariadb`, which logs in as it always does (option files, MYSQL_PWD).

A thread that sleeps is read without stopping it. One that runs is stopped for a copy of its
stack, some 20 µs; the report says how often and how long. --stop never stops nothing.

It must run as the server's user or as root.

Exit code: 0 fine, 1 the process could not be looked at to the end, 2 wrong usage.";

/// Arguments of `tacho pmp`.
#[derive(Args, Debug)]
#[command(after_help = PMP_NOTES, args_conflicts_with_subcommands = true)]
pub struct PmpArgs {
    /// Something else than a profile.
    #[command(subcommand)]
    pub command: Option<PmpCommand>,

    /// Process to look at; any program will do
    #[arg(long, value_name = "N", conflicts_with = "pid_file", value_parser = number::whole::<i32>)]
    pub pid: Option<i32>,

    /// File with the number of the process
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,

    /// Unix socket of the server: finds its process, and the process list
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,

    /// Host of the server, for the process list
    #[arg(long, value_name = "HOST", conflicts_with = "socket")]
    pub host: Option<String>,

    /// Port of the server, for the process list
    #[arg(long, value_name = "PORT", requires = "host", value_parser = number::whole::<u16>)]
    pub port: Option<u16>,

    /// User to log in as, for the process list
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// Option file with the login, for the process list
    #[arg(long, value_name = "FILE")]
    pub defaults_file: Option<PathBuf>,

    /// How long to look: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,

    /// Time between two looks at all threads
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    pub interval: Duration,

    /// Which threads count
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub threads: Threads,

    /// Which threads may be stopped
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub stop: Stop,

    /// Directory for the results as files: folded stacks, pt-pmp's text, flame graph, HTML, JSON
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Replace a profile that is in the directory of --output already
    #[arg(long, requires = "output")]
    pub overwrite: bool,

    /// What to write to stdout
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// How many stacks the summary shows
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::whole::<usize>)]
    pub top: usize,

    /// More patterns to look for (the built-in ones: --print-patterns)
    #[arg(long, value_name = "FILE")]
    pub patterns: Option<PathBuf>,

    /// Write the table of built-in patterns, which says how to make one, and end
    #[arg(long)]
    pub print_patterns: bool,

    /// Ask the kernel instead, by the program bpftrace: needs root; functions of the kernel, too;
    /// user functions as far as they keep frame pointers
    #[arg(long, value_name = "WHAT", value_enum,
          conflicts_with_all = ["interval", "threads", "stop", "patterns"])]
    pub bpftrace: Option<Bpftrace>,

    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Subcommands of `tacho pmp`.
#[derive(Subcommand, Debug)]
pub enum PmpCommand {
    /// Compare two profiles: what is more, what is less
    Diff(DiffArgs),
}

/// Shown at the end of `tacho pmp diff --help`.
const DIFF_NOTES: &str = "\
A profile is a directory that `tacho pmp --output` wrote, or a file of folded stacks, whichever
profiler wrote it. Shares are compared, not counts: the runs may differ in length.

Exit code: 0 fine, 1 a profile cannot be read, 2 wrong usage.";

/// Arguments of `tacho pmp diff`.
#[derive(Args, Debug)]
#[command(after_help = DIFF_NOTES)]
pub struct DiffArgs {
    /// The first profile
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The second profile
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// How many functions and stacks to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::whole::<usize>)]
    pub top: usize,

    /// File for the differential flame graph
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Values of `--threads`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Threads {
    /// Those that do not wait for work
    #[default]
    Active,
    /// All of them
    All,
}

/// Values of `--stop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stop {
    /// Those whose stack cannot be had otherwise: mostly those that run
    #[default]
    Needed,
    /// None: of a thread that runs it is only told that it does
    Never,
    /// All of them, as other profilers do
    Always,
}

/// Values of `--bpftrace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bpftrace {
    /// Where threads compute, in samples
    OnCpu,
    /// Where threads are off the CPU, in microseconds
    OffCpu,
}

/// Values of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// What was found, in words
    #[default]
    Summary,
    /// The lines of pt-pmp
    Pmp,
    /// Folded stacks, for flame graph tools
    Folded,
    /// Everything, as one JSON object
    Json,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time like 10s, 500ms or 2m, not {text:?}");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms_per_unit = match unit {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let ms = number.checked_mul(ms_per_unit).ok_or_else(wrong)?;
    if ms == 0 {
        return Err("must be more than nothing".to_owned());
    }
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "1.5s", "0s", "-1s", "5 s", "99999999999999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
