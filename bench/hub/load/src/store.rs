//! An index of more records than there is space for their log: each hour is written, indexed,
//! merged and removed. `tacho-hub serve` on the directory then answers searches.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tacho_store::{Durable, Indexer, IndexerOptions, MergeOptions, Store, merge_step};

use crate::traffic::{BEGIN_US, HOUR_US, Traffic, hours};

const SERVERS: u64 = 3;
/// Lines of a server are written in files of so many.
const FILE_ROWS: u64 = 500_000;

pub fn fill(data: &Path, records: u64, days: u64) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(data)?;
    let store = Store::open(&data.join("store"))?;
    let indexer = Indexer::start(store.clone(), IndexerOptions::default())?;
    let temp = data.join("hub-load");
    let mut servers: Vec<Server> = (1..=SERVERS).map(Server::new).collect();
    let (mut indexing, mut merging) = (Duration::ZERO, Duration::ZERO);
    let (mut merged, mut bytes) = (0, 0);
    for (hour, rows) in (0_i64..).zip(hours(records, days * 24)) {
        for (from, to) in pieces(rows / SERVERS) {
            let begin = Instant::now();
            for server in &mut servers {
                let durable = server.write(&temp, hour, rows / SERVERS, from..to)?;
                bytes += durable.offset;
                indexer.notify(durable);
            }
            let written = begin.elapsed();
            indexer.flush();
            indexing += begin.elapsed() - written;
            if let Some(error) = indexer.report().error {
                return Err(error.into());
            }
            fs::remove_dir_all(&temp)?;
        }
        let begin = Instant::now();
        while let Some(done) = merge_step(&store, &MergeOptions::default())? {
            merged += done.rows;
        }
        merging += begin.elapsed();
    }
    let indexed = indexer.report().records;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{{\"records\":{indexed},\"bytes\":{bytes},\"index_s\":{:.1},\"merged\":{merged},\
         \"merge_s\":{:.1}}}",
        indexing.as_secs_f64(),
        merging.as_secs_f64()
    )?;
    Ok(())
}

fn pieces(rows: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..rows.div_ceil(FILE_ROWS))
        .map(move |piece| (piece * FILE_ROWS, rows.min((piece + 1) * FILE_ROWS)))
}

struct Server {
    origin: String,
    traffic: Traffic,
    seq: u64,
    files: u64,
}

impl Server {
    fn new(number: u64) -> Self {
        Self { origin: format!("db{number}"), traffic: Traffic::new(number), seq: 0, files: 0 }
    }

    fn write(
        &mut self,
        temp: &Path,
        hour: i64,
        of_hour: u64,
        rows: std::ops::Range<u64>,
    ) -> Result<Durable, Box<dyn Error>> {
        self.files += 1;
        let file = format!("audit-20261019T000000Z-{:06}.jsonl", self.files);
        let path = temp.join(&self.origin).join("1").join(&file);
        fs::create_dir_all(path.parent().ok_or("no directory")?)?;
        let mut lines = Vec::new();
        let mut out = fs::File::create(&path)?;
        for row in rows {
            self.seq += 1;
            let ts_us = BEGIN_US + hour * HOUR_US + HOUR_US * row as i64 / of_hour as i64;
            self.traffic.statement(&mut lines, self.seq, ts_us);
            if lines.len() > 1 << 20 {
                out.write_all(&lines)?;
                lines.clear();
            }
        }
        out.write_all(&lines)?;
        let offset = out.metadata()?.len();
        Ok(Durable { origin: self.origin.clone(), generation: 1, file, path, offset })
    }
}
