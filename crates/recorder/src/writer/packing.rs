//! The thread that compresses and encrypts closed files and their renditions. The work itself is in
//! [`tacho_logdir`].
//!
//! One thread for each file, one at a time, at the lowest priority. The thread ends with its file,
//! so the only message it needs is to stop. The writer checks once a round whether it has ended,
//! and waits for it only when the recorder stops: a library that is unloaded must not have running
//! threads. The thread then stops after its current block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tacho_logdir::{
    Content, FileName, Form, Fs, LogFiles, PackError, Packed, Packer, Packing as Wanted, Unremoved,
};
use tacho_ring::sys;
use tacho_settings::Setting;

use super::context::Context;
use super::rate_limit::RateLimit;
use super::stale::Stale;
use crate::control::{Encryption, Severity};

/// Interval between searches for a file if there was none, and wait after a failure, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// The lowest priority of setpriority(2).
const NICE: i32 = 19;

struct Job {
    name: FileName,
    content: Content,
    thread: JoinHandle<Result<Packed, PackError>>,
}

/// State of the packing.
#[derive(Default)]
pub(super) struct Packing {
    job: Option<Job>,
    cancel: Arc<AtomicBool>,
    look_at_us: i64,
    current: Option<FileName>,
    wanted: Wanted,
    /// Why no file can be encrypted although encryption is on.
    obstacle: Option<String>,
    /// Version of the encryption setting.
    encryption_version: u64,
    /// Files that failed, to be retried when no other file is left, or when an operator has changed
    /// the settings.
    failed: BTreeSet<(FileName, Content)>,
    /// Packed files whose originals could not be removed. Only the removal is retried.
    unremoved: BTreeMap<(FileName, Content), Unremoved>,
    limit: RateLimit,
    obstacle_limit: RateLimit,
}

impl Packing {
    /// What to do with closed files.
    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether the thread works on this file.
    pub(super) fn is_at(&self, name: FileName) -> bool {
        self.job.as_ref().is_some_and(|job| job.name == name)
    }

    /// Stops the thread soon, and starts no other.
    pub(super) fn cancel(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// A file may be ready to be packed.
    pub(super) fn look_soon(&mut self) {
        self.look_at_us = 0;
    }

    /// Waits for the end of the thread.
    pub(super) fn end(&mut self) {
        self.cancel();
        if let Some(job) = self.job.take() {
            // No caller is left to report it to: the file is unchanged, and retried at the next
            // start.
            let _: Result<_, _> = job.thread.join();
        }
    }

    /// Starts and finishes packing threads, without waiting. `skips`: a file that is needed
    /// unchanged.
    pub(super) fn look_after<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        skips: impl Fn(FileName) -> bool,
        stale: &mut Stale,
        context: &Context,
    ) {
        let now_us = sys::monotonic_us();
        if let Some(job) = self.job.take_if(|job| job.thread.is_finished()) {
            (stale.retention, stale.inventory) = (true, true);
            self.end_job(job, now_us, context);
        }
        if self.take_settings(context) {
            stale.inventory = true;
        }
        let current = files.current_name();
        if let Some(before) = self.current.replace(current)
            && before != current
        {
            self.look_at_us = 0;
            self.report_unencrypted(before, now_us, context);
        }
        let is_wanted = self.wanted.compress || self.wanted.recipients.is_some();
        let is_ending = self.cancel.load(Ordering::Relaxed);
        if !is_wanted || is_ending || self.job.is_some() || now_us < self.look_at_us {
            return;
        }
        self.look_at_us = now_us + LOOK_EVERY_US;
        if self.remove_unpacked(files, context) {
            (stale.retention, stale.inventory) = (true, true);
        }
        let Packing { failed, unremoved, wanted, .. } = &*self;
        let skips = |name, content| {
            failed.contains(&(name, content))
                || unremoved.contains_key(&(name, content))
                || skips(name)
        };
        match files.next_to_pack(wanted, skips) {
            Ok(None) => self.failed.clear(),
            Ok(Some(packer)) => self.begin_job(packer, now_us, context),
            Err(error) => {
                let error = error.to_string();
                self.report_unpacked(current, Content::Lines, &error, now_us, context);
            }
        }
    }

    fn begin_job<F: Fs>(&mut self, packer: Packer<F>, now_us: i64, context: &Context) {
        let (name, content) = (packer.name(), packer.content());
        let cancel = self.cancel.clone();
        let thread = std::thread::Builder::new().name("tacho-pack".to_owned());
        match thread.spawn(move || {
            lower_priority(NICE);
            packer.run(&cancel)
        }) {
            Ok(thread) => self.job = Some(Job { name, content, thread }),
            Err(error) => self.report_unpacked(name, content, &error.to_string(), now_us, context),
        }
    }

    /// Applies the current settings. `true`: they have changed.
    fn take_settings(&mut self, context: &Context) -> bool {
        let compress = context.control.is_on(Setting::Compression);
        let mut has_changed = std::mem::replace(&mut self.wanted.compress, compress) != compress;
        if let Some((version, encryption)) =
            context.control.encryption_newer_than(self.encryption_version)
        {
            self.encryption_version = version;
            (self.wanted.recipients, self.obstacle) = match encryption {
                Encryption::Off => (None, None),
                Encryption::To(recipients) => (Some(recipients), None),
                Encryption::Impossible(why) => (None, Some(why)),
            };
            has_changed = true;
        }
        if has_changed {
            self.failed.clear();
            self.unremoved.clear();
            self.look_at_us = 0;
        }
        has_changed
    }

    fn end_job(&mut self, job: Job, now_us: i64, context: &Context) {
        let Job { name, content, thread } = job;
        match thread.join() {
            Ok(Ok(packed)) => {
                self.look_at_us = 0;
                report_packed(name, packed, context);
            }
            Ok(Err(PackError::Cancelled)) => {}
            Ok(Err(PackError::Unremoved { unremoved, error })) => {
                // The next one may succeed.
                self.look_at_us = 0;
                self.unremoved.insert((name, content), *unremoved);
                let text = format!(
                    "{} was packed, and cannot be removed: {error} It can still be read by whoever \
                     gets at it. Its removal is tried again each minute",
                    file_of(name, content)
                );
                context.report(Severity::Warning, &text, true);
            }
            Ok(Err(error)) => {
                self.report_unpacked(name, content, &error.to_string(), now_us, context);
            }
            Err(_) => {
                self.report_unpacked(name, content, "internal error (panic)", now_us, context);
            }
        }
    }

    /// Retries the removal of originals of packed files, without another report. `true`: one of
    /// them is gone.
    fn remove_unpacked<F: Fs>(&mut self, files: &LogFiles<F>, context: &Context) -> bool {
        let mut is_any_gone = false;
        for ((name, content), unremoved) in std::mem::take(&mut self.unremoved) {
            match files.remove_unpacked(name, &unremoved) {
                Ok(Some(packed)) => {
                    is_any_gone = true;
                    report_packed(name, packed, context);
                }
                // Another process has changed one of the two files: pack again.
                Ok(None) => {}
                Err(_) => drop(self.unremoved.insert((name, content), unremoved)),
            }
        }
        is_any_gone
    }

    fn report_unpacked(
        &mut self,
        name: FileName,
        content: Content,
        error: &str,
        now_us: i64,
        context: &Context,
    ) {
        self.look_at_us = now_us + LOOK_EVERY_US;
        self.failed.insert((name, content));
        let what = match (self.wanted.compress, self.wanted.recipients.is_some()) {
            (true, true) => "neither compressed nor encrypted",
            (_, true) => "not encrypted",
            _ => "not compressed",
        };
        let file = file_of(name, content);
        let text = format!("{file} stays as it is and is {what}: {error}");
        let is_news = self.limit.allows(now_us);
        context.report(Severity::Warning, &text, is_news);
    }

    /// A file was closed and stays readable although encryption is on.
    fn report_unencrypted(&mut self, closed: FileName, now_us: i64, context: &Context) {
        let Some(why) = &self.obstacle else { return };
        let text = format!(
            "{} is NOT ENCRYPTED, nor is any other file of the log: {why}. They are encrypted when \
             {} is set to a right one",
            closed.log_file(),
            context.name(Setting::EncryptionRecipientsFile)
        );
        let is_news = self.obstacle_limit.allows(now_us);
        context.report(Severity::Error, &text, is_news);
    }
}

impl Drop for Packing {
    fn drop(&mut self) {
        self.end();
    }
}

fn report_packed(name: FileName, packed: Packed, context: &Context) {
    let Packed { content, from, form, bytes, packed_bytes } = packed;
    let compressed = from == Form::Plain && form.is_compressed();
    let encrypted = form.is_encrypted();
    let what = match (compressed, encrypted) {
        (true, true) => "compressed and encrypted",
        (true, false) => "compressed",
        _ => "encrypted",
    };
    // Log files only: a rendition is a copy.
    let count = |done: bool| u64::from(done && content == Content::Lines);
    context.status.files_compressed.fetch_add(count(compressed), Ordering::Relaxed);
    context.status.files_encrypted.fetch_add(count(encrypted), Ordering::Relaxed);
    let file = file_of(name, content);
    let text = format!("{file} was {what}, {bytes} bytes to {packed_bytes}");
    context.say(Severity::Note, &text);
}

/// Name of the file before it is packed.
fn file_of(name: FileName, content: Content) -> String {
    format!("{name}.{}", content.ending())
}

/// Gives other threads on the machine precedence over this one.
pub(super) fn lower_priority(nice: i32) {
    // SAFETY: no pointers. 0 is the calling thread (Linux keeps priorities by thread), and lowering
    // one's own priority needs no privilege. A failure has no consequence except the priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::super::Writer;
    use super::*;
    use crate::arena_file::ArenaFile;
    use crate::control::{Control, Status};
    use tacho_logdir::Options;
    use tacho_logdir::faulty::FaultyFs;

    const DIR: &str = "/data/tacho";

    /// Runs rounds until the condition is true, because the thread works at its own pace.
    fn round_until(writer: &mut Writer<FaultyFs>, is_so: impl Fn(&Writer<FaultyFs>) -> bool) {
        let since = Instant::now();
        while !is_so(writer) {
            assert!(since.elapsed() < Duration::from_secs(600), "it never was");
            assert!(writer.round());
        }
    }

    #[test]
    fn a_file_that_cannot_be_removed_is_reported_once_and_not_packed_again() {
        let fs = FaultyFs::new();
        fs.set_now_s(1_000_000);
        fs.create_dir(Path::new("/data")).expect("an empty file system");
        let options = Options { rotate_bytes: 0 };
        let (mut files, _) = LogFiles::open(fs.clone(), Path::new(DIR), options).expect("opens");
        files.write(b"{\"v\":1,\"seq\":1}\n", &mut 0).expect("writes");
        let first = files.current_file().to_owned();
        files.rotate_now().expect("rotates");
        files.write(b"{\"v\":1,\"seq\":2}\n", &mut 0).expect("writes");
        fs.forbid(Some(&first));
        let nothing = ArenaFile::placeholder().expect("memory");
        let (control, status) = (Arc::new(Control::default()), Arc::new(Status::default()));
        control.set(Setting::Compression, 1);
        control.set(Setting::Format, 0);
        let (said, hears) = std::sync::mpsc::channel();
        let log = Box::new(move |severity, text: &str| {
            if severity == Severity::Warning {
                said.send(text.to_owned()).expect("the receiver exists");
            }
        });
        let mut writer = Writer::new(nothing.arena(), files, 2, control, status.clone(), log);
        round_until(&mut writer, |writer| !writer.upkeep.packing.unremoved.is_empty());
        let text = hears.try_recv().expect("it is reported");
        assert!(text.contains("was packed, and cannot be removed"), "{text}");
        // As many minutes pass.
        for _ in 0..5 {
            writer.upkeep.packing.look_soon();
            assert!(writer.round());
            assert!(writer.upkeep.packing.job.is_none(), "it is not packed again");
        }
        assert!(hears.try_recv().is_err(), "it is not reported again");
        assert_eq!(status.files_compressed.load(Ordering::Relaxed), 0);
        fs.forbid(None);
        writer.upkeep.packing.look_soon();
        assert!(writer.round());
        assert_eq!(status.files_compressed.load(Ordering::Relaxed), 1);
        assert!(!fs.files_in(Path::new(DIR)).contains(&first));
    }
}
