//! The verdict for each kind of change: edits are `modified`; `truncated` is only the beginning of
//! what was sealed.

use tacho_chain::verify::LogState::{self, Gap, Modified, NotSealed, Truncated, UnsignedTail};

use crate::support::{TestRecorder, assert_state, check, line, log, sealed, sidecar};

/// A log of three files, as small as possible: there are thousands of changes of it.
fn small() -> TestRecorder {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(1);
    recorder.lines(2);
    recorder.rotate();
    recorder.lines(3);
    recorder.rotate();
    recorder.lines(2);
    recorder.stop();
    recorder
}

/// The verdict after a change of one file.
fn verdict_on(untouched: &TestRecorder, number: u32, text: Vec<u8>) -> LogState {
    let mut dir = untouched.dir.clone();
    *dir.file(&log(number)) = text;
    check(&dir, &untouched.root, None).state()
}

#[test]
fn an_edit_of_any_byte_is_modified() {
    let untouched = small();
    for number in 1..=3 {
        let text = &untouched.dir.0[&log(number)];
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] = [text[at] ^ 1, b'\n', 0][at % 3];
            if changed != *text {
                assert_eq!(
                    verdict_on(&untouched, number, changed),
                    Modified,
                    "{number}, edit at {at}"
                );
            }
            let mut inserted = text.clone();
            inserted.insert(at, b'x');
            assert_eq!(
                verdict_on(&untouched, number, inserted),
                Modified,
                "{number}, inserted at {at}"
            );
            let mut deleted = text.clone();
            deleted.remove(at);
            let is_end = text.starts_with(&deleted);
            let expected = if is_end { Truncated } else { Modified };
            assert_eq!(
                verdict_on(&untouched, number, deleted),
                expected,
                "{number}, deleted at {at}"
            );
        }
    }
}

#[test]
fn lines_that_are_deleted_doubled_or_swapped_are_modified() {
    let untouched = small();
    for number in 1..=3 {
        let text = untouched.dir.text(&log(number));
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for first in 0..lines.len() {
            for end in first + 1..=lines.len() {
                let rest = [&lines[..first], &lines[end..]].concat().concat();
                let expected = if end == lines.len() { Truncated } else { Modified };
                assert_eq!(
                    verdict_on(&untouched, number, rest.into()),
                    expected,
                    "{number}, {first}..{end}"
                );
            }
            let twice = [&lines[..=first], &lines[first..]].concat().concat();
            assert_eq!(
                verdict_on(&untouched, number, twice.into()),
                Modified,
                "{number}, {first} twice"
            );
            for other in first + 1..lines.len() {
                let mut swapped = lines.clone();
                swapped.swap(first, other);
                let swapped = swapped.concat().into();
                assert_eq!(
                    verdict_on(&untouched, number, swapped),
                    Modified,
                    "{number}, {first}, {other}"
                );
            }
        }
    }
}

/// A statement that was shortened, in any frame, by any number of bytes.
#[test]
fn a_shorter_text_in_a_line_is_modified() {
    let untouched = small();
    for number in 1..=3 {
        let text = untouched.dir.text(&log(number));
        for (place, _) in text.match_indices("SELECT") {
            for bytes in 1..=6 {
                let mut shorter = text.clone();
                shorter.replace_range(place..place + bytes, "");
                assert_eq!(
                    verdict_on(&untouched, number, shorter.into()),
                    Modified,
                    "{number} at {place}"
                );
            }
        }
    }
}

#[test]
fn a_file_that_was_replaced_is_modified_and_one_that_was_cut_is_truncated() {
    let untouched = small();
    let text = |number| untouched.dir.0[&log(number)].clone();
    for number in 1..=3 {
        let whole = text(number);
        let first = whole.split_inclusive(|&byte| byte == b'\n').next().expect("a line").to_vec();
        let forged = String::from_utf8(first.clone()).expect("a text").replace("SELECT", "select");
        let modified: Vec<Vec<u8>> = vec![
            b"x".into(),
            b"\n".into(),
            b"x\n".into(),
            b"{}\n".into(),
            line(99).into(),
            line(99)[..30].into(),
            text(number % 3 + 1),
            text(number % 3 + 1)[..40].into(),
            [&first[..], b"x"].concat(),
            [&first[..], b"x\n"].concat(),
            [&first[..], &first[..]].concat(),
            [forged.as_bytes(), &whole[first.len()..whole.len()]].concat(),
            vec![0; 10],
            vec![b'\n'; whole.len()],
        ];
        for (case, text) in modified.into_iter().enumerate() {
            assert_eq!(
                verdict_on(&untouched, number, text),
                Modified,
                "file {number}, case {case}"
            );
        }
        for end in 0..whole.len() {
            assert_eq!(
                verdict_on(&untouched, number, whole[..end].into()),
                Truncated,
                "{number} to {end}"
            );
        }
    }
}

/// An edit before the offset where the file was cut.
#[test]
fn a_cut_file_with_an_edit_is_modified() {
    let mut recorder = TestRecorder::new(1);
    recorder.lines(2);
    recorder.lines(2);
    recorder.stop();
    let file = recorder.dir.file(&log(1));
    file[40] ^= 1;
    file.truncate(file.len() - 5);
    let report = recorder.verify();
    assert_state(&report, Modified);
    assert!(report.findings.iter().all(|finding| finding.state == Modified), "{report:?}");
}

#[test]
fn changes_of_whole_files_have_their_verdict() {
    type Deed = fn(&mut TestRecorder);
    fn remove(recorder: &mut TestRecorder, name: &str) {
        recorder.dir.0.remove(name).expect("a file of the test");
    }
    let cases: [(&str, Deed, LogState); 12] = [
        ("log 1 removed", |r| remove(r, &log(1)), Gap),
        ("log 3 removed", |r| remove(r, &log(3)), Gap),
        ("sidecar 3 removed", |r| remove(r, &sidecar(3)), NotSealed),
        ("sidecar 3 emptied", |r| r.dir.file(&sidecar(3)).clear(), NotSealed),
        ("log 3 emptied", |r| r.dir.file(&log(3)).clear(), Truncated),
        ("log 3 longer", |r| r.dir.file(&log(3)).extend(line(19).bytes()), Modified),
        ("log 1 longer", |r| r.dir.file(&log(1)).extend(line(6).bytes()), Modified),
        ("sidecar 1 longer", |r| r.dir.file(&sidecar(1)).extend(b"x\n"), Modified),
        ("sidecar 2 first byte", |r| r.dir.file(&sidecar(2))[0] ^= 1, Modified),
        (
            "another log file",
            |r| {
                r.dir.0.insert(log(9), line(1).into());
            },
            NotSealed,
        ),
        (
            "an empty newer file with a sidecar",
            |r| {
                r.dir.0.insert(log(9), Vec::new());
                r.dir.0.insert(sidecar(9), b"junk".into());
            },
            NotSealed,
        ),
        (
            "logs 1 and 2 change places",
            |r| {
                let one = r.dir.0[&log(1)].clone();
                let two = std::mem::replace(r.dir.file(&log(2)), one);
                *r.dir.file(&log(1)) = two;
            },
            Modified,
        ),
    ];
    for (what, deed, state) in cases {
        let mut recorder = sealed();
        deed(&mut recorder);
        assert_eq!(recorder.verify().state(), state, "{what}: {:#?}", recorder.verify().findings);
    }
    let mut running = sealed();
    running.start();
    running.lines(1);
    running.dir.file(&log(3)).extend(line(20).bytes());
    assert_state(&running.verify(), UnsignedTail);
}
