//! The shipper's line in `.shipped`: which log files the hub has completely.
//!
//! The recorder keeps a log file that is due for removal until all lines of that file name it or a
//! newer one ([`tacho_logdir::shipped`]). So the line must never say more than the hub has
//! acknowledged. It may say less: at a start, and after the hub has lost something, the name grows
//! again while files are compared.
//!
//! Several shippers replace the file; a lock of the directory (`flock`) keeps them from replacing
//! each other's lines. Where the file system has no such locks, each restores its line at the next
//! check.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_logdir::FileName as LogName;
use tacho_logdir::private_file;
use tacho_logdir::shipped::{self, HubLine};

use super::shipper::Shipper;
use crate::protocol::FileName;
use crate::protocol::names::{self, Stem};
use crate::report::Report;
use crate::source::look::Look;

/// Time between two checks whether the line is still there, and between two attempts to write it.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two replacements while files are shipped one after the other.
const RAISE_INTERVAL: Duration = Duration::from_secs(1);

/// The line of a shipper.
pub(super) struct ShippedLine {
    directory: PathBuf,
    report: Report,
    /// The recorder waits for this hub.
    is_enabled: bool,
    /// As it should be in the file.
    line: HubLine,
    /// It may be different in the file.
    is_changed: bool,
    next_check: Instant,
    next_raise: Instant,
    /// A failure was reported, and no attempt has succeeded since.
    is_failing: bool,
    generation: Option<u64>,
    /// In this pass over the files: the last one before the first that the hub does not have.
    done: Option<LogName>,
    /// The first one that the hub does not have.
    missing: Option<LogName>,
}

impl ShippedLine {
    pub(super) fn new(directory: &Path, hub: String, origin: String, report: Report) -> Self {
        let now = Instant::now();
        Self {
            directory: directory.to_owned(),
            report,
            is_enabled: false,
            line: HubLine { acknowledged: None, hub, origin },
            is_changed: false,
            next_check: now,
            next_raise: now,
            is_failing: false,
            generation: None,
            done: None,
            missing: None,
        }
    }

    /// Continues from the line of an earlier run. Without one, the recorder waits from now on.
    pub(super) fn begin(&mut self) {
        if let Ok(lines) = read(&self.directory) {
            let is_own = |line: &&HubLine| line.is_of(&self.line.hub, &self.line.origin);
            self.line.acknowledged = lines.iter().find(is_own).and_then(|line| line.acknowledged);
        }
        self.is_enabled = true;
        self.is_changed = true;
        self.store();
    }

    /// Removes the line: the recorder does not wait for this hub.
    pub(super) fn remove(&mut self) {
        let removed = replace(&self.directory, |lines| {
            lines.retain(|line| !line.is_of(&self.line.hub, &self.line.origin));
        });
        if let Err(error) = removed {
            let path = self.directory.join(shipped::NAME);
            (self.report)(&format!(
                "cannot remove the line of this hub from {}: {error}; retention on this machine \
                 still waits for it",
                path.display()
            ));
        }
    }

    /// Restores the line if another process has removed it, and repeats what has failed.
    pub(super) fn check(&mut self) {
        if self.is_changed && !self.is_failing || Instant::now() >= self.next_check {
            self.is_changed = true;
            self.store();
        }
    }

    /// The hub's copy is of this generation. Another one has only a part of the former one.
    pub(super) fn follow_generation(&mut self, generation: u64) {
        if self.generation.replace(generation).is_some_and(|former| former != generation) {
            self.lower();
        }
    }

    /// The hub has less than it had acknowledged.
    pub(super) fn lower(&mut self) {
        self.set(None);
        self.store();
    }

    /// A pass over all files begins, oldest first.
    pub(super) fn begin_pass(&mut self) {
        (self.done, self.missing) = (None, None);
    }

    /// The next file in a pass.
    pub(super) fn visit(&mut self, stem: &Stem, is_acknowledged: bool) {
        // Other names are not the recorder's.
        let Some((name, _)) = LogName::parse(&format!("{stem}{}", names::LINES_ENDING)) else {
            return;
        };
        if self.missing.is_some() {
            return;
        }
        if !is_acknowledged {
            self.missing = Some(name);
            return;
        }
        self.done = Some(name);
        if self.done > self.line.acknowledged && Instant::now() >= self.next_raise {
            self.set(self.done);
            self.store();
        }
    }

    /// The pass has met every file up to the first that is missing at the hub.
    pub(super) fn end_pass(&mut self) {
        let known = self.line.acknowledged;
        // Files that are not in the directory any more.
        let is_before = self.missing.is_none_or(|missing| known < Some(missing));
        self.set(self.done.max(known.filter(|_| is_before)));
        self.store();
    }

    fn set(&mut self, acknowledged: Option<LogName>) {
        self.is_changed |= self.line.acknowledged != acknowledged;
        self.line.acknowledged = acknowledged;
    }

    fn store(&mut self) {
        let now = Instant::now();
        if !self.is_enabled || !self.is_changed || self.is_failing && now < self.next_check {
            return;
        }
        self.next_check = now + CHECK_INTERVAL;
        self.next_raise = now + RAISE_INTERVAL;
        let line = &self.line;
        let replaced = replace(&self.directory, |lines| {
            match lines.iter_mut().find(|other| other.is_of(&line.hub, &line.origin)) {
                Some(own) => own.clone_from(line),
                None => lines.push(line.clone()),
            }
        });
        match replaced {
            Ok(is_replaced) => {
                self.is_changed = !is_replaced;
                self.is_failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let path = self.directory.join(shipped::NAME);
                    (self.report)(&format!(
                        "cannot write {}: {error}; retention on this machine may not wait for this \
                         hub. Run `tacho ship` as the owner of the log directory or as root, or \
                         use --no-retain",
                        path.display()
                    ));
                }
            }
        }
    }
}

impl Shipper {
    /// Begins the line in `.shipped`, or removes that of an earlier run.
    pub(super) fn begin_shipped(&mut self) {
        if self.options.retain {
            self.shipped.begin();
        } else {
            self.shipped.remove();
        }
    }

    /// Whether the hub has acknowledged all of a log file that is not written any more.
    pub(super) fn is_acknowledged(&self, look: &Look, stem: &Stem) -> bool {
        let Some(copy) = &self.copy else { return false };
        let length = look.chains.get(stem).copied().unwrap_or(0);
        let is_settled = || copy.tracks.get(stem).is_some_and(|track| track.is_settled_at(length));
        (copy.complete.contains(stem) || is_settled()) && !is_encrypted(&self.problems, stem)
    }
}

/// Whether the hub lacks lines of a log file because no key opens it.
pub(super) fn is_encrypted(
    problems: &BTreeMap<(FileName, &'static str), String>,
    stem: &Stem,
) -> bool {
    problems.contains_key(&(FileName::Lines(stem.clone()), "encrypted"))
}

/// The lines of the file, if the recorder believes it.
fn read(directory: &Path) -> io::Result<Vec<HubLine>> {
    let owner = std::fs::metadata(directory)?.uid();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(directory.join(shipped::NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A symbolic link.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Vec::new()),
        file => file?,
    };
    if private_file::check(&file.metadata()?, owner).is_err() {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    file.take(shipped::BYTES_MAX + 1).read_to_end(&mut text)?;
    let is_valid = text.len() as u64 <= shipped::BYTES_MAX;
    Ok(shipped::parse(&text).filter(|_| is_valid).unwrap_or_default())
}

/// Changes the lines of the file. Returns false if another process is doing that.
fn replace(directory: &Path, change: impl FnOnce(&mut Vec<HubLine>)) -> io::Result<bool> {
    let handle = File::open(directory)?;
    // SAFETY: the descriptor is open, and the call has no other argument. The lock ends with it.
    if unsafe { libc::flock(handle.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
    {
        return Ok(false);
    }
    let mut lines = read(directory)?;
    let former = lines.clone();
    change(&mut lines);
    let path = directory.join(shipped::NAME);
    if lines == former {
        return Ok(true);
    }
    if lines.is_empty() {
        std::fs::remove_file(&path)?;
    } else {
        write(&path, &lines, &handle)?;
    }
    Ok(true)
}

/// Replaces the file by one that belongs to the owner of the directory.
fn write(path: &Path, lines: &[HubLine], directory: &File) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(shipped::MODE).open(&new)?;
    let mut write = || {
        let of = directory.metadata()?;
        if file.metadata()?.uid() != of.uid() {
            fchown(&file, Some(of.uid()), Some(of.gid()))?;
        }
        file.write_all(shipped::format(lines).as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&new, path)
    };
    let written = write();
    if written.is_err() {
        // The next attempt removes it if this fails.
        let _: io::Result<()> = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::{Arc, Mutex};

    use super::*;

    const ONE: &str = "audit-20261121T100000Z-000001";
    const TWO: &str = "audit-20261121T110000Z-000002";
    const THREE: &str = "audit-20261121T120000Z-000003";

    struct Scene {
        directory: tempfile::TempDir,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Scene {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().unwrap(), said: Arc::default() }
        }

        fn line(&self, hub: &str) -> ShippedLine {
            let said = Arc::clone(&self.said);
            let report: Report = Arc::new(move |text| said.lock().unwrap().push(text.to_owned()));
            let (hub, origin) = (hub.to_owned(), "db1".to_owned());
            let mut line = ShippedLine::new(self.directory.path(), hub, origin, report);
            line.begin();
            line
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join(shipped::NAME)
        }

        fn text(&self) -> String {
            std::fs::read_to_string(self.path()).unwrap()
        }
    }

    fn pass(line: &mut ShippedLine, stems: &[(&str, bool)]) {
        line.begin_pass();
        stems.iter().for_each(|(stem, is_done)| line.visit(&stem.parse().unwrap(), *is_done));
        line.end_pass();
    }

    #[test]
    fn the_line_names_the_last_file_before_the_first_missing_one() {
        let scene = Scene::new();
        let mut line = scene.line("hub");
        assert_eq!(scene.text(), "- hub db1\n");
        let mode = std::fs::metadata(scene.path()).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, shipped::MODE);
        pass(&mut line, &[(ONE, true), (TWO, false), (THREE, true)]);
        assert_eq!(scene.text(), format!("{ONE} hub db1\n"));
        pass(&mut line, &[(ONE, true), (TWO, true), (THREE, false)]);
        assert_eq!(scene.text(), format!("{TWO} hub db1\n"));
        // Removed files stay acknowledged.
        pass(&mut line, &[(THREE, false)]);
        assert_eq!(scene.text(), format!("{TWO} hub db1\n"));
        // A hub that has less lowers it.
        pass(&mut line, &[(TWO, false), (THREE, false)]);
        assert_eq!(scene.text(), "- hub db1\n");
        assert!(scene.said.lock().unwrap().is_empty());
    }

    #[test]
    fn a_start_continues_and_another_generation_begins_anew() {
        let scene = Scene::new();
        let mut line = scene.line("hub");
        pass(&mut line, &[(ONE, true), (TWO, true)]);
        let mut line = scene.line("hub");
        assert_eq!(scene.text(), format!("{TWO} hub db1\n"));
        line.follow_generation(1);
        line.begin_pass();
        line.visit(&ONE.parse().unwrap(), true);
        assert_eq!(scene.text(), format!("{TWO} hub db1\n"), "a pass that is not at its end");
        line.follow_generation(1);
        line.follow_generation(2);
        assert_eq!(scene.text(), "- hub db1\n");
    }

    #[test]
    fn each_hub_has_its_line() {
        let scene = Scene::new();
        let (mut one, mut two) = (scene.line("one"), scene.line("two"));
        pass(&mut one, &[(ONE, true)]);
        pass(&mut two, &[(ONE, true), (TWO, true)]);
        assert_eq!(scene.text(), format!("{ONE} one db1\n{TWO} two db1\n"));
        one.remove();
        assert_eq!(scene.text(), format!("{TWO} two db1\n"));
        two.remove();
        assert!(!scene.path().exists());
        two.remove();
        assert!(scene.said.lock().unwrap().is_empty());
    }

    #[test]
    fn a_line_that_was_removed_comes_back_and_a_planted_file_is_replaced() {
        let scene = Scene::new();
        let mut line = scene.line("hub");
        for planted in [None, Some(format!("{THREE} hub db1\n{THREE} other db1\n"))] {
            std::fs::remove_file(scene.path()).unwrap();
            if let Some(text) = planted {
                std::fs::write(scene.path(), text).unwrap();
                let mode = std::fs::Permissions::from_mode(0o644);
                std::fs::set_permissions(scene.path(), mode).unwrap();
            }
            line.next_check = Instant::now();
            line.check();
            assert_eq!(scene.text(), "- hub db1\n");
        }
        // While another process holds the lock, the line is written later.
        let lock = File::open(scene.directory.path()).unwrap();
        // SAFETY: an open descriptor.
        assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
        pass(&mut line, &[(ONE, true)]);
        assert_eq!(scene.text(), "- hub db1\n");
        drop(lock);
        line.check();
        assert_eq!(scene.text(), format!("{ONE} hub db1\n"));
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_reported_once() {
        let scene = Scene::new();
        // As root, permissions forbid nothing.
        std::fs::create_dir(scene.path()).unwrap();
        std::fs::write(scene.path().join("entry"), "").unwrap();
        let mut line = scene.line("hub");
        pass(&mut line, &[(ONE, true)]);
        line.next_check = Instant::now();
        line.check();
        let said = scene.said.lock().unwrap().clone();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("cannot write ") && said[0].contains("--no-retain"),
            "{said:?}"
        );
        std::fs::remove_dir_all(scene.path()).unwrap();
        line.next_check = Instant::now();
        line.check();
        assert_eq!(scene.text(), format!("{ONE} hub db1\n"));
    }
}
