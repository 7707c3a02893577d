//! Segments, watermarks and totals, in SQLite.
//!
//! One transaction names a new segment and moves the watermarks of the files whose lines it has,
//! so that after a crash no line is missing or indexed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::forget::Change;
use crate::segment::SegmentInfo;

/// Version of the store's format. Another version is built again from the replica.
pub const FORMAT: i64 = 4;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
    CREATE TABLE segment (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        level INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        minutes_bytes INTEGER,
        hours_bytes INTEGER,
        min_ts_us INTEGER NOT NULL,
        max_ts_us INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE watermark (
        origin TEXT NOT NULL,
        generation INTEGER NOT NULL,
        file TEXT NOT NULL,
        offset INTEGER NOT NULL,
        last_ts_us INTEGER NOT NULL,
        PRIMARY KEY (origin, generation, file)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE origin (
        name TEXT PRIMARY KEY,
        records INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        last_ts_us INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE digest (
        digest TEXT PRIMARY KEY,
        text TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Files whose rows were removed. Added to stores of this version that do not have it yet.
const REMOVED: &str = "
    CREATE TABLE IF NOT EXISTS removed (
        origin TEXT NOT NULL,
        generation INTEGER NOT NULL,
        file TEXT NOT NULL,
        PRIMARY KEY (origin, generation, file)
    ) STRICT, WITHOUT ROWID;
";

/// A file of the replica.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Name of the origin.
    pub origin: String,
    /// Generation of its log.
    pub generation: u32,
    /// Name of the log file.
    pub file: String,
}

/// How far a file has been indexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes: the end of the last indexed line.
    pub offset: u64,
    /// The latest time of a line up to there, µs since 1970.
    pub last_ts_us: i64,
}

/// What the store has of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginTotals {
    /// Number of records, of all generations.
    pub records: u64,
    /// The newest generation that has indexed lines.
    pub generation: u32,
    /// The highest `seq` of that generation.
    pub seq: u64,
    /// The latest `ts`, µs since 1970.
    pub last_ts_us: i64,
}

/// Everything that the catalogue lists.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By number.
    pub segments: BTreeMap<u64, SegmentInfo>,
    /// Of all files with indexed lines.
    pub watermarks: BTreeMap<FileKey, Position>,
    /// By name.
    pub origins: BTreeMap<String, OriginTotals>,
}

/// The open catalogue.
pub struct Catalogue {
    connection: Connection,
}

impl Catalogue {
    /// Opens or creates the catalogue for writing. The version that it has, if that is another one.
    ///
    /// # Errors
    /// If the file is damaged or cannot be written.
    pub fn open(path: &Path) -> rusqlite::Result<Result<Self, i64>> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction()?;
        let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
        } else if version != FORMAT {
            return Ok(Err(version));
        }
        transaction.execute_batch(REMOVED)?;
        transaction.commit()?;
        Ok(Ok(Self { connection }))
    }

    /// Opens an existing catalogue for reading, also while another process writes. The version that
    /// it has, if that is another one.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open_existing(path: &Path) -> rusqlite::Result<Result<Self, i64>> {
        // Not read-only: the first reader of a write-ahead log creates its index.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "query_only", true)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        Ok(if version == FORMAT { Ok(Self { connection }) } else { Err(version) })
    }

    /// Reads everything, as of one moment.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn list(&mut self) -> rusqlite::Result<Listing> {
        let transaction = self.connection.transaction()?;
        let mut listing = Listing::default();
        let mut statement = transaction.prepare(
            "SELECT id, level, rows, bytes, minutes_bytes, hours_bytes, min_ts_us, max_ts_us \
             FROM segment",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let info = SegmentInfo {
                id: row.get(0)?,
                level: row.get(1)?,
                rows: row.get(2)?,
                bytes: row.get(3)?,
                rollup_bytes: match (row.get(4)?, row.get(5)?) {
                    (Some(minutes), Some(hours)) => Some([minutes, hours]),
                    _ => None,
                },
                min_ts_us: row.get(6)?,
                max_ts_us: row.get(7)?,
            };
            listing.segments.insert(info.id, info);
        }
        let mut statement = transaction
            .prepare("SELECT origin, generation, file, offset, last_ts_us FROM watermark")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let key = FileKey { origin: row.get(0)?, generation: row.get(1)?, file: row.get(2)? };
            let position = Position { offset: row.get(3)?, last_ts_us: row.get(4)? };
            listing.watermarks.insert(key, position);
        }
        let mut statement =
            transaction.prepare("SELECT name, records, generation, seq, last_ts_us FROM origin")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let totals = OriginTotals {
                records: row.get(1)?,
                generation: row.get(2)?,
                seq: row.get(3)?,
                last_ts_us: row.get(4)?,
            };
            listing.origins.insert(row.get(0)?, totals);
        }
        Ok(listing)
    }

    /// The files whose rows were removed.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn forgotten(&self) -> rusqlite::Result<BTreeSet<FileKey>> {
        let mut statement =
            self.connection.prepare("SELECT origin, generation, file FROM removed")?;
        let keys = statement.query_map([], |row| {
            Ok(FileKey { origin: row.get(0)?, generation: row.get(1)?, file: row.get(2)? })
        })?;
        keys.collect()
    }

    /// The number that the next segment has.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next_id(&self) -> rusqlite::Result<u64> {
        let last: Option<u64> = self.connection.query_row(
            "SELECT max((SELECT max(seq) FROM sqlite_sequence WHERE name = 'segment'), 0)",
            [],
            |row| row.get(0),
        )?;
        Ok(last.unwrap_or(0) + 1)
    }

    /// Adds what the indexer has written, in one transaction.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error; then nothing has changed.
    pub fn add(
        &mut self,
        segment: Option<&SegmentInfo>,
        watermarks: &BTreeMap<FileKey, Position>,
        origins: &BTreeMap<String, OriginTotals>,
        digests: &BTreeMap<String, String>,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        if let Some(info) = segment {
            insert(&transaction, info)?;
        }
        for (key, position) in watermarks {
            transaction.execute(
                "INSERT OR REPLACE INTO watermark VALUES (?1, ?2, ?3, ?4, ?5)",
                params![key.origin, key.generation, key.file, position.offset, position.last_ts_us],
            )?;
        }
        for (name, totals) in origins {
            transaction.execute(
                "INSERT OR REPLACE INTO origin VALUES (?1, ?2, ?3, ?4, ?5)",
                params![name, totals.records, totals.generation, totals.seq, totals.last_ts_us],
            )?;
        }
        for (digest, text) in digests {
            transaction
                .execute("INSERT OR IGNORE INTO digest VALUES (?1, ?2)", params![digest, text])?;
        }
        transaction.commit()
    }

    /// All digests of the dictionary.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn digests(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare("SELECT digest FROM digest")?;
        let digests = statement.query_map([], |row| row.get(0))?;
        digests.collect()
    }

    /// The digests whose texts `matches` finds, `max` of them at most, sorted.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn digests_like(
        &self,
        matches: &dyn Fn(&str) -> bool,
        max: usize,
    ) -> rusqlite::Result<Vec<String>> {
        let mut statement =
            self.connection.prepare_cached("SELECT digest, text FROM digest ORDER BY digest")?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(row) = rows.next()?
        {
            if matches(row.get_ref(1)?.as_str()?) {
                found.push(row.get(0)?);
            }
        }
        Ok(found)
    }

    /// The text of a digest.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn digest_text(&self, digest: &str) -> rusqlite::Result<Option<String>> {
        let mut statement =
            self.connection.prepare_cached("SELECT text FROM digest WHERE digest = ?1")?;
        statement.query_row([digest], |row| row.get(0)).optional()
    }

    /// Replaces segments by others with the same records, in one transaction.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error; then nothing has changed.
    pub fn replace(&mut self, old: &[u64], new: &[SegmentInfo]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        swap(&transaction, old, new)?;
        transaction.commit()
    }

    /// Forgets that the rows of other files than these were removed: the files are there again.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error; then nothing has changed.
    pub fn keep_forgotten(&mut self, files: &BTreeSet<FileKey>) -> rusqlite::Result<()> {
        let others: Vec<FileKey> =
            self.forgotten()?.into_iter().filter(|key| !files.contains(key)).collect();
        let transaction = self.connection.transaction()?;
        for FileKey { origin, generation, file } in others {
            transaction.execute(
                "DELETE FROM removed WHERE origin = ?1 AND generation = ?2 AND file = ?3",
                params![origin, generation, file],
            )?;
        }
        transaction.commit()
    }

    /// Removes rows of files, in one transaction.
    ///
    /// # Errors
    /// If the disk is full, or any other I/O error; then nothing has changed.
    pub fn forget(&mut self, change: &Change) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        swap(&transaction, change.old.as_slice(), change.new.as_slice())?;
        for FileKey { origin, generation, file } in &change.files {
            let key = params![origin, generation, file];
            transaction.execute(
                "DELETE FROM watermark WHERE origin = ?1 AND generation = ?2 AND file = ?3",
                key,
            )?;
            transaction.execute("INSERT OR IGNORE INTO removed VALUES (?1, ?2, ?3)", key)?;
        }
        for (origin, rows) in &change.rows {
            transaction.execute(
                "UPDATE origin SET records = max(records - ?2, 0) WHERE name = ?1",
                params![origin, rows],
            )?;
        }
        transaction.commit()
    }
}

fn swap(connection: &Connection, old: &[u64], new: &[SegmentInfo]) -> rusqlite::Result<()> {
    for id in old {
        connection.execute("DELETE FROM segment WHERE id = ?1", [id])?;
    }
    new.iter().try_for_each(|info| insert(connection, info))
}

fn insert(connection: &Connection, info: &SegmentInfo) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO segment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            info.id,
            info.level,
            info.rows,
            info.bytes,
            info.rollup_bytes.map(|[minutes, _]| minutes),
            info.rollup_bytes.map(|[_, hours]| hours),
            info.min_ts_us,
            info.max_ts_us
        ],
    )?;
    Ok(())
}

/// µs since 1970-01-01 UTC, as the clock of this machine has it.
pub fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 makes no hour settled.
    since.ok().and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or(0)
}
