//! A hub's copy of a log in a directory, and bundles of it.

use std::fs::File;
use std::path::PathBuf;

use tacho_chain::key::SecretKey;
use tacho_chain::verify::LogState;
use tacho_evidence::check::{self, Options, Report};
use tacho_evidence::container::{Writer, list};
use tacho_evidence::make::{self, Log, Request, Server};
use tacho_evidence::manifest::{self, ByPart, FilePart, Manifest, QueryPart};
use tacho_evidence::names::Name;
use tacho_ship::protocol::{FileName, Stem};

use crate::recorder::TestRecorder;

pub fn hub_key() -> SecretKey {
    SecretKey::from_bytes(&[42; 32])
}

/// A bundle, and the log that it is of.
pub struct Exported {
    pub directory: tempfile::TempDir,
    pub recorder: TestRecorder,
}

pub fn request() -> Request {
    Request {
        hub_name: "hub1".into(),
        hub_version: "0.0".into(),
        created: "2026-11-26T00:00:00.000000Z".into(),
        by: ByPart { name: "ann".into(), via: "api".into() },
        query: QueryPart::default(),
        file_times: (None, None),
        bytes_max: u64::MAX,
    }
}

impl Exported {
    /// The records whose `seq` is wanted.
    pub fn new(recorder: TestRecorder, wanted: impl Fn(u64) -> bool) -> Self {
        let mut exported = Self { directory: tempfile::tempdir().unwrap(), recorder };
        exported.write_log();
        exported.export(&wanted, request()).unwrap();
        exported
    }

    /// Where lines begin whose `seq` is wanted.
    fn offsets(bytes: &[u8], wanted: &impl Fn(u64) -> bool) -> Vec<u64> {
        let mut offsets = Vec::new();
        let mut at = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            let seq = text.strip_prefix("{\"v\":1,\"seq\":").and_then(|rest| rest.split_once(','));
            if seq.is_some_and(|(seq, _)| seq.parse().is_ok_and(wanted)) {
                offsets.push(at);
            }
            at += line.len() as u64;
        }
        offsets
    }

    pub fn replica(&self) -> PathBuf {
        self.directory.path().join("replica")
    }

    /// Writes the files of the log as the hub has them.
    pub fn write_log(&mut self) {
        let replica = self.replica();
        std::fs::create_dir_all(&replica).unwrap();
        for (name, bytes) in &self.recorder.dir.0 {
            std::fs::write(replica.join(name), bytes).unwrap();
        }
    }

    pub fn server(&self, wanted: &impl Fn(u64) -> bool) -> Server {
        let logs = self.recorder.dir.0.iter().filter_map(|(name, bytes)| {
            let Ok(FileName::Lines(stem)) = name.parse() else { return None };
            let offsets = Self::offsets(bytes, wanted);
            (!offsets.is_empty()).then_some((stem, offsets))
        });
        Server {
            name: "db1".parse().unwrap(),
            root: Some(self.recorder.root.clone()),
            lost: (0, 0),
            forks: Vec::new(),
            alerts: Vec::new(),
            logs: vec![Log { generation: 1, directory: self.replica(), records: logs.collect() }],
        }
    }

    pub fn export(
        &mut self,
        wanted: &impl Fn(u64) -> bool,
        request: Request,
    ) -> Result<make::Made, make::MakeError> {
        let file = File::create(self.path()).unwrap();
        make::make(&file, &hub_key(), request, vec![self.server(wanted)], &mut |_| true)
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("bundle.tar")
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    pub fn options(&self) -> Options {
        Options { keys: vec![self.recorder.root.clone()], hub_key: None }
    }

    pub fn check(&self) -> Report {
        self.check_with(&self.options())
    }

    pub fn check_with(&self, options: &Options) -> Report {
        check::check(&File::open(self.path()).unwrap(), options, &mut |_| {}).unwrap()
    }

    /// What is said about other bytes.
    pub fn check_bytes(&self, bytes: &[u8]) -> Report {
        let path = self.directory.path().join("changed.tar");
        std::fs::write(&path, bytes).unwrap();
        let options = Options { hub_key: Some(hub_key().root()), ..self.options() };
        check::check(&File::open(&path).unwrap(), &options, &mut |_| {}).unwrap()
    }

    /// All members with their bytes.
    pub fn members(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = self.bytes();
        let members = list(&File::open(self.path()).unwrap()).unwrap();
        let of =
            |offset: u64, length: u64| bytes[offset as usize..(offset + length) as usize].to_vec();
        members.iter().map(|it| (it.name.to_string(), of(it.offset, it.bytes))).collect()
    }

    /// The text of the sidecar or the lines of a log file.
    pub fn member(&self, ending: &str, number: u32) -> String {
        let wanted = format!("servers/db1/1/{}{ending}", crate::recorder::stem(number));
        let found = self.members().into_iter().find(|(name, _)| *name == wanted);
        String::from_utf8(found.expect("a member").1).unwrap()
    }

    /// Another bundle with changed members, signed again by the hub's key: what a hub could make,
    /// or an attacker who has its key.
    pub fn forge(&self, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>, &mut Manifest)) -> Report {
        let mut members = self.members();
        members.pop();
        let (_, manifest) = members.pop().unwrap();
        let mut manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        change(&mut members, &mut manifest);
        let path = self.directory.path().join("forged.tar");
        let file = File::options().create(true).truncate(true).write(true).open(&path).unwrap();
        let mut progress = |_| true;
        let mut writer = Writer::new(&file, u64::MAX, &mut progress);
        let mut files = Vec::new();
        for (name, bytes) in &members {
            let written = writer.member(&name.parse::<Name>().unwrap(), bytes).unwrap();
            let ranges = manifest.files.iter().find(|part| part.name == *name);
            files.push(FilePart {
                name: written.name,
                bytes: written.bytes,
                sha256: written.sha256.to_string(),
                ranges: ranges.map(|part| part.ranges.clone()).unwrap_or_default(),
            });
        }
        manifest.files = files;
        let text = serde_json::to_vec(&manifest).unwrap();
        writer.member(&Name::Manifest, &text).unwrap();
        let signature = manifest::sign(&text, &hub_key());
        writer.member(&Name::Signature, signature.as_bytes()).unwrap();
        writer.close().unwrap();
        let options = Options { hub_key: Some(hub_key().root()), ..self.options() };
        check::check(&File::open(&path).unwrap(), &options, &mut |_| {}).unwrap()
    }
}

/// The stem of a log file.
pub fn stem(number: u32) -> Stem {
    crate::recorder::stem(number).parse().unwrap()
}

#[track_caller]
pub fn assert_state(report: &Report, state: LogState) {
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.state(), state, "{findings:#?}");
}
