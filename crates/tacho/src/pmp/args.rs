//! The command line of `tacho pmp`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{duration, number};
use crate::login::LoginArgs;
use clap::{Args, Subcommand, ValueEnum};

/// Shown at the end of `tacho pmp --help`.
const PMP_NOTES: &str = "\
Without --pid, --pid-file and --socket, the only server on this machine is profiled. With --socket,
--host or --defaults-file, the client program `mariadb` also reads the process list. It logs in with
its own defaults (option files, $MYSQL_PWD) and with the login options.

Sleeping threads are read without stopping them. A running thread is stopped while its stack is
copied, for about 20 µs; the report has the number and the length of the stops. With `--stop never`
no thread is stopped.

Run the command as the server's user or as root.

Exit code: 0 success, 1 the process could not be read to the end, 2 wrong usage.";

/// Arguments of `tacho pmp`.
#[derive(Args, Debug)]
#[command(after_help = PMP_NOTES, args_conflicts_with_subcommands = true)]
pub struct PmpArgs {
    /// Other than a profile.
    #[command(subcommand)]
    pub command: Option<PmpCommand>,

    /// Process to profile; any program is possible
    #[arg(long, value_name = "N", conflicts_with = "pid_file", value_parser = number::whole::<i32>)]
    pub pid: Option<i32>,

    /// File with the process id
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,

    /// The server, for its process list; the socket also finds its process.
    #[command(flatten)]
    pub server: LoginArgs,

    /// How long to sample
    #[arg(long, value_name = duration::NAME, default_value = "10s",
          value_parser = duration::positive)]
    pub duration: Duration,

    /// Time between two samples of all threads
    #[arg(long, value_name = duration::NAME, default_value = "100ms",
          value_parser = duration::positive)]
    pub interval: Duration,

    /// Which threads count
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub threads: Threads,

    /// Which threads may be stopped
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub stop: Stop,

    /// Directory for the results: folded stacks, pt-pmp's text, flame graph, HTML, JSON
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Replace an existing profile in the directory of --output
    #[arg(long, requires = "output")]
    pub overwrite: bool,

    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub format: Format,

    /// How many stacks the summary shows
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::whole::<usize>)]
    pub top: usize,

    /// File with more patterns to look for, in the form of --print-patterns
    #[arg(long, value_name = "FILE")]
    pub patterns: Option<PathBuf>,

    /// Print the built-in patterns, with a description of the form, and exit
    #[arg(long)]
    pub print_patterns: bool,

    /// Profile in the kernel with the program bpftrace: needs root, includes kernel functions, and
    /// sees user functions that keep frame pointers
    #[arg(long, value_name = "WHAT", value_enum,
          conflicts_with_all = ["interval", "threads", "stop", "patterns"])]
    pub bpftrace: Option<Bpftrace>,

    /// Show no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Subcommands of `tacho pmp`.
#[derive(Subcommand, Debug)]
pub enum PmpCommand {
    /// Compare two profiles
    Diff(DiffArgs),
}

/// Shown at the end of `tacho pmp diff --help`.
const DIFF_NOTES: &str = "\
A profile is a directory that `tacho pmp --output` wrote, or a file of folded stacks from any
profiler. Shares are compared, not counts, so the runs may differ in length.

Exit code: 0 success, 1 a profile cannot be read, 2 wrong usage.";

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

    /// File for the differential flame graph (SVG); an existing file is replaced
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Values of `--threads`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Threads {
    /// Threads that do not wait for work
    #[default]
    Active,
    /// All threads
    All,
}

/// Values of `--stop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stop {
    /// Threads that cannot be sampled without stopping, mostly running ones
    #[default]
    Needed,
    /// None: a thread that runs, or waits for a processor, is reported without a stack
    Never,
    /// All threads, as other profilers do
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
    /// Text for people
    #[default]
    Summary,
    /// The lines of pt-pmp
    Pmp,
    /// Folded stacks, for flame graph tools
    Folded,
    /// Everything, as one JSON object
    Json,
}
