//! Samples all threads of a process repeatedly.
//!
//! In order of increasing cost for the process:
//!
//! 1. A thread that has not run since its last sample has the same stack. One file shows this.
//! 2. A sleeping thread is read without stopping it: the kernel reports where it left user space,
//!    and its stack is copied on demand. If it ran meanwhile, the copy is discarded.
//! 3. A thread that runs, or whose stack cannot be unwound without all its registers, is stopped
//!    for one copy (`stop.rs`).

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::memory::{STACK_BYTES_MAX, Stack};
use crate::modules::{Frame, Modules};
use crate::processlist::SqlStates;
use crate::profile::{EntryId, Profile};
use crate::state::ThreadState;
use crate::stop::{self, Snapshot, StopError};
use crate::task::{Ran, Tasks, Tid, Whereabouts};
use crate::turns::Turns;
use crate::unwind::{End, Registers, Trace, Unwinder};
use crate::verdict::Patterns;

/// Which threads may be stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// Those that cannot be sampled without stopping.
    #[default]
    Needed,
    /// None: a running thread is only counted as running.
    Never,
    /// All: for comparison.
    Always,
}

/// How often a thread that runs in between is sampled again before it counts as running.
const ATTEMPTS_MAX: u32 = 3;

/// How much of a stack is copied while its thread is stopped, initially.
const COPY_BYTES: usize = 32 * 1024;

/// Mappings are read again after this time, because libraries are loaded and unloaded.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The same, if there was code outside the known files.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Samples one process.
#[derive(Debug)]
pub struct Sampler<'a> {
    tasks: Tasks,
    policy: StopPolicy,
    patterns: &'a Patterns,
    modules: Modules,
    unwinder: Unwinder,
    refreshed: Instant,
    saw_unknown_code: bool,
    /// By address: the function's number in the profile.
    frames: HashMap<u64, usize>,
    threads: HashMap<Tid, Known>,
    /// When the previous round began.
    round_began: Option<Instant>,
    profile: Profile,
}

/// The remembered state of a thread.
#[derive(Clone, Debug)]
struct Known {
    /// Its last sample, and when; not if it was running.
    seen: Option<(Ran, EntryId)>,
    /// Kernel function in which it waited then.
    kernel: Option<String>,
    /// How much of its stack to copy.
    copy_bytes: usize,
    /// How it got its CPU.
    turns: Turns,
}

/// A thread that has to be stopped.
#[derive(Clone, Debug)]
struct Wanted {
    tid: Tid,
    name: String,
    /// Whether it was on a CPU or ready for one. By the time it stops that may have changed: on a
    /// busy machine it must first get a CPU to stop.
    had_work: bool,
}

/// Stands for the stack of a thread that did not stop in time.
const NOT_STOPPED: &str = "[not stopped]";

/// Stands for the stack of a thread that had work, and none any more when it stopped.
const ASLEEP_BEFORE: &str = "[asleep before it stopped]";

/// The result of sampling without stopping.
enum Look {
    Seen(EntryId),
    NeedsStop(Wanted),
    Gone,
}

impl<'a> Sampler<'a> {
    /// Prepares sampling: reads the files that the process has mapped.
    ///
    /// # Errors
    /// The process has ended, or permission is denied.
    pub fn new(
        pid: Tid,
        program: &str,
        policy: StopPolicy,
        patterns: &'a Patterns,
    ) -> io::Result<Self> {
        let mut modules = Modules::default();
        modules.refresh(pid)?;
        Ok(Self {
            tasks: Tasks::new(pid),
            policy,
            patterns,
            modules,
            unwinder: Unwinder::new(pid),
            refreshed: Instant::now(),
            saw_unknown_code: false,
            frames: HashMap::new(),
            threads: HashMap::new(),
            round_began: None,
            profile: Profile::new(pid, program),
        })
    }

    /// The mapped files.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The results so far.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Samples all threads every `interval`, until `go_on` returns false or the process ends.
    /// `go_on` is called before each round and while waiting for it; `sql_states` before each
    /// round.
    ///
    /// # Errors
    /// Permission was withdrawn.
    pub fn run(
        mut self,
        interval: Duration,
        sql_states: &mut dyn FnMut() -> SqlStates,
        go_on: &mut dyn FnMut(&Profile) -> bool,
    ) -> io::Result<Profile> {
        let begin = Instant::now();
        let cpu_before = own_cpu();
        let mut due = begin;
        while go_on(&self.profile) {
            let now = Instant::now();
            if now < due {
                // In small steps, so that an interrupt takes effect quickly.
                std::thread::sleep((due - now).min(Duration::from_millis(50)));
                continue;
            }
            if !self.round(&sql_states())? {
                break;
            }
            self.profile.cost.round.add(now.elapsed());
            self.profile.duration_ms = begin.elapsed().as_millis() as u64;
            due += interval;
            while due < Instant::now() {
                due += interval;
                self.profile.cost.rounds_missed += 1;
            }
        }
        let cpu = own_cpu().saturating_sub(cpu_before);
        self.profile.cost.cpu_ms = cpu.as_millis() as u64;
        Ok(self.profile)
    }

    /// Samples all threads once. Returns whether the process still exists.
    ///
    /// # Errors
    /// Permission was withdrawn.
    pub fn round(&mut self, sql_states: &SqlStates) -> io::Result<bool> {
        let tids = match self.tasks.list() {
            Ok(tids) => tids,
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !self.refresh()? {
            return Ok(false);
        }
        let alive: HashSet<Tid> = tids.iter().copied().collect();
        self.threads.retain(|tid, _| alive.contains(tid));
        self.profile.rounds += 1;
        self.profile.threads_max = self.profile.threads_max.max(tids.len() as u64);
        let now = Instant::now();
        let elapsed = self.round_began.replace(now).map(|began| now - began);
        let mut to_stop = Vec::new();
        // The session that reads the process list is not of interest.
        for tid in tids.into_iter().filter(|tid| Some(*tid) != sql_states.own) {
            match self.first_look(tid, elapsed)? {
                Look::Seen(entry) => {
                    self.profile.stops.samples_without += 1;
                    self.count(tid, entry, sql_states);
                }
                Look::NeedsStop(wanted) => to_stop.push(wanted),
                Look::Gone => {}
            }
        }
        if self.policy == StopPolicy::Never {
            for thread in to_stop {
                let entry = self.entry_without_stack(&thread);
                self.profile.stops.samples_without += 1;
                self.count(thread.tid, entry, sql_states);
            }
        } else {
            self.stop(to_stop, sql_states)?;
        }
        Ok(true)
    }

    fn refresh(&mut self) -> io::Result<bool> {
        let age = self.refreshed.elapsed();
        let wanted = if self.saw_unknown_code { REFRESH_INTERVAL_MIN } else { REFRESH_INTERVAL };
        if age < wanted {
            return Ok(true);
        }
        self.refreshed = Instant::now();
        self.saw_unknown_code = false;
        match self.modules.refresh(self.tasks.pid()) {
            Ok(false) => {}
            Ok(true) => {
                self.unwinder.forget();
                self.frames.clear();
            }
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Samples one thread without stopping it, the first time in a round.
    fn first_look(&mut self, tid: Tid, elapsed: Option<Duration>) -> io::Result<Look> {
        let ran = match self.tasks.ran(tid) {
            Ok(ran) => ran,
            Err(error) if is_gone(&error) => return Ok(Look::Gone),
            Err(error) => return Err(error),
        };
        match elapsed {
            None => self.known(tid).turns = Turns::since(ran),
            Some(elapsed) => {
                let mut sum = self.profile.scheduled;
                self.known(tid).turns.advance(ran, elapsed, &mut sum);
                self.profile.scheduled = sum;
            }
        }
        self.look(tid, ran, self.policy)
    }

    /// Samples a thread that did not stop. If it had no work before, its stack can be read now.
    fn second_look(&mut self, thread: &Wanted) -> io::Result<Look> {
        if thread.had_work {
            return Ok(Look::NeedsStop(thread.clone()));
        }
        match self.tasks.ran(thread.tid) {
            Ok(ran) => self.look(thread.tid, ran, StopPolicy::Never),
            Err(error) if is_gone(&error) => Ok(Look::Gone),
            Err(error) => Err(error),
        }
    }

    /// Samples one thread without stopping it. `ran` is its count before.
    fn look(&mut self, tid: Tid, ran: Ran, policy: StopPolicy) -> io::Result<Look> {
        match self.try_look(tid, ran, policy) {
            Err(error) if is_gone(&error) => Ok(Look::Gone),
            result => result,
        }
    }

    fn try_look(&mut self, tid: Tid, ran: Ran, policy: StopPolicy) -> io::Result<Look> {
        let mut before = ran;
        if policy == StopPolicy::Always {
            let has_work = self.tasks.place(tid)? == Whereabouts::Running;
            return self.needs_stop(tid, has_work);
        }
        if let Some(Known { seen: Some((ran, entry)), .. }) = self.threads.get(&tid)
            && *ran == before
        {
            return Ok(Look::Seen(*entry));
        }
        for attempt in 0..ATTEMPTS_MAX {
            let place = self.tasks.place(tid)?;
            let Whereabouts::Blocked { sp, pc, .. } = place else {
                // Later, it was asleep when the round came to it.
                return self.needs_stop(tid, attempt == 0);
            };
            let stat = self.tasks.stat(tid)?;
            let kernel = if stat.state == 'D' { self.tasks.wait_channel(tid)? } else { None };
            let mut stack = Stack::as_needed(self.tasks.pid());
            let trace = self.unwinder.trace(&self.modules, Registers::sleeping(sp, pc), &mut stack);
            let after = self.tasks.ran(tid)?;
            if after != before {
                // It ran: the data may be from two moments.
                before = after;
                continue;
            }
            if trace.end == End::UnknownRegister && policy == StopPolicy::Needed {
                return self.needs_stop(tid, false);
            }
            let state = match place {
                Whereabouts::Blocked { syscall: libc::SYS_restart_syscall, .. } => None,
                place => Some(ThreadState::of(&place, stat.state)),
            };
            let entry = self.entry_of_trace(&trace, state, &stat.name);
            let known = self.known(tid);
            known.seen = Some((before, entry));
            known.kernel = kernel;
            return Ok(Look::Seen(entry));
        }
        self.needs_stop(tid, false)
    }

    fn needs_stop(&self, tid: Tid, had_work: bool) -> io::Result<Look> {
        let name = self.tasks.stat(tid)?.name;
        Ok(Look::NeedsStop(Wanted { tid, name, had_work }))
    }

    /// The state of a thread in `R`.
    fn state_of_work(&mut self, tid: Tid, is_just_woken: bool) -> ThreadState {
        self.known(tid).turns.state(is_just_woken)
    }

    fn stop(&mut self, threads: Vec<Wanted>, sql_states: &SqlStates) -> io::Result<()> {
        let wanted: Vec<_> =
            threads.iter().map(|it| (it.tid, self.known(it.tid).copy_bytes)).collect();
        let results = stop::snapshots(self.tasks.pid(), &wanted);
        for (thread, result) in threads.into_iter().zip(results) {
            let entry = match result {
                Ok(snapshot) => self.entry_of_snapshot(&thread, snapshot),
                Err(StopError::Gone) => continue,
                Err(StopError::NotInTime) => {
                    self.profile.stops.given_up += 1;
                    match self.second_look(&thread)? {
                        Look::Seen(entry) => entry,
                        Look::NeedsStop(_) => {
                            let state = self.state_of_work(thread.tid, false);
                            self.entry_of_text(NOT_STOPPED, state, &thread.name)
                        }
                        Look::Gone => continue,
                    }
                }
                Err(StopError::Refused(_)) => {
                    self.profile.stops.refused += 1;
                    self.entry_without_stack(&thread)
                }
            };
            self.count(thread.tid, entry, sql_states);
        }
        Ok(())
    }

    fn entry_of_snapshot(&mut self, thread: &Wanted, mut snapshot: Snapshot) -> EntryId {
        self.known(thread.tid).kernel = None;
        self.profile.stops.held.add(snapshot.held);
        self.profile.stops.held_max.add(snapshot.held_max);
        if thread.had_work && snapshot.is_asleep {
            let state = self.state_of_work(thread.tid, false);
            // Its stack is that of another moment, in which it had nothing to do.
            return self.entry_of_text(ASLEEP_BEFORE, state, &thread.name);
        }
        let registers = snapshot.registers;
        let trace = self.unwinder.trace(&self.modules, registers, &mut snapshot.stack);
        if trace.end == End::NoMemory {
            let known = self.known(thread.tid);
            known.copy_bytes = (known.copy_bytes * 2).min(STACK_BYTES_MAX);
        }
        let state = match snapshot.waited_in {
            Some((libc::SYS_restart_syscall, _)) => None,
            Some((call, argument)) => Some(ThreadState::of_syscall(call, argument, 'S')),
            None => Some(self.state_of_work(thread.tid, ThreadState::only_waits(snapshot.call))),
        };
        self.entry_of_trace(&trace, state, &thread.name)
    }

    fn known(&mut self, tid: Tid) -> &mut Known {
        self.threads.entry(tid).or_insert(Known {
            seen: None,
            kernel: None,
            copy_bytes: COPY_BYTES,
            turns: Turns::default(),
        })
    }

    fn count(&mut self, tid: Tid, entry: EntryId, sql_states: &SqlStates) {
        let entry = &mut self.profile.entries[entry];
        entry.count += 1;
        if let Some(function) = self.threads.get(&tid).and_then(|known| known.kernel.as_ref()) {
            *entry.kernel.entry(function.clone()).or_default() += 1;
        }
        if let Some(sql) = sql_states.of.get(&tid) {
            *entry.sql.entry(sql.clone()).or_default() += 1;
        }
    }

    /// Without a state, the functions determine it.
    fn entry_of_trace(
        &mut self,
        trace: &Trace,
        state: Option<ThreadState>,
        thread: &str,
    ) -> EntryId {
        let mut stack = Vec::with_capacity(trace.addresses.len() + 1);
        for address in &trace.addresses {
            let number = match self.frames.get(address) {
                Some(number) => *number,
                None => {
                    let frame = self.modules.frame(*address);
                    self.saw_unknown_code |= !self.modules.is_code(*address);
                    let number = self.profile.frame(frame);
                    self.frames.insert(*address, number);
                    number
                }
            };
            stack.push(number);
        }
        if let Some(reason) = reason(trace.end) {
            stack.push(self.profile.frame(text_frame("[cut off]")));
            *self.profile.cut_off.entry(reason.to_owned()).or_default() += 1;
        }
        let frames = &self.profile.frames;
        let names = stack.iter().map(|number| frames[*number].function.as_str());
        let state = state.unwrap_or_else(|| ThreadState::of_functions(names));
        self.entry(stack, state, thread)
    }

    /// For a thread that is not stopped.
    fn entry_without_stack(&mut self, thread: &Wanted) -> EntryId {
        let state = self.state_of_work(thread.tid, false);
        self.entry_of_text(&format!("[{}]", state.name()), state, &thread.name)
    }

    fn entry_of_text(&mut self, text: &str, state: ThreadState, thread: &str) -> EntryId {
        let stack = vec![self.profile.frame(text_frame(text))];
        self.entry(stack, state, thread)
    }

    fn entry(&mut self, stack: Vec<usize>, state: ThreadState, thread: &str) -> EntryId {
        let patterns = self.patterns;
        self.profile.entry(stack, state, thread, |profile, entry| patterns.is_idle(profile, entry))
    }
}

/// A stack entry that is not a function.
fn text_frame(text: &str) -> Frame {
    Frame { function: text.to_owned(), module: String::new(), is_named: true, is_program: true }
}

/// Why a stack does not reach the start of its thread, if it does not.
fn reason(end: End) -> Option<&'static str> {
    match end {
        End::Complete => None,
        End::UnknownRegister => Some("needs a register that only a stopped thread shows"),
        End::NoMemory => Some("deeper than what was copied, or on another stack"),
        End::NoTable => Some("code without an unwind table"),
        End::Nonsense => Some("the unwind table and the stack do not agree"),
        End::TooDeep => Some("too many frames"),
    }
}

/// The errors for a thread that ends while it is sampled.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn own_cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let us = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
    Duration::from_micros(us(usage.user_time()) + us(usage.system_time()))
}
