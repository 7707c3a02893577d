//! The loop: look at the directory, ship what comes next, wait.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tacho_logdir::Form;
use tacho_logdir::read::content::Access;

use super::cache::Cache;
use super::client::{Client, Failure};
use super::copy::HubCopy;
use super::outage::Outage;
use super::pace::{Backoff, Rate, SELDOM};
use super::shipped::{self, ShippedLine};
use crate::protocol::answers::{Contradiction, Hints};
use crate::protocol::errors::Remedy;
use crate::protocol::names::Stem;
use crate::protocol::{Activity, BODY_BYTES_MAX, FileName, VERSION};
use crate::report::Report;
use crate::source::compare::{self, FileContradiction};
use crate::source::look::Look;
use crate::source::track::{Patience, Step};
use crate::source::{Portion, sidecar};

/// Time between two checks for a signal.
const STEP: Duration = Duration::from_millis(50);
/// Limits of what a hub can ask for.
const BATCH_MIN: u32 = 4 << 10;
const PAUSE_MAX: Duration = Duration::from_secs(300);
const HEARTBEAT_MAX: u32 = 600;

/// Returns the newest [`Activity`], if there is one.
pub type LatestActivity = Arc<dyn Fn() -> Option<Activity> + Send + Sync>;

/// Options of a shipper.
pub struct Options {
    /// The log directory.
    pub directory: PathBuf,
    /// Keys for encrypted files.
    pub access: Access,
    /// End when the hub has everything that is there.
    pub once: bool,
    /// Most bytes per second; 0: as the hub says.
    pub bytes_per_second: u64,
    /// How long the hub may accept no data.
    pub give_up_after: Option<Duration>,
    /// File that caches which log files are complete at the hub.
    pub state: Option<PathBuf>,
    /// Retention on this machine waits until the hub has a file.
    pub retain: bool,
    /// Name of this machine.
    pub host: String,
    /// Returns what the database server was doing last; never waits for it.
    pub activity: Option<LatestActivity>,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// Shows messages.
    pub report: Report,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Files that could not be shipped, and a hub that took nothing for too long; each was
    /// reported.
    pub problem_count: u64,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Generation at the hub.
    pub generation: u64,
    /// Log files in the directory.
    pub files: usize,
    /// Those of which the hub has nothing yet.
    pub new_files: usize,
    /// How the directory contradicts the hub.
    pub found: Option<FileContradiction>,
}

/// Progress of one turn of the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Something was shipped, or there is more to do.
    Some,
    /// Lines wait for their frames.
    Waits,
    /// There is nothing to do.
    None,
}

/// Ships a log directory.
pub struct Shipper {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) copy: Option<HubCopy>,
    pub(super) hints: Hints,
    backoff: Backoff,
    rate: Rate,
    outage: Outage,
    pub(super) problems: BTreeMap<(FileName, &'static str), String>,
    pub(super) suspect: Option<(FileContradiction, Instant)>,
    next_heartbeat: Instant,
    pub(super) next_comparison: Instant,
    pub(super) unsealed_bytes: u64,
    pub(super) fork_count: u64,
    cache: Option<Cache>,
    settled_count: usize,
    pub(super) shipped: ShippedLine,
}

impl Shipper {
    /// Does not connect yet.
    pub fn new(client: Client, options: Options) -> Self {
        let now = Instant::now();
        let name = format!("{} {}", client.address(), client.origin());
        let cache = options.state.as_ref().map(|path| Cache::open(path, name));
        let shipped = ShippedLine::new(
            &options.directory,
            client.address().to_string(),
            client.origin().to_string(),
            Arc::clone(&options.report),
        );
        let outage = Outage::new(client.address().to_string(), Arc::clone(&options.report));
        Self {
            client,
            options,
            copy: None,
            hints: Hints::default(),
            backoff: Backoff::default(),
            rate: Rate::new(now),
            outage,
            problems: BTreeMap::new(),
            suspect: None,
            next_heartbeat: now,
            next_comparison: now,
            unsealed_bytes: 0,
            fork_count: 0,
            cache,
            settled_count: 0,
            shipped,
        }
    }

    /// Compares once, and changes nothing.
    ///
    /// # Errors
    /// The hub does not answer, or the directory cannot be read.
    pub fn check(&mut self) -> Result<Check, String> {
        let look = self.look()?;
        let state = self.client.state().map_err(|failure| failure.to_string())?;
        let copy = HubCopy::of(state);
        let compared =
            compare::compare(&look, &copy.offsets).map_err(|error| self.unread(&error))?;
        let found = match compared {
            Some(found) => Some(found),
            None => copy
                .compare_ends(&self.client, &look, &self.options.access)
                .map_err(|failure| failure.to_string())?,
        };
        let is_new = |stem: &&Stem| copy.offset(&FileName::Lines((*stem).clone())) == 0;
        Ok(Check {
            generation: copy.generation,
            files: look.logs.len(),
            new_files: look.logs.keys().filter(is_new).count(),
            found,
        })
    }

    /// Ships until a signal, or until the hub has everything (`once`).
    ///
    /// # Errors
    /// The directory cannot be read at the start.
    pub fn run(&mut self) -> Result<Verdict, String> {
        self.look()?;
        self.begin_shipped();
        loop {
            self.shipped.check();
            let pause = match self.turn() {
                Ok(Progress::Some) => Duration::ZERO,
                Ok(Progress::None) if self.options.once => break,
                Ok(Progress::Waits | Progress::None) => {
                    Duration::from_millis(self.hints.batch_ms.into())
                }
                Err(failure) if self.options.once && failure.remedy() == Remedy::Operator => {
                    self.say(&format!("{}: {failure}", self.client.address()));
                    return Ok(Verdict { problem_count: 1 + self.problem_count() });
                }
                Err(failure) => self.fail(&failure),
            };
            let pause = pause.max(Duration::from_millis(self.hints.pause_ms.into()).min(PAUSE_MAX));
            let has_given_up =
                self.options.give_up_after.is_some_and(|after| self.outage.length() > after);
            if has_given_up {
                let name = self.client.address();
                self.say(&format!(
                    "{name}: nothing accepted for too long; giving up (--give-up-after)"
                ));
                return Ok(Verdict { problem_count: 1 + self.problem_count() });
            }
            if !self.wait_and_beat(pause) {
                break;
            }
        }
        // This is the last one: a hub that does not answer reports silence later.
        let _ = self.heartbeat(0);
        Ok(Verdict { problem_count: self.problem_count() })
    }

    fn turn(&mut self) -> Result<Progress, Failure> {
        if self.copy.is_none() {
            let state = self.client.state()?;
            self.follow(state.hints);
            if state.protocol != VERSION {
                let version = state.protocol;
                return Err(Failure::Lost(format!(
                    "the hub's protocol has version {version}, expected {VERSION}"
                )));
            }
            self.shipped.follow_generation(state.generation);
            let mut copy = HubCopy::of(state);
            if let Some(cache) = &self.cache {
                copy.believe(cache.complete(copy.generation));
            }
            self.copy = Some(copy);
            self.next_comparison = Instant::now();
        }
        if Instant::now() >= self.next_heartbeat {
            let next_s = self.hints.heartbeat_s.clamp(1, HEARTBEAT_MAX);
            self.next_heartbeat = Instant::now() + Duration::from_secs(next_s.into());
            match self.heartbeat(next_s) {
                // Bytes matter more: if the hub refuses those, too, that is reported.
                Ok(()) | Err(Failure::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        // A directory that is away for a moment is as one where nothing happens.
        let Ok(look) = self.look() else { return Ok(Progress::Waits) };
        if self.compare(&look)? {
            return Ok(Progress::Waits);
        }
        let progress = self.ship(&look)?;
        if progress != Progress::Some {
            self.save(&look);
        }
        self.outage.end();
        self.backoff.reset();
        Ok(progress)
    }

    fn ship(&mut self, look: &Look) -> Result<Progress, Failure> {
        let mut progress = Progress::None;
        self.unsealed_bytes = 0;
        self.shipped.begin_pass();
        for stem in look.stems() {
            let shipped = self.ship_file(look, &stem)?;
            self.shipped.visit(&stem, self.is_acknowledged(look, &stem));
            match shipped {
                Progress::None => {}
                // Later files wait for this one.
                Progress::Waits => {
                    progress = if progress == Progress::Some { progress } else { Progress::Waits };
                    break;
                }
                Progress::Some => progress = Progress::Some,
            }
            if self.is_stopped() || self.copy.as_ref().is_none_or(|copy| !copy.is_compared) {
                return Ok(Progress::Some);
            }
        }
        self.shipped.end_pass();
        Ok(if self.ship_removed(look)? { Progress::Some } else { progress })
    }

    /// Ships what there is of one log file.
    fn ship_file(&mut self, look: &Look, stem: &Stem) -> Result<Progress, Failure> {
        let mut progress = Progress::None;
        let name = FileName::Lines(stem.clone());
        let budget = self.hints.batch_bytes.clamp(BATCH_MIN, BODY_BYTES_MAX as u32) as usize;
        loop {
            let patience = self.patience();
            let Some(copy) = &mut self.copy else { return Ok(progress) };
            if copy.complete.contains(stem) {
                return Ok(progress);
            }
            let track = copy.track(stem);
            let step = track.next(look, &self.options.access, budget, patience);
            if track.is_missing_lines() {
                let text = "encrypted before all of it was shipped; name a key with --identity";
                self.note_problem(&name, "encrypted", text);
            }
            match step {
                Ok(Step::Ship(portion)) => {
                    if !self.put(&portion)? || self.is_stopped() {
                        return Ok(Progress::Some);
                    }
                    progress = Progress::Some;
                }
                Ok(Step::Wait(bytes)) => {
                    self.unsealed_bytes += bytes;
                    return Ok(Progress::Waits);
                }
                Ok(Step::Idle) => return Ok(progress),
                Ok(Step::Complete) => {
                    if let Some(copy) = &mut self.copy {
                        copy.tracks.remove(stem);
                        copy.complete.insert(stem.clone());
                    }
                    return Ok(progress);
                }
                Ok(Step::Shorter(file)) => {
                    self.shorter(look, stem, file);
                    return Ok(Progress::Waits);
                }
                Err(error) => {
                    if error.kind() != io::ErrorKind::NotFound {
                        self.note_problem(&name, "unreadable", &error.to_string());
                    }
                    return Ok(progress);
                }
            }
        }
    }

    /// The comparison finds a plain file or a sidecar that is shorter, if it still is.
    fn shorter(&mut self, look: &Look, stem: &Stem, file: FileName) {
        self.next_comparison = Instant::now();
        let is_packed = look.logs.get(stem).is_some_and(|log| log.form != Form::Plain);
        if let Some(copy) = &mut self.copy
            && is_packed
            && matches!(file, FileName::Lines(_))
        {
            let offset = copy.offset(&file);
            copy.contradict(FileContradiction { reason: Contradiction::Shorter, file, offset });
        }
    }

    /// Ships tombstones. Returns whether there were any.
    fn ship_removed(&mut self, look: &Look) -> Result<bool, Failure> {
        let name = FileName::Removed;
        let Some(copy) = &self.copy else { return Ok(false) };
        let offset = copy.offset(&name);
        if look.removed.is_none_or(|length| length <= offset) {
            return Ok(false);
        }
        match sidecar::read(&look.path(&name), offset, u64::MAX) {
            Ok(part) if part.bytes.is_empty() => Ok(false),
            Ok(part) => self.put(&Portion { name, offset, before: part.before, bytes: part.bytes }),
            Err(error) => {
                self.note_problem(&name, "unreadable", &error.to_string());
                Ok(false)
            }
        }
    }

    /// Sends bytes. Returns whether the hub has them now; if not, what it said is settled in the
    /// next turn.
    fn put(&mut self, portion: &Portion) -> Result<bool, Failure> {
        let rate = match (self.options.bytes_per_second, self.hints.bytes_per_second) {
            (0, rate) | (rate, 0) => rate,
            (own, hubs) => own.min(hubs),
        };
        let pause = self.rate.pause(Instant::now());
        if !pause.is_zero() && !self.wait(pause) {
            return Ok(false);
        }
        let Some(copy) = &mut self.copy else { return Ok(false) };
        let Portion { name, offset, bytes, .. } = portion;
        match self.client.put(portion, copy.generation) {
            Ok((stored, sent)) => {
                copy.set(name, stored.offset);
                self.rate.sent(Instant::now(), sent, rate);
                self.problems.remove(&(name.clone(), "unreadable"));
                if stored.offset < offset + bytes.len() as u64 {
                    let text = format!("the hub acknowledged less of {name} than it was sent");
                    return Err(Failure::Lost(text));
                }
                Ok(true)
            }
            Err(Failure::Refused(refusal)) => self.settle(name, *offset, refusal),
            Err(failure) => Err(failure),
        }
    }

    /// Counts a failure. Returns how long to wait.
    fn fail(&mut self, failure: &Failure) -> Duration {
        self.outage.fail(&failure.to_string());
        let mut random = [0; 4];
        // Without random numbers, the pauses are the shortest ones.
        let _ = getrandom::fill(&mut random);
        let chance = u32::from_ne_bytes(random);
        match failure {
            Failure::Refused(_) if failure.remedy() == Remedy::Operator => SELDOM,
            Failure::Refused(refusal) => self.backoff.pause(refusal.retry_after, chance),
            Failure::Lost(_) => self.backoff.pause(None, chance),
        }
    }

    pub(super) fn note_problem(&mut self, name: &FileName, code: &'static str, text: &str) {
        if self.problems.insert((name.clone(), code), text.to_owned()).is_none() {
            self.say(&format!("{name}: {text}"));
        }
    }

    pub(super) fn follow(&mut self, hints: Hints) {
        self.hints = Hints { batch_ms: hints.batch_ms.clamp(10, 10_000), ..hints };
    }

    pub(super) fn look(&self) -> Result<Look, String> {
        Look::at(&self.options.directory).map_err(|error| self.unread(&error))
    }

    fn unread(&self, error: &io::Error) -> String {
        format!("cannot read the log {}: {error}", self.options.directory.display())
    }

    /// A run that ends ships lines without a frame at once if no recorder will write one.
    fn patience(&self) -> Patience {
        let is_dead =
            self.options.once && tacho_logdir::is_locked(&self.options.directory) == Some(false);
        if is_dead { Patience::None } else { Patience::Wait }
    }

    fn save(&mut self, look: &Look) {
        let (Some(cache), Some(copy)) = (&mut self.cache, &self.copy) else { return };
        let count = copy.settled_count();
        if std::mem::replace(&mut self.settled_count, count) == count {
            return;
        }
        let mut settled = copy.settled(look);
        settled.retain(|stem, _| !shipped::is_encrypted(&self.problems, stem));
        if let Err(error) = cache.save(copy.generation, settled) {
            self.cache = None;
            self.say(&format!("cannot write the file of --state: {error}; continuing without it"));
        }
    }

    fn problem_count(&self) -> u64 {
        self.fork_count + self.problems.len() as u64
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }

    pub(super) fn say(&self, text: &str) {
        (self.options.report)(text);
    }

    /// Waits, and tells the hub meanwhile that the shipper is alive. Returns false after a signal.
    fn wait_and_beat(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            let to_beat = self.next_heartbeat.saturating_duration_since(now);
            // A failure that the next turn meets, too, is reported there.
            if to_beat >= left {
                return self.wait(left);
            }
            if !self.wait(to_beat) {
                return false;
            }
            let next_s = self.hints.heartbeat_s.clamp(1, HEARTBEAT_MAX);
            self.next_heartbeat = Instant::now() + Duration::from_secs(next_s.into());
            let _ = self.heartbeat(next_s);
        }
    }

    /// Waits. Returns false after a signal.
    fn wait(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            if self.is_stopped() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}
