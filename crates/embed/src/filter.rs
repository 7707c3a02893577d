//! The filter: compiled here, published to the query threads and to the writer.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use tacho_filter::compile::{Server, TEXT_BYTES_MAX, compile};
use tacho_filter::program::Program;
use tacho_probe::{Compiled, Probe};
use tacho_recorder::control::Control;
use tacho_ring::codec::Bytes;
use tacho_ring::sync::Ordering;

/// A compiled filter at an address that query threads know.
struct Published {
    compiled: Compiled,
    /// What `compiled` points to.
    bytes: Arc<[u8]>,
}

// SAFETY: the pointer in it is to its own bytes, which nobody changes.
unsafe impl Send for Published {}

impl Published {
    fn new(bytes: Arc<[u8]>) -> Box<Published> {
        Box::new(Published { compiled: Compiled { bytes: Bytes::of(&bytes) }, bytes })
    }
}

#[derive(Default)]
struct State {
    /// Text of the filter that is in use.
    text: String,
    /// Of the filters so far.
    generation: u64,
    current: Option<Box<Published>>,
    /// Somebody was looking when these were replaced. Boxes, because query threads know where
    /// they are.
    #[allow(clippy::vec_box)]
    retired: Vec<Box<Published>>,
}

/// The filters of a recorder.
#[derive(Default)]
pub struct Filters {
    state: Mutex<State>,
}

/// Reads a filter from a file.
pub fn read_file(path: &Path) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    // Not a pipe, which would be waited for.
    let meta = std::fs::metadata(path).map_err(|error| told(&error))?;
    if !meta.is_file() {
        return Err(told(&"this is no plain file"));
    }
    let file = std::fs::File::open(path).map_err(|error| told(&error))?;
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

    /// Number of rules of the filter in use.
    pub fn rule_count(&self) -> u64 {
        let state = self.state();
        state.current.as_ref().map_or(0, |it| Program::new(&it.bytes).rule_count().into())
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
        control.set_filter(bytes.clone());
        let next = (!bytes.is_empty()).then(|| Published::new(bytes));
        let address = next.as_ref().map_or(std::ptr::null(), |it| &raw const it.compiled);
        // SAFETY: `next` is kept in `state`, and freed only below.
        unsafe { probe.filter.compiled.replace(address) };
        state.generation += 1;
        // The low half is for changes of identity.
        let epoch = if next.is_some() { state.generation << 32 } else { 0 };
        // SYNC epoch: Release pairs with the Acquire in `tacho_probe::Filter::decide`.
        probe.filter.epoch.store(epoch, Ordering::Release);
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

    #[test]
    fn files_that_are_none() {
        let missing = read_file(Path::new("/nonexistent/filter.json")).unwrap_err();
        assert!(missing.contains("/nonexistent/filter.json"), "{missing}");
        assert!(read_file(Path::new("/dev/null")).unwrap_err().contains("no plain file"));
    }
}
