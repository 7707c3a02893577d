//! A log that grows at a steady rate.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::log::{FILE_MIB, Log};

/// How often lines are written, as by the recorder.
const FLUSH: Duration = Duration::from_millis(100);

fn now_us() -> Result<i64, Box<dyn Error>> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() as i64)
}

/// The time of a record is that of the end of its statement: it is written up to 100 ms later.
pub fn write(dir: &Path, rate: u64, seconds: u64) -> Result<(), Box<dyn Error>> {
    let begin_us = now_us()?;
    let begin = Instant::now();
    let mut log = Log::open(dir, 1, begin_us, FILE_MIB << 20)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "started")?;
    out.flush()?;
    let (mut next, mut latest) = (FLUSH, Duration::ZERO);
    let mut row = 0;
    while next <= Duration::from_secs(seconds) {
        std::thread::sleep(next.saturating_sub(begin.elapsed()));
        // Statements that ended before now.
        latest = latest.max(begin.elapsed().saturating_sub(next));
        let until = rate * next.as_micros() as u64 / 1_000_000;
        while row < until {
            log.statement(begin_us + (row * 1_000_000 / rate) as i64)?;
            row += 1;
        }
        log.flush()?;
        next += FLUSH;
    }
    let (records, bytes) = (log.seq, log.bytes());
    log.close()?;
    let latest_ms = latest.as_millis();
    writeln!(out, "{{\"records\":{records},\"bytes\":{bytes},\"latest_ms\":{latest_ms}}}")?;
    Ok(())
}
