//! Watches the lines that land for changes of the recorder's own settings: switched off, filtered,
//! allowed to drop records.
//!
//! The alert of a line has its `seq` as subject, and is raised once, whatever its state. So the
//! positions need not be exact: they are saved every few seconds, and a restart reads a little
//! again.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::params;
use tacho_record::Line;
use tacho_replica::ReplicaFile;
use tacho_ship::protocol::{FileName, Origin};

use super::{Raise, Rule, raise};
use crate::clock::now_us;
use crate::data::DataDirectory;
use crate::database::{Database, DatabaseError};
use crate::landing::feed::Interrupter;
use crate::landing::{Landed, Subscription};
use crate::say::say;

const PAUSE: Duration = Duration::from_millis(500);
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes that are read at a time. No line of interest is longer.
const BLOCK_BYTES: u64 = 4 << 20;
/// Where `event` is at the latest.
const HEAD_BYTES: usize = 112;
/// Longest value that a message shows, characters.
const VALUE_MAX: usize = 200;
/// Settings whose change weakens the record, without their prefix.
const WEAKENING: [&str; 7] = [
    "event_classes",
    "filter",
    "filter_file",
    "overflow",
    "overflow_timeout_ms",
    "redact",
    "writer",
];

type Key = (Origin, u64, FileName);

/// The thread, until it is dropped.
pub struct Watch {
    thread: Option<JoinHandle<()>>,
    interrupter: Interrupter,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(
        data: Arc<DataDirectory>,
        database: Database,
        landed: Subscription,
    ) -> io::Result<Self> {
        let stop: Arc<AtomicBool> = Arc::default();
        let interrupter = landed.interrupter();
        let stopping = Arc::clone(&stop);
        let mut work = Work { data, database, positions: BTreeMap::new(), is_saved: true };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            work.load();
            let mut next_save = Instant::now() + SAVE_INTERVAL;
            while !stopping.load(Ordering::Relaxed) {
                for news in landed.wait(PAUSE) {
                    if stopping.load(Ordering::Relaxed) {
                        break;
                    }
                    work.read(news);
                }
                if Instant::now() >= next_save {
                    work.save();
                    next_save = Instant::now() + SAVE_INTERVAL;
                }
            }
            work.save();
        })?;
        Ok(Self { thread: Some(thread), interrupter, stop })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.interrupter.interrupt();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            say("the watch ended by a panic");
        }
    }
}

struct Work {
    data: Arc<DataDirectory>,
    database: Database,
    positions: BTreeMap<Key, u64>,
    is_saved: bool,
}

impl Work {
    fn load(&mut self) {
        let loaded = self.database.read(|connection| {
            let select = "SELECT origin, generation, file, offset FROM watch";
            let mut statement = connection.prepare(select)?;
            let row = |row: &rusqlite::Row<'_>| {
                let key: (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok((key, row.get::<_, i64>(3)?))
            };
            statement
                .query_map([], row)?
                .collect::<Result<Vec<_>, _>>()
                .map_err(DatabaseError::from)
        });
        match loaded {
            Ok(rows) => {
                for ((origin, generation, file), offset) in rows {
                    if let (Ok(origin), Ok(file)) = (origin.parse(), file.parse()) {
                        let key = (origin, generation.unsigned_abs(), file);
                        self.positions.insert(key, offset.unsigned_abs());
                    }
                }
            }
            Err(error) => say(&format!("cannot read the positions of the watch: {error}")),
        }
    }

    fn save(&mut self) {
        if self.is_saved {
            return;
        }
        let saved: Result<(), DatabaseError> = self.database.write(|transaction| {
            let insert = "INSERT INTO watch (origin, generation, file, offset)
                VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (origin, generation, file) DO UPDATE SET offset = excluded.offset
                WHERE offset <> excluded.offset";
            let mut statement = transaction.prepare_cached(insert)?;
            for ((origin, generation, file), offset) in &self.positions {
                let (generation, offset) = (generation.cast_signed(), offset.cast_signed());
                statement.execute(params![
                    origin.as_str(),
                    generation,
                    file.to_string(),
                    offset
                ])?;
            }
            Ok(())
        });
        match saved {
            Ok(()) => self.is_saved = true,
            Err(error) => say(&format!("cannot save the positions of the watch: {error}")),
        }
    }

    fn read(&mut self, news: Landed) {
        if !matches!(news.file, FileName::Lines(_)) {
            return;
        }
        let path = self.data.generation(&news.origin, news.generation);
        let path = path.join(news.file.to_string());
        let key = (news.origin.clone(), news.generation, news.file);
        if news.offset == 0 {
            self.forget(&key);
            return;
        }
        let mut position = self.positions.get(&key).copied().unwrap_or(0);
        while position < news.offset {
            let block = (news.offset - position).min(BLOCK_BYTES);
            let read = match read_at(&path, position, block) {
                Ok(read) => read,
                Err(error) => {
                    say(&format!("{}: cannot read {}: {error}", news.origin, path.display()));
                    break;
                }
            };
            let whole = whole_lines(&read);
            // A line that is longer than a block is none of those.
            let used = if whole == 0 && block == BLOCK_BYTES { read.len() } else { whole };
            if used == 0 {
                break;
            }
            let found: Vec<_> = read[..used]
                .split(|&byte| byte == b'\n')
                .filter_map(|line| change(&news.origin, line))
                .collect();
            if let Err(error) = self.store(&found) {
                say(&format!("cannot store an alert: {error}"));
                break;
            }
            position += used as u64;
            self.is_saved = false;
        }
        self.positions.insert(key, position);
    }

    /// The file is not there any more.
    fn forget(&mut self, key: &Key) {
        self.positions.remove(key);
        let (origin, generation, file) = key;
        let delete = "DELETE FROM watch WHERE origin = ?1 AND generation = ?2 AND file = ?3";
        let values = params![origin.as_str(), generation.cast_signed(), file.to_string()];
        let forgotten: Result<usize, DatabaseError> =
            self.database.write(|transaction| Ok(transaction.execute(delete, values)?));
        if let Err(error) = forgotten {
            say(&format!("cannot forget a position of the watch: {error}"));
        }
    }

    fn store(&self, found: &[Raise]) -> Result<(), DatabaseError> {
        if found.is_empty() {
            return Ok(());
        }
        self.database.write(|transaction| {
            for new in found {
                let select = "SELECT EXISTS (SELECT 1 FROM alert
                    WHERE rule = ?1 AND server = ?2 AND subject = ?3)";
                let server = new.server.as_ref().map(Origin::as_str);
                let key = params![new.rule.word(), server, new.subject];
                if !transaction.query_row(select, key, |row| row.get::<_, bool>(0))? {
                    raise(transaction, new, now_us())?;
                }
            }
            Ok(())
        })
    }
}

fn read_at(path: &std::path::Path, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ReplicaFile::open(path)?.read_from(offset).take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Length of the lines that are whole.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

/// The alert of a line that changes a setting of the recorder for the worse.
fn change(origin: &Origin, line: &[u8]) -> Option<Raise> {
    const EVENT: &[u8] = br#","event":"config""#;
    let head = &line[..line.len().min(HEAD_BYTES)];
    if !head.windows(EVENT.len()).any(|part| part == EVENT) {
        return None;
    }
    let line = Line::parse(line).ok()?;
    if line.event != "config" {
        return None;
    }
    let variable: &str = &line.variable;
    let name = variable.strip_prefix("tacho").map_or(variable, |rest| &rest[1.min(rest.len())..]);
    let value = |value: &str| value.chars().take(VALUE_MAX).collect::<String>();
    let (old, new) = (value(&line.old_value), value(&line.new_value));
    let rule = if name == "logging" && matches!(new.as_str(), "OFF" | "0") {
        Rule::LoggingOff
    } else if WEAKENING.contains(&name) {
        Rule::RecorderChanged
    } else {
        return None;
    };
    let by = if line.user.is_empty() && line.host.is_empty() {
        "the server or the recorder".to_owned()
    } else {
        format!("{}@{}", value(&line.user), value(&line.host))
    };
    Some(Raise {
        rule,
        server: Some(origin.clone()),
        subject: format!("seq {}", line.seq),
        message: format!("{variable} was changed from {old:?} to {new:?} by {by}"),
        examples: vec![format!("record {}", line.seq)],
        count: Some(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variable: &str, new: &str) -> String {
        format!(
            "{{\"v\":1,\"seq\":7,\"ts\":\"2026-11-21T03:03:07.599976+00:00\",\"event\":\"config\",\
             \"run\":1,\"user\":\"root\",\"host\":\"localhost\",\"variable\":\"{variable}\",\
             \"old_value\":\"x\",\"new_value\":\"{new}\"}}"
        )
    }

    #[test]
    fn only_changes_for_the_worse_are_alerts() {
        let origin = "db1".parse().unwrap();
        let rule = |variable: &str, new: &str| {
            change(&origin, config(variable, new).as_bytes()).map(|raise| raise.rule)
        };
        assert_eq!(rule("tacho_logging", "OFF"), Some(Rule::LoggingOff));
        assert_eq!(rule("tacho.logging", "OFF"), Some(Rule::LoggingOff));
        assert_eq!(rule("tacho_logging", "ON"), None);
        assert_eq!(rule("tacho_overflow", "DROP"), Some(Rule::RecorderChanged));
        assert_eq!(rule("tacho_rotate_bytes", "1"), None);
        assert_eq!(rule("file_removed", "age"), None);
        let raise = change(&origin, config("tacho_logging", "OFF").as_bytes()).unwrap();
        let text = "tacho_logging was changed from \"x\" to \"OFF\" by root@localhost";
        assert_eq!((raise.message.as_str(), raise.subject.as_str()), (text, "seq 7"));
        let statement = config("tacho_logging", "OFF").replace("config", "statement");
        assert_eq!(change(&origin, statement.as_bytes()), None);
        assert_eq!(change(&origin, b"{\"v\":1,\"seq\":1,\"event\":\"config\""), None);
    }

    #[test]
    fn a_line_is_an_alert_once_whatever_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let data = Arc::new(DataDirectory::open(directory.path()).unwrap());
        let database = Database::open(&data.database()).unwrap();
        let origin: Origin = "db1".parse().unwrap();
        let file: FileName = "audit-20261121T100000Z-000001.jsonl".parse().unwrap();
        let path = data.generation(&origin, 1);
        std::fs::create_dir_all(&path).unwrap();
        let text = format!("{}\n{}", config("tacho_logging", "OFF"), config("tacho_filter", "{}"));
        std::fs::write(path.join(file.to_string()), &text).unwrap();
        let new = || Work {
            data: Arc::clone(&data),
            database: database.clone(),
            positions: BTreeMap::new(),
            is_saved: true,
        };
        let landed = || Landed {
            origin: origin.clone(),
            generation: 1,
            file: file.clone(),
            offset: text.len() as u64,
            was_cut: false,
        };
        let mut work = new();
        work.read(landed());
        work.read(landed());
        // The second line has no end yet.
        assert_eq!(super::super::list(&database, None).unwrap().len(), 1);
        work.save();
        let mut again = new();
        again.load();
        assert_eq!(again.positions, work.positions);
        new().read(landed());
        assert_eq!(super::super::list(&database, None).unwrap().len(), 1);
    }
}
