//! The way of a capture: a MariaDB without a plugin, and `tacho capture` on the loopback interface.
//!
//! All of it runs in a network namespace of its own: packets can be captured there without being
//! root, and there are no others. All clients connect over TCP.

use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tacho_sandbox::installation::Product;
use tacho_sandbox::server::{Builder, PrivateServer};
use tacho_tests::captured::Capture;
use tacho_tests::claim::claim;
use tacho_tests::client::{self, Address, Conn, Login};
use tacho_tests::hub::Hub;
use tacho_tests::paired::Measured;
use tacho_tests::sysbench::Sysbench;
use tacho_tests::tagged::{self, Load};
use tacho_tests::{build_directory, namespace, server};

use crate::check::{self, Expected};
use crate::hub::{self, Central};
use crate::summary::Summary;
use crate::{Arguments, COUNTED_USER, PAIRED_USER, REDO_LOG_MIB, RUN, TAGGING_THREADS, step};

/// The value of `SERVER=` in the Makefile.
const NAME: &str = "capture";

/// Figures that have another meaning than with a plugin.
const NOTES: &[&str] = &[
    "records_lost counts `lost` lines: how many records each of them stands for is not known",
    "tps_on is with a capture that starts and stops for each block, both are by the text protocol",
];

/// The namespace has no network card.
const NO_CARD: &[&str] = &["failed to retrieve the MAC address"];

/// Whether it is to run.
pub fn is_wanted() -> bool {
    std::env::var("TACHO_SERVER").is_ok_and(|name| name == NAME)
}

/// Runs it: whether the result is good.
pub fn run(arguments: &Arguments, directory: &Path) -> Result<bool> {
    if namespace::is_inside() {
        namespace::raise_loopback()?;
        return run_inside(arguments, directory);
    }
    ensure!(
        namespace::is_permitted(),
        "cannot create a user namespace and a network namespace, in which packets are captured \
         without root privileges: permit them (sysctl kernel.unprivileged_userns_clone, or the \
         settings of the container), or run it as root"
    );
    let mut command = namespace::command()?;
    let status = command.args(std::env::args_os().skip(1)).status().context("starting unshare")?;
    if !status.success() {
        return Ok(false);
    }
    if std::io::stdout().is_terminal() {
        // The one in the namespace has ended, and could not be reached from outside.
        hub::leave_open(&mut Hub::start(&directory.join("hub"))?)?;
    }
    Ok(true)
}

fn run_inside(arguments: &Arguments, directory: &Path) -> Result<bool> {
    let _lock = claim(directory, "server")?;
    let begin = Instant::now();

    step("starting a private MariaDB without a plugin, and `tacho capture` on its packets");
    let mut server = start_server(arguments, directory)?;
    let port = server.port();
    let mut capture = Capture::start(port, &directory.join(NAME))?;
    let log_directory = capture.log().to_owned();

    step("filling the tables");
    let mut root = server.connect()?;
    let load = Sysbench::on(&login(port), "sbtest", "oltp_read_write").threads(arguments.threads);
    let counted = load.clone().user(COUNTED_USER).seconds(arguments.seconds);
    counted.prepare(&mut root)?;
    tagged::prepare(&mut root, TAGGING_THREADS)?;

    step("starting a hub, and `tacho ship` for the log");
    let mut central = Central::start(&directory.join("hub"), &log_directory)?;

    step(&format!(
        "recording oltp_read_write with {} connections for {} s, and the tagging client",
        arguments.threads, arguments.seconds
    ));
    let tagging = Load { port: Some(port), ..Load::new(server.socket(), RUN) };
    let (report, tally) = crate::record(&counted, tagging, |second, tagged| {
        println!("{}", crate::progress_text(second, tagged));
        Ok(())
    })?;
    // When the last statement is found, all packets before it are recorded.
    let mut conn = client::connect_tcp(port, "root", "")?;
    let caught_up = central.time_way(&mut conn, "caught-up")?;

    let other = load.user(PAIRED_USER);
    let lags = crate::measure_lag(&other, &central, &mut conn)?;
    drop(conn);
    capture.stop()?;

    let measured = measure_cost(&other, arguments, port, directory, &mut root)?;

    step("stopping the server and checking the log");
    drop(root);
    server.stop()?;
    let expected = Expected { tally: &tally, report: &report, status: None };
    let findings = check::check(&log_directory, &expected)?;

    step("searching the hub");
    let found = central.check(&log_directory, &tally, findings.lines)?;

    let summary = Summary {
        server: NAME,
        statements_acknowledged: report.answered() + tally.acknowledged.len() as u64,
        log_directory: &log_directory,
        findings: &findings,
        found: &found,
        caught_up,
        lags: &lags,
        measured: &measured,
        notes: NOTES,
        complaints: server::complaints(&server.error_log(), &[server::KNOWN, NO_CARD].concat()),
    };
    crate::finish(&summary, directory, begin)
}

fn login(port: u16) -> Login {
    Login {
        address: Address::Tcp("127.0.0.1".to_owned(), port),
        user: "root".to_owned(),
        password: String::new(),
    }
}

fn start_server(arguments: &Arguments, directory: &Path) -> Result<PrivateServer> {
    let builder = Builder::new(build_directory().join("test"))
        .option(server::NO_NATIVE_AIO)
        .option(Product::MariaDb.redo_log_option(REDO_LOG_MIB))
        .option("skip-ssl");
    crate::start_server(builder, arguments, directory)
}

/// The throughput with and without a capture: the one that is checked has ended, and the log of
/// this one is removed.
fn measure_cost(
    load: &Sysbench,
    arguments: &Arguments,
    port: u16,
    directory: &Path,
    root: &mut Conn,
) -> Result<Measured> {
    step(&format!(
        "measuring the cost: {} pairs of {} ms without and with a capture",
        arguments.pairs, arguments.block_ms
    ));
    // The texts of statements that were prepared before a capture are not in its log: writing them
    // is a part of the cost.
    let load = load.clone().option("--db-ps-mode=disable");
    let place = directory.join("cost");
    let mut running: Option<Capture> = None;
    let switch = |_: &mut Conn, on: bool| -> Result<()> {
        match (on, running.take()) {
            (true, None) => running = Some(Capture::start(port, &place)?),
            (true, capture) => running = capture,
            (false, Some(mut capture)) => capture.stop()?,
            (false, None) => {}
        }
        Ok(())
    };
    let measured = crate::measure_cost(&load, arguments, root, switch)?;
    if let Some(mut capture) = running {
        capture.stop()?;
    }
    fs::remove_dir_all(&place)?;
    Ok(measured)
}
