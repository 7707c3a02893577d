//! Files that SQL has put into the log directory, set aside before a start believes them.
//!
//! `SELECT … INTO DUMPFILE` makes new files in the log directory as the server's user. One that sorts
//! behind the log and has no last `seq` would keep the recorder from starting. Two things tell such a
//! file: its mode has a bit for others, which no file of the recorder has (MariaDB and MySQL 8.0 make
//! 0644, MySQL 9.7 makes 0640 as the recorder does), and its name is newer than that of the file that
//! the signing key knows as the newest one. A newer file that has a last `seq` may be one that waits
//! for its seal: without a bit for others it is believed.

use std::collections::HashSet;
use std::path::Path;

use super::error::{At, FileError};
use super::event::Event;
use super::fs::Fs;
use super::name::FileName;
use super::seal;
use super::tail::{self, LastSeqError};

/// Permissions that a file of the recorder never has.
const OTHERS: u32 = 0o007;

/// Renames what was planted in a log directory, under its lock. `key_file`: the signing key; empty, and
/// the log is not sealed.
pub(super) fn set_aside<F: Fs>(
    fs: &F,
    dir: &Path,
    key_file: &Path,
) -> Result<Vec<Event>, FileError> {
    let names = fs.list(dir).at("list", dir)?;
    let newest_sealed = seal::newest_sealed(fs, dir, key_file, &names);
    let names = names.into_iter().collect();
    let mut aside = Aside { fs, dir, names, events: Vec::new() };
    if let Some(newest) = newest_sealed {
        let mut newer: Vec<String> = aside.names.iter().cloned().collect();
        newer.retain(|entry| FileName::parse(entry).is_some_and(|(name, _)| name > newest));
        newer.sort();
        for entry in newer {
            if aside.is_for_others(&entry) {
                aside.rename(&entry)?;
            }
        }
    }
    loop {
        let entries = tail::list(fs, dir)?;
        let Err(error) = tail::last_seq_in(fs, dir, &entries) else { break };
        let Some(entry) = culprit(&error) else { break };
        let Some((name, _)) = FileName::parse(&entry) else { break };
        let is_planted = match newest_sealed {
            Some(newest) => name > newest,
            None => aside.is_for_others(&entry),
        };
        if !is_planted {
            // A file of the log that is damaged: no number may be guessed.
            break;
        }
        aside.rename(&entry)?;
    }
    Ok(aside.events)
}

/// The file whose content keeps the last `seq` from being known; `None`: the system does.
fn culprit(error: &LastSeqError) -> Option<String> {
    let path = match error {
        LastSeqError::Unreadable(error) if error.errno().is_some() => return None,
        LastSeqError::Unreadable(error) => error.path(),
        LastSeqError::Unparsable { path, .. }
        | LastSeqError::Encrypted { path }
        | LastSeqError::NotPlain { path } => path,
    };
    Some(path.file_name()?.to_str()?.to_owned())
}

struct Aside<'a, F: Fs> {
    fs: &'a F,
    dir: &'a Path,
    names: HashSet<String>,
    events: Vec<Event>,
}

impl<F: Fs> Aside<'_, F> {
    fn is_for_others(&self, entry: &str) -> bool {
        self.fs
            .stat(&self.dir.join(entry))
            .is_ok_and(|stat| stat.is_file && stat.mode & OTHERS != 0)
    }

    /// Gives it a name that no reader of the log takes for one of a log file, and that is free.
    fn rename(&mut self, entry: &str) -> Result<(), FileError> {
        let mut number = 1_u64;
        let mut free = format!("set-aside-{number}-{entry}");
        while self.names.contains(&free) {
            number += 1;
            free = format!("set-aside-{number}-{entry}");
        }
        let (from, to) = (self.dir.join(entry), self.dir.join(&free));
        self.fs.rename(&from, &to).at("set aside", &from)?;
        self.names.insert(free);
        self.events.push(Event::SetAside { from, to });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::super::fs::RealFs;
    use super::super::log::{LogFiles, Opened, Options};
    use super::super::seal::SealOptions;
    use super::*;

    /// A log directory and the key file beside it.
    struct Place {
        above: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            Place { above: tempfile::tempdir().unwrap() }
        }

        fn dir(&self) -> PathBuf {
            self.above.path().join("log")
        }

        fn key(&self) -> PathBuf {
            self.above.path().join("key")
        }

        fn plant(&self, entry: &str, mode: u32, bytes: &[u8]) {
            let path = self.dir().join(entry);
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }

        fn open(&self, key: &Path) -> (LogFiles, Opened) {
            let options = Options { rotate_bytes: 0 };
            LogFiles::open_with_key(RealFs, &self.dir(), options, key).unwrap()
        }

        /// A run of a recorder that writes one line. Returns how many files it has set aside.
        fn run(&self, key: &Path) -> usize {
            let (mut files, opened) = self.open(key);
            let last_seq = opened.last_seq.unwrap().unwrap_or(0);
            if !key.as_os_str().is_empty() {
                let (key_file, checkpoint_interval_s) = (key.to_owned(), 60);
                let options = SealOptions { key_file, checkpoint_interval_s, may_break: true };
                let sealed = files.seal(&options, last_seq).unwrap();
                assert_eq!(sealed.declared, None);
            }
            let line = line(last_seq + 1);
            files.write(line.as_bytes(), &mut 0).unwrap();
            let is_aside = |event: &Event| matches!(event, Event::SetAside { .. });
            let count = files.take_events().iter().filter(|event| is_aside(event)).count();
            files.close().unwrap();
            count
        }

        fn lines(&self) -> String {
            let entries = tail::list(&RealFs, &self.dir()).unwrap();
            let path = |name: &FileName| self.dir().join(name.log_file());
            entries.iter().map(|(name, _)| std::fs::read_to_string(path(name)).unwrap()).collect()
        }
    }

    fn line(seq: u64) -> String {
        format!("{{\"v\":1,\"seq\":{seq},\"a\":1}}\n")
    }

    const FUTURE: &str = "audit-20991231T235959Z-000007";

    #[test]
    fn what_sql_plants_behind_a_sealed_log_is_set_aside() {
        let place = Place::new();
        assert_eq!(place.run(&place.key()), 0);
        let highest = line(u64::MAX);
        // By MySQL 9.7: what has no last number.
        let nonsense: [(&str, &[u8]); 5] = [
            ("jsonl", b"x\n"),
            ("jsonl", highest.as_bytes()),
            ("jsonl.age", b"junk"),
            ("jsonl.zst", b"junk"),
            ("jsonl.zst.age", b"junk"),
        ];
        for (run, (ending, bytes)) in nonsense.into_iter().enumerate() {
            let entry = format!("{FUTURE}.{ending}");
            place.plant(&entry, 0o640, bytes);
            assert_eq!(place.run(&place.key()), 1, "{entry}");
            let number = if run == 1 { 2 } else { 1 };
            let aside = place.dir().join(format!("set-aside-{number}-{entry}"));
            assert_eq!(std::fs::read(aside).unwrap(), bytes, "{entry}");
        }
        // By others: anything with such a name.
        let endings = ["jsonl", "chain", "csv", "jsonl.zst.new"];
        for ending in endings {
            let name = format!("audit-99991231T235959Z-999999.{ending}");
            place.plant(&name, 0o644, line(1_000_000).as_bytes());
        }
        assert_eq!(place.run(&place.key()), endings.len());
        assert_eq!(place.run(&place.key()), 0);
        assert_eq!(place.lines(), (1..=8).map(line).collect::<String>());
    }

    #[test]
    fn what_sql_plants_in_a_log_without_seal_is_set_aside() {
        let place = Place::new();
        assert_eq!(place.run(Path::new("")), 0);
        place.plant(&format!("{FUTURE}.jsonl"), 0o644, b"x\n");
        place.plant(&format!("{FUTURE}.jsonl.zst"), 0o644, b"x\n");
        assert_eq!(place.run(Path::new("")), 2);
        assert_eq!(place.lines(), line(1) + &line(2));
    }

    #[test]
    fn files_of_the_log_stay() {
        let place = Place::new();
        place.run(&place.key());
        // Written while sealing was switched off, and read by others since.
        place.plant("audit-20990101T000000Z-000002.jsonl", 0o640, line(2).as_bytes());
        assert_eq!(place.run(&place.key()), 0);
        assert_eq!(place.lines(), (1..=3).map(line).collect::<String>());
        // Damage of a file that is sealed is no reason to guess.
        let (files, _) = place.open(&place.key());
        let current = files.current_file().to_owned();
        drop(files);
        std::fs::write(&current, b"x\n").unwrap();
        let (mut files, opened) = place.open(&place.key());
        opened.last_seq.unwrap_err();
        assert!(files.take_events().is_empty());
        assert!(current.exists());
    }
}
