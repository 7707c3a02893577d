//! Sealed log directories, written as the recorder writes them: batches of 256 KiB, each with a
//! frame of the seal, a signature every 60 s, files of 256 MiB or another length.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use tacho_logdir::{LogFiles, Options, RealFs, SealOptions};

use crate::traffic::{BEGIN_US, HOUR_US, Traffic, hours};

const BATCH_BYTES: usize = 256 << 10;
/// Length of the files, if nothing else is said.
pub const FILE_MIB: u64 = 256;
/// How often the log is signed.
const TICK: Duration = Duration::from_secs(1);

/// A log that is open for writing, and its traffic.
pub struct Log {
    files: LogFiles,
    traffic: Traffic,
    batch: Vec<u8>,
    pub seq: u64,
    ticked: Instant,
}

impl Log {
    pub fn open(
        dir: &Path,
        server: u64,
        begin_us: i64,
        rotate_bytes: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let options = Options { rotate_bytes };
        let key_file = dir.with_extension("key");
        let (mut files, opened) = LogFiles::open_with_key(RealFs, dir, options, &key_file)?;
        if opened.last_seq.as_ref().is_ok_and(|seq| seq.is_some()) {
            return Err(format!("{} has a log already", dir.display()).into());
        }
        let seal = SealOptions { key_file, checkpoint_interval_s: 60, may_break: false };
        let sealed = files.seal(&seal, 0)?;
        let mut traffic = Traffic::new(server);
        let mut batch = Vec::with_capacity(2 * BATCH_BYTES);
        traffic.start(&mut batch, 1, begin_us, &sealed.root.to_string());
        Ok(Self { files, traffic, batch, seq: 1, ticked: Instant::now() })
    }

    pub fn statement(&mut self, ts_us: i64) -> Result<(), Box<dyn Error>> {
        self.seq += 1;
        self.traffic.statement(&mut self.batch, self.seq, ts_us);
        if self.batch.len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        let mut progress = 0;
        self.files.write(&self.batch, &mut progress)?;
        self.batch.clear();
        if self.ticked.elapsed() >= TICK {
            self.files.tick();
            self.ticked = Instant::now();
        }
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.files.bytes_written()
    }

    pub fn close(mut self) -> Result<(), Box<dyn Error>> {
        self.flush()?;
        Ok(self.files.close()?)
    }
}

/// Writes the logs of some servers, `records` in all.
pub fn write(
    dir: &Path,
    records: u64,
    count: u64,
    servers: u64,
    rotate_bytes: u64,
) -> Result<(), Box<dyn Error>> {
    let (mut written, mut bytes) = (0, 0);
    for server in 1..=servers {
        std::fs::create_dir_all(dir)?;
        let directory = dir.join(format!("db{server}"));
        let mut log = Log::open(&directory, server, BEGIN_US, rotate_bytes)?;
        for (hour, rows) in (0_i64..).zip(hours(records / servers, count)) {
            for row in 0..rows as i64 {
                log.statement(BEGIN_US + hour * HOUR_US + HOUR_US * row / rows as i64)?;
            }
        }
        log.flush()?;
        (written, bytes) = (written + log.seq, bytes + log.bytes());
        log.close()?;
    }
    println!("{{\"records\":{written},\"bytes\":{bytes}}}");
    Ok(())
}
