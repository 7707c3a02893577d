//! `tacho bench`: the overhead of auditing on this server.
//!
//! The library `tacho-bench` measures; this file turns the command line into its options, and its
//! results into text, files and an exit code.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use tacho_bench::blocks::Timing;
use tacho_bench::instructions;
use tacho_bench::lines::Line;
use tacho_bench::method::Methods;
use tacho_bench::output::Output;
use tacho_bench::report;
use tacho_bench::run::{self, Options};
use tacho_bench::stop::{Interrupted, Stop};
use tacho_bench::table;
use tacho_bench::target::PrivateOptions;
use tacho_bench::workload::Workload;
use tacho_sandbox::client::Login;
use tacho_sandbox::installation::Installation;

use crate::cli::{duration, number};
use crate::login::LoginArgs;

/// The machine was too noisy to measure.
const EXIT_TOO_NOISY: u8 = 3;

/// The exit code of shells after SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// With `--quick`, no optional round starts after this time. Setup and report take another half
/// minute.
const QUICK: Duration = Duration::from_secs(100);

/// Measured unless others are named.
const DEFAULT_METHODS: [&str; 9] = [
    "nothing",
    "tacho",
    "server_audit",
    "general_log",
    "general_log_table",
    "slow_log",
    "init_connect",
    "rewriter",
    "tacho-rewrite",
];

/// Counted by `--instructions` unless others are named.
const COUNTED_METHODS: [&str; 7] =
    ["nothing", "tacho", "tacho:paced", "server_audit", "general_log", "rewriter", "tacho-rewrite"];

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

    /// What the clients do [default: oltp_point_select,oltp_read_write]
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',')]
    pub workload: Vec<String>,

    /// Shell command that is the load instead; it runs until it gets SIGTERM
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["workload", "rate"])]
    pub command: Option<String>,

    /// Numbers of connections [default: 8,64; with --quick 8]
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

    /// Pairs of blocks for each method and load [default: 15; with --quick 8]
    #[arg(long, value_name = "N", value_parser = number::between(1, u32::MAX))]
    pub pairs: Option<u32>,

    /// Length of a block [default: 1s; with more than 128 connections 1s for each 128]
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

    /// Widest A/A interval, on either side, with which a figure is shown
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub noise_max: f64,

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

    /// Measure nothing: make the table and the report from NAME.jsonl of an earlier run
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// Write the results to NAME.jsonl and NAME.html
    #[arg(short, long, value_name = "NAME", default_value = "tacho-bench")]
    pub output: PathBuf,

    /// Show no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Why `tacho bench` failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The command line is wrong.
    #[error("{0:#}")]
    Usage(anyhow::Error),
    /// The server, the load or the machine failed.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl BenchError {
    /// Whether the command line, not the run, is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Runs `tacho bench`.
///
/// # Errors
/// See [`BenchError`].
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let methods = known_methods(args).map_err(BenchError::Usage)?;
    if args.list {
        return list(&methods).map(|()| ExitCode::SUCCESS);
    }
    if let Some(path) = &args.results {
        let lines = tacho_bench::lines::read(path).map_err(BenchError::Usage)?;
        show(&with_extension(&args.output, "html"), &lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let login = args.server.login().map_err(BenchError::Usage)?;
    if args.restore {
        let Some(login) = login else {
            bail!(BenchError::Usage(anyhow::anyhow!(
                "--restore needs a server: add --socket, --host or --defaults-file"
            )));
        };
        let found = run::restore(&login).map_err(BenchError::Failed)?;
        crate::say::result(if found { "Restored the server." } else { "Nothing to restore." })?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(args, &methods, login).map_err(BenchError::Usage)?;
    // From here on signals no longer end the process.
    let stop = Stop::on_signals()?;
    let partial = with_extension(&args.output, "partial.jsonl");
    let mut out = Output::new(&partial, args.quiet).map_err(BenchError::Failed)?;
    let outcome = if args.instructions {
        instructions::run(&options, &stop, &mut out)
    } else {
        run::run(&options, &stop, &mut out)
    };
    if outcome.is_ok() {
        out.finish(&with_extension(&args.output, "jsonl")).map_err(BenchError::Failed)?;
        show(&with_extension(&args.output, "html"), out.lines())?;
    } else {
        out.abandon().map_err(BenchError::Failed)?;
        // Measurements from before the failure are shown, beside the results of earlier runs.
        if !out.lines().is_empty() {
            show(&with_extension(&args.output, "partial.html"), out.lines())?;
            crate::say::problem(format!(
                "the run is incomplete; its results are in {}",
                partial.display()
            ));
        }
    }
    match outcome {
        Ok(outcome) if outcome.too_noisy => Ok(ExitCode::from(EXIT_TOO_NOISY)),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<Interrupted>() => {
            crate::say::problem("interrupted; the server was restored");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        Err(error) => Err(BenchError::Failed(error).into()),
    }
}

fn known_methods(args: &BenchArgs) -> anyhow::Result<Methods> {
    let mut methods = Methods::built_in()?;
    for file in &args.method_file {
        methods.add_file(file)?;
    }
    Ok(methods)
}

fn list(methods: &Methods) -> anyhow::Result<()> {
    let mut text = String::from(
        "methods\n  none                      no audit; measured with every other method\n",
    );
    for method in methods.iter() {
        let how = match method.switch {
            tacho_bench::method::Switch::Live => "",
            tacho_bench::method::Switch::Reconnect => "",
            tacho_bench::method::Switch::Restart => " (a restart for each block)",
        };
        text.push_str(&format!("  {:25} {}{how}\n", method.name, method.title));
    }
    text.push_str("\nworkloads\n");
    for workload in Workload::built_in() {
        text.push_str(&format!("  {:25} {}\n", workload.name, workload.title));
    }
    text.push_str("  --command COMMAND         your own\n");
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn options(args: &BenchArgs, methods: &Methods, login: Option<Login>) -> anyhow::Result<Options> {
    let chosen = if args.method.is_empty() {
        let mut chosen = methods.choose(&DEFAULT_METHODS.map(str::to_owned))?;
        // A method file on the command line is always measured.
        let built_in = Methods::built_in()?;
        chosen.extend(methods.iter().filter(|m| built_in.get(&m.name).is_none()).cloned());
        if args.instructions {
            chosen = methods.choose(&COUNTED_METHODS.map(str::to_owned))?;
        }
        if args.quick {
            let slow =
                ["general_log_table", "slow_log", "init_connect", "rewriter", "tacho-rewrite"];
            chosen.retain(|method| !slow.contains(&&*method.name));
        }
        chosen
    } else {
        methods.choose(&args.method)?
    };
    ensure!(!chosen.is_empty(), "no method to compare with `none`: name one with --method");
    let workloads = match &args.command {
        Some(command) => vec![Workload::command(command)],
        None => chosen_workloads(args)?,
    };
    let threads = match (args.threads.is_empty(), args.quick) {
        (false, _) => args.threads.clone(),
        (true, true) => vec![8],
        (true, false) => vec![8, 64],
    };
    let rates = args.rate.iter().map(|rate| {
        ensure!(
            rate.is_finite() && *rate >= 0.0,
            "--rate {rate} is negative; give 0 (closed loop) or more"
        );
        Ok((*rate > 0.0).then_some(*rate))
    });
    let mut rates: Vec<Option<f64>> = rates.collect::<anyhow::Result<_>>()?;
    if rates.is_empty() {
        rates.push(None);
    }
    ensure!(args.noise_max > 0.0, "--noise-max must be more than 0");
    let threads_max = threads.iter().copied().max().unwrap_or(1);
    let (block, guard) = spans(threads_max);
    let (block, guard) = (args.block.unwrap_or(block), args.guard.unwrap_or(guard));
    ensure!(!block.is_zero(), "--block must be more than 0s");
    Ok(Options {
        login,
        methods: chosen,
        named: args.method.clone(),
        workloads,
        private: PrivateOptions {
            threads_max,
            options: args.server_option.clone(),
            libraries: args.plugin.clone(),
            installation: args
                .server_directory
                .as_ref()
                .map_or_else(Installation::system, Installation::in_folder),
            small: args.instructions,
        },
        threads,
        rates,
        timing: Timing {
            block,
            guard,
            warm_up: args.warm_up,
            pairs: args.pairs.unwrap_or(if args.quick { 8 } else { 15 }),
            deadline: args.quick.then_some(QUICK),
        },
        noise_max: args.noise_max / 100.0,
        tables: (args.tables, args.rows),
        prepared: args.prepared,
        directory: args.directory.clone().unwrap_or_else(std::env::temp_dir),
        switch_off_audit: args.switch_off_audit,
    })
}

/// Length of a block, and of the time before it, for this many connections. The more there are, the
/// longer a transaction takes, and the longer until all of them are busy again after a switch with
/// new connections.
fn spans(threads_max: u32) -> (Duration, Duration) {
    const CONNECTIONS_A_SECOND: f64 = 128.0;
    let block = f64::from(threads_max) / CONNECTIONS_A_SECOND;
    if block <= 1.0 {
        (Duration::from_secs(1), Duration::from_millis(300))
    } else {
        (Duration::from_secs_f64(block), Duration::from_secs_f64(block / 2.0))
    }
}

fn chosen_workloads(args: &BenchArgs) -> anyhow::Result<Vec<Workload>> {
    let known = Workload::built_in();
    let mut names: Vec<&str> = args.workload.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.push("oltp_point_select");
        if !args.quick {
            names.push("oltp_read_write");
        }
    }
    names
        .into_iter()
        .map(|name| {
            let found = known.iter().find(|workload| workload.name == name).cloned();
            found.with_context(|| {
                let names: Vec<&str> = known.iter().map(|w| w.name.as_str()).collect();
                format!("unknown workload {name:?}; known are {}", names.join(", "))
            })
        })
        .collect()
}

/// Writes the table to stdout, and the report to its file.
fn show(report: &Path, lines: &[Line]) -> anyhow::Result<()> {
    fs::write(report, report::render(lines)?)
        .with_context(|| format!("cannot write {}", report.display()))?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(table::render(lines).as_bytes())?;
    writeln!(stdout, "\nreport: {}", report.display())?;
    Ok(stdout.flush()?)
}

/// `NAME.jsonl`; a dot in the name is part of it.
fn with_extension(name: &Path, extension: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_have_longer_blocks() {
        let seconds = |threads| {
            let (block, guard) = spans(threads);
            (block.as_secs_f64(), guard.as_secs_f64())
        };
        assert_eq!(seconds(1), (1.0, 0.3));
        assert_eq!(seconds(128), (1.0, 0.3));
        assert_eq!(seconds(256), (2.0, 1.0));
        assert_eq!(seconds(512), (4.0, 2.0));
    }
}
