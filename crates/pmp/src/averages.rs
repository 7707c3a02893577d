//! How many threads were in each state on average, in words.

use std::collections::BTreeMap;

use crate::profile::Profile;
use crate::state::ThreadState;

/// Below this number of threads a state is not worth a word.
const THREADS_MIN: f64 = 0.05;

/// Samples of threads that do not wait for work, by state; those that do, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Averages {
    rounds: u64,
    /// Samples.
    pub by_state: BTreeMap<ThreadState, u64>,
    /// Samples of threads that wait for work.
    pub idle: u64,
}

/// What the kernel has counted, in threads on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuAverages {
    /// On a CPU.
    pub running: f64,
    /// Waiting for one.
    pub runnable: f64,
}

impl Averages {
    /// Of a profile.
    pub fn of(profile: &Profile) -> Self {
        let mut averages = Self { rounds: profile.rounds, ..Self::default() };
        for entry in profile.seen(true) {
            if entry.idle {
                averages.idle += entry.count;
            } else {
                *averages.by_state.entry(entry.state).or_default() += entry.count;
            }
        }
        averages
    }

    /// Threads at a time.
    pub fn threads(&self, samples: u64) -> f64 {
        if self.rounds == 0 { 0.0 } else { samples as f64 / self.rounds as f64 }
    }

    /// "On average 1.6 threads ran, 6.2 waited for a processor and 0.4 for a lock."
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        for state in ThreadState::ALL {
            let threads = self.threads(self.by_state.get(&state).copied().unwrap_or(0));
            if threads >= THREADS_MIN {
                parts.push((threads, state));
            }
        }
        let Some(((threads, state), others)) = parts.split_first() else {
            return "All threads waited for work.".to_owned();
        };
        let noun = if number(*threads) == "1.0" { "thread" } else { "threads" };
        let verb = if *state == ThreadState::Running { "ran" } else { waited(*state) };
        let mut text = format!("On average {} {noun} {verb}", number(*threads));
        let mut is_waiting = *state != ThreadState::Running;
        for (index, (threads, state)) in others.iter().enumerate() {
            text.push_str(if index + 1 == others.len() { " and " } else { ", " });
            let phrase = waited(*state);
            // The verb once.
            let phrase = if is_waiting { phrase.trim_start_matches("waited ") } else { phrase };
            is_waiting = true;
            text.push_str(&format!("{} {phrase}", number(*threads)));
        }
        text + "."
    }
}

/// The kernel's counts, if it counts.
pub fn counted(profile: &Profile) -> Option<CpuAverages> {
    let sum = profile.scheduled;
    if profile.duration_ms == 0 || sum.run_ns + sum.wait_ns == 0 {
        return None;
    }
    let threads = |ns: u64| ns as f64 / 1e6 / profile.duration_ms as f64;
    Some(CpuAverages { running: threads(sum.run_ns), runnable: threads(sum.wait_ns) })
}

/// The kernel's counts as a sentence.
pub fn counted_sentence(counted: CpuAverages) -> String {
    format!(
        "By the kernel's own counts {} ran and {} waited for a processor.",
        number(counted.running),
        number(counted.runnable)
    )
}

fn waited(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "ran",
        ThreadState::Runnable => "waited for a processor",
        ThreadState::Lock => "waited for a lock",
        ThreadState::Condition => "waited for a condition or a read-write lock",
        ThreadState::Disk => "waited for the disk",
        ThreadState::Network => "waited for the network",
        ThreadState::Sleep => "waited for a time to pass",
        ThreadState::Memory => "waited for a page of memory",
        ThreadState::Other => "waited in other system calls",
    }
}

/// What the threads of a state do.
pub fn what(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "computing",
        ThreadState::Runnable => "ready, waiting for a processor",
        ThreadState::Lock => "waiting for a mutex",
        ThreadState::Condition => "waiting for a condition, a read-write lock, a semaphore",
        ThreadState::Disk => "waiting for the disk",
        ThreadState::Network => "waiting for the network or a pipe",
        ThreadState::Sleep => "waiting for a time to pass",
        ThreadState::Memory => "waiting for a page of memory",
        ThreadState::Other => "waiting in another system call",
    }
}

/// A number of threads.
pub fn number(threads: f64) -> String {
    format!("{threads:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Scheduled;

    fn profile(entries: &[(ThreadState, bool, u64)]) -> Profile {
        let mut profile = Profile::new(1, "x");
        profile.rounds = 10;
        for (state, idle, count) in entries {
            let entry = profile.entry(vec![], *state, &format!("{idle}"), |_, _| *idle);
            profile.entries[entry].count = *count;
        }
        profile
    }

    #[test]
    fn a_sentence_has_the_states_in_order() {
        let sentence = |entries: &[_]| Averages::of(&profile(entries)).sentence();
        let all = [
            (ThreadState::Lock, false, 4),
            (ThreadState::Running, false, 16),
            (ThreadState::Runnable, false, 62),
            (ThreadState::Network, true, 200),
        ];
        assert_eq!(
            sentence(&all),
            "On average 1.6 threads ran, 6.2 waited for a processor and 0.4 for a lock."
        );
        let one = [(ThreadState::Disk, false, 10)];
        assert_eq!(sentence(&one), "On average 1.0 thread waited for the disk.");
        let two = [(ThreadState::Lock, false, 30), (ThreadState::Disk, false, 10)];
        assert_eq!(
            sentence(&two),
            "On average 3.0 threads waited for a lock and 1.0 for the disk."
        );
        assert_eq!(sentence(&[(ThreadState::Network, true, 7)]), "All threads waited for work.");
    }

    #[test]
    fn the_kernels_counts_are_of_the_time_between_first_and_last_round() {
        let mut profile = profile(&[]);
        assert_eq!(counted(&profile), None);
        profile.duration_ms = 1000;
        profile.scheduled = Scheduled { run_ns: 1_500_000_000, wait_ns: 6_000_000_000 };
        let counted = counted(&profile).expect("counts");
        assert_eq!((counted.running, counted.runnable), (1.5, 6.0));
        assert!(counted_sentence(counted).contains("1.5 ran and 6.0 waited"));
    }
}
