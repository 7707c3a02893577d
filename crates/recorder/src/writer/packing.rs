//! The thread that makes closed files and their renditions smaller, and encrypts them. What it does is in
//! [`tacho_logdir`].
//!
//! A thread for each file, one at a time, at the lowest priority: it ends with its work, so that
//! nothing has to be told to it but to stop. The writer looks once a round whether it has ended,
//! and never waits for it until the recorder stops: a library that is unloaded must not have a
//! thread in it. It then ends with the block that it is at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tacho_logdir::{
    Content, FileName, Form, Fs, LogFiles, PackError, Packed, Packer, Packing as Wanted, Unremoved,
};
use tacho_ring::sys;

use super::context::Context;
use super::rate_limit::RateLimit;
use super::stale::Stale;
use crate::control::{Encryption, Severity};

/// How often is looked for a file, when none was begun, and how long a failure is left alone, µs.
const LOOK_EVERY_US: i64 = 60_000_000;
/// The lowest that setpriority(2) knows.
const NICE: i32 = 19;

struct Job {
    name: FileName,
    content: Content,
    thread: JoinHandle<Result<Packed, PackError>>,
}

/// What is known of the packing.
#[derive(Default)]
pub(super) struct Packing {
    job: Option<Job>,
    cancel: Arc<AtomicBool>,
    look_at_us: i64,
    current: Option<FileName>,
    wanted: Wanted,
    /// Why nothing can be encrypted although it is wanted.
    obstacle: Option<String>,
    /// How often it was said what is wanted of the encryption.
    encryption_version: u64,
    /// Those that did not work, to be tried again when nothing else is left, or when somebody has
    /// changed what is wanted.
    failed: BTreeSet<(FileName, Content)>,
    /// Those that are packed, and whose other form cannot be removed. That is tried again, and no more.
    unremoved: BTreeMap<(FileName, Content), Unremoved>,
    limit: RateLimit,
    obstacle_limit: RateLimit,
}

impl Packing {
    /// What shall become of closed files.
    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether it works on a file.
    pub(super) fn is_at(&self, name: FileName) -> bool {
        self.job.as_ref().is_some_and(|job| job.name == name)
    }

    /// Makes it end soon, and never begin again.
    pub(super) fn cancel(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// A file may be packed that could not be before.
    pub(super) fn look_soon(&mut self) {
        self.look_at_us = 0;
    }

    /// Waits until it has ended.
    pub(super) fn end(&mut self) {
        self.cancel();
        if let Some(job) = self.job.take() {
            // Nobody is left who could be told: the file is as it was, and tried again at the next
            // start.
            let _: Result<_, _> = job.thread.join();
        }
    }

    /// Looks after the packing, without waiting for it. `passes_over`: a file that is needed as it is.
    pub(super) fn look_after<F: Fs>(
        &mut self,
        files: &mut LogFiles<F>,
        passes_over: impl Fn(FileName) -> bool,
        stale: &mut Stale,
        context: &Context,
    ) {
        let now_us = sys::monotonic_us();
        if let Some(job) = self.job.take_if(|job| job.thread.is_finished()) {
            (stale.retention, stale.inventory) = (true, true);
            self.end_job(job, now_us, context);
        }
        if self.take_wishes(context) {
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
        let passes_over = |name, content| {
            failed.contains(&(name, content))
                || unremoved.contains_key(&(name, content))
                || passes_over(name)
        };
        match files.next_to_pack(wanted, passes_over) {
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

    /// Hears what is wanted now. `true`: that has changed.
    fn take_wishes(&mut self, context: &Context) -> bool {
        let compress = context.control.compress.load(Ordering::Relaxed);
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
                // The next one may be better off.
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

    /// Tries to remove what packed files were made from; that it still does not work was reported.
    /// `true`: one of them is gone.
    fn remove_unpacked<F: Fs>(&mut self, files: &LogFiles<F>, context: &Context) -> bool {
        let mut is_any_gone = false;
        for ((name, content), unremoved) in std::mem::take(&mut self.unremoved) {
            match files.remove_unpacked(name, &unremoved) {
                Ok(Some(packed)) => {
                    is_any_gone = true;
                    report_packed(name, packed, context);
                }
                // Somebody has changed one of both: it is packed again.
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

    /// A file was closed and can be read by anyone who gets at it, against what was asked for.
    fn report_unencrypted(&mut self, closed: FileName, now_us: i64, context: &Context) {
        let Some(why) = &self.obstacle else { return };
        let text = format!(
            "{} is NOT ENCRYPTED, nor is any other file of the log: {why}. They are encrypted when \
             {} is set to a right one",
            closed.log_file(),
            context.name("encryption_recipients_file")
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
    // Of the log: a rendition is the same once more.
    let count = |done: bool| u64::from(done && content == Content::Lines);
    context.status.files_compressed.fetch_add(count(compressed), Ordering::Relaxed);
    context.status.files_encrypted.fetch_add(count(encrypted), Ordering::Relaxed);
    let file = file_of(name, content);
    let text = format!("{file} was {what}, {bytes} bytes to {packed_bytes}");
    context.say(Severity::Note, &text);
}

/// What it is called before it is packed.
fn file_of(name: FileName, content: Content) -> String {
    format!("{name}.{}", content.ending())
}

/// Other threads on the machine go before this one.
pub(super) fn lower_priority(nice: i32) {
    // SAFETY: no pointers. 0 is the calling thread (Linux keeps priorities by thread), and lowering
    // one's own priority needs no privilege: what could go wrong costs nothing but politeness.
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

    /// Waits for the thread, which has no clock to be asked.
    fn round_until(writer: &mut Writer<FaultyFs>, is_so: impl Fn(&Writer<FaultyFs>) -> bool) {
        let since = Instant::now();
        while !is_so(writer) {
            assert!(since.elapsed() < Duration::from_secs(60));
            assert!(writer.round());
        }
    }

    #[test]
    fn that_a_file_cannot_be_removed_is_told_once_and_it_is_not_packed_again() {
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
        control.compress.store(true, Ordering::Relaxed);
        control.format.store(0, Ordering::Relaxed);
        let (said, hears) = std::sync::mpsc::channel();
        let log = Box::new(move |severity, text: &str| {
            if severity == Severity::Warning {
                said.send(text.to_owned()).expect("somebody hears");
            }
        });
        let mut writer = Writer::new(nothing.arena(), files, 2, control, status.clone(), log);
        round_until(&mut writer, |writer| !writer.upkeep.packing.unremoved.is_empty());
        let text = hears.try_recv().expect("it is told");
        assert!(text.contains("was packed, and cannot be removed"), "{text}");
        // As many minutes.
        for _ in 0..5 {
            writer.upkeep.packing.look_soon();
            assert!(writer.round());
            assert!(writer.upkeep.packing.job.is_none(), "it is not packed again");
        }
        assert!(hears.try_recv().is_err(), "it is not told again");
        assert_eq!(status.files_compressed.load(Ordering::Relaxed), 0);
        fs.forbid(None);
        writer.upkeep.packing.look_soon();
        assert!(writer.round());
        assert_eq!(status.files_compressed.load(Ordering::Relaxed), 1);
        assert!(!fs.files_in(Path::new(DIR)).contains(&first));
    }
}
