//! Zone: outside. `make demo`: the web UI with a day of varied traffic in it.
//!
//! 1. The logs of five servers are written for the past day, sealed, by the parts of the recorder
//!    and with the clock of that day ([`past`]).
//! 2. A private MariaDB with the recorder gets clients ([`live`]).
//! 3. A private hub receives all logs from `tacho ship`.
//! 4. On a terminal the web UI stays open, and all servers continue, until Ctrl-C. Otherwise, or
//!    with `--check`, the hub's answers are compared with the logs, and the exit code says the
//!    result.

mod check;
mod live;
mod past;

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use tacho_bench::stop::{Interrupted, Stop};
use tacho_tests::claim::claim;
use tacho_tests::hub::{Hub, HubClient, Process};
use tacho_tests::product::Product;

use live::Live;
use past::Server;

/// How often the servers of the past continue in the present.
const TICK: Duration = Duration::from_millis(250);
/// Longest time until the hub has everything: much more than it needs.
const DEADLINE: Duration = Duration::from_secs(600);
/// The same for alerts about what it has.
const ALERTS_DEADLINE: Duration = Duration::from_secs(120);

/// Shows the web UI with a day of traffic of several servers, and one server live.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Do not stay open: compare the hub with the logs, and end. The default without a terminal
    #[arg(long)]
    check: bool,
    /// Stay open without a terminal, too, until SIGINT or SIGTERM
    #[arg(long, conflicts_with = "check")]
    open: bool,
    /// The amount of traffic; 1: about 260,000 records
    #[arg(long, default_value_t = 1.0, value_parser = density)]
    density: f64,
    /// Address of the web UI; port 0: any free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Directory of all files; those of an earlier run are removed [default: build/demo of the
    /// source tree]
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn density(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(density) if density > 0.0 && density <= 20.0 => Ok(density),
        _ => Err("a number from 0 to 20".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.is::<Interrupted>() => {
            println!("interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("tacho-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let directory = match &arguments.directory {
        Some(directory) => std::path::absolute(directory)?,
        None => tacho_tests::build_directory().join("demo"),
    };
    let _lock = claim(&directory, "hub")?;
    let stop = Stop::on_signals()?;
    let is_terminal = std::io::stdout().is_terminal();
    let is_check = arguments.check || !(is_terminal || arguments.open);

    step("writing the logs of five servers for the past day");
    let servers = past::write(&directory, arguments.density, |part| {
        stop.check()?;
        progress(part, is_terminal)
    })?;
    let product = Product::wanted()?;
    step(&format!("starting a private {} with the recorder, and its clients", product.title));
    let live = Live::start(product, &directory.join("server"))?;
    stop.check()?;

    step("starting a hub, and `tacho ship` for each log");
    let mut demo = Demo::start(&directory, &arguments.listen, servers, live)?;
    let shown = demo.show(&directory, is_check, &stop);
    let ended = demo.end();
    let is_good = match shown {
        // Ctrl-C is the way to end it.
        Err(error) if error.is::<Interrupted>() && !is_check => true,
        shown => shown?,
    };
    ended?;
    Ok(is_good)
}

/// Everything that runs.
struct Demo {
    servers: Vec<Server>,
    live: Live,
    shippers: Vec<Process>,
    hub: Hub,
    client: HubClient,
}

impl Demo {
    fn start(directory: &Path, listen: &str, mut servers: Vec<Server>, live: Live) -> Result<Self> {
        let hub = Hub::start_on(&directory.join("hub"), listen)?;
        let mut shippers = Vec::new();
        for server in &mut servers {
            let name = server.name();
            shippers.push(hub.ship(server.log().directory(), name)?);
        }
        shippers.push(hub.ship(live.log_directory(), live::NAME)?);
        let client = hub.client("auditor")?;
        Ok(Self { servers, live, shippers, hub, client })
    }

    /// Shows the web UI, or checks the hub. `false`: something is wrong.
    fn show(&mut self, directory: &Path, is_check: bool, stop: &Stop) -> Result<bool> {
        let lines = self.wait_until_complete(stop)?;
        if is_check {
            return self.check(directory, &lines, stop);
        }
        let link = self.hub.sign_in_link()?;
        println!("\n  Open this link within 15 minutes; it works once:\n\n    {link}\n");
        println!("  Ctrl-C ends the demonstration. Its files are in {}.", directory.display());
        std::io::stdout().flush()?;
        loop {
            self.tick(stop)?;
        }
    }

    /// The servers of the past continue for a moment.
    fn tick(&mut self, stop: &Stop) -> Result<()> {
        stop.sleep(TICK)?;
        for server in &mut self.servers {
            server.advance(past::now_us())?;
        }
        Ok(())
    }

    /// Waits until the hub has received, verified and indexed the past; how many lines that are.
    fn wait_until_complete(&mut self, stop: &Stop) -> Result<BTreeMap<String, u64>> {
        step("waiting until the hub has everything");
        let lines = self.lines();
        let total = lines.values().sum::<u64>().max(1);
        let begin = Instant::now();
        loop {
            self.tick(stop)?;
            let servers = check::servers(&self.client)?;
            let number = |name: &str, field: &str| {
                let server = servers.iter().find(|server| server["server"] == name);
                server.and_then(|server| server[field].as_u64()).unwrap_or(0)
            };
            let done = |(name, lines): (&String, &u64)| {
                number(name, "verified_to_seq").min(number(name, "indexed_seq")).min(*lines)
            };
            let all: u64 = lines.iter().map(done).sum();
            progress(all as f64 / total as f64, std::io::stdout().is_terminal())?;
            // Of the live server one record is enough.
            if all == total && number(live::NAME, "indexed_seq") > 0 {
                return Ok(lines);
            }
            if begin.elapsed() > DEADLINE {
                bail!("the hub has only {all} of {total} records after {DEADLINE:?}: {servers:?}");
            }
        }
    }

    fn lines(&mut self) -> BTreeMap<String, u64> {
        self.servers
            .iter_mut()
            .map(|server| (server.name().to_owned(), server.log().lines()))
            .collect()
    }

    fn check(
        &mut self,
        directory: &Path,
        lines: &BTreeMap<String, u64>,
        stop: &Stop,
    ) -> Result<bool> {
        let begin = Instant::now();
        let mut found = check::check(&self.client, lines)?;
        // The hub looks for what is wrong every few seconds.
        while !found.problems.is_empty() && begin.elapsed() < ALERTS_DEADLINE {
            self.tick(stop)?;
            found = check::check(&self.client, lines)?;
        }
        let path = directory.join("result.json");
        fs::write(&path, found.to_json().to_string() + "\n")?;
        for (server, records) in &found.records {
            println!("  {server}: {records} records");
        }
        for alert in &found.alerts {
            println!("  alert: {alert}");
        }
        for problem in &found.problems {
            println!("  PROBLEM: {problem}");
        }
        println!("details: {}", path.display());
        Ok(found.problems.is_empty())
    }

    /// Ends everything, in the order in which it depends on each other.
    fn end(mut self) -> Result<()> {
        step("ending everything");
        self.live.stop().context("ending the live server")?;
        for server in &mut self.servers {
            if server.log().is_recording() {
                server.log().stop(past::now_us())?;
            }
        }
        for shipper in &mut self.shippers {
            shipper.stop()?;
        }
        self.hub.process().stop()
    }
}

fn step(what: &str) {
    println!("==> {what}");
}

/// Shows how much is done, on a terminal.
fn progress(part: f64, is_terminal: bool) -> Result<()> {
    if is_terminal {
        let end = if part < 1.0 { "\r" } else { "\n" };
        print!("  {:>3.0} %{end}", part * 100.0);
        std::io::stdout().flush()?;
    }
    Ok(())
}
