//! Sets files aside that SQL has put into the log directory, before any part trusts them.
//!
//! `SELECT … INTO DUMPFILE` creates files in the log directory as the server's user: some without a
//! last `seq`, which would keep the recorder from starting, some with lines that look like the
//! log's. [`Made`] lists the recorder's own files.
//!
//! A log that a version before 0.2 wrote has no such list. Then two properties identify a planted
//! file: its mode has a bit for others, which no file of the recorder has (MariaDB and MySQL 8.0
//! create 0644, MySQL 9.7 creates 0640 as the recorder does), and its name is newer than that of
//! the newest file that the signing key knows. A newer file that has a last `seq` may be one that
//! waits for its seal: without a bit for others it is trusted.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::ending::SECONDARY_LIST;
use super::entries;
use super::error::{At, FileError, LastSeqError};
use super::event::Event;
use super::fs::{Fs, OpenMode};
use super::made::{self, Listed, Made};
use super::name::FileName;
use super::seal;
use super::tail;

/// Permissions that a file of the recorder never has.
const OTHERS: u32 = 0o007;

/// Content of a log directory, and which of it was planted.
struct DirNames {
    /// All names.
    names: Vec<String>,
    /// The planted ones.
    planted: Vec<String>,
    /// The list of the recorder's own files; empty: there is no list.
    made: Made,
}

/// Renames planted files in a log directory, under its lock. `key_file`: the signing key; empty:
/// the log is not sealed. Also returns the list of the recorder's own files.
pub(crate) fn set_aside<F: Fs>(
    fs: &F,
    dir: &Path,
    key_file: &Path,
) -> Result<(Made, Vec<Event>), FileError> {
    let DirNames { names, planted, made } = find(fs, dir, key_file)?;
    Ok((made, rename(fs, dir, names, planted)?))
}

/// As [`set_aside`], for files with newer names than the recorder's newest file, which appeared
/// while it was running.
pub(crate) fn set_newer_aside<F: Fs>(
    fs: &F,
    dir: &Path,
    made: &Made,
    names: Vec<String>,
) -> Result<Vec<Event>, FileError> {
    let Some(newest) = made.newest() else { return Ok(Vec::new()) };
    let planted = newer(&names, newest);
    rename(fs, dir, names, planted)
}

/// The `seq` of the last complete line that
/// [`LogFiles::open_with_key`](super::LogFiles::open_with_key) would find, without a lock and
/// without a change. `None`: there is no line.
///
/// # Errors
/// It cannot be determined; it is never guessed.
pub fn last_seq<F: Fs>(fs: &F, dir: &Path, key_file: &Path) -> Result<Option<u64>, LastSeqError> {
    let found = find(fs, dir, key_file).map_err(LastSeqError::Unreadable)?;
    tail::last_seq_in(fs, dir, &entries::of_names(&found.believed()))
}

impl DirNames {
    fn believed(&self) -> Vec<String> {
        let planted: HashSet<&String> = self.planted.iter().collect();
        self.names.iter().filter(|name| !planted.contains(name)).cloned().collect()
    }
}

fn find<F: Fs>(fs: &F, dir: &Path, key_file: &Path) -> Result<DirNames, FileError> {
    let names = fs.list(dir).at("list", dir)?;
    let newest_sealed = seal::newest_sealed(fs, dir, key_file, &names);
    let mut found = DirNames { names, planted: Vec::new(), made: Made::default() };
    match Made::read(fs, dir)? {
        Listed::Ours(made) => found.made = made,
        Listed::Foreign => found.planted.push(made::LIST.to_owned()),
    }
    let renditions = fs.open(&dir.join(SECONDARY_LIST), OpenMode::Private);
    if renditions.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData) {
        found.planted.push(SECONDARY_LIST.to_owned());
    }
    match found.made.oldest().max(newest_sealed) {
        Some(floor) if found.made.oldest().is_some() => {
            let is_made = |entry: &String| FileName::parse(entry).map(|it| found.made.has(it.0));
            let unknown = newer(&found.names, floor);
            found.planted.extend(unknown.into_iter().filter(|entry| is_made(entry) != Some(true)));
        }
        _ => find_without_list(fs, dir, newest_sealed, &mut found)?,
    }
    Ok(found)
}

/// Finds planted files, as far as this is possible without a list.
fn find_without_list<F: Fs>(
    fs: &F,
    dir: &Path,
    newest_sealed: Option<FileName>,
    found: &mut DirNames,
) -> Result<(), FileError> {
    let is_for_others = |entry: &str| {
        let stat = fs.stat(&dir.join(entry));
        stat.is_ok_and(|stat| stat.is_file && stat.mode & OTHERS != 0)
    };
    if let Some(newest) = newest_sealed {
        let newer = newer(&found.names, newest);
        found.planted.extend(newer.into_iter().filter(|entry| is_for_others(entry)));
    }
    loop {
        let entries = entries::of_names(&found.believed());
        let Err(error) = tail::last_seq_in(fs, dir, &entries) else { return Ok(()) };
        let Some(entry) = culprit(&error) else { return Ok(()) };
        let Some((name, _)) = FileName::parse(&entry) else { return Ok(()) };
        let is_planted = match newest_sealed {
            Some(newest) => name > newest,
            None => is_for_others(&entry),
        };
        if !is_planted {
            // A damaged file of the log: the number must not be guessed.
            return Ok(());
        }
        found.planted.push(entry);
    }
}

/// Entries with a newer name of a log file than `floor`, oldest first.
fn newer(names: &[String], floor: FileName) -> Vec<String> {
    let is_newer = |entry: &&String| FileName::parse(entry).is_some_and(|(name, _)| name > floor);
    let mut newer: Vec<String> = names.iter().filter(is_newer).cloned().collect();
    newer.sort();
    newer
}

/// The file whose content hides the last `seq`; `None`: a system error does.
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

/// Renames the planted entries to free names that no reader takes for those of log files.
fn rename<F: Fs>(
    fs: &F,
    dir: &Path,
    names: Vec<String>,
    planted: Vec<String>,
) -> Result<Vec<Event>, FileError> {
    let mut taken: HashSet<String> = names.into_iter().collect();
    let mut events = Vec::new();
    for entry in planted {
        let mut number = 1_u64;
        let mut free = format!("set-aside-{number}-{entry}");
        while taken.contains(&free) {
            number += 1;
            free = format!("set-aside-{number}-{entry}");
        }
        let (from, to) = (dir.join(&entry), dir.join(&free));
        fs.rename(&from, &to).at("set aside", &from)?;
        taken.insert(free);
        events.push(Event::SetAside { from, to });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::super::fs::RealFs;
    use super::super::seal::SealOptions;
    use super::super::write::{LogFiles, Opened, Options};
    use super::*;

    /// A log directory and the key file beside it.
    struct TestLog {
        above: tempfile::TempDir,
    }

    impl TestLog {
        fn new() -> TestLog {
            TestLog { above: tempfile::tempdir().unwrap() }
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

        /// As a version before 0.2 left the directory.
        fn without_list(&self) {
            std::fs::remove_file(self.dir().join(made::LIST)).unwrap();
        }

        fn open(&self, key: &Path) -> (LogFiles, Opened) {
            let options = Options { rotate_bytes: 0 };
            LogFiles::open_with_key(RealFs, &self.dir(), options, key).unwrap()
        }

        /// A run of a recorder that writes one line. Returns how many files it set aside.
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
            let entries = entries::list(&RealFs, &self.dir()).unwrap();
            let path = |name: &FileName| self.dir().join(name.log_file());
            entries.iter().map(|(name, _)| std::fs::read_to_string(path(name)).unwrap()).collect()
        }
    }

    fn line(seq: u64) -> String {
        format!("{{\"v\":1,\"seq\":{seq},\"a\":1}}\n")
    }

    const FUTURE: &str = "audit-20991231T235959Z-000007";

    /// Planted by MySQL 9.7, whose files have the mode of the recorder's.
    #[test]
    fn files_that_are_not_in_the_list_are_set_aside() {
        for key in ["key", ""] {
            let place = TestLog::new();
            let key = if key.is_empty() { PathBuf::new() } else { place.key() };
            // It has created its first file, and is killed before it writes anything.
            drop(place.open(&key));
            let mut lines = 0;
            for (ending, bytes) in [
                ("jsonl", line(2).as_bytes()),
                ("jsonl", line(7).as_bytes()),
                ("jsonl", b"x\n".as_slice()),
                ("jsonl", line(u64::MAX).as_bytes()),
                ("jsonl.age", b"junk"),
                ("jsonl.zst", b"junk"),
                ("chain", b"junk"),
            ] {
                let entry = format!("{FUTURE}.{ending}");
                place.plant(&entry, 0o640, bytes);
                let seen = last_seq(&RealFs, &place.dir(), &key).unwrap();
                assert_eq!(seen.unwrap_or(0), lines, "{entry}");
                assert_eq!(place.run(&key), 1, "{entry}");
                lines += 1;
            }
            assert_eq!(place.run(&key), 0);
            assert_eq!(place.lines(), (1..=lines + 1).map(line).collect::<String>());
        }
    }

    #[test]
    fn lists_that_sql_created_are_set_aside() {
        let place = TestLog::new();
        place.run(&place.key());
        place.without_list();
        for list in [made::LIST, SECONDARY_LIST] {
            place.plant(list, 0o640, format!("csv {FUTURE}\n").as_bytes());
        }
        assert_eq!(place.run(&place.key()), 2);
        assert_eq!(place.run(&place.key()), 0);
        assert!(place.dir().join(format!("set-aside-1-{}", made::LIST)).exists());
    }

    #[test]
    fn files_that_appear_after_the_newest_do_not_change_later_names() {
        let place = TestLog::new();
        let (mut files, _) = place.open(&place.key());
        let key_file = place.key();
        let options = SealOptions { key_file, checkpoint_interval_s: 60, may_break: true };
        files.seal(&options, 0).unwrap();
        files.write(line(1).as_bytes(), &mut 0).unwrap();
        for seq in 2..=3 {
            // Including the very name that is next.
            let next = FileName::after(Some(files.current_name()), RealFs.now_s());
            let last = "audit-99991231T235959Z-999999.jsonl".to_owned();
            for entry in [last, next.log_file(), format!("{FUTURE}.chain")] {
                place.plant(&entry, 0o640, line(1000).as_bytes());
            }
            files.rotate_now().unwrap();
            files.write(line(seq).as_bytes(), &mut 0).unwrap();
        }
        let is_aside = |event: &&Event| matches!(event, Event::SetAside { .. });
        assert_eq!(files.take_events().iter().filter(is_aside).count(), 6);
        assert_eq!(files.current_name().number(), 3);
        files.close().unwrap();
        assert_eq!(place.run(&place.key()), 0);
        assert_eq!(place.lines(), (1..=4).map(line).collect::<String>());
    }

    #[test]
    fn files_that_sql_plants_after_a_sealed_log_are_set_aside() {
        let place = TestLog::new();
        assert_eq!(place.run(&place.key()), 0);
        let highest = line(u64::MAX);
        // Planted by MySQL 9.7: files without a last number.
        let nonsense: [(&str, &[u8]); 5] = [
            ("jsonl", b"x\n"),
            ("jsonl", highest.as_bytes()),
            ("jsonl.age", b"junk"),
            ("jsonl.zst", b"junk"),
            ("jsonl.zst.age", b"junk"),
        ];
        for (run, (ending, bytes)) in nonsense.into_iter().enumerate() {
            let entry = format!("{FUTURE}.{ending}");
            place.without_list();
            place.plant(&entry, 0o640, bytes);
            assert_eq!(place.run(&place.key()), 1, "{entry}");
            let number = if run == 1 { 2 } else { 1 };
            let aside = place.dir().join(format!("set-aside-{number}-{entry}"));
            assert_eq!(std::fs::read(aside).unwrap(), bytes, "{entry}");
        }
        // Planted by other servers: any file with such a name.
        place.without_list();
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
    fn files_that_sql_plants_in_a_log_without_seal_are_set_aside() {
        let place = TestLog::new();
        assert_eq!(place.run(Path::new("")), 0);
        place.without_list();
        place.plant(&format!("{FUTURE}.jsonl"), 0o644, b"x\n");
        place.plant(&format!("{FUTURE}.jsonl.zst"), 0o644, b"x\n");
        assert_eq!(place.run(Path::new("")), 2);
        assert_eq!(place.lines(), line(1) + &line(2));
    }

    #[test]
    fn files_of_the_log_stay() {
        let place = TestLog::new();
        place.run(&place.key());
        place.without_list();
        // Written while sealing was off, and since then made readable for others.
        place.plant("audit-20990101T000000Z-000002.jsonl", 0o640, line(2).as_bytes());
        assert_eq!(place.run(&place.key()), 0);
        assert_eq!(place.lines(), (1..=3).map(line).collect::<String>());
        // Damage of a sealed file does not permit a guess.
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
