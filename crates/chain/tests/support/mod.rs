//! A log directory in memory, sealed as the recorder does it.

pub mod follow;

use std::collections::BTreeMap;
use std::io::{self, Read};

use tacho_chain::chain::{Chain, Gone, Position, Step};
use tacho_chain::entry::{CheckpointReason, EpochReason, Frame, RemovalReason};
use tacho_chain::hash::Hash;
use tacho_chain::key::{SecretKey, VerifierKey};
use tacho_chain::key_file::KeyFile;
use tacho_chain::sidecar::{Entries, Meaning};
use tacho_chain::verify::{self, LogState, Options, Report};

/// Files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dir(pub BTreeMap<String, Vec<u8>>);

impl verify::Directory for Dir {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        let missing = || io::Error::from_raw_os_error(2);
        if name.ends_with(".age") && self.0.contains_key(name) {
            return Err(verify::Locked.into());
        }
        Ok(Box::new(&self.0.get(name).ok_or_else(missing)?[..]))
    }
}

impl Dir {
    pub fn file(&mut self, name: &str) -> &mut Vec<u8> {
        self.0.get_mut(name).expect("a file of the test")
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.0[name].clone()).expect("ASCII and dashes")
    }
}

pub fn stem(number: u32) -> String {
    format!("audit-20261121T015944Z-{number:06}")
}

pub fn log(number: u32) -> String {
    format!("{}.jsonl", stem(number))
}

pub fn sidecar(number: u32) -> String {
    format!("{}.chain", stem(number))
}

pub fn line(seq: u64) -> String {
    let ts = "2026-11-21T03:03:07.599976+00:00";
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"statement\",\"sql\":\"SELECT {seq}\"}}\n"
    )
}

/// Acts as the writer of the log.
pub struct TestRecorder {
    pub dir: Dir,
    pub root: VerifierKey,
    pub chain: Chain,
    pub number: u32,
    pub seq: u64,
    pub time_s: i64,
    /// The key file that an intruder finds.
    pub key_file: String,
}

impl TestRecorder {
    /// A new log with its first file, sealed under a root made from `seed`.
    pub fn new(seed: u8) -> TestRecorder {
        let secret = SecretKey::from_bytes(&[seed; 32]);
        let root = secret.root();
        let position = Position { file: log(1), offset: 0, seq: 0, hash: Hash::ZERO };
        let chain = Chain::new(KeyFile::of_root(secret), position);
        let mut new = TestRecorder {
            dir: Dir::default(),
            root,
            chain,
            number: 1,
            seq: 0,
            time_s: 1_000,
            key_file: String::new(),
        };
        new.epoch(EpochReason::First, 1);
        new
    }

    pub fn epoch(&mut self, reason: EpochReason, number: u32) {
        let step = self.chain.next_epoch(reason, &log(number), self.time_s).expect("randomness");
        self.enter(step, number);
    }

    fn enter(&mut self, step: Step, number: u32) {
        self.key_file = self.chain.key_file(&step).to_string();
        if let Some(closing) = &step.closing {
            self.append(closing);
        }
        self.number = number;
        self.dir.0.entry(log(number)).or_default();
        self.append(&step.note);
        self.chain.enter(step);
    }

    pub fn append(&mut self, entry: &str) {
        self.dir.0.entry(sidecar(self.number)).or_default().extend(entry.as_bytes());
    }

    pub fn raw_frame(&mut self, text: &str, last_seq: u64, recovered: bool) {
        let file = self.dir.file(&log(self.number));
        let start = file.len() as u64;
        file.extend(text.as_bytes());
        let frame = Frame {
            start,
            end: file.len() as u64,
            last_seq,
            lines: text.matches('\n').count() as u64,
            digest: Hash::of(text.as_bytes()),
            recovered,
        };
        let line = self.chain.frame(&frame);
        self.append(&line);
    }

    /// One batch of lines.
    pub fn lines(&mut self, count: u64) {
        let text: String = (self.seq + 1..=self.seq + count).map(line).collect();
        self.seq += count;
        self.raw_frame(&text, self.seq, false);
    }

    pub fn checkpoint(&mut self, reason: CheckpointReason) -> String {
        self.time_s += 60;
        let step = self.chain.checkpoint(reason, self.time_s).expect("randomness").expect("begun");
        let note = step.note.clone();
        self.enter(step, self.number);
        note
    }

    pub fn rotate(&mut self) {
        self.time_s += 60;
        self.epoch(EpochReason::Rotate, self.number + 1);
    }

    /// A recorder continues the newest file.
    pub fn start(&mut self) {
        self.checkpoint(CheckpointReason::Start);
    }

    pub fn stop(&mut self) {
        self.checkpoint(CheckpointReason::Stop);
    }

    /// Removes a file as retention does.
    pub fn remove(&mut self, number: u32) {
        self.remove_by(number, RemovalReason::Age);
    }

    pub fn remove_by(&mut self, number: u32, reason: RemovalReason) {
        let sidecar = self.dir.0.remove(&sidecar(number)).expect("it is there");
        self.dir.0.remove(&log(number));
        let removed = self.dir.0.entry("removed.chain".to_owned()).or_default();
        let mut entries = Entries::new(&sidecar[..]);
        let mut hash = Hash::ZERO;
        let (mut first_seq, mut last_seq) = (None, 0);
        while let Some(entry) = entries.next_entry().expect("reads") {
            match entry.meaning.expect("our own") {
                Meaning::Epoch(epoch, _) => {
                    hash = epoch.chain;
                    first_seq.get_or_insert(epoch.seq + 1);
                    last_seq = epoch.seq;
                    removed.extend(&entry.bytes);
                }
                Meaning::Frame(frame) => last_seq = frame.last_seq,
                _ => {}
            }
            hash = hash.after(&entry.bytes);
        }
        let gone =
            Gone { file: log(number), first_seq: first_seq.expect("one"), last_seq, chain: hash };
        let note = self.chain.tombstone(&gone, reason, self.time_s);
        removed.extend(note.as_bytes());
        self.chain.set_last_tombstone(note.as_bytes());
    }

    pub fn verify(&self) -> Report {
        check(&self.dir, &self.root, None)
    }
}

/// An attacker who found a key file, and continues from the position in this file up to
/// `entry_bytes` of its sidecar and `offset` of its log.
pub fn thief(
    recorder: &TestRecorder,
    key_file: &str,
    number: u32,
    entry_bytes: usize,
) -> TestRecorder {
    let key = KeyFile::parse(key_file).expect("a key file");
    let mut dir = recorder.dir.clone();
    dir.file(&sidecar(number)).truncate(entry_bytes);
    let mut position = Position { file: log(number), offset: 0, seq: 0, hash: Hash::ZERO };
    let bytes = dir.0[&sidecar(number)].clone();
    let mut entries = Entries::new(&bytes[..]);
    while let Some(entry) = entries.next_entry().expect("reads") {
        match entry.meaning.expect("our own") {
            Meaning::Epoch(epoch, _) => (position.hash, position.seq) = (epoch.chain, epoch.seq),
            Meaning::Frame(frame) => (position.offset, position.seq) = (frame.end, frame.last_seq),
            _ => {}
        }
        position.hash = position.hash.after(&entry.bytes);
    }
    dir.file(&log(number)).truncate(position.offset as usize);
    TestRecorder {
        root: recorder.root.clone(),
        number,
        seq: position.seq,
        time_s: recorder.time_s,
        key_file: key_file.to_owned(),
        chain: Chain::new(key, position),
        dir,
    }
}

/// Three files, two starts, stopped.
pub fn sealed() -> TestRecorder {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(3);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.lines(2);
    recorder.rotate();
    recorder.lines(4);
    recorder.stop();
    recorder.start();
    recorder.lines(1);
    recorder.lines(2);
    recorder.rotate();
    recorder.lines(5);
    recorder.checkpoint(CheckpointReason::Interval);
    recorder.lines(1);
    recorder.stop();
    recorder
}

pub fn check(dir: &Dir, root: &VerifierKey, expect: Option<&str>) -> Report {
    let options = Options {
        keys: vec![root.clone()],
        expect: expect.map(str::to_owned),
        ..Default::default()
    };
    follow::assert_follows(dir, &options);
    verify::verify(dir, &options, &mut |_| {}).expect("memory can be read")
}

#[track_caller]
pub fn assert_state(report: &Report, state: LogState) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
}
