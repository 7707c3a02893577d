//! Other forms of a log file beside it, and names that only look like log files.

use std::io;

use tacho_chain::verify::{self, Directory, LogState, Options, Report};

use crate::support::{Dir, TestRecorder, assert_state, line, log, sealed};

/// A directory whose `.age` files can be opened with a key: it returns their decrypted content.
struct Opened<'a>(&'a Dir);

impl Directory for Opened<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn io::Read + '_>> {
        match self.0.0.get(name) {
            Some(bytes) if bytes.starts_with(b"junk") => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "not an age file"))
            }
            Some(bytes) => Ok(Box::new(&bytes[..])),
            None => Err(io::Error::from_raw_os_error(2)),
        }
    }
}

fn verify(recorder: &TestRecorder) -> Report {
    let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
    verify::verify(&Opened(&recorder.dir), &options, &mut |_| {}).expect("memory can be read")
}

const ENDINGS: [&str; 3] = ["zst", "age", "zst.age"];

#[test]
fn another_form_with_the_same_lines_is_mentioned() {
    for number in 1..=3 {
        for ending in ENDINGS {
            let mut recorder = sealed();
            let name = format!("{}.{ending}", log(number));
            recorder.dir.0.insert(name.clone(), recorder.dir.0[&log(number)].clone());
            let report = verify(&recorder);
            assert_state(&report, LogState::Ok);
            assert!(report.notes[0].starts_with(&name), "{:?}", report.notes);
        }
    }
}

#[test]
fn another_form_with_other_lines_is_found() {
    for number in 1..=3 {
        for ending in ENDINGS {
            let untouched = sealed();
            let text = untouched.dir.0[&log(number)].clone();
            let changed = untouched.dir.text(&log(number)).replacen("SELECT", "SELEKT", 1);
            let cases: [(Vec<u8>, Option<u64>); 6] = [
                (changed.into(), Some(1)),
                (Vec::new(), Some(1)),
                (text[..text.len() - 1].into(), None),
                ([&text[..], b"x"].concat(), None),
                (b"junk".into(), None),
                ([&text[..], &[b'\n'; 200_000]].concat(), None),
            ];
            for (text, line) in cases {
                let mut recorder = sealed();
                recorder.dir.0.insert(format!("{}.{ending}", log(number)), text);
                let report = verify(&recorder);
                assert_state(&report, LogState::Modified);
                let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
                assert_eq!(finding.file, format!("{}.{ending}", log(number)));
                assert!(line.is_none() || finding.line == line, "{finding:?}");
            }
        }
    }
}

/// The altered form may be the one that readers take.
#[test]
fn it_does_not_matter_which_form_was_changed() {
    let mut recorder = sealed();
    let text = recorder.dir.0[&log(2)].clone();
    recorder.dir.0.insert(format!("{}.zst", log(2)), text);
    recorder.dir.file(&log(2))[50] ^= 1;
    assert_state(&verify(&recorder), LogState::Modified);
    // The other way round, with three forms.
    let mut recorder = sealed();
    let text = recorder.dir.0.remove(&log(2)).expect("there");
    recorder.dir.0.insert(format!("{}.zst", log(2)), text.clone());
    recorder.dir.0.insert(format!("{}.zst.age", log(2)), text.clone());
    recorder.dir.0.insert(format!("{}.age", log(2)), [&text[..], b"more"].concat());
    let report = verify(&recorder);
    assert_state(&report, LogState::Modified);
    assert_eq!(report.findings[0].file, format!("{}.age", log(2)));
    assert_eq!((report.findings.len(), report.notes.len()), (1, 1));
}

/// Without a key, the content of the second form is unknown.
#[test]
fn another_form_that_is_locked_is_not_ok() {
    let mut recorder = sealed();
    recorder.dir.0.insert(format!("{}.age", log(1)), b"whatever".into());
    let report = recorder.verify();
    assert_state(&report, LogState::Encrypted);
    assert_eq!(report.findings[0].file, format!("{}.age", log(1)));
    assert_eq!(report.encrypted_files, 1);
    // The readable form is still compared with the seal.
    recorder.dir.file(&log(1))[50] ^= 1;
    assert_state(&recorder.verify(), LogState::Modified);
}

#[test]
fn names_that_look_like_log_files_are_found() {
    for name in [
        "audit-20261121T015944Z-0000004.jsonl",
        "audit-20261121T015944Z-000003.jsonl.bak.jsonl",
        "audit-20261121T015944Z-000003.JSONL",
        "audit-20261121T015944Z-4.jsonl.zst",
        "audit-20261121T015944Z-000003.jsonl.chain",
    ] {
        let mut recorder = sealed();
        recorder.dir.0.insert(name.to_owned(), line(19).into());
        let report = recorder.verify();
        assert_state(&report, LogState::NotSealed);
        assert_eq!(report.findings[0].file, name);
    }
    let mut recorder = sealed();
    recorder.dir.0.insert("set-aside-audit-20261121T015944Z-000003.jsonl".to_owned(), Vec::new());
    recorder.dir.0.insert(".lock".to_owned(), Vec::new());
    let report = recorder.verify();
    assert_state(&report, LogState::Ok);
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
}

/// A name that is listed and cannot be opened, such as a link to nothing.
#[test]
fn a_name_without_a_file_is_a_finding() {
    struct Ghost(Dir, String);
    impl Directory for Ghost {
        fn names(&self) -> io::Result<Vec<String>> {
            Ok([self.0.names()?, vec![self.1.clone()]].concat())
        }
        fn open(&self, name: &str) -> io::Result<Box<dyn io::Read + '_>> {
            if name == self.1 { Err(io::Error::from_raw_os_error(2)) } else { self.0.open(name) }
        }
    }
    let recorder = sealed();
    for number in [0, 9] {
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let place = Ghost(recorder.dir.clone(), log(number));
        let report = verify::verify(&place, &options, &mut |_| {}).expect("an answer");
        assert_state(&report, LogState::Modified);
        assert_eq!(report.files, 3, "the rest was not read: {report:?}");
    }
}
