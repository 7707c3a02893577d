//! Zone: outside. What recording costs in throughput: `bench/tps/README.md`.
//!
//! One private server, one running sysbench for each workload. First pairs of blocks without
//! and with recording, then as many in which nothing is switched: how far those are from 1 is
//! how much the first figure can be trusted.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tacho_tests::client::{Conn, Queryable};
use tacho_tests::paired::{self, Measured, Plan};
use tacho_tests::server::MariaDb;
use tacho_tests::sysbench::Sysbench;

/// Measures what recording costs in throughput.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Connections of sysbench
    #[arg(long, default_value_t = 64)]
    threads: u32,
    /// Pairs of blocks for each figure
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Length of a block in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    block_ms: u64,
}

/// sysbench's script, and the server's counter of what it does.
const WORKLOADS: [(&str, &str); 2] =
    [("oltp_point_select", "Questions"), ("oltp_read_write", "Com_commit")];

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tacho-tps: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let server = MariaDb::builder()
        .option(format!("max-connections={}", arguments.threads + 50))
        .option("innodb-buffer-pool-size=256M")
        .option("innodb-log-file-size=256M")
        .start()?;
    let mut conn = server.connect()?;
    conn.query_drop("INSTALL SONAME 'tacho'").context("is the plugin built (`make build`)?")?;
    let plan = Plan {
        pairs: arguments.pairs,
        block: Duration::from_millis(arguments.block_ms),
        settle: Duration::from_millis(150),
    };
    println!("{:20}{:>12}{:>12}{:>10}{:>10}", "", "off /s", "on /s", "on/off", "A/A");
    for (index, (script, counter)) in WORKLOADS.into_iter().enumerate() {
        let load = Sysbench::new(server.socket(), script)
            .threads(arguments.threads)
            // Both measurements, and some seconds to begin and to spare.
            .seconds(plan.duration().as_secs() * 2 + 8)
            .option("--db-ps-mode=disable");
        if index == 0 {
            load.prepare(&mut conn)?;
        }
        let mut sysbench = load.start_quietly()?;
        std::thread::sleep(Duration::from_secs(1));
        let measured = measure(&mut conn, counter, plan);
        let still_runs = sysbench.try_wait()?.is_none();
        sysbench.kill()?;
        sysbench.wait()?;
        let (cost, same) = measured?;
        ensure!(still_runs, "sysbench ended during the measurement: the figures mean nothing");
        println!(
            "{script:20}{:12.0}{:12.0}{:10.3}{:10.3}",
            cost.tps_off(),
            cost.tps_on(),
            cost.ratio(),
            same.ratio()
        );
    }
    Ok(())
}

/// Pairs of off and on, and pairs of on and on.
fn measure(conn: &mut Conn, counter: &str, plan: Plan) -> Result<(Measured, Measured)> {
    let switch = |conn: &mut Conn, on: bool| {
        let value = if on { "ON" } else { "OFF" };
        Ok(conn.query_drop(format!("SET GLOBAL tacho_logging={value}"))?)
    };
    let cost = paired::measure_by(conn, counter, plan, switch, |_, _| {})?;
    let same = paired::measure_by(conn, counter, plan, |conn, _| switch(conn, true), |_, _| {})?;
    Ok((cost, same))
}
