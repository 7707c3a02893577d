//! The command line of `tacho bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::{duration, number};
use crate::login::LoginArgs;

/// Shown at the end of `tacho bench --help`.
const BENCH_NOTES: &str = "\
Without --socket, --host and --defaults-file, the bench starts, measures and removes a private
MariaDB or MySQL. On your own server it creates the schema `tacho_bench` and drops it at the end; it
restores every variable that it changes, also after Ctrl-C. If the bench was killed, `--restore` (or
the next run) restores them. Other clients of the server are slowed down, and their statements are
counted as queries.

Each figure is the median of the ratios between neighbouring blocks with and without the method,
with its 95 % interval. `none-again` compares the server with itself (A/A): if its interval is wider
than --noise-max, the machine is too noisy and the figure is omitted.

NAME.jsonl has one JSON object for each block (docs/specs/bench.md), NAME.html the report. They
replace the files of an earlier run when the run is complete; until then, and if it fails, the lines
are in NAME.partial.jsonl.

With --side-by-side the bench starts two private servers with the same load, one with the method,
the other without. The loads take turns of 50 ms, and the servers exchange their roles after each
block. Other work on the machine slows both down. The figure is the center of the ratios of all
rounds, with its 95 % interval; a method is done when the interval of its CPU per query is within
--interval-max. A method that is not exact enough after --pairs rounds or --max-time keeps its
figure, and the last lines name it. There are no latencies.

Exit code: 0 success, 1 failed, 2 wrong usage, 3 too noisy for throughput or CPU figures,
130 interrupted (the server was restored).";

/// Arguments of `tacho bench`.
#[derive(Args, Debug)]
#[command(after_help = BENCH_NOTES)]
pub struct BenchArgs {
    /// List the methods and workloads
    #[arg(long)]
    pub list: bool,

    /// Take less than three minutes: one workload, 8 connections, the most requested methods
    #[arg(long)]
    pub quick: bool,

    /// Compare two private servers at the same time, which exchange their roles: for noisy machines
    #[arg(long, conflicts_with_all = ["quick", "instructions", "rate", "socket", "host",
          "defaults_file"])]
    pub side_by_side: bool,

    /// With --side-by-side: widest interval of the CPU per query, on either side, with which a
    /// method is done [default: 1]
    #[arg(long, value_name = "PERCENT", requires = "side_by_side")]
    pub interval_max: Option<f64>,

    /// With --side-by-side: begin no further round after this time, shared by all loads; at least
    /// eight rounds are measured
    #[arg(long, value_name = duration::NAME, value_parser = duration::any,
          requires = "side_by_side")]
    pub max_time: Option<Duration>,

    /// With --side-by-side: method of the other server instead of `none`
    #[arg(long, value_name = "METHOD", requires = "side_by_side")]
    pub baseline: Option<String>,

    /// Count instructions per point select with callgrind instead of measuring: repeatable to 0.1 %
    /// on any machine, takes a minute for each method
    #[arg(long, conflicts_with_all = ["quick", "socket", "host", "defaults_file", "workload", "command", "rate",
          "threads", "pairs", "block", "guard", "warm_up", "prepared"])]
    pub instructions: bool,

    /// Methods to compare with `none`; `tacho:*` is tacho with all its variants [default: all
    /// without variants]
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    pub method: Vec<String>,

    /// File with a method of your own (docs/guide/benchmark.md), measured unless --method names
    /// others; may be repeated
    #[arg(long, value_name = "FILE")]
    pub method_file: Vec<PathBuf>,

    /// What the clients do [default: oltp_point_select,oltp_read_write; with --side-by-side also
    /// oltp_read_only]
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    pub workload: Vec<String>,

    /// Shell command that is the load instead; it runs until it gets SIGTERM
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["workload", "rate"])]
    pub command: Option<String>,

    /// Numbers of connections [default: 8,64; with --quick 8; with --side-by-side 64 to each
    /// server]
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = number::between(1, 4096))]
    pub threads: Vec<u32>,

    /// Open loop: events per second of all connections together; latency is measured from the
    /// planned start of an event. 0 is the closed loop
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',')]
    pub rate: Vec<f64>,

    /// Use prepared statements (the binary protocol) instead of text
    #[arg(long)]
    pub prepared: bool,

    /// Tables of the load
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = number::between(1, 1000))]
    pub tables: u32,

    /// Rows in each table
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = number::between(100, u32::MAX))]
    pub rows: u32,

    /// Pairs of blocks for each method and load [default: 15; with --quick 8]; with --side-by-side
    /// the most rounds [default: 40]
    #[arg(long, value_name = "N", value_parser = number::between(1, u32::MAX))]
    pub pairs: Option<u32>,

    /// Length of a block [default: 1s; with more than 128 connections 1s for each 128; with
    /// --side-by-side at least 2s]
    #[arg(long, value_name = duration::NAME, value_parser = duration::up_to_an_hour)]
    pub block: Option<Duration>,

    /// Time after a switch that is not measured [default: 300ms; with more than 128 connections
    /// half a block]
    #[arg(long, value_name = duration::NAME, value_parser = duration::up_to_an_hour)]
    pub guard: Option<Duration>,

    /// Time after the start of a load that is not measured
    #[arg(long, value_name = duration::NAME, default_value = "1500ms",
          value_parser = duration::up_to_an_hour)]
    pub warm_up: Duration,

    /// Widest A/A interval, on either side, with which a figure is shown [default: 10; with
    /// --results that of the run]
    #[arg(long, value_name = "PERCENT")]
    pub noise_max: Option<f64>,

    /// Your own server, to be measured instead of a private one
    #[command(flatten)]
    pub server: LoginArgs,

    /// Permit the bench to switch off the audit of your server during some blocks
    #[arg(long)]
    pub switch_off_audit: bool,

    /// Only restore what a killed run changed on your server
    #[arg(long)]
    pub restore: bool,

    /// Option for the private server; may be repeated
    #[arg(long, value_name = "OPTION", conflicts_with_all = ["socket", "host", "defaults_file"])]
    pub server_option: Vec<String>,

    /// Library to use instead of the installed one: path/tacho.so, path/component_tacho.so
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "host", "defaults_file"])]
    pub plugin: Vec<PathBuf>,

    /// Directory of the MariaDB or MySQL for the private server, with its programs in DIR/usr
    /// [default: the installed MariaDB]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["socket", "host", "defaults_file"])]
    pub server_directory: Option<PathBuf>,

    /// Directory for the private server's data and other temporary files [default: $TMPDIR or
    /// /tmp]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Measure nothing: compute the figures, the table and the report from NAME.jsonl of an earlier
    /// run; the exit code is that of the run
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// Write the results to NAME.jsonl and NAME.html
    #[arg(short, long, value_name = "NAME", default_value = "tacho-bench")]
    pub output: PathBuf,

    /// Show no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}
