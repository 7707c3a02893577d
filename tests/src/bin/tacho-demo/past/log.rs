//! The log of one server, written as a recorder writes it: numbered lines, rotated files, a seal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tacho_logdir::{Event, LogFiles, Options, SealOptions};
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;
use tacho_record::{EventKind, Outcome, OwnedRecord};
use tacho_sql::digest::{Normaliser, TEXT_BYTES_DEFAULT};
use tacho_sql::grouping::Grouping;
use tacho_sql::{High, Mode};

use super::clock::TimedFs;

/// Several files a day.
const ROTATE_BYTES: u64 = 8 << 20;
/// Lines are written when there are so many bytes of them.
const BATCH_BYTES: usize = 256 << 10;
/// How often the chain is signed, s: of a past day, where each signature waits for the disk, and
/// from now on.
const PAST_CHECKPOINT_S: u64 = 900;
const LIVE_CHECKPOINT_S: u64 = 5;

/// The log.
pub struct ServerLog {
    directory: PathBuf,
    key_file: PathBuf,
    /// Server and version, as in `start` lines.
    version: &'static str,
    /// `None`: the recorder is stopped.
    files: Option<LogFiles<TimedFs>>,
    clock: TimedFs,
    times: TimeFormatter,
    seq: u64,
    run: u64,
    batch: Vec<u8>,
    digests: Normaliser,
    /// Numbers of the `running` lines of statements without an end, by `conn` and `conn_seq`.
    running: BTreeMap<(Option<u64>, Option<u64>), u64>,
    checkpoint_s: u64,
}

impl ServerLog {
    /// The log in `root/logs/name`, with its key outside, as for a server. Not started.
    pub fn new(root: &Path, name: &str, version: &'static str) -> Result<Self> {
        let (logs, keys) = (root.join("logs"), root.join("keys"));
        std::fs::create_dir_all(&logs)?;
        std::fs::create_dir_all(&keys)?;
        Ok(Self {
            directory: logs.join(name),
            key_file: keys.join(format!("{name}.key")),
            version,
            files: None,
            clock: TimedFs::default(),
            times: TimeFormatter::system().context("the zone of this machine")?,
            seq: 0,
            run: 0,
            batch: Vec::new(),
            digests: Normaliser::default(),
            running: BTreeMap::new(),
            checkpoint_s: PAST_CHECKPOINT_S,
        })
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many lines it has.
    pub fn lines(&self) -> u64 {
        self.seq
    }

    /// Whether a recorder holds it.
    pub fn is_recording(&self) -> bool {
        self.files.is_some()
    }

    /// Starts the recorder.
    pub fn start(&mut self, now_us: i64) -> Result<()> {
        self.clock.set_us(now_us);
        let options = Options { rotate_bytes: ROTATE_BYTES };
        let (mut files, _) =
            LogFiles::open_with_key(self.clock.clone(), &self.directory, options, &self.key_file)?;
        let seal = SealOptions {
            key_file: self.key_file.clone(),
            checkpoint_interval_s: self.checkpoint_s,
            may_break: false,
        };
        let sealed = files.seal(&seal, self.seq)?;
        self.files = Some(files);
        self.run = self.seq + 1;
        self.write(OwnedRecord {
            ts_us: now_us,
            event: Some(EventKind::Start),
            server: self.version.into(),
            signing_key: sealed.root.to_string().into(),
            ..OwnedRecord::default()
        })
    }

    /// Stops it in the orderly way.
    pub fn stop(&mut self, now_us: i64) -> Result<()> {
        let event = Some(EventKind::Stop);
        self.write(OwnedRecord { ts_us: now_us, event, ..OwnedRecord::default() })?;
        self.flush(now_us)?;
        if let Some(files) = self.files.take() {
            files.close()?;
        }
        self.running.clear();
        Ok(())
    }

    /// The server dies: what is written stays, without a last signature.
    pub fn crash(&mut self, now_us: i64) -> Result<()> {
        self.flush(now_us)?;
        self.files = None;
        self.running.clear();
        Ok(())
    }

    /// Signs often from now on, as a recorder does.
    pub fn be_live(&mut self) {
        self.checkpoint_s = LIVE_CHECKPOINT_S;
        if let Some(files) = &mut self.files {
            files.set_checkpoint_interval_s(self.checkpoint_s);
        }
    }

    /// Appends a line with the next number. Nothing while the recorder is stopped.
    pub fn write(&mut self, mut record: OwnedRecord) -> Result<()> {
        if self.files.is_none() {
            return Ok(());
        }
        self.seq += 1;
        record.seq = self.seq;
        record.run = Some(self.run);
        let place = (record.conn, record.conn_seq);
        if record.outcome == Some(Outcome::Running) {
            self.running.insert(place, record.seq);
        } else if let Some(running_seq) = self.running.remove(&place) {
            record.running_seq = Some(running_seq);
            // The `running` line has it.
            record.sql = None;
            record.sql_charset.clear();
        }
        if let Some(sql) = &record.sql {
            let mode = Mode::new(Grouping::Bytes, High::LETTERS);
            let normalised = self.digests.normalise(sql, mode, TEXT_BYTES_DEFAULT);
            record.digest = normalised.digest.written().to_vec();
        }
        record.with(|record| write_line(&mut self.batch, record, &mut self.times));
        if self.batch.len() >= BATCH_BYTES { self.flush(record.ts_us) } else { Ok(()) }
    }

    /// Writes and seals what there is, and signs it if that is due.
    pub fn flush(&mut self, now_us: i64) -> Result<()> {
        self.clock.set_us(now_us);
        let Some(files) = &mut self.files else { return Ok(()) };
        files.write(&self.batch, &mut 0)?;
        self.batch.clear();
        files.tick();
        for event in files.take_events() {
            match event {
                Event::Rotated { .. } | Event::SealBegun { .. } | Event::SealResumed => {}
                other => bail!("{}: {other:?}", self.directory.display()),
            }
        }
        Ok(())
    }
}
