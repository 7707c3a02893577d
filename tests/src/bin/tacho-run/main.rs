//! Zone: outside. `make run`: everything once, on a private server, with a verdict.
//!
//! 1. A private server gets the plugin, or the component, by INSTALL, and nothing else.
//! 2. sysbench's `oltp_read_write` and the tagging client load it, both counting answers.
//! 3. sysbench continues while recording is switched on and off in short blocks: the cost.
//! 4. The server stops, and the log is compared with the counts of the clients.
//!
//! Meanwhile `tacho ship` sends the log to a private hub, where each answered statement of the
//! tagging client must be found once.
//!
//! `TACHO_SERVER` selects the server, and [`Product`] has the differences. `capture` is a server
//! without a plugin, whose packets are recorded.

mod capture;
mod check;
mod hub;
mod summary;

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tacho_sandbox::server::{Builder, PrivateServer};
use tacho_tests::claim::claim;
use tacho_tests::client::{self, Conn, Queryable};
use tacho_tests::paired::{self, Measured, Plan};
use tacho_tests::product::Product;
use tacho_tests::sysbench::{Report, Second, Sysbench};
use tacho_tests::tagged::{self, Load, Tally};

use crate::check::{Expected, Status};
use crate::hub::{Central, Lags};
use crate::summary::{Summary, grouped};

/// Account of the load whose statements are counted.
const COUNTED_USER: &str = "counted";
/// Account of the load under which recording is switched off and on.
const PAIRED_USER: &str = "paired";
/// First part of the tagging client's ids.
const RUN: &str = "run";
const TAGGING_THREADS: u64 = 4;
/// Size of InnoDB's redo log.
const REDO_LOG_MIB: u32 = 256;
/// Transactions/s beside which the way to the hub is timed, and how many statements each has.
const LAG_TRANSACTIONS: u64 = 250;
const TRANSACTION_STATEMENTS: u64 = 20;
const LAG_DURATION: Duration = Duration::from_secs(5);
/// sysbench must outlive the last block by this much.
const PAIRED_SPARE_S: u64 = 5;

/// Records a real load on a private server and checks that nothing is missing in the log.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Seconds of the load whose statements are counted
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Connections of sysbench
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// Pairs of blocks, one without and one with recording
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Length of such a block in milliseconds
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(100..))]
    block_ms: u64,
    /// Directory for server, log and result.json; the files of an earlier run are removed [default:
    /// build/run of the source tree]
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tacho-run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let directory = match &arguments.directory {
        Some(directory) => std::path::absolute(directory)?,
        None => tacho_tests::build_directory().join("run"),
    };
    if capture::is_wanted() {
        return capture::run(arguments, &directory);
    }
    let product = Product::wanted()?;
    let _lock = claim(&directory, "server")?;
    let begin = Instant::now();

    step(&format!("starting a private {}: {}", product.title, product.install));
    let redo_log = product.installation().product().redo_log_option(REDO_LOG_MIB);
    let builder = product.builder().option(redo_log);
    let mut server = start_server(builder, arguments, &directory)?;
    let mut conn = server.connect()?;
    product.install(&mut conn)?;
    // An absolute path replaces the data directory, a relative one is below it.
    let log_directory =
        server.data_directory().join(client::variable(&mut conn, &product.variable("directory"))?);

    step("filling the tables");
    let load = Sysbench::new(server.socket(), "oltp_read_write").threads(arguments.threads);
    let counted = load.clone().user(COUNTED_USER).seconds(arguments.seconds);
    counted.prepare(&mut conn)?;
    tagged::prepare(&mut conn, TAGGING_THREADS)?;

    step("starting a hub, and `tacho ship` for the log");
    let mut central = Central::start(&directory.join("hub"), &log_directory)?;

    step(&format!(
        "recording oltp_read_write with {} connections for {} s, and the tagging client",
        arguments.threads, arguments.seconds
    ));
    let tagging = Load::new(server.socket(), RUN);
    let (report, tally) = record(&counted, tagging, |second, tagged| {
        show_progress(&mut conn, product, second, tagged)
    })?;
    let caught_up = central.time_way(&mut conn, "caught-up")?;

    let other = load.user(PAIRED_USER);
    let lags = measure_lag(&other, &central, &mut conn)?;

    let measured = measure_recording(&other, product, arguments, &mut conn)?;

    step("stopping the server and checking the log");
    let status = Status {
        records_written: client::status_number(&mut conn, &product.status("records_written"))?,
        records_lost: client::status_number(&mut conn, &product.status("records_lost"))?,
        conn: u64::from(conn.connection_id()),
    };
    drop(conn);
    server.stop()?;
    let expected = Expected { tally: &tally, report: &report, status: Some(status) };
    let findings = check::check(&log_directory, &expected)?;

    step("searching the hub");
    let found = central.check(&log_directory, &tally, findings.lines)?;

    let summary = Summary {
        server: product.name,
        statements_acknowledged: report.answered() + tally.acknowledged.len() as u64,
        log_directory: &log_directory,
        findings: &findings,
        found: &found,
        caught_up,
        lags: &lags,
        measured: &measured,
        notes: &[],
        complaints: product.complaints(&server),
    };
    let is_good = finish(&summary, &directory, begin)?;
    if is_good && std::io::stdout().is_terminal() {
        hub::leave_open(&mut central.hub)?;
    }
    Ok(is_good)
}

/// Writes and prints the result: whether it is good.
fn finish(summary: &Summary, directory: &Path, begin: Instant) -> Result<bool> {
    let result_path = directory.join("result.json");
    fs::write(&result_path, summary.to_json() + "\n")
        .with_context(|| format!("writing {}", result_path.display()))?;
    summary.print(&result_path, begin.elapsed());
    Ok(summary.problems().is_empty())
}

fn start_server(
    builder: Builder,
    arguments: &Arguments,
    directory: &Path,
) -> Result<PrivateServer> {
    builder
        .directory(directory.join("server"))
        .keep()
        .option(format!("max-connections={}", arguments.threads + 50))
        .option("innodb-buffer-pool-size=256M")
        .start()
}

/// The load whose every statement must be in the log. Each second, `progress` gets its report and
/// how many tagged statements were answered.
fn record(
    load: &Sysbench,
    tagging: Load,
    mut progress: impl FnMut(Second, u64) -> Result<()>,
) -> Result<(Report, Tally)> {
    let tagging = Load {
        threads: TAGGING_THREADS,
        // A witness, not a load.
        pause: Duration::from_millis(2),
        ..tagging
    }
    .start()?;
    let mut progress_error = None;
    let report = load.run(|second| {
        if let Err(error) = progress(second, tagging.acknowledged_count()) {
            progress_error.get_or_insert(error);
        }
    })?;
    let tally = tagging.stop()?;
    match progress_error {
        Some(error) => Err(error),
        None => Ok((report, tally)),
    }
}

fn show_progress(conn: &mut Conn, product: &Product, second: Second, tagged: u64) -> Result<()> {
    let status = client::status(conn, &product.status("records_%"))?;
    let value = |name: &str| status.get(&product.status(name)).map_or("?", String::as_str);
    println!(
        "{}  recorded {}  lost {}",
        progress_text(second, tagged),
        value("records_written").parse().map_or("?".to_owned(), grouped),
        value("records_lost"),
    );
    Ok(())
}

fn progress_text(second: Second, tagged: u64) -> String {
    format!(
        "  {:>3} s  {:>7} transactions/s  {:>8} statements/s  tagged {}",
        second.at_s,
        grouped(second.tps as u64),
        grouped(second.qps as u64),
        grouped(tagged),
    )
}

/// The time from a statement to its search result, beside a load that leaves this machine time for
/// server, recorder, shipper and hub.
fn measure_lag(load: &Sysbench, central: &Central, conn: &mut Conn) -> Result<Lags> {
    let statements = grouped(LAG_TRANSACTIONS * TRANSACTION_STATEMENTS);
    step(&format!("timing the way to a search result at {statements} statements/s"));
    load.create_user(conn)?;
    let load = load.clone().option(&format!("--rate={LAG_TRANSACTIONS}"));
    // It outlives the last statement that is timed.
    let mut sysbench = load.seconds(LAG_DURATION.as_secs() + 2).start_quietly()?;
    let lags = central.measure_lag(conn, LAG_DURATION)?;
    let status = sysbench.wait()?;
    ensure!(status.success(), "sysbench: {status}");
    Ok(lags)
}

/// The throughput with and without recording in the server.
fn measure_recording(
    load: &Sysbench,
    product: &Product,
    arguments: &Arguments,
    conn: &mut Conn,
) -> Result<Measured> {
    step(&format!(
        "measuring the cost: {} pairs of {} ms without and with recording",
        arguments.pairs, arguments.block_ms
    ));
    let logging = product.variable("logging");
    let switch = |conn: &mut Conn, on: bool| -> Result<()> {
        let value = if on { "ON" } else { "OFF" };
        Ok(conn.query_drop(format!("SET GLOBAL {logging} = {value}"))?)
    };
    let measured = measure_cost(load, arguments, conn, switch)?;
    switch(conn, true)?;
    Ok(measured)
}

/// The throughput without and with recording, which `switch` switches off and on.
fn measure_cost(
    load: &Sysbench,
    arguments: &Arguments,
    conn: &mut Conn,
    switch: impl FnMut(&mut Conn, bool) -> Result<()>,
) -> Result<Measured> {
    let plan = Plan {
        pairs: arguments.pairs,
        block: Duration::from_millis(arguments.block_ms),
        settle: Duration::from_millis(250),
    };
    let seconds = plan.duration().as_secs() + 1 + PAIRED_SPARE_S;
    let mut sysbench = load.clone().seconds(seconds).start_quietly()?;
    std::thread::sleep(Duration::from_secs(1));
    let measured = paired::measure(conn, plan, switch, |number, pair| {
        let ratio = if pair.stood_still() {
            "the machine stood still".to_owned()
        } else {
            format!("ratio {:.3}", pair.tps_on / pair.tps_off)
        };
        println!(
            "  {number:>3}/{}  off {:>7}  on {:>7} transactions/s  {ratio}",
            arguments.pairs,
            grouped(pair.tps_off as u64),
            grouped(pair.tps_on as u64),
        );
    });
    if measured.is_err() {
        sysbench.kill()?;
    } else if let Some(status) = sysbench.try_wait()? {
        bail!("sysbench ended during the measurement ({status}): the figures mean nothing");
    }
    let status = sysbench.wait()?;
    let measured = measured?;
    ensure!(status.success(), "sysbench: {status}");
    Ok(measured)
}

fn step(what: &str) {
    println!("==> {what}");
}
