//! The rounds of a group of methods under one load.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Side;
use crate::blocks::{Bench, Timing};
use crate::figures::{Design, Pair, Pairs};
use crate::lines::{BlockLine, Line, Measured};
use crate::load::LoadPlan;
use crate::method::{Method, NONE_AGAIN, Switch};
use crate::output::Output;
use crate::plan::{self, Cell, Group};
use crate::sample::Edge;
use crate::signed_rank::VALUES_MIN;
use crate::stats::Estimate;

/// Before an interval can end the rounds: with fewer it is narrow by chance too often.
const ROUNDS_MIN: u32 = 8;

/// How long a load runs before the other has its turn: much shorter than the machine keeps a speed,
/// and long enough for hundreds of queries.
const TURN: Duration = Duration::from_millis(50);

/// Time for the queries that are under way, and for the recorder, which writes every 100 ms.
const SETTLING: Duration = Duration::from_millis(150);

/// What to measure under one load.
pub(super) struct Task<'a> {
    pub cell: &'a Cell,
    pub group: &'a Group,
    /// What is on at the other server.
    pub baseline: &'a Method,
    /// The load of each server.
    pub plans: [LoadPlan; 2],
    pub timing: Timing,
    /// The widest interval, as a share on either side, that ends the rounds of a method.
    pub interval: f64,
    /// No further round begins, once there are [`ROUNDS_MIN`].
    pub until: Option<Instant>,
    /// Times are reported relative to this moment.
    pub began: Instant,
    /// Blocks so far in the run.
    pub blocks: u32,
}

/// Half of a round.
struct Half<'a> {
    /// Its method, by which it is named.
    method: &'a Method,
    /// What is on at each server.
    on: [&'a Method; 2],
    /// The server with the method.
    subject: usize,
    /// Number of the round, and of the half in it, from 1.
    round: u32,
    number: u32,
}

impl<'a> Half<'a> {
    fn new(task: &Task<'a>, method: &'a Method, subject: usize, round: u32, number: u32) -> Self {
        let mut on = [task.baseline; 2];
        if method.name != NONE_AGAIN {
            on[subject] = method;
        }
        Self { method, on, subject, round, number }
    }

    /// What was on at a server, as in the results.
    fn name_of(&self, server: usize) -> &'a str {
        if server == self.subject { &self.method.name } else { &self.on[server].name }
    }
}

/// A block of each server, at the same time.
struct Blocks {
    at: Instant,
    measured: [Measured; 2],
    seconds: [f64; 2],
}

impl<'a> Task<'a> {
    /// Measures until each method is exact enough, or rounds or time are used up.
    pub fn run(&mut self, sides: &mut [Side; 2], out: &mut Output) -> Result<Vec<Pairs>> {
        let methods = &self.group.methods;
        let mut all: Vec<Pairs> = methods.iter().map(|_| Pairs::new(Design::SideBySide)).collect();
        if !self.blocks_have_own_load() {
            self.start_loads(sides)?;
        }
        for number in 0..self.timing.pairs {
            let mut open: Vec<bool> = all.iter().map(|pairs| self.is_open(number, pairs)).collect();
            let late = self.until.is_some_and(|until| Instant::now() > until);
            if !open.contains(&true) || (late && number >= ROUNDS_MIN) {
                break;
            }
            // The A/A pair belongs to the same minutes as the others.
            open[0] = true;
            let (order, b_first) = plan::round(number, all.len());
            for index in order.into_iter().filter(|index| open[*index]) {
                let subjects = if b_first { [1, 0] } else { [0, 1] };
                for (half, subject) in (1..).zip(subjects) {
                    let half = Half::new(self, &methods[index], subject, number + 1, half);
                    let blocks = self.measure(sides, &half)?;
                    self.write(sides, &half, &blocks, out)?;
                    add(&mut all[index], &half, blocks);
                }
                self.tell(&methods[index], &all[index], out);
            }
        }
        for side in sides.iter_mut() {
            side.stop_load()?;
            if self.group.switch == Switch::Restart {
                side.bench.restart(&[])?;
            }
        }
        Ok(all)
    }

    /// Whether a method needs another round.
    fn is_open(&self, rounds: u32, pairs: &Pairs) -> bool {
        let exact = |ratio: Estimate| half_width(&ratio) <= self.interval;
        rounds < ROUNDS_MIN || !pairs.cpu_ratio().is_some_and(exact)
    }

    /// Our own load can reconnect; any other must be restarted, as with a restarted server.
    fn blocks_have_own_load(&self) -> bool {
        match self.group.switch {
            Switch::Live => false,
            Switch::Reconnect => !self.cell.workload.is_sysbench(),
            Switch::Restart => true,
        }
    }

    fn start_loads(&self, sides: &mut [Side; 2]) -> Result<()> {
        for (side, plan) in sides.iter_mut().zip(&self.plans) {
            side.start_load(plan)?;
        }
        sides[0].bench.stop.sleep(self.timing.warm_up)?;
        sides.iter_mut().try_for_each(|side| side.load()?.pause())
    }

    /// Brings both servers into their states, measures a block, and switches everything off. A load
    /// runs only when it is needed: between hundreds of busy threads each statement takes long.
    fn measure(&self, sides: &mut [Side; 2], half: &Half<'_>) -> Result<Blocks> {
        let own_load = self.blocks_have_own_load();
        for (side, method) in sides.iter_mut().zip(half.on) {
            if self.group.switch == Switch::Restart {
                side.bench.restart(&method.options)?;
            }
            let Bench { switcher, stop, .. } = &mut side.bench;
            switcher.on(method, stop)?;
        }
        if own_load {
            self.start_loads(sides)?;
        } else {
            sides.iter_mut().try_for_each(|side| self.reconnect(side))?;
        }
        let blocks = self.block(sides, half)?;
        for (side, method) in sides.iter_mut().zip(half.on) {
            if own_load {
                side.stop_load()?;
            } else {
                // A session releases a plugin with its next statement.
                side.load()?.resume()?;
            }
            let Bench { switcher, conn, stop, .. } = &mut side.bench;
            switcher.off(conn, method, stop)?;
            side.bench.keep_log_small(method)?;
            if !own_load {
                side.load()?.pause()?;
            }
        }
        Ok(blocks)
    }

    /// New sessions, if the group needs them, and the time until they all work.
    fn reconnect(&self, side: &mut Side) -> Result<()> {
        let stop = side.bench.stop.clone();
        let load = side.load()?;
        load.resume()?;
        if self.group.switch == Switch::Reconnect {
            load.connect_again(&stop)?;
        }
        stop.sleep(self.timing.guard)?;
        load.pause()
    }

    /// Measures both servers, which take turns. At both edges neither has work: the recorder has
    /// written what it got.
    fn block(&self, sides: &mut [Side; 2], half: &Half<'_>) -> Result<Blocks> {
        for (side, method) in sides.iter_mut().zip(half.on) {
            side.bench.prepare_probe(method)?;
        }
        let stop = sides[0].bench.stop.clone();
        stop.sleep(SETTLING)?;
        let at = Instant::now();
        let [from_a, from_b] = edges(sides, half)?;
        let seconds = self.take_turns(sides, half.subject)?;
        stop.sleep(SETTLING)?;
        let [to_a, to_b] = edges(sides, half)?;
        for side in sides.iter_mut() {
            side.load()?.check()?;
        }
        let of = |side: &Side, index: usize, from: &Edge, to: &Edge| -> Result<_> {
            let (mut measured, _) = side.bench.probe(half.on[index])?.between(from, to);
            measured.qps = measured.queries as f64 / seconds[index];
            measured.tps = measured.events.map(|events| events as f64 / seconds[index]);
            // The pauses are in them.
            measured.latency = None;
            Ok(measured)
        };
        let measured = [of(&sides[0], 0, &from_a, &to_a)?, of(&sides[1], 1, &from_b, &to_b)?];
        Ok(Blocks { at, measured, seconds })
    }

    /// Lets the loads run in turns, the first of a pair of turns alternately, until each has run
    /// for the length of a block. Returns for how long each has run, seconds.
    fn take_turns(&self, sides: &mut [Side; 2], first: usize) -> Result<[f64; 2]> {
        let stop = sides[0].bench.stop.clone();
        let pairs = (self.timing.block.as_secs_f64() / TURN.as_secs_f64()).round().max(1.0) as u32;
        let turn = self.timing.block / pairs;
        let mut seconds = [0.0; 2];
        for pair in 0..pairs as usize {
            let one = (first + pair) % 2;
            for side in [one, 1 - one] {
                let load = sides[side].load()?;
                let began = Instant::now();
                load.resume()?;
                stop.sleep(turn)?;
                load.pause()?;
                seconds[side] += began.elapsed().as_secs_f64();
            }
        }
        Ok(seconds)
    }

    /// Writes a line for each server.
    fn write(
        &mut self,
        sides: &[Side; 2],
        half: &Half<'_>,
        blocks: &Blocks,
        out: &mut Output,
    ) -> Result<()> {
        for (index, side) in sides.iter().enumerate() {
            self.blocks += 1;
            out.line(Line::Block(Box::new(BlockLine {
                block: self.blocks,
                load: self.cell.line(),
                method: half.name_of(index).to_owned(),
                compared: half.method.name.clone(),
                switch: self.group.switch,
                pair: half.round,
                server: Some(side.name.to_owned()),
                half: Some(half.number),
                at_s: (blocks.at - self.began).as_secs_f64(),
                seconds: blocks.seconds[index],
                measured: blocks.measured[index].clone(),
            })))?;
        }
        Ok(())
    }

    /// Shows what is known of a method so far.
    fn tell(&self, method: &Method, pairs: &Pairs, out: &mut Output) {
        let known = pairs.cpu_ratio().map_or("unknown".to_owned(), |ratio| {
            let width = match half_width(&ratio) * 100.0 {
                _ if pairs.rounds() < VALUES_MIN => "too few rounds for an interval".to_owned(),
                width => format!("known to ±{width:.1} %"),
            };
            format!("CPU per query × {:.3}, {width}", ratio.median)
        });
        out.progress(&format!(
            "{:>5.0} s  {}, {} + {} connections  round {} of at most {}  {}: {known}",
            self.began.elapsed().as_secs_f64(),
            self.cell.workload.name,
            self.cell.threads,
            self.cell.threads,
            pairs.rounds(),
            self.timing.pairs,
            method.name
        ));
    }
}

/// The counters of both servers, as close to each other as can be.
fn edges(sides: &mut [Side; 2], half: &Half<'_>) -> Result<[Edge; 2]> {
    let [a, b] = sides;
    let of = |side: &mut Side, method| -> Result<Edge> {
        side.bench.read(method, side.load.as_ref().context("no load")?)
    };
    Ok([of(a, half.on[0])?, of(b, half.on[1])?])
}

/// Adds half a round to the pairs of its method.
fn add(pairs: &mut Pairs, half: &Half<'_>, blocks: Blocks) {
    let [a, b] = blocks.measured;
    pairs.pairs.push(if half.subject == 0 {
        Pair { off: b, on: a }
    } else {
        Pair { off: a, on: b }
    });
}

/// The wider side of an interval, as a share of the ratio.
fn half_width(ratio: &Estimate) -> f64 {
    (ratio.high / ratio.median).max(ratio.median / ratio.low) - 1.0
}
