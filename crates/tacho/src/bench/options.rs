//! From the command line to the options of a run.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tacho_bench::blocks::Timing;
use tacho_bench::method::{Method, Methods, NONE};
use tacho_bench::run::{Options, SideBySide};
use tacho_bench::target::PrivateOptions;
use tacho_bench::workload::Workload;
use tacho_sandbox::client::Login;
use tacho_sandbox::installation::Installation;

use super::args::BenchArgs;

/// With `--quick`, no optional round starts after this time. Setup and report take another half
/// minute.
const QUICK: Duration = Duration::from_secs(100);

/// With `--side-by-side`: what ends the rounds of a method unless another interval is given.
const INTERVAL_PERCENT: f64 = 1.0;

/// The widest A/A interval unless another is given, as a share.
const NOISE_MAX: f64 = 0.1;

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

/// The options of a run.
pub(super) fn options(
    args: &BenchArgs,
    methods: &Methods,
    login: Option<Login>,
) -> anyhow::Result<Options> {
    let mut chosen = chosen_methods(args, methods)?;
    ensure!(!chosen.is_empty(), "no method to compare with `none`: name one with --method");
    let mut named = args.method.clone();
    let side_by_side = side_by_side(args)?;
    if let Some(baseline) = side_by_side.as_ref().map(|wanted| &wanted.baseline)
        && baseline != NONE
    {
        chosen.retain(|method| method.name != *baseline);
        ensure!(!chosen.is_empty(), "no method to compare with {baseline}: name one with --method");
        chosen.extend(methods.choose(std::slice::from_ref(baseline))?);
        named.push(baseline.clone());
    }
    let workloads = match &args.command {
        Some(command) => vec![Workload::command(command)],
        None => chosen_workloads(args)?,
    };
    let threads = match &*args.threads {
        [] if args.quick => vec![8],
        [] if args.side_by_side => vec![64],
        [] => vec![8, 64],
        threads => threads.to_vec(),
    };
    let threads_max = threads.iter().copied().max().unwrap_or(1);
    let (block, guard) =
        if args.side_by_side { spans_side_by_side(threads_max) } else { spans(threads_max) };
    let (block, guard) = (args.block.unwrap_or(block), args.guard.unwrap_or(guard));
    ensure!(!block.is_zero(), "--block must be more than 0s");
    let pairs = match (args.quick, args.side_by_side) {
        (true, _) => 8,
        (false, true) => 40,
        (false, false) => 15,
    };
    Ok(Options {
        login,
        methods: chosen,
        named,
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
        rates: rates(args)?,
        timing: Timing {
            block,
            guard,
            warm_up: args.warm_up,
            pairs: args.pairs.unwrap_or(pairs),
            deadline: if args.quick { Some(QUICK) } else { args.max_time },
        },
        side_by_side,
        noise_max: noise_max(args)?.unwrap_or(NOISE_MAX),
        tables: (args.tables, args.rows),
        prepared: args.prepared,
        directory: args.directory.clone().unwrap_or_else(std::env::temp_dir),
        switch_off_audit: args.switch_off_audit,
    })
}

/// The widest A/A interval of the command line, as a share.
pub(super) fn noise_max(args: &BenchArgs) -> anyhow::Result<Option<f64>> {
    let good = |percent: f64| percent.is_finite() && percent > 0.0;
    ensure!(args.noise_max.is_none_or(good), "--noise-max must be more than 0");
    Ok(args.noise_max.map(|percent| percent / 100.0))
}

fn chosen_methods(args: &BenchArgs, methods: &Methods) -> anyhow::Result<Vec<Method>> {
    if !args.method.is_empty() {
        return methods.choose(&args.method);
    }
    let mut chosen = methods.choose(&DEFAULT_METHODS.map(str::to_owned))?;
    // A method file on the command line is always measured.
    let built_in = Methods::built_in()?;
    chosen.extend(methods.iter().filter(|m| built_in.get(&m.name).is_none()).cloned());
    if args.instructions {
        chosen = methods.choose(&COUNTED_METHODS.map(str::to_owned))?;
    }
    if args.quick {
        let slow = ["general_log_table", "slow_log", "init_connect", "rewriter", "tacho-rewrite"];
        chosen.retain(|method| !slow.contains(&&*method.name));
    }
    Ok(chosen)
}

fn side_by_side(args: &BenchArgs) -> anyhow::Result<Option<SideBySide>> {
    if !args.side_by_side {
        return Ok(None);
    }
    let interval = args.interval_max.unwrap_or(INTERVAL_PERCENT);
    ensure!(interval.is_finite() && interval > 0.0, "--interval-max must be more than 0");
    let baseline = args.baseline.clone().unwrap_or_else(|| NONE.to_owned());
    ensure!(
        baseline == NONE || !baseline.ends_with(":*"),
        "--baseline {baseline}: expected one method"
    );
    Ok(Some(SideBySide { interval: interval / 100.0, baseline }))
}

fn rates(args: &BenchArgs) -> anyhow::Result<Vec<Option<f64>>> {
    if args.rate.is_empty() {
        return Ok(vec![None]);
    }
    let rates = args.rate.iter().map(|rate| {
        ensure!(
            rate.is_finite() && *rate >= 0.0,
            "--rate {rate} is negative; give 0 (closed loop) or more"
        );
        Ok((*rate > 0.0).then_some(*rate))
    });
    rates.collect()
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

/// The same for two servers: switching takes seconds there, so that blocks are longer.
fn spans_side_by_side(threads_max: u32) -> (Duration, Duration) {
    let (block, guard) = spans(threads_max);
    (block.max(Duration::from_secs(2)), guard)
}

fn chosen_workloads(args: &BenchArgs) -> anyhow::Result<Vec<Workload>> {
    let known = Workload::built_in();
    let mut names: Vec<&str> = args.workload.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.push("oltp_point_select");
        if !args.quick {
            names.push("oltp_read_write");
        }
        if args.side_by_side {
            names.push("oltp_read_only");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds((block, guard): (Duration, Duration)) -> (f64, f64) {
        (block.as_secs_f64(), guard.as_secs_f64())
    }

    #[test]
    fn many_connections_have_longer_blocks() {
        assert_eq!(seconds(spans(1)), (1.0, 0.3));
        assert_eq!(seconds(spans(128)), (1.0, 0.3));
        assert_eq!(seconds(spans(256)), (2.0, 1.0));
        assert_eq!(seconds(spans(512)), (4.0, 2.0));
    }

    #[test]
    fn two_servers_have_longer_blocks() {
        assert_eq!(seconds(spans_side_by_side(64)), (2.0, 0.3));
        assert_eq!(seconds(spans_side_by_side(512)), (4.0, 2.0));
    }
}
