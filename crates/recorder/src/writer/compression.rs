//! The thread that makes closed files smaller. What it does is in [`crate::files`].
//!
//! A thread for each file, one at a time, at the lowest priority: it ends with its work, so that
//! nothing has to be told to it but to stop. The writer looks once a round whether it has ended,
//! and never waits for it until the recorder stops: a library that is unloaded must not have a
//! thread in it. It then ends with the block that it is at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tacho_ring::sys;

use super::Writer;
use super::seldom::Seldom;
use crate::control::{Severity, Status};
use crate::files::{CompressError, Compressed, FileName, Fs};

/// How often is looked for a file, when none was begun, and how long a failure is left alone, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// The lowest that setpriority(2) knows.
const NICE: i32 = 19;

struct Job {
    name: FileName,
    thread: JoinHandle<Result<Compressed, CompressError>>,
}

/// What is known of the compression.
#[derive(Default)]
pub(super) struct Compression {
    job: Option<Job>,
    cancel: Arc<AtomicBool>,
    look_at_us: i64,
    current: Option<FileName>,
    was_wanted: bool,
    /// Those that did not work, to be tried again when nothing else is left, or when somebody has
    /// switched it off and on.
    failed: BTreeSet<FileName>,
    seldom: Seldom,
}

impl Compression {
    /// Whether it works on a file.
    pub(super) fn is_at(&self, name: FileName) -> bool {
        self.job.as_ref().is_some_and(|job| job.name == name)
    }

    /// A file may be compressed that could not be before.
    pub(super) fn look_soon(&mut self) {
        self.look_at_us = 0;
    }

    /// Makes it end soon, and never begin again.
    pub(super) fn cancel(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Drop for Compression {
    fn drop(&mut self) {
        self.cancel();
        if let Some(job) = self.job.take() {
            // Nobody is left who could be told: the file is plain, and tried again at the next start.
            let _: Result<_, _> = job.thread.join();
        }
    }
}

impl<F: Fs> Writer<F> {
    /// Looks after the compression, without waiting for it.
    pub(super) fn compress(&mut self) {
        let now_us = sys::monotonic_us();
        if let Some(job) = self.compression.job.take_if(|job| job.thread.is_finished()) {
            self.end_compression(job, now_us);
        }
        let is_wanted = self.control.compress.load(Ordering::Relaxed);
        let compression = &mut self.compression;
        let current = Some(self.files.current_name());
        if compression.was_wanted != is_wanted {
            compression.failed.clear();
        }
        if compression.current != current || compression.was_wanted != is_wanted {
            (compression.current, compression.was_wanted) = (current, is_wanted);
            compression.look_at_us = 0;
        }
        let is_ending = compression.cancel.load(Ordering::Relaxed);
        let is_busy = compression.job.is_some() || self.retention.is_letting_go();
        if !is_wanted || is_ending || is_busy || now_us < compression.look_at_us {
            return;
        }
        compression.look_at_us = now_us + LOOK_EVERY_US;
        let (failed, renditions) = (&compression.failed, &self.renditions);
        let pass_over = |name| failed.contains(&name) || renditions.needs(name);
        match self.files.next_to_compress(pass_over) {
            Ok(None) => self.compression.failed.clear(),
            Ok(Some(compressor)) => {
                let (name, cancel) = (compressor.name(), self.compression.cancel.clone());
                let thread = std::thread::Builder::new().name("tacho-zstd".to_owned());
                match thread.spawn(move || {
                    lower_priority(NICE);
                    compressor.run(&cancel)
                }) {
                    Ok(thread) => self.compression.job = Some(Job { name, thread }),
                    Err(error) => self.tell_uncompressed(name, &error.to_string(), now_us),
                }
            }
            Err(error) => {
                let name = self.files.current_name();
                self.tell_uncompressed(name, &error.to_string(), now_us);
            }
        }
    }

    fn end_compression(&mut self, job: Job, now_us: i64) {
        self.retention.look_soon();
        let name = job.name;
        match job.thread.join() {
            Ok(Ok(Compressed { bytes, compressed_bytes })) => {
                self.compression.look_at_us = 0;
                self.status.files_compressed.fetch_add(1, Ordering::Relaxed);
                let text = format!(
                    "{} was compressed, {bytes} bytes to {compressed_bytes}",
                    name.log_file()
                );
                self.say(Severity::Note, &text);
            }
            Ok(Err(CompressError::Cancelled)) => {}
            Ok(Err(error)) => self.tell_uncompressed(name, &error.to_string(), now_us),
            Err(_) => self.tell_uncompressed(name, "internal error (panic)", now_us),
        }
    }

    fn tell_uncompressed(&mut self, name: FileName, error: &str, now_us: i64) {
        self.compression.look_at_us = now_us + LOOK_EVERY_US;
        self.compression.failed.insert(name);
        let text = format!("{} stays as it is and is not compressed: {error}", name.log_file());
        if self.compression.seldom.allows(now_us) {
            self.say(Severity::Warning, &text);
        }
        Status::set(&self.status.last_error, &text);
    }
}

/// Other threads on the machine go before this one.
pub(super) fn lower_priority(nice: i32) {
    // SAFETY: no pointers. 0 is the calling thread (Linux keeps priorities by thread), and lowering
    // one's own priority needs no privilege: what could go wrong costs nothing but politeness.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}
