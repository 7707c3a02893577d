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

/// A compiled filter at an address that is known to query threads.
struct Published(NonNull<Compiled>);

// SAFETY: the content never changes, and is freed by the owner of this.
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
        // SAFETY: leaked by `new`, as boxes of these types, and no thread reads them any more.
        unsafe {
            let compiled = Box::from_raw(self.0.as_ptr());
            let Bytes { data, len } = compiled.bytes;
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast_mut(), len)));
        }
    }
}

/// Number of the last filter of this process.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that no filter has had, even before this library was loaded anew: threads may still
/// have decisions of an older filter.
fn next_generation() -> u64 {
    let now_s = (sys::now_us() / 1_000_000) as u64 & 0xffff_ffff;
    let next = |last: u64| now_s.max(last + 1);
    let last = GENERATION.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
    next(last.unwrap_or_else(|last| last))
}

#[derive(Default)]
struct FilterVersions {
    /// Text of the filter in use.
    text: String,
    current: Option<Published>,
    /// Replaced filters that a thread was reading at that time.
    retired: Vec<Published>,
}

/// The filters of a recorder.
#[derive(Default)]
pub struct Filters {
    state: Mutex<FilterVersions>,
    /// Number of rules of the filter in use. SHOW STATUS reads it while the server holds a lock
    /// that all sessions take: it must not wait for `state`.
    count: AtomicU64,
}

/// Reads a filter from a file.
pub fn read_file(path: &Path) -> Result<String, String> {
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    // Non-blocking, for the case of a pipe.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(|error| with_path(&error))?;
    if !file.metadata().map_err(|error| with_path(&error))?.is_file() {
        return Err(with_path(&"not a regular file"));
    }
    let mut text = String::new();
    // One byte more than is accepted: a longer filter is refused, not truncated.
    file.take(TEXT_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| with_path(&error))?;
    Ok(text)
}

impl Filters {
    fn state(&self) -> MutexGuard<'_, FilterVersions> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Checks a filter.
    ///
    /// # Errors
    /// Where it is wrong, and why.
    pub fn check(text: &str, server: &Server) -> Result<Vec<u8>, String> {
        compile(text, server).map_err(|error| error.to_string())
    }

    /// A warning about statements that a filter leaves out but an audit should have.
    pub fn warning(text: &str, server: &Server) -> Option<String> {
        let bytes = Self::check(text, server).ok()?;
        server.warning(&Program::new(&bytes))
    }

    /// Number of rules of the filter in use. Does not wait.
    pub fn rule_count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Replaces the filter. Returns the text of the previous one.
    ///
    /// # Errors
    /// As [`Filters::check`]; the previous filter then stays.
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
        // SYNC filter: before the filter and its epoch, which are published with Release: a reader
        // of a record that the new filter let through finds at least this number, also in another
        // process (`note_due` of the recorder).
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
        // Relaxed: a thread that sees it evaluates the filter itself, and keeps no decision of an
        // older one.
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
    fn the_number_of_rules_is_available_while_a_filter_is_replaced() {
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
        // As `set` does.
        let _held = filters.state();
        assert_eq!(filters.rule_count(), 2);
    }

    #[test]
    fn files_that_cannot_be_filters() {
        let missing = read_file(Path::new("/nonexistent/filter.json")).unwrap_err();
        assert!(missing.contains("/nonexistent/filter.json"), "{missing}");
        assert!(read_file(Path::new("/dev/null")).unwrap_err().contains("not a regular file"));
    }
}
