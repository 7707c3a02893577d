//! Measures block after block.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::{Pair, Pairs};
use crate::histogram::Histogram;
use crate::lines::{BlockLine, Line, Measured};
use crate::load::{Load, LoadPlan};
use crate::method::{Method, NONE, Switch};
use crate::output::Output;
use crate::plan::{self, Cell, Group};
use crate::sample::{Edge, Probe, files_of};
use crate::stop::Stop;
use crate::switch::Switcher;
use crate::target::Target;
use tacho_sandbox::client::{Conn, Queryable};

/// Fewer pairs are meaningless, however little time there is.
const PAIRS_MIN: u32 = 5;

/// A larger log is emptied between blocks, on a private server.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// Lengths and numbers of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Length of a block.
    pub block: Duration,
    /// Time after a switch that is not measured.
    pub guard: Duration,
    /// The same after a new load or server.
    pub warm_up: Duration,
    /// Pairs for each method and load.
    pub pairs: u32,
    /// No further round begins after this time, once there are enough pairs.
    pub deadline: Option<Duration>,
}

/// A server that is being measured.
#[derive(Debug)]
pub struct Bench {
    /// The server.
    pub target: Target,
    /// The bench's own connection.
    pub conn: Conn,
    /// The method that is on.
    pub switcher: Switcher,
    /// Whether to stop.
    pub stop: Stop,
    /// Log files of the methods.
    pub log_files: Vec<PathBuf>,
    timing: Timing,
    began: Instant,
    blocks_done: u32,
    blocks_planned: u32,
    /// What to read for each method, under the current load.
    probes: BTreeMap<String, Probe>,
}

/// One measured block.
struct Block {
    at: Instant,
    seconds: f64,
    measured: Measured,
    histogram: Histogram,
}

impl Bench {
    /// Without measurements.
    pub fn new(target: Target, conn: Conn, switcher: Switcher, stop: Stop, timing: Timing) -> Self {
        Self {
            target,
            conn,
            switcher,
            stop,
            log_files: Vec::new(),
            timing,
            began: Instant::now(),
            blocks_done: 0,
            blocks_planned: 0,
            probes: BTreeMap::new(),
        }
    }

    /// Times are reported relative to this moment.
    pub fn begin(&mut self, began: Instant, blocks_planned: u32) {
        self.began = began;
        self.blocks_planned = blocks_planned;
    }

    /// Switches a method on and off, without a load.
    ///
    /// # Errors
    /// The server does not support it, or must not be changed.
    pub fn rehearse(&mut self, method: &Method, may_switch_off: bool) -> Result<()> {
        self.switcher.prepare(&mut self.conn, method)?;
        if let Some(variable) = self.switcher.would_switch_off(method)
            && !self.target.is_private()
        {
            ensure!(
                may_switch_off,
                "{variable} is ON, and comparing means switching it off for a while: \
                 --switch-off-audit allows that"
            );
        }
        self.switcher.set_up(&mut self.conn, method)?;
        let tried = self.switcher.on(method, &self.stop).and_then(|()| {
            let probe = self.target.probe(&mut self.conn, method)?;
            self.log_files.extend(probe.log);
            Ok(())
        });
        // Undoes a partial change, so that the other methods can be measured.
        let off = self.switcher.off(&mut self.conn, method, &self.stop);
        tried?;
        off
    }

    /// Measures all methods of a group under one load.
    ///
    /// # Errors
    /// The server or the load fails, or the run is interrupted.
    pub fn run_group(
        &mut self,
        cell: &Cell,
        group: &Group,
        plan: &LoadPlan,
        work: &Path,
        out: &mut Output,
    ) -> Result<Vec<Pairs>> {
        let mut all: Vec<Pairs> = group.methods.iter().map(|_| Pairs::default()).collect();
        // Our own load can reconnect; any other must be restarted.
        let one_load = match group.switch {
            Switch::Live => true,
            Switch::Reconnect => plan.workload.is_sysbench(),
            Switch::Restart => false,
        };
        let mut load = if one_load { Some(self.start_load(plan, work)?) } else { None };
        for number in 0..self.timing.pairs {
            let late = self.timing.deadline.is_some_and(|limit| self.began.elapsed() > limit);
            if late && number >= PAIRS_MIN {
                break;
            }
            let (order, on_first) = plan::round(number, group.methods.len());
            for index in order {
                let method = &group.methods[index];
                let mut pair = Pair::default();
                for on in [on_first, !on_first] {
                    let block = match &mut load {
                        Some(load) => self.live_block(method, on, load)?,
                        None => self.fresh_block(method, on, plan, work)?,
                    };
                    self.tell(cell, method, on, number + 1, &block, out)?;
                    let pairs = &mut all[index];
                    if on {
                        pairs.histogram_on.merge(&block.histogram);
                        pair.on = block.measured;
                    } else {
                        pairs.histogram_off.merge(&block.histogram);
                        pair.off = block.measured;
                    }
                }
                all[index].pairs.push(pair);
            }
        }
        if let Some(load) = load {
            load.stop()?;
        }
        if group.switch == Switch::Restart {
            self.restart(&[])?;
        }
        Ok(all)
    }

    fn start_load(&mut self, plan: &LoadPlan, work: &Path) -> Result<Load> {
        let load = plan.start(work, &self.stop)?;
        self.forget_probes();
        self.stop.sleep(self.timing.warm_up)?;
        Ok(load)
    }

    /// A block under a load that continues from block to block.
    fn live_block(&mut self, method: &Method, on: bool, load: &mut Load) -> Result<Block> {
        if on {
            self.switcher.on(method, &self.stop)?;
        }
        if method.switch == Switch::Reconnect {
            load.connect_again(&self.stop)?;
        }
        let block = self.block(method, on, self.timing.guard, load);
        self.end_block(method, on, block)
    }

    /// A block with its own load and, if necessary, its own server.
    fn fresh_block(
        &mut self,
        method: &Method,
        on: bool,
        plan: &LoadPlan,
        work: &Path,
    ) -> Result<Block> {
        if method.switch == Switch::Restart {
            self.restart(if on { &method.options } else { &[] })?;
        }
        if on {
            self.switcher.on(method, &self.stop)?;
        }
        let mut load = self.start_load(plan, work)?;
        let block = self.block(method, on, Duration::ZERO, &mut load);
        load.stop()?;
        self.end_block(method, on, block)
    }

    fn end_block(&mut self, method: &Method, on: bool, block: Result<Block>) -> Result<Block> {
        let block = block?;
        if on {
            self.switcher.off(&mut self.conn, method, &self.stop)?;
            self.keep_log_small(method)?;
        }
        Ok(block)
    }

    fn block(
        &mut self,
        method: &Method,
        on: bool,
        guard: Duration,
        load: &mut Load,
    ) -> Result<Block> {
        let none = Method::none(NONE);
        let method = if on { method } else { &none };
        self.prepare_probe(method)?;
        load.begin_epoch();
        self.stop.sleep(guard)?;
        let from = self.read(method, load)?;
        self.stop.sleep(self.timing.block)?;
        let to = self.read(method, load)?;
        load.check()?;
        let (measured, histogram) = self.probe(method)?.between(&from, &to);
        let seconds = (to.at() - from.at()).as_secs_f64();
        Ok(Block { at: from.at(), seconds, measured, histogram })
    }

    /// Finds out what to read for a method that is on, once for each load.
    ///
    /// # Errors
    /// The server reports an error.
    pub(crate) fn prepare_probe(&mut self, method: &Method) -> Result<()> {
        if !self.probes.contains_key(&method.name) {
            let mut probe = self.target.probe(&mut self.conn, method)?;
            probe.companion = self.switcher.companion_pid(method);
            self.probes.insert(method.name.clone(), probe);
        }
        Ok(())
    }

    /// What to read for a method.
    ///
    /// # Errors
    /// It is not prepared.
    pub(crate) fn probe(&self, method: &Method) -> Result<&Probe> {
        self.probes.get(&method.name).context("a probe")
    }

    /// Forgets what to read: threads of another load are others.
    pub(crate) fn forget_probes(&mut self) {
        self.probes.clear();
    }

    /// Reads the counters of the server and its load.
    ///
    /// # Errors
    /// The server reports an error, or has ended.
    pub(crate) fn read(&mut self, method: &Method, load: &Load) -> Result<Edge> {
        self.probes.get(&method.name).context("a probe")?.read(&mut self.conn, load)
    }

    /// Restarts a private server, so that nothing remains of the attempt.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_afresh(&mut self) -> Result<()> {
        if self.target.is_private() { self.restart(&[]) } else { Ok(()) }
    }

    /// Restarts a private server with these additional options.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn restart(&mut self, options: &[String]) -> Result<()> {
        self.target.restart(options)?;
        self.conn = self.target.connect()?;
        self.switcher.restarted();
        Ok(())
    }

    /// Empties a large log of a private server; its method is off.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn keep_log_small(&mut self, method: &Method) -> Result<()> {
        let Some(probe) = self.probes.get(&method.name) else { return Ok(()) };
        let files: Vec<PathBuf> = probe.log.iter().flat_map(|pattern| files_of(pattern)).collect();
        let bytes: u64 = files.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum();
        // The binary log's list of files must stay correct, and the log starts small anyway.
        if !self.target.is_private() || bytes < LOG_BYTES_MAX || method.switch == Switch::Restart {
            return Ok(());
        }
        if method.shrink.is_empty() {
            for path in files {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        for statement in &method.shrink {
            self.conn.query_drop(statement)?;
        }
        Ok(())
    }

    fn tell(
        &mut self,
        cell: &Cell,
        method: &Method,
        on: bool,
        pair: u32,
        block: &Block,
        out: &mut Output,
    ) -> Result<()> {
        self.blocks_done += 1;
        let name = if on { &*method.name } else { NONE };
        let at_s = (block.at - self.began).as_secs_f64();
        let p99 = block
            .measured
            .latency
            .map_or(String::new(), |latency| format!(", p99 {:.2} ms", latency.p99_us / 1e3));
        out.progress(&format!(
            "[{:>3}/{}] {:>5.0} s  {}, {} connections{}  {name}: {:.0} queries/s{p99}",
            self.blocks_done,
            self.blocks_planned,
            at_s,
            cell.workload.name,
            cell.threads,
            cell.rate.map_or(String::new(), |rate| format!(" at {rate}/s")),
            block.measured.qps,
        ));
        out.line(Line::Block(Box::new(BlockLine {
            block: self.blocks_done,
            load: cell.line(),
            method: name.to_owned(),
            compared: method.name.clone(),
            switch: method.switch,
            pair,
            server: None,
            half: None,
            at_s,
            seconds: block.seconds,
            measured: block.measured.clone(),
        })))
    }

    /// Restores the state of the server, over a new connection: the old one may have failed.
    ///
    /// # Errors
    /// Something could not be restored.
    pub fn put_back(&mut self) -> Result<()> {
        self.conn = self.target.connect()?;
        self.switcher.finish(&mut self.conn)
    }
}
