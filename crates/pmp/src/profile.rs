//! The counted samples.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::modules::Frame;
use crate::state::ThreadState;
use crate::turns::Scheduled;

/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// Number of an entry in [`Profile::entries`].
pub type EntryId = usize;

/// All results of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Profile {
    /// [`VERSION`].
    pub v: u32,
    /// The sampled process.
    pub pid: i32,
    /// Its program.
    pub program: String,
    /// Number of rounds over all threads.
    pub rounds: u64,
    /// From the first to the last sample.
    pub duration_ms: u64,
    /// Largest number of threads at once.
    pub threads_max: u64,
    /// What the kernel counted for these threads in this time; zeros if it does not.
    #[serde(default)]
    pub scheduled: Scheduled,
    /// Cost of stopping threads.
    pub stops: Stops,
    /// Cost of sampling.
    pub cost: Cost,
    /// Number of stacks that do not reach the start of their thread, by reason.
    pub cut_off: BTreeMap<String, u64>,
    /// The functions that entries refer to.
    pub frames: Vec<Frame>,
    /// Samples with their counts.
    pub entries: Vec<Entry>,
    /// Indices of frames and entries.
    #[serde(skip)]
    index: Index,
}

#[derive(Clone, Debug, Default)]
struct Index {
    frames: HashMap<Frame, usize>,
    entries: HashMap<(Vec<usize>, ThreadState, String), EntryId>,
}

/// A stack, in one state, in threads of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Samples.
    pub count: u64,
    /// The state of the threads.
    pub state: ThreadState,
    /// Name of the threads.
    pub thread: String,
    /// Whether they wait for work.
    pub idle: bool,
    /// Numbers in [`Profile::frames`], innermost first.
    pub stack: Vec<usize>,
    /// Kernel functions in which they waited, if known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernel: BTreeMap<String, u64>,
    /// Their states in the server's process list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sql: BTreeMap<String, u64>,
}

/// How long sampling stopped threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stops {
    /// Samples that needed no stop.
    pub samples_without: u64,
    /// From the moment a thread was observed as stopped until it was released.
    pub held: Times,
    /// From the request until the thread was released: for a part of it, the thread runs or waits
    /// for a CPU.
    pub held_max: Times,
    /// Stops that did not happen in time, and were given up.
    pub given_up: u64,
    /// Stops that the kernel rejected.
    pub refused: u64,
}

/// A set of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Each duration, in nanoseconds, in order of occurrence.
    pub ns: Vec<u64>,
}

/// Cost of sampling.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of this command while it sampled.
    pub cpu_ms: u64,
    /// How long it took to sample all threads once.
    pub round: Times,
    /// Rounds that were skipped because the previous one took too long.
    pub rounds_missed: u64,
}

impl Times {
    /// Adds a duration.
    pub fn add(&mut self, time: Duration) {
        self.ns.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Number of durations.
    pub fn count(&self) -> usize {
        self.ns.len()
    }

    /// The smallest duration that at least `percent` of them do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.ns.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        Duration::from_nanos(sorted.get(rank - 1).copied().unwrap_or(0))
    }

    /// The longest duration.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.ns.iter().copied().max().unwrap_or(0))
    }

    /// The total.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.ns.iter().sum())
    }
}

impl Profile {
    /// An empty profile.
    pub fn new(pid: i32, program: &str) -> Self {
        Self { v: VERSION, pid, program: program.to_owned(), ..Self::default() }
    }

    /// The number of a function.
    pub fn frame(&mut self, frame: Frame) -> usize {
        let next = self.frames.len();
        let Self { frames, index, .. } = self;
        *index.frames.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            next
        })
    }

    /// The entry of a stack. `is_idle` is called once per entry.
    pub fn entry(
        &mut self,
        stack: Vec<usize>,
        state: ThreadState,
        thread: &str,
        is_idle: impl FnOnce(&Self, &Entry) -> bool,
    ) -> EntryId {
        let key = (stack, state, thread.to_owned());
        if let Some(id) = self.index.entries.get(&key) {
            return *id;
        }
        let mut entry = Entry {
            count: 0,
            state,
            thread: thread.to_owned(),
            idle: false,
            stack: key.0.clone(),
            kernel: BTreeMap::new(),
            sql: BTreeMap::new(),
        };
        entry.idle = is_idle(self, &entry);
        let id = self.entries.len();
        self.entries.push(entry);
        self.index.entries.insert(key, id);
        id
    }

    /// The functions of an entry, innermost first.
    pub fn stack<'a>(&'a self, entry: &'a Entry) -> impl DoubleEndedIterator<Item = &'a Frame> {
        entry.stack.iter().filter_map(|number| self.frames.get(*number))
    }

    /// Entries, with or without those of threads that wait for work.
    pub fn seen(&self, with_idle: bool) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.count > 0 && (with_idle || !entry.idle))
    }

    /// Samples, with or without those of threads that wait for work.
    pub fn samples(&self, with_idle: bool) -> u64 {
        self.seen(with_idle).map(|entry| entry.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let mut times = Times::default();
        assert_eq!((times.percentile(50), times.max()), (Duration::ZERO, Duration::ZERO));
        for us in [5, 1, 4, 2, 3] {
            times.add(Duration::from_micros(us));
        }
        assert_eq!(times.percentile(50), Duration::from_micros(3));
        assert_eq!(times.percentile(99), Duration::from_micros(5));
        assert_eq!(times.sum(), Duration::from_micros(15));
    }

    #[test]
    fn the_same_stack_is_one_entry() {
        let mut profile = Profile::new(1, "x");
        let frame = |name: &str| Frame {
            function: name.to_owned(),
            module: "m".to_owned(),
            is_named: true,
            is_program: true,
        };
        let a = profile.frame(frame("a"));
        let b = profile.frame(frame("b"));
        assert_eq!(profile.frame(frame("a")), a);
        let entry = profile.entry(vec![a, b], ThreadState::Lock, "t", |_, _| false);
        assert_eq!(profile.entry(vec![a, b], ThreadState::Lock, "t", |_, _| true), entry);
        assert_ne!(profile.entry(vec![a, b], ThreadState::Running, "t", |_, _| true), entry);
        profile.entries[entry].count = 2;
        let json = serde_json::to_string(&profile).expect("JSON");
        let back: Profile = serde_json::from_str(&json).expect("the same");
        assert_eq!(back.entries, profile.entries);
        assert_eq!(back.samples(true), 2);
    }
}
