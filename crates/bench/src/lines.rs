//! The lines of the result file: one JSON object each. `docs/specs/bench.md` describes them; the
//! report uses nothing else.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::method::Switch;
use crate::proc::Machine;

/// Version of the format of these lines.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The first line: the server, the machine and the settings.
    Run(Box<RunLine>),
    /// One for each block.
    Block(Box<BlockLine>),
    /// One for each method under each load, when its blocks are done.
    Result(Box<ResultLine>),
    /// One for each method, with `--instructions`.
    Instructions(InstructionsLine),
    /// The last line, if the run completed.
    End(EndLine),
}

/// Reads the lines of a file.
///
/// # Errors
/// It cannot be read, or has another format.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}, line {}", path.display(), index + 1))
        })
        .collect()
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLine {
    /// [`VERSION`].
    pub v: u32,
    /// Release of tacho.
    pub tacho: String,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// The server.
    pub server: ServerLine,
    /// The machine that the bench runs on.
    pub machine: Machine,
    /// The settings of the run.
    pub settings: Settings,
    /// The methods, [`crate::method::NONE`] first.
    pub methods: Vec<MethodLine>,
    /// Notes for the reader: omitted methods, and why.
    pub notes: Vec<String>,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerLine {
    /// `SELECT VERSION()`.
    pub version: String,
    /// Whether the bench started it.
    pub private: bool,
    /// Whether it runs on this machine, so that its processor time is known.
    pub local: bool,
    /// System variables that are relevant for the results.
    pub variables: BTreeMap<String, String>,
}

/// The settings of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Length of a block, seconds.
    pub block_s: f64,
    /// Time after a switch that is not measured, seconds.
    pub guard_s: f64,
    /// The same after a new load or server, seconds.
    pub warm_up_s: f64,
    /// Pairs of blocks for each method and load; most rounds of two servers side by side.
    pub pairs: u32,
    /// The widest A/A interval, as a share on either side of 1, with which figures are printed.
    pub noise_max: f64,
    /// Tables of the load.
    pub tables: u32,
    /// Rows in each.
    pub rows: u32,
    /// Whether the load used prepared statements.
    pub prepared: bool,
    /// With two servers at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_by_side: Option<SideBySideSettings>,
}

/// The settings of two servers side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideBySideSettings {
    /// The interval of the processor time per query that ends the rounds of a method, as a share on
    /// either side.
    pub interval: f64,
    /// No further round begins after this time, seconds.
    pub max_time_s: Option<f64>,
    /// What the methods are compared with, on the other server.
    pub baseline: String,
}

/// A method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodLine {
    /// Its name.
    pub name: String,
    /// The displayed title.
    pub title: String,
    /// How it is switched.
    pub switch: Switch,
}

/// The load of the clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadLine {
    /// Name of the workload.
    pub workload: String,
    /// Connections.
    pub threads: u32,
    /// Requested events per second, with an open loop.
    pub rate: Option<f64>,
}

/// A block: some seconds of one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockLine {
    /// Number in the run, from 1.
    pub block: u32,
    /// The load.
    #[serde(flatten)]
    pub load: LoadLine,
    /// Which method was on.
    pub method: String,
    /// The method of its pair.
    pub compared: String,
    /// How it was switched.
    pub switch: Switch,
    /// Number of the pair, or round, among those of `compared` under this load, from 1.
    pub pair: u32,
    /// Which of two servers side by side it is: `a` or `b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Half of the round, 1 or 2: between them the servers exchange their roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<u32>,
    /// When the block began, seconds since the run began.
    pub at_s: f64,
    /// Its length.
    pub seconds: f64,
    /// The measurements.
    #[serde(flatten)]
    pub measured: Measured,
}

/// The measurements of a block. Unknown values are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Statements that all clients sent to the server (`Questions`).
    pub queries: u64,
    /// The same per second.
    pub qps: f64,
    /// Events (transactions) of the load that ended.
    pub events: Option<u64>,
    /// The same per second.
    pub tps: Option<f64>,
    /// Events that were restarted after a deadlock.
    pub retried: Option<u64>,
    /// Processor time of the server between the two readings of `events`, seconds.
    #[serde(default)]
    pub events_cpu_s: Option<f64>,
    /// Latencies of the events.
    pub latency: Option<Latency>,
    /// Processor time of the server.
    pub cpu: Option<Cpu>,
    /// The machine during the block, if the server is on it.
    pub pressure: Option<Pressure>,
    /// Growth of the method's log, bytes.
    pub log_bytes: Option<u64>,
    /// Bytes written, as reported by the method.
    pub bytes_written: Option<u64>,
    /// Records written, as reported by the method.
    pub records_written: Option<u64>,
}

/// Latencies, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50_us: f64,
    /// 95 % took no longer.
    pub p95_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
    /// 99.9 % took no longer.
    pub p999_us: f64,
}

/// Processor time of the server in a block, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// All of it.
    pub total_s: f64,
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub sys_s: f64,
    /// Of threads that serve connections.
    pub query_s: f64,
    /// Of tacho's writer.
    pub writer_s: f64,
    /// Of all others.
    pub rest_s: f64,
    /// Time that threads were ready and waited for a processor.
    pub wait_s: f64,
    /// How often a thread gave up its processor.
    pub voluntary_switches: u64,
    /// How often a thread's processor was taken away.
    pub involuntary_switches: u64,
}

/// The machine in a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Share of processor time that other guests of the host took.
    pub steal: Option<f64>,
    /// Share of the time in which some task waited for a processor.
    pub cpu: Option<f64>,
    /// … for a disk.
    pub io: Option<f64>,
    /// … for memory.
    pub memory: Option<f64>,
}

/// A figure of a method against [`crate::method::NONE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureLine {
    /// Median of the paired ratios, method / none; missing if noise is too large.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Lower end of the interval of the A/A ratios, measured in the same way.
    pub floor_low: f64,
    /// Upper end of that interval.
    pub floor_high: f64,
    /// Median of the blocks with the method.
    pub on: f64,
    /// Median of the adjacent blocks without it.
    pub off: f64,
    /// The A/A interval is wider than `noise_max`: there is no ratio.
    pub too_noisy: bool,
    /// The difference method - none, of two servers side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<DifferenceLine>,
}

/// A difference, in the unit of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DifferenceLine {
    /// Of the method to none.
    pub estimate: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
}

/// A method under a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultLine {
    /// The load.
    #[serde(flatten)]
    pub load: LoadLine,
    /// The method.
    pub method: String,
    /// How it was switched.
    pub switch: Switch,
    /// Pairs of blocks, or rounds of two servers side by side.
    pub pairs: u32,
    /// By the name of the figure.
    pub figures: BTreeMap<String, FigureLine>,
    /// Latency of all blocks with the method: (share of events, µs).
    pub latency_curve: Vec<(f64, f64)>,
    /// The same for the adjacent blocks without the method.
    pub latency_curve_off: Vec<(f64, f64)>,
    /// Bytes of log per statement.
    pub log_bytes_per_query: Option<f64>,
    /// Records written in the blocks per statement, if the method counts them.
    #[serde(default)]
    pub records_per_query: Option<f64>,
}

/// Instructions of one statement, in user mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstructionsLine {
    /// The method.
    pub method: String,
    /// In the thread that executes it.
    pub query: u64,
    /// In tacho's writer.
    pub writer: u64,
    /// In all threads.
    pub process: u64,
}

/// The end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndLine {
    /// Length of the run, seconds.
    pub seconds: f64,
    /// Whether a throughput or processor figure was withheld because of noise.
    pub too_noisy: bool,
    /// Notes for the reader about the results.
    pub notes: Vec<String>,
}
