//! Whether a thread that has work is on a CPU or waits for one.
//!
//! The kernel shows both as state `R`. But it counts, for each thread, how long it was on a CPU and
//! how long it waited for one. A thread that is in `R` at a sample counts as running with the
//! probability that these counts give for the time since its previous sample, and else as runnable.
//!
//! It does not look at the moment of the sample itself, because the sample changes it: the sampler
//! occupies a CPU while it looks, so on a machine with two at most one other thread could be found
//! on a CPU.
//!
//! Limits:
//!
//! - The state is right on average, not for each sample: the stacks of a thread share its
//!   proportion. Only a thread that has just been woken from a wait is always runnable.
//! - The proportion follows a change within several samples.
//! - A thread that the sampler has not met before has the proportion of its whole life.
//! - The kernel updates the time on a CPU once per tick (1 to 10 ms), and the time of waiting when
//!   it ends.
//! - A kernel without `CONFIG_SCHED_INFO` counts nothing: then all of these threads are running.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::ThreadState;
use crate::task::Ran;

/// How much of the counts of earlier samples stays with each sample: with the last one alone, a
/// wait that has not ended would count too little.
const KEPT: f64 = 0.8;

/// The weight of the time before the first sample.
const LIFE_NS: f64 = 1e6;

/// How many samples a thread can owe to `running` while it is found just woken each time.
const OWED_MAX: f64 = 4.0;

/// The counts of one thread at its last sample, and what rounding has left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    counted: Ran,
    run_ns: f64,
    wait_ns: f64,
    /// Waiting that is counted here, and not yet by the kernel.
    ahead_ns: f64,
    /// Samples that are owed to `running`, from -0.5.
    owed: f64,
}

/// What the kernel has counted for all threads while they were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    /// Time on a CPU, in all threads.
    pub run_ns: u64,
    /// Time of waiting for a CPU, in all threads, without waits that have not ended.
    pub wait_ns: u64,
}

impl Turns {
    /// Counts from now on, for a thread that began before the first sample.
    pub fn since(counted: Ran) -> Self {
        // Its life is a hint of little weight.
        let (run_ns, wait_ns) = (counted.run_ns as f64, counted.wait_ns as f64);
        let scale = LIFE_NS / (run_ns + wait_ns).max(LIFE_NS);
        Self { counted, run_ns: run_ns * scale, wait_ns: wait_ns * scale, ..Self::default() }
    }

    /// Takes the counts of a sample, `elapsed` after the previous one.
    pub fn advance(&mut self, now: Ran, elapsed: Duration, sum: &mut Scheduled) {
        let before = std::mem::replace(&mut self.counted, now);
        let run_ns = now.run_ns.saturating_sub(before.run_ns);
        let wait_ns = now.wait_ns.saturating_sub(before.wait_ns);
        sum.run_ns += run_ns;
        sum.wait_ns += wait_ns;
        let (run, mut wait) = (run_ns as f64, wait_ns as f64);
        if now.turns == before.turns {
            // Without a new turn it was on its CPU, and then waited, without an end so far.
            wait = (elapsed.as_nanos() as f64 - run).max(0.0);
            self.ahead_ns += wait;
        } else {
            let counted_before = self.ahead_ns.min(wait);
            wait -= counted_before;
            self.ahead_ns = 0.0;
        }
        self.run_ns = self.run_ns * KEPT + run;
        self.wait_ns = self.wait_ns * KEPT + wait;
    }

    /// The state of a sample in `R`, so that over many samples the proportion is met.
    /// `is_just_woken`: it was found where it had waited.
    pub fn state(&mut self, is_just_woken: bool) -> ThreadState {
        if self.counted.run_ns == 0 && self.counted.wait_ns == 0 {
            return ThreadState::Running;
        }
        let work = self.run_ns + self.wait_ns;
        self.owed = (self.owed + if work > 0.0 { self.run_ns / work } else { 1.0 }).min(OWED_MAX);
        if self.owed >= 0.5 && !is_just_woken {
            self.owed -= 1.0;
            ThreadState::Running
        } else {
            ThreadState::Runnable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const INTERVAL: Duration = Duration::from_millis(100);

    fn ran(run_ms: u64, wait_ms: u64, turns: u64) -> Ran {
        Ran { run_ns: run_ms * MS, wait_ns: wait_ms * MS, turns }
    }

    /// States of a thread that is in R at each of these samples.
    fn states(samples: &[Ran]) -> (Vec<ThreadState>, Scheduled) {
        let mut turns = Turns::since(samples[0]);
        let mut sum = Scheduled::default();
        let state = |now: &Ran| {
            turns.advance(*now, INTERVAL, &mut sum);
            turns.state(false)
        };
        let states = samples[1..].iter().map(state).collect();
        (states, sum)
    }

    fn running(states: &[ThreadState]) -> usize {
        states.iter().filter(|state| **state == ThreadState::Running).count()
    }

    #[test]
    fn a_thread_that_hardly_waited_runs() {
        let (states, _) = states(&[ran(10, 0, 3), ran(109, 0, 3), ran(209, 1, 4)]);
        assert_eq!(states, [ThreadState::Running; 2]);
    }

    #[test]
    fn a_thread_that_gets_no_cpu_is_runnable() {
        let (states, _) = states(&[ran(10, 5, 3), ran(10, 5, 3), ran(11, 195, 4)]);
        assert_eq!(states, [ThreadState::Runnable; 2]);
    }

    #[test]
    fn samples_are_shared_in_the_proportion_of_the_counts() {
        // It waits three times as long as it runs.
        let samples: Vec<Ran> = (0..=400).map(|n| ran(25 * n, 75 * n, 10 * n)).collect();
        let (states, sum) = states(&samples);
        assert_eq!((running(&states), states.len()), (100, 400));
        assert_eq!(sum, Scheduled { run_ns: 10_000 * MS, wait_ns: 30_000 * MS });
    }

    #[test]
    fn a_wait_over_several_samples_counts_once() {
        // 50 ms on a CPU, then 350 ms without, which the kernel counts at their end.
        let of = |n: u64| [ran(50 * n + 50, 350 * n, n + 1); 4];
        let samples: Vec<Ran> = (0..200).flat_map(of).collect();
        let (states, _) = states(&samples);
        let share = running(&states) as f64 / states.len() as f64;
        assert!((share - 0.125).abs() < 0.02, "{share}");
    }

    #[test]
    fn a_short_sleep_is_not_time_with_work() {
        // 2 ms on a CPU, 2 ms of waiting, and asleep for the rest.
        let samples: Vec<Ran> = (0..=10).map(|n| ran(2 * n, 2 * n, 5 * n)).collect();
        let (states, _) = states(&samples);
        assert_eq!(running(&states), 5);
    }

    #[test]
    fn where_it_has_waited_a_thread_does_not_run_and_runs_more_often_elsewhere() {
        let mut turns = Turns::default();
        let mut states = Vec::new();
        for n in 1..=100 {
            turns.advance(ran(25 * n, 75 * n, n), INTERVAL, &mut Scheduled::default());
            let is_just_woken = n % 2 == 0;
            states.push(turns.state(is_just_woken));
        }
        assert_eq!(running(&states), 25);
        assert!(states.iter().skip(1).step_by(2).all(|state| *state == ThreadState::Runnable));
    }

    #[test]
    fn without_counts_a_thread_is_running() {
        let mut turns = Turns::since(Ran { turns: 4, ..Ran::default() });
        let now = Ran { turns: 9, ..Ran::default() };
        turns.advance(now, INTERVAL, &mut Scheduled::default());
        assert_eq!(turns.state(false), ThreadState::Running);
    }
}
