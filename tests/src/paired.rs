//! The cost of recording in throughput, measured with a meaningful result.
//!
//! The throughput of a shared machine drifts by a factor of two within a minute. So the two
//! variants alternate in short blocks under one running load, each block is compared with
//! its neighbour, and the median of these ratios is the result.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::{self, Conn};

/// How to alternate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pairs of one block without and one with recording.
    pub pairs: u32,
    /// Length of a measured block.
    pub block: Duration,
    /// Time between a switch and the measurement, for the load to settle.
    pub settle: Duration,
}

impl Plan {
    /// How long all of it takes.
    pub fn duration(&self) -> Duration {
        (self.block + self.settle) * 2 * self.pairs
    }
}

/// Transactions per second of one pair of neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Without recording.
    pub tps_off: f64,
    /// With recording.
    pub tps_on: f64,
}

impl Pair {
    /// Whether nothing happened in one of its blocks: the machine was busy with other work, and
    /// there is no ratio.
    pub fn stood_still(&self) -> bool {
        self.tps_off == 0.0 || self.tps_on == 0.0
    }
}

/// All pairs.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// In the order of measurement, without those that stood still.
    pub pairs: Vec<Pair>,
    /// Number of the others.
    pub stood_still: u32,
}

impl Measured {
    /// Median throughput without recording.
    pub fn tps_off(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.tps_off))
    }

    /// Median throughput with recording.
    pub fn tps_on(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.tps_on))
    }

    /// Median of the paired ratios, on / off. This is the figure to quote.
    pub fn ratio(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.tps_on / pair.tps_off))
    }
}

/// Alternates under a load of transactions that already runs. `switch` turns recording on or
/// off; `each` is called after each pair.
///
/// # Errors
/// The server refuses, or there was no load in any pair of blocks.
pub fn measure(
    conn: &mut Conn,
    plan: Plan,
    switch: impl FnMut(&mut Conn, bool) -> Result<()>,
    each: impl FnMut(u32, Pair),
) -> Result<Measured> {
    measure_by(conn, "Com_commit", plan, switch, each)
}

/// As [`measure`], for any load: it counts the server's status variable `counter`.
///
/// # Errors
/// The server refuses, or there was no load in any pair of blocks.
pub fn measure_by(
    conn: &mut Conn,
    counter: &str,
    plan: Plan,
    mut switch: impl FnMut(&mut Conn, bool) -> Result<()>,
    mut each: impl FnMut(u32, Pair),
) -> Result<Measured> {
    let mut measured = Measured::default();
    for number in 1..=plan.pairs {
        // Off-on, on-off, off-on …: a steady drift then favours neither.
        let on_first = number % 2 == 0;
        let mut block = |conn: &mut Conn, on: bool| -> Result<f64> {
            switch(conn, on)?;
            thread::sleep(plan.settle);
            per_second(conn, counter, plan.block)
        };
        let first = block(conn, on_first)?;
        let second = block(conn, !on_first)?;
        let (tps_off, tps_on) = if on_first { (second, first) } else { (first, second) };
        let pair = Pair { tps_off, tps_on };
        each(number, pair);
        if pair.stood_still() {
            measured.stood_still += 1;
        } else {
            measured.pairs.push(pair);
        }
    }
    ensure!(!measured.pairs.is_empty(), "no {counter} in {:?}: is there a load?", plan.block);
    Ok(measured)
}

fn per_second(conn: &mut Conn, counter: &str, block: Duration) -> Result<f64> {
    let before = client::status_number(conn, counter)?;
    let start = Instant::now();
    thread::sleep(block);
    let after = client::status_number(conn, counter)?;
    Ok((after - before) as f64 / start.elapsed().as_secs_f64())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_neighbours() {
        // The machine became three times as fast during the run; recording always costs 10 %.
        let pairs = [100.0, 200.0, 300.0].map(|tps| Pair { tps_off: tps, tps_on: tps * 0.9 });
        let measured = Measured { pairs: pairs.to_vec(), stood_still: 0 };
        assert!((measured.ratio() - 0.9).abs() < 1e-9);
        assert_eq!(measured.tps_off(), 200.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median([].into_iter()).is_nan());
        assert!(Pair { tps_off: 1.0, tps_on: 0.0 }.stood_still());
    }
}
