//! Rewrite rules: compiled here, published to the query threads, and stored for the next start.
//!
//! They are stored in a file of the log directory, because they must be in force before a client
//! could load them from their table. The file is complete and on the device before they are in
//! force.

mod file;
mod list;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use tacho_probe::{CompiledRules, Probe, Shard};
use tacho_recorder::control::{ConfigChange, Who};
use tacho_ring::codec::Bytes;
use tacho_ring::sync::{AtomicU64, Ordering};

use file::{KeptFile, sha256};
pub use list::List;
use list::too_many;

/// Compiled rules at an address that is known to query threads.
struct Published(NonNull<CompiledRules>);

// SAFETY: the content never changes, and is freed by the owner of this.
unsafe impl Send for Published {}

impl Published {
    fn new(bytes: Vec<u8>, epoch: u64) -> Published {
        let bytes: &mut [u8] = Box::leak(bytes.into_boxed_slice());
        let bytes = Bytes { data: bytes.as_mut_ptr(), len: bytes.len() };
        Published(NonNull::from(Box::leak(Box::new(CompiledRules { bytes, epoch }))))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`, as boxes of these types, and no thread reads them any more.
        unsafe {
            let rules = Box::from_raw(self.0.as_ptr());
            let Bytes { data, len } = rules.bytes;
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast_mut(), len)));
        }
    }
}

#[derive(Default)]
struct RuleVersions {
    /// Number of the rules that were last put in force.
    epoch: u64,
    current: Option<Published>,
    /// Replaced rules that a thread was reading at that time.
    retired: Vec<Published>,
    /// The value in the log for those in force.
    shown: String,
}

/// The rules of a recorder.
pub struct Rewriting {
    file: KeptFile,
    state: Mutex<RuleVersions>,
    /// Number of rules in force. SHOW STATUS reads it while the server holds a lock that all
    /// sessions take: it must not wait for `state`, which is held while a file is synced.
    count: AtomicU64,
    /// Number of the last load that began.
    turns: AtomicU64,
    /// Number of the load whose rules are in force. Changed under `state`.
    turn: AtomicU64,
}

/// Instead of a number of rules: a load that began later has already replaced the rules.
pub const SUPERSEDED: u64 = u64::MAX;

/// An unpredictable key: see [`Probe::keyed`].
pub fn random_key() -> [u64; 2] {
    // Each is the hash of nothing with a key of its own from the operating system.
    std::array::from_fn(|_| RandomState::new().build_hasher().finish())
}

/// Sum of a counter over all shards.
pub fn sum(probe: &Probe, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
    probe.rewrites.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
}

impl Rewriting {
    /// For a log directory, without rules.
    pub fn new(directory: &Path) -> Rewriting {
        Rewriting {
            file: KeptFile::of(directory),
            state: Mutex::default(),
            count: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            turn: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, RuleVersions> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Number of rules in force. Does not wait.
    pub fn rule_count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A number for a load that is about to read its rules.
    pub fn next_turn(&self) -> u64 {
        // Relaxed: a load that the client begins after another one has ended gets a higher number
        // in any case, and of two concurrent loads either may be first.
        self.turns.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Whether the rules in force are those of this load. Does not wait.
    pub fn is_current(&self, turn: u64) -> bool {
        // Relaxed: the answer may be a moment old in any case.
        self.turn.load(Ordering::Relaxed) == turn
    }

    /// Replaces the rules, unless a load with a higher number was faster: then the result is
    /// [`SUPERSEDED`], and the rules must be read anew. Returns their number, and the change for
    /// the log.
    ///
    /// # Errors
    /// They cannot be stored, or are too many; the previous ones stay in force.
    pub fn apply(
        &self,
        who: Who,
        list: List,
        probe: &Probe,
    ) -> Result<(u64, Option<ConfigChange>), String> {
        let List { compiler, rules, restored, is_beyond, turn, .. } = list;
        if is_beyond {
            return Err(too_many());
        }
        let count = rules.len() as u64;
        let program = compiler.finish().map_err(|error| error.to_string())?;
        let text = KeptFile::text(rules)?.ok_or_else(too_many)?;
        let shown = match (&restored, count) {
            (_, 0) => "0".to_owned(),
            (Some(hash), _) => show(count, hash),
            (None, _) => show(count, &sha256(&text)),
        };
        // One at a time: the stored rules are those in force.
        let mut guard = self.state();
        let state = &mut *guard;
        let turn = turn.unwrap_or_else(|| self.next_turn());
        if turn < self.turn.load(Ordering::Relaxed) {
            return Ok((SUPERSEDED, None));
        }
        if restored.is_none() {
            // Even if the same rules are in force: after an error the content of the file for the
            // next start is unknown.
            self.file.keep((count > 0).then_some(&text))?;
        }
        state.epoch += 1;
        let next = (count > 0).then(|| Published::new(program, state.epoch));
        let address = next.as_ref().map_or(std::ptr::null(), |it| it.0.as_ptr().cast_const());
        for shard in &probe.rewrites.shards {
            // SAFETY: `next` is kept in `state`, and freed only below.
            unsafe { shard.rules.replace(address) };
        }
        let epoch = if next.is_some() { state.epoch } else { 0 };
        // SYNC rules: Release pairs with the Acquire in `tacho_probe`: a thread that reads the
        // number finds rules that are not older.
        probe.rewrites.epoch.store(epoch, Ordering::Release);
        self.count.store(count, Ordering::Relaxed);
        self.turn.store(turn, Ordering::Relaxed);
        state.retired.extend(std::mem::replace(&mut state.current, next));
        if !probe.rewrites.shards.iter().any(|shard| shard.rules.is_read()) {
            state.retired.clear();
        }
        if state.shown.is_empty() {
            state.shown = "0".to_owned();
        }
        let old = std::mem::replace(&mut state.shown, shown);
        let change = (old != state.shown).then(|| ConfigChange {
            who,
            number: 0,
            variable: b"rewrite_rules".to_vec(),
            old_value: old.into_bytes(),
            new_value: state.shown.clone().into_bytes(),
        });
        Ok((count, change))
    }

    /// The stored rules; `None`: there are none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn kept(&self) -> Result<Option<List>, String> {
        let kept = self.file.read()?;
        Ok(kept.map(|(rules, hash)| List::restored(rules, hash)))
    }
}

/// The value in the log: the number of rules, and the hash of their file.
fn show(count: u64, hash: &str) -> String {
    format!("{count} sha256:{hash}")
}
