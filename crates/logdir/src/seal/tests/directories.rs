//! One setting, several log directories: each has its own key. On real files, which have modes.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tacho_chain::entry::EpochReason;
use tacho_chain::key::VerifierKey;
use tacho_chain::key_file::KeyFile;
use tacho_chain::verify::{self, LogState};
use tempfile::TempDir;

use crate::error::FileErrorKind;
use crate::fs::RealFs;
use crate::seal::{SealOptions, Sealed};
use crate::write::{LogFiles, Options};

/// A data directory, with logs in it and the setting's key file.
struct Data(TempDir);

struct LogDirectory(PathBuf);

impl verify::Directory for LogDirectory {
    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().unwrap())).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }
}

impl Data {
    fn new() -> Data {
        Data(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn named(&self) -> PathBuf {
        self.path("tacho-signing.key")
    }

    fn open(&self, log: &str) -> (LogFiles<RealFs>, u64) {
        let options = Options { rotate_bytes: 0 };
        let (files, opened) = LogFiles::open(RealFs, &self.path(log), options).expect("opens");
        (files, opened.last_seq.expect("known").unwrap_or(0))
    }

    fn options(&self) -> SealOptions {
        SealOptions { key_file: self.named(), checkpoint_interval_s: 60, may_break: true }
    }

    /// A server that starts, writes a line and stops.
    fn run(&self, log: &str) -> Sealed {
        let (mut files, last_seq) = self.open(log);
        let sealed = files.seal(&self.options(), last_seq).expect("seals");
        files.write(super::line(last_seq + 1).as_bytes(), &mut 0).expect("writes");
        files.close().expect("closes");
        sealed
    }

    #[track_caller]
    fn assert_state(&self, log: &str, roots: &[&Sealed], state: LogState) {
        let keys: Vec<VerifierKey> = roots.iter().map(|sealed| sealed.root.clone()).collect();
        let options = verify::Options { keys, ..Default::default() };
        let report = verify::verify(&LogDirectory(self.path(log)), &options, &mut |_| {}).unwrap();
        super::assert_state(&report, state);
    }

    /// The key file as an older recorder wrote it, without directory names.
    fn make_old(&self, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("directory "));
        let old = lines.map(|line| line.replace("key-v2", "key-v1") + "\n").collect::<String>();
        assert_eq!(KeyFile::parse(&old).unwrap().directory, None);
        fs::write(path, old).unwrap();
    }

    fn keys(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains("tacho-signing")).collect();
        names.sort();
        names
    }
}

#[track_caller]
fn assert_continues(before: &Sealed, now: &Sealed) {
    assert_eq!((&now.root, &now.key_file), (&before.root, &before.key_file));
    assert_eq!((now.declared, now.is_new_root), (None, false));
}

#[test]
fn another_directory_has_a_key_of_its_own() {
    let data = Data::new();
    let old = data.run("tacho");
    assert_eq!((&old.key_file, old.is_new_root), (&data.named(), true));
    let new = data.run("log");
    assert_eq!((new.declared, new.is_new_root), (None, true));
    assert_ne!(new.root, old.root);
    assert_eq!(new.key_file.parent(), old.key_file.parent());
    data.assert_state("log", &[&new], LogState::Ok);
    data.assert_state("tacho", &[&old], LogState::Ok);
    // Back and forth.
    for _ in 0..2 {
        assert_continues(&old, &data.run("tacho"));
        assert_continues(&new, &data.run("log"));
    }
    data.assert_state("log", &[&new], LogState::Ok);
    data.assert_state("tacho", &[&old], LogState::Ok);
    let third = data.run("third");
    assert_eq!((third.declared, third.is_new_root), (None, true));
    assert_eq!(data.keys().len(), 3);
    let digits = new.root.origin().strip_prefix("tachograph/").unwrap();
    assert!(data.keys().contains(&format!("tacho-signing-{digits}.key")));
}

#[test]
fn an_old_key_file_continues_its_own_log() {
    for comes_back_first in [true, false] {
        let data = Data::new();
        let old = data.run("tacho");
        data.make_old(&data.named());
        if comes_back_first {
            assert_continues(&old, &data.run("tacho"));
        }
        let new = data.run("log");
        assert_eq!((new.declared, new.is_new_root), (None, true));
        data.assert_state("log", &[&new], LogState::Ok);
        assert_continues(&old, &data.run("tacho"));
        data.assert_state("tacho", &[&old], LogState::Ok);
        assert_continues(&new, &data.run("log"));
    }
}

#[test]
fn a_directory_that_was_moved_keeps_its_key() {
    let data = Data::new();
    let sealed = [data.run("tacho"), data.run("log")];
    for (before, from, to) in [(&sealed[0], "tacho", "a"), (&sealed[1], "log", "b")] {
        fs::rename(data.path(from), data.path(to)).unwrap();
        assert_continues(before, &data.run(to));
        assert_continues(before, &data.run(to));
        // Through a symbolic link, too.
        std::os::unix::fs::symlink(data.path(to), data.path("link")).unwrap();
        assert_continues(before, &data.run("link"));
        fs::remove_file(data.path("link")).unwrap();
        data.assert_state(to, &[before], LogState::Ok);
        // A directory that takes its place is a new log.
        let next = data.run(from);
        assert_eq!((next.declared, next.is_new_root), (None, true));
        data.assert_state(from, &[&next], LogState::Ok);
        assert_continues(before, &data.run(to));
    }
}

#[test]
fn a_copy_of_a_log_does_not_take_its_key() {
    let data = Data::new();
    let original = data.run("tacho");
    fs::create_dir(data.path("copy")).unwrap();
    for entry in fs::read_dir(data.path("tacho")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, data.path("copy").join(path.file_name().unwrap())).unwrap();
    }
    assert_continues(&original, &data.run("tacho"));
    let copy = data.run("copy");
    assert_eq!((copy.declared, copy.is_new_root), (Some(EpochReason::NoKey), true));
    data.assert_state("copy", &[&original, &copy], LogState::BrokenChain);
    assert_continues(&original, &data.run("tacho"));
    data.assert_state("tacho", &[&original], LogState::Ok);
}

#[test]
fn a_log_that_was_emptied_is_declared_in_each_directory() {
    let data = Data::new();
    let sealed = [data.run("tacho"), data.run("log")];
    for (before, log) in sealed.iter().zip(["tacho", "log"]) {
        fs::remove_dir_all(data.path(log)).unwrap();
        let now = data.run(log);
        assert_eq!((&now.root, now.declared), (&before.root, Some(EpochReason::RolledBack)));
    }
    // Also with the rest of another log: with both keys, the result must not be success.
    fs::remove_dir_all(data.path("tacho")).unwrap();
    fs::rename(data.path("log"), data.path("tacho")).unwrap();
    let now = data.run("tacho");
    assert_eq!((&now.root, now.declared), (&sealed[0].root, Some(EpochReason::RolledBack)));
}

#[test]
fn only_private_files_are_keys() {
    let data = Data::new();
    let old = data.run("tacho");
    let new = data.run("log");
    // A file that SQL creates with the name of a key does not keep another log from getting one.
    let planted = data.path("tacho-signing-0123456789abcdef.key");
    fs::copy(&new.key_file, &planted).unwrap();
    fs::set_permissions(&planted, Permissions::from_mode(0o644)).unwrap();
    let third = data.run("third");
    assert_eq!((third.declared, third.is_new_root), (None, true));
    assert_continues(&old, &data.run("tacho"));
    assert_continues(&new, &data.run("log"));

    // Another process changed the mode of a key: this is reported, and breaks nothing.
    fs::set_permissions(&new.key_file, Permissions::from_mode(0o644)).unwrap();
    let (mut files, last_seq) = data.open("log");
    let error = files.seal(&data.options(), last_seq).expect_err("refused");
    assert_eq!((error.kind(), error.path()), (FileErrorKind::KeyNotSecret, &*new.key_file));
    files.close().expect("closes");
    fs::set_permissions(&new.key_file, Permissions::from_mode(0o600)).unwrap();
    assert_continues(&new, &data.run("log"));
}

#[test]
fn a_prepared_key_is_used_once() {
    let data = Data::new();
    let made = KeyFile::generate().unwrap();
    fs::write(data.named(), made.to_text()).unwrap();
    fs::set_permissions(data.named(), Permissions::from_mode(0o600)).unwrap();
    let (files, _) = data.open("tacho");
    assert!(files.has_key(&data.named()).unwrap());
    drop(files);
    let sealed = data.run("tacho");
    assert_eq!((&sealed.root, sealed.declared), (&made.root, None));
    let (files, _) = data.open("log");
    assert!(!files.has_key(&data.named()).unwrap());
    drop(files);
    assert_ne!(data.run("log").root, made.root);
    assert_eq!(KeyFile::parse(&fs::read_to_string(data.named()).unwrap()).unwrap().root, made.root);
}
