//! The filter: compiled here, published to the query threads and to the writer.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use tacho_filter::compile::{Server, TEXT_BYTES_MAX, compile};
use tacho_filter::program::{Program, USES_BLOCK};
use tacho_probe::{Compiled, Probe};
use tacho_recorder::control::Control;
use tacho_ring::codec::Bytes;
use tacho_ring::sync::{AtomicU64, Ordering};
use tacho_ring::sys;

/// A compiled filter at an address that query threads know.
struct Published(NonNull<Compiled>);

// SAFETY: what is there is not changed, and freed by whoever has this.
unsafe impl Send for Published {}

impl Published {
    fn new(bytes: &[u8]) -> Published {
        let bytes: &mut [u8] = Box::leak(bytes.into());
        let compiled = Compiled { bytes: Bytes { data: bytes.as_mut_ptr(), len: bytes.len() } };
        Published(NonNull::from(Box::leak(Box::new(compiled))))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`, as boxes of these types, and nobody looks at them any more.
        unsafe {
            let compiled = Box::from_raw(self.0.as_ptr());
            let Bytes { data, len } = compiled.bytes;
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast_mut(), len)));
        }
    }
}

/// Number of the last filter of this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that no filter has had, also before this library was loaded anew: threads may still
/// have what an older one has said.
fn next_generation() -> u64 {
    let now_s = (sys::now_us() / 1_000_000) as u64 & 0xffff_ffff;
    let next = |last: u64| now_s.max(last + 1);
    let last = GENERATION.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
    next(last.unwrap_or_else(|last| last))
}

#[derive(Default)]
struct State {
    /// Text of the filter that is in use.
    text: String,
    current: Option<Published>,
    /// Somebody was looking when these were replaced.
    retired: Vec<Published>,
}

/// The filters of a recorder.
#[derive(Default)]
pub struct Filters {
    state: Mutex<State>,
    /// How many rules the filter in use has. SHOW STATUS asks while the server holds a lock that
    /// all sessions take: it must not wait for `state`.
    count: AtomicU64,
}

/// Reads a filter from a file.
pub fn read_file(path: &Path) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    // A pipe is not waited for.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| told(&error))?;
    if !file.metadata().map_err(|error| told(&error))?.is_file() {
        return Err(told(&"this is no plain file"));
    }
    let mut text = String::new();
    // One byte more than is accepted: what is longer is refused, not cut.
    file.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|error| told(&error))?;
    Ok(text)
}

impl Filters {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Checks a filter.
    ///
    /// # Errors
    /// Where it is wrong, and how.
    pub fn check(text: &str, server: &Server) -> Result<Vec<u8>, String> {
        compile(text, server).map_err(|error| error.to_string())
    }

    /// What a filter leaves out that an audit should have.
    pub fn warning(text: &str, server: &Server) -> Option<String> {
        let bytes = Self::check(text, server).ok()?;
        server.warning(&Program::new(&bytes))
    }

    /// Number of rules of the filter in use. Waits for nothing.
    pub fn rule_count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Puts a filter in the place of the one before. Returns the text of that one.
    ///
    /// # Errors
    /// As [`Filters::check`]; the one before then stays.
    pub fn set(
        &self,
        text: &str,
        server: &Server,
        probe: &Probe,
        control: &Control,
    ) -> Result<String, String> {
        let bytes: Arc<[u8]> = Self::check(text, server)?.into();
        let mut guard = self.state();
        let state = &mut *guard;
        let version = control.set_filter(bytes.clone());
        // SYNC filter: before the filter and its epoch, which are published with Release: who reads a
        // record that the new filter has judged finds this number behind it, also in another
        // process (`note_due_filter` of the recorder).
        let settings = &probe.arena.shared().settings.0;
        settings.filter_version.store(version, Ordering::Relaxed);
        let next = (!bytes.is_empty()).then(|| Published::new(&bytes));
        let address = next.as_ref().map_or(std::ptr::null(), |it| it.0.as_ptr().cast_const());
        // SAFETY: `next` is kept in `state`, and freed only below.
        unsafe { probe.filter.compiled.replace(address) };
        // The low half is for changes of identity.
        let epoch = if next.is_some() { next_generation() << 32 } else { 0 };
        // SYNC epoch: Release pairs with the Acquires in `tacho_probe`.
        probe.filter.epoch.store(epoch, Ordering::Release);
        // Relaxed: who sees it asks the filter itself, and keeps no answer of an older one.
        let program = Program::new(&bytes);
        let has_block = program.uses() & USES_BLOCK != 0;
        probe.filter.has_block.store(u32::from(has_block), Ordering::Relaxed);
        self.count.store(program.rule_count().into(), Ordering::Relaxed);
        state.retired.extend(std::mem::replace(&mut state.current, next));
        if !probe.filter.compiled.is_read() {
            state.retired.clear();
        }
        Ok(std::mem::replace(&mut state.text, text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::random_key;
    use tacho_recorder::arena_file::ArenaFile;

    #[test]
    fn the_number_of_rules_is_told_while_another_filter_is_put_in_force() {
        let arena = Box::leak(Box::new(ArenaFile::placeholder().unwrap())).arena();
        let probe = Probe::keyed(arena, 1, random_key());
        let (filters, control) = (Filters::default(), Control::default());
        let rule = r#"{"user": "app", "action": "skip"}"#;
        let two = format!(r#"{{"rules": [{rule}, {rule}]}}"#);
        let wrong = r#"{"rules": [7]}"#;
        for (text, is_right, expected) in
            [("", true, 0), (&*two, true, 2), (wrong, false, 2), ("", true, 0), (&*two, true, 2)]
        {
            let set = filters.set(text, &Server::default(), &probe, &control);
            assert_eq!((set.is_ok(), filters.rule_count()), (is_right, expected), "{text}");
        }
        // As `set` has it.
        let _held = filters.state();
        assert_eq!(filters.rule_count(), 2);
    }

    #[test]
    fn files_that_are_none() {
        let missing = read_file(Path::new("/nonexistent/filter.json")).unwrap_err();
        assert!(missing.contains("/nonexistent/filter.json"), "{missing}");
        assert!(read_file(Path::new("/dev/null")).unwrap_err().contains("no plain file"));
    }
}
