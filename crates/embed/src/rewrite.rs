//! Rules that rewrite: compiled here, published to the query threads, and kept for the next start.
//!
//! They are kept in a file of the log directory, because they are in force before anybody could
//! load them from their table. The file is there, whole and on the device, before they are in force.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tacho_probe::{CompiledRules, Probe, Shard};
use tacho_recorder::control::{ConfigChange, Who};
use tacho_rewrite::compile::{Compiler, Source};
use tacho_ring::codec::Bytes;
use tacho_ring::sync::{AtomicU64, Ordering};

/// Name of the file.
pub const NAME: &str = ".rewrite_rules.json";
const NEW_NAME: &str = ".rewrite_rules.json.new";
/// Most rules of a load.
const RULES_MAX: usize = 100_000;
/// Most bytes of their texts together.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Largest file that is written or read, bytes.
const FILE_BYTES_MAX: usize = 512 << 20;

// No character takes more than six bytes in JSON (`\u0000`); the rest of a rule is its names.
const _: () = assert!(TEXT_BYTES_MAX * 6 + RULES_MAX * 256 <= FILE_BYTES_MAX);

/// What the file says of its form.
const VERSION: u32 = 1;

/// A rule as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    id: u64,
    pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pattern_database: Option<String>,
    replacement: String,
}

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    rules: Vec<Rule>,
}

/// Most wrong rules of a list that the error log tells of one by one.
const WRONG_TOLD_MAX: usize = 10;
/// Most wrong rules of a list whose faults are kept.
const WRONG_KEPT_MAX: usize = 100_000;

/// Rules that are about to be in force.
#[derive(Default)]
pub struct List {
    compiler: Compiler,
    rules: Vec<Rule>,
    /// Of the texts of `rules`.
    bytes: usize,
    /// SHA-256 of the file that they are from. It is as it shall be then, and perhaps cannot be
    /// written.
    restored: Option<String>,
    /// There was one more than there may be: then none of them will be in force.
    is_beyond: bool,
    /// What is wrong with the first ones that are, with their ids.
    wrong: Vec<(u64, String)>,
    wrong_count: usize,
}

impl List {
    /// Whether there is room for another rule, of this many bytes; if not, what there was goes.
    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        let bytes = self.bytes.saturating_add(bytes);
        if self.is_beyond || self.rules.len() >= RULES_MAX || bytes > TEXT_BYTES_MAX {
            *self = List { is_beyond: true, ..List::default() };
            return Err(too_many());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// What is wrong with it; the list is then as it was. If it is one too many, the list can no
    /// longer be applied.
    pub fn add(&mut self, source: &Source<'_>) -> Result<(), String> {
        self.try_add(source).inspect_err(|error| {
            self.wrong_count += 1;
            if self.wrong.len() < WRONG_KEPT_MAX {
                self.wrong.push((source.id, error.clone()));
            }
        })
    }

    /// What is wrong with those that are left out, by their ids: a JSON object.
    pub fn faults(&self) -> String {
        let faults: BTreeMap<u64, &str> =
            self.wrong.iter().map(|(id, error)| (*id, error.as_str())).collect();
        // Numbers and texts cannot fail.
        serde_json::to_string(&faults).unwrap_or_else(|_| "{}".to_owned())
    }

    /// What the error log says of those that are left out, line by line.
    pub fn left_out(&self) -> impl Iterator<Item = String> + use<> {
        let path = if self.restored.is_some() { NAME } else { "rewrite_rules" };
        let told = self.wrong.iter().take(WRONG_TOLD_MAX);
        let more = self.wrong_count - told.len();
        let more = (more > 0).then(|| format!("{more} more rules"));
        let told = told.map(|(id, error)| format!("rule {id}: {error}"));
        let lines: Vec<_> = told.chain(more).collect();
        lines.into_iter().map(move |line| format!("left out of {path}: {line}"))
    }

    fn try_add(&mut self, source: &Source<'_>) -> Result<(), String> {
        // Nothing is copied before the compiler has looked at the lengths: a text of a statement
        // may have a gigabyte, and the server ends where there is no memory for it.
        let text = |part: &str, bytes| {
            std::str::from_utf8(bytes).map_err(|_| format!("{part}: this is not UTF-8"))
        };
        let pattern = text("pattern", source.pattern)?;
        let database = match source.database {
            Some(database) => Some(text("pattern_database", database)?),
            None => None,
        };
        let replacement = text("replacement", source.replacement)?;
        self.compiler.add(source).map_err(|error| error.to_string())?;
        self.make_room(pattern.len() + replacement.len() + database.map_or(0, str::len))?;
        self.rules.push(Rule {
            id: source.id,
            pattern: pattern.to_owned(),
            pattern_database: database.map(str::to_owned),
            replacement: replacement.to_owned(),
        });
        Ok(())
    }
}

fn too_many() -> String {
    let megabytes = TEXT_BYTES_MAX >> 20;
    format!("there are more than {RULES_MAX} rules, or more than {megabytes} MiB of them")
}

/// Compiled rules at an address that query threads know.
struct Published(NonNull<CompiledRules>);

// SAFETY: what is there is not changed, and freed by whoever has this.
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
        // SAFETY: leaked by `new`, as boxes of these types, and nobody looks at them any more.
        unsafe {
            let rules = Box::from_raw(self.0.as_ptr());
            let Bytes { data, len } = rules.bytes;
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast_mut(), len)));
        }
    }
}

#[derive(Default)]
struct State {
    /// Number of the rules that were in force last.
    epoch: u64,
    current: Option<Published>,
    /// Somebody was looking when these were replaced.
    retired: Vec<Published>,
    /// What the log says of those in force.
    shown: String,
}

/// The rules of a recorder.
pub struct Rewriting {
    directory: PathBuf,
    state: Mutex<State>,
    /// How many are in force. SHOW STATUS asks while the server holds a lock that all sessions
    /// take: it must not wait for `state`, which is held while a file is synced.
    count: AtomicU64,
}

/// What nobody can know: see [`Probe::keyed`].
pub fn random_key() -> [u64; 4] {
    // Each is the hash of nothing under a key of its own, that the operating system has given.
    std::array::from_fn(|_| RandomState::new().build_hasher().finish())
}

/// The sum of a counter.
pub fn sum(probe: &Probe, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
    probe.rewrites.shards.iter().map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
}

impl Rewriting {
    /// Of a log directory, without rules.
    pub fn new(directory: &Path) -> Rewriting {
        Rewriting {
            directory: directory.to_owned(),
            state: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Number of rules in force. Waits for nothing.
    pub fn rule_count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Puts rules in the place of those before. Returns how many there are, and what the log has to
    /// tell of it.
    ///
    /// # Errors
    /// They cannot be kept, or are too many; those before stay in force.
    pub fn apply(
        &self,
        who: Who,
        list: List,
        probe: &Probe,
    ) -> Result<(u64, Option<ConfigChange>), String> {
        let List { compiler, rules, restored, is_beyond, .. } = list;
        if is_beyond {
            return Err(too_many());
        }
        let count = rules.len() as u64;
        let program = compiler.finish().map_err(|error| error.to_string())?;
        let text = serde_json::to_vec(&Kept { version: VERSION, rules });
        let text = text.map_err(|error| error.to_string())?;
        if text.len() > FILE_BYTES_MAX {
            return Err(too_many());
        }
        let shown = match (&restored, count) {
            (_, 0) => "0".to_owned(),
            (Some(hash), _) => show(count, hash),
            (None, _) => show(count, &sha256(&text)),
        };
        // One at a time: what is kept is what is in force.
        let mut guard = self.state();
        let state = &mut *guard;
        if restored.is_none() {
            // Also where the same rules are in force: after an error nobody knows what the file
            // is that the next start will find.
            let kept = if count == 0 { self.remove() } else { self.write(&text) };
            let path = self.directory.join(NAME);
            kept.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        state.epoch += 1;
        let next = (count > 0).then(|| Published::new(program, state.epoch));
        let address = next.as_ref().map_or(std::ptr::null(), |it| it.0.as_ptr().cast_const());
        for shard in &probe.rewrites.shards {
            // SAFETY: `next` is kept in `state`, and freed only below.
            unsafe { shard.rules.replace(address) };
        }
        let epoch = if next.is_some() { state.epoch } else { 0 };
        // SYNC rules: Release pairs with the Acquire in `tacho_probe`: who knows the number finds
        // rules that are not older.
        probe.rewrites.epoch.store(epoch, Ordering::Release);
        self.count.store(count, Ordering::Relaxed);
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

    /// The rules that are kept; `None`: there are none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn kept(&self) -> Result<Option<List>, String> {
        let path = self.directory.join(NAME);
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| told(&error))?,
        };
        is_own(&file).map_err(|error| told(&error))?;
        let mut text = Vec::new();
        let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        if read.map_err(|error| told(&error))? > FILE_BYTES_MAX {
            return Err(told(&"it is too large"));
        }
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| told(&error))?;
        if kept.version != VERSION {
            return Err(told(&format!("it has the version {}", kept.version)));
        }
        let mut list = List { restored: Some(sha256(&text)), ..List::default() };
        for Rule { id, pattern, pattern_database, replacement } in kept.rules {
            let source = Source {
                id,
                pattern: pattern.as_bytes(),
                database: pattern_database.as_ref().map(String::as_bytes),
                replacement: replacement.as_bytes(),
            };
            // The others are in force; `left_out` tells of it.
            let _ = list.add(&source);
        }
        Ok(Some(list))
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let new = self.directory.join(NEW_NAME);
        // One that is there, from a load that did not end, may be anybody's.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, self.directory.join(NAME))?;
        self.sync()
    }

    fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(self.directory.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        // Also where there was none: it may be gone since a removal that was not synced.
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Whether the recorder may have written a file: nobody else can open it. What an account with the
/// privilege FILE writes (`INTO OUTFILE`) is the server's, too, but its group can read it.
fn is_own(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|error| error.to_string())?;
    // SAFETY: it has no conditions.
    let user = unsafe { libc::geteuid() };
    let mode = found.mode() & 0o7777;
    let wrong = if !found.is_file() {
        "it is not a plain file".to_owned()
    } else if found.uid() != user {
        format!("it belongs to the user {}, the server is {user}", found.uid())
    } else if mode & 0o077 != 0 {
        format!("its mode is {mode:04o}")
    } else {
        return Ok(());
    };
    Err(format!(
        "not believed, for {wrong}: look at it, then make it the server's with mode 0600 (chmod \
         600) and start the server again, or load the rules again"
    ))
}

/// What the log says of rules: how many, and the hash of the file that keeps them.
fn show(count: u64, hash: &str) -> String {
    format!("{count} sha256:{hash}")
}

fn sha256(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use tacho_recorder::arena_file::ArenaFile;
    use tacho_rewrite::compile::SHAPE_RULES_MAX;

    fn list(rules: &[(u64, &str, &str)]) -> List {
        let mut list = List::default();
        for (id, pattern, replacement) in rules {
            let source = Source {
                id: *id,
                pattern: pattern.as_bytes(),
                database: Some(b"shop"),
                replacement: replacement.as_bytes(),
            };
            list.add(&source).unwrap();
        }
        list
    }

    fn probe() -> Probe {
        let arena = Box::leak(Box::new(ArenaFile::placeholder().unwrap())).arena();
        Probe::keyed(arena, 1, random_key())
    }

    #[test]
    fn rules_are_in_force_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        assert!(rewriting.kept().unwrap().is_none());
        let rules = [(1, "SELECT ?", "SELECT ? + 1"), (2, "SELECT 'a'", "SELECT 'b'")];
        let (count, change) = rewriting.apply(Who::default(), list(&rules), &probe).unwrap();
        let change = change.unwrap();
        let file = std::fs::read(directory.path().join(NAME)).unwrap();
        assert_eq!((count, rewriting.rule_count()), (2, 2));
        assert_eq!(change.old_value, b"0");
        assert_eq!(String::from_utf8(change.new_value).unwrap(), show(2, &sha256(&file)));
        assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 1);
        // The same ones again: nothing to tell.
        let (_, change) = rewriting.apply(Who::default(), list(&rules), &probe).unwrap();
        assert!(change.is_none());

        let again = Rewriting::new(directory.path());
        let kept = again.kept().unwrap().unwrap();
        assert_eq!(kept.rules, list(&rules).rules);
        let (count, change) = again.apply(Who::default(), kept, &super::tests::probe()).unwrap();
        assert_eq!(count, 2);
        assert_eq!(String::from_utf8(change.unwrap().new_value).unwrap(), show(2, &sha256(&file)));

        let (count, change) = again.apply(Who::default(), List::default(), &probe).unwrap();
        assert_eq!((count, change.unwrap().new_value), (0, b"0".to_vec()));
        assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 0);
        assert!(again.kept().unwrap().is_none());
    }

    #[test]
    fn their_number_is_told_while_others_are_being_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
        // As `apply` has it while it waits for the disk.
        let _held = rewriting.state();
        assert_eq!(rewriting.rule_count(), 1);
    }

    #[test]
    fn what_cannot_be_kept_is_not_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
        let blocked = directory.path().join(NEW_NAME);
        std::fs::create_dir(&blocked).unwrap();
        let error = rewriting.apply(
            Who::default(),
            list(&[(1, "SELECT ?", "SELECT 1"), (2, "SELECT 2", "SELECT 1")]),
            &probe,
        );
        assert!(error.unwrap_err().contains(NAME));
        assert_eq!(rewriting.rule_count(), 1);
        assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 1);
        assert_eq!(rewriting.kept().unwrap().unwrap().rules.len(), 1);
    }

    #[test]
    fn too_many_rules_leave_those_before_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
        let long = format!("SELECT '{}'", "a".repeat(32_000));
        let cases = [(RULES_MAX, "SELECT 1"), (TEXT_BYTES_MAX / 33_000, &long)];
        for (fitting, replacement) in cases {
            let mut many = List::default();
            let mut refused = None;
            for id in 0.. {
                let pattern = format!("SELECT a{id}");
                let (pattern, replacement) = (pattern.as_bytes(), replacement.as_bytes());
                let source = Source { id, pattern, database: None, replacement };
                if let Err(error) = many.add(&source) {
                    refused = Some((id as usize, error));
                    break;
                }
            }
            let (id, error) = refused.unwrap();
            assert!(id >= fitting && error == too_many(), "{id}: {error}");
            // Also where those that follow would have had room.
            let last =
                Source { id: 1, pattern: b"SELECT 1", database: None, replacement: b"SELECT 2" };
            assert_eq!(many.add(&last).unwrap_err(), too_many());
            assert_eq!(rewriting.apply(Who::default(), many, &probe).unwrap_err(), too_many());
            assert_eq!(rewriting.rule_count(), 1);
        }
    }

    #[test]
    fn a_load_writes_the_file_whatever_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        let (first, second) = ([(1, "SELECT ?", "SELECT 1")], [(2, "SELECT ?", "SELECT 2")]);
        rewriting.apply(Who::default(), list(&first), &probe).unwrap();
        // As after a load that failed when its file had its name already.
        let other = Rewriting::new(directory.path());
        other.apply(Who::default(), list(&second), &super::tests::probe()).unwrap();
        rewriting.apply(Who::default(), list(&first), &probe).unwrap();
        assert_eq!(rewriting.kept().unwrap().unwrap().rules, list(&first).rules);
    }

    #[test]
    fn a_start_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let rules = [(1, "SELECT ?", "SELECT 1")];
        Rewriting::new(directory.path()).apply(Who::default(), list(&rules), &probe()).unwrap();
        let text = [std::fs::read(&path).unwrap(), b"\n".to_vec()].concat();
        std::fs::write(&path, &text).unwrap();
        let rewriting = Rewriting::new(directory.path());
        let kept = rewriting.kept().unwrap().unwrap();
        let (_, change) = rewriting.apply(Who::default(), kept, &probe()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), text);
        assert_eq!(change.unwrap().new_value, show(1, &sha256(&text)).into_bytes());
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_a_file_of_the_server_alone_is_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let rewriting = Rewriting::new(directory.path());
        // What somebody else has begun is not gone on with.
        let new = directory.path().join(NEW_NAME);
        std::fs::write(&new, "x").unwrap();
        set_mode(&new, 0o644);
        let rules = [(1, "SELECT ?", "SELECT 1")];
        rewriting.apply(Who::default(), list(&rules), &probe()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);

        let refused = |expected: &str| {
            let Err(error) = rewriting.kept() else { panic!("{expected}") };
            assert!(error.contains(NAME) && error.contains(expected), "{error}");
        };
        for mode in [0o640, 0o604, 0o620, 0o610] {
            set_mode(&path, mode);
            refused(&format!("its mode is {mode:04o}"));
            refused("chmod 600");
        }
        set_mode(&path, 0o600);
        assert!(rewriting.kept().unwrap().is_some());
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
            refused("belongs to the user 12345");
        }
        let elsewhere = directory.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        refused("symbolic link");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused("not a plain file");
        // A load sets it right, where it can.
        std::fs::remove_dir(&path).unwrap();
        rewriting.apply(Who::default(), list(&rules), &probe()).unwrap();
        assert!(rewriting.kept().unwrap().is_some());
    }

    #[test]
    fn files_that_are_wrong_are_told_of() {
        let directory = tempfile::tempdir().unwrap();
        let rewriting = Rewriting::new(directory.path());
        let cases = [("", "EOF"), ("{\"version\":2,\"rules\":[]}", "version 2")];
        for (text, expected) in cases {
            std::fs::write(directory.path().join(NAME), text).unwrap();
            set_mode(&directory.path().join(NAME), 0o600);
            let Err(error) = rewriting.kept() else { panic!("{text}") };
            assert!(error.contains(NAME) && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_rule_of_the_file_that_is_wrong_leaves_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
        let mut rules = list(&[(1, "SELECT ?", "SELECT 1"), (2, "SELECT 2, 3", "SELECT 3")]).rules;
        let wrong = Rule { pattern: "'".to_owned(), ..rules[0].clone() };
        rules.extend((7..30).map(|id| Rule { id, ..wrong.clone() }));
        let text = serde_json::to_vec(&Kept { version: VERSION, rules }).unwrap();
        let path = directory.path().join(NAME);
        std::fs::write(&path, &text).unwrap();
        set_mode(&path, 0o600);
        let kept = rewriting.kept().unwrap().unwrap();
        let lines: Vec<_> = kept.left_out().collect();
        assert_eq!(lines.len(), WRONG_TOLD_MAX + 1);
        assert_eq!(
            lines[0],
            "left out of .rewrite_rules.json: rule 7: pattern, character 1: a quote that is not \
             closed"
        );
        assert_eq!(lines[10], "left out of .rewrite_rules.json: 13 more rules");
        let (count, change) = rewriting.apply(Who::default(), kept, &probe).unwrap();
        assert_eq!((count, rewriting.rule_count()), (2, 2));
        assert_eq!(change.unwrap().new_value, show(2, &sha256(&text)).into_bytes());
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }

    #[test]
    fn what_is_too_many_of_one_shape_is_told_by_its_id() {
        let mut list = List::default();
        let mut add = |id: u64, pattern: &str| {
            let (pattern, replacement) = (pattern.as_bytes(), &b"SELECT 'x'"[..]);
            list.add(&Source { id, pattern, database: None, replacement })
        };
        for id in 1..=66 {
            let added = add(id, &format!("SELECT {id}"));
            assert_eq!(added.is_ok(), id <= SHAPE_RULES_MAX as u64, "{id}");
        }
        add(67, "SELECT a").unwrap();
        add(9, "'").unwrap_err();
        let expected = "there are 64 rules of this shape already";
        assert_eq!(
            list.faults(),
            format!(
                "{{\"9\":\"pattern, character 1: a quote that is not closed\",\
                 \"65\":\"pattern: {expected}\",\"66\":\"pattern: {expected}\"}}"
            )
        );
        assert_eq!(list.rules.len(), 65);
        assert_eq!(list.left_out().count(), 3);
        assert_eq!(List::default().faults(), "{}");
    }

    #[test]
    fn a_rule_that_is_wrong_is_not_in_the_list() {
        let mut list = list(&[(1, "SELECT ?", "SELECT 1")]);
        let wrong =
            |pattern, database, replacement| Source { id: 2, pattern, database, replacement };
        let long = [&b"SELECT 1 -- "[..], &[b'a'; 33 << 10]].concat();
        for source in [
            wrong(b"SELECT '", None, b"SELECT 1"),
            wrong(b"SELECT 1", None, b"SELECT ?"),
            wrong(b"SELECT \xFF", None, b"SELECT 1"),
            wrong(b"SELECT 1", Some(b"\xFF"), b"SELECT 1"),
            wrong(b"", None, b"SELECT 1"),
            wrong(&long, None, b"SELECT 1"),
            wrong(b"SELECT 1", Some(&long), b"SELECT 1"),
            wrong(b"SELECT 1", None, &long),
        ] {
            assert!(list.add(&source).is_err());
        }
        assert_eq!((list.rules.len(), list.compiler.count()), (1, 1));
        let first = "left out of rewrite_rules: rule 2: pattern, character 8: a quote";
        assert!(list.left_out().next().unwrap().starts_with(first));
        assert_eq!(super::tests::list(&[]).left_out().count(), 0);
    }
}
