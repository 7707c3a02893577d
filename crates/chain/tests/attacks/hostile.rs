//! Any content of a directory gets an answer, and the answer is never that all is well.

use proptest::prelude::*;
use tacho_chain::verify::{self, Directory, LogState, Options};

use crate::support::{Dir, assert_state, line, log, sealed, sidecar};

/// A sidecar, a log file and tombstones that are not regular files.
#[test]
fn entries_that_are_not_files_are_reported() {
    struct Pipe(Dir, String);
    impl Directory for Pipe {
        fn names(&self) -> std::io::Result<Vec<String>> {
            Ok([self.0.names()?, vec!["removed.chain".to_owned()]].concat())
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            if name == self.1 {
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a pipe"));
            }
            if name == "removed.chain" { Ok(Box::new(&[][..])) } else { self.0.open(name) }
        }
    }
    let recorder = sealed();
    for name in [log(1), log(2), log(3), sidecar(1), sidecar(2), sidecar(3), "removed.chain".into()]
    {
        let options = Options { keys: vec![recorder.root.clone()], ..Default::default() };
        let place = Pipe(recorder.dir.clone(), name);
        let report = verify::verify(&place, &options, &mut |_| {}).expect("an answer");
        assert!(report.state() >= LogState::Modified, "{}: {:?}", place.1, report.findings);
    }
}

/// The largest possible numbers, in entries that are not signed.
#[test]
fn the_largest_numbers_do_no_harm() {
    let max = u64::MAX;
    let digest = "0".repeat(64);
    for frame in [
        format!("frame {} {max} {max} {max} {digest}\n", max - 1),
        format!("frame 0 {max} {max} 1 {digest} recovered\n"),
        format!("frame 0 {max} 0 {max} {digest}\n"),
    ] {
        let mut recorder = sealed();
        recorder.start();
        for _ in 0..2 {
            recorder.append(&frame);
        }
        assert!(recorder.verify().state() > LogState::Recovered);
    }
    let mut recorder = sealed();
    recorder.start();
    recorder.raw_frame(&line(max), max, true);
    recorder.start();
    recorder.stop();
    assert!(recorder.verify().state() > LogState::Recovered);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Any change of one byte of any file is detected.
    #[test]
    fn no_byte_can_be_changed(place in any::<prop::sample::Index>(), change in 1u8..) {
        let mut recorder = sealed();
        recorder.start();
        recorder.remove(1);
        recorder.stop();
        assert_state(&recorder.verify(), LogState::Ok);
        let total: usize = recorder.dir.0.values().map(Vec::len).sum();
        let mut at = place.index(total);
        for (name, bytes) in &mut recorder.dir.0 {
            if at < bytes.len() {
                bytes[at] ^= change;
                let name = name.clone();
                let report = recorder.verify();
                prop_assert!(report.state() > LogState::Lost, "{} byte {}", name, at);
                break;
            }
            at -= bytes.len();
        }
    }

    /// Any file that was truncated or extended is detected.
    #[test]
    fn no_file_can_be_cut_or_made_longer(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        more in proptest::collection::vec(any::<u8>(), 1..50),
    ) {
        let mut recorder = sealed();
        let names: Vec<String> = recorder.dir.0.keys().cloned().collect();
        let name = which.get(&names);
        let untouched = recorder.dir.clone();
        let file = recorder.dir.file(name);
        let end = place.index(file.len());
        file.truncate(end);
        // Only the newest sidecar, cut at a checkpoint, makes the lines after it unsigned.
        prop_assert!(recorder.verify().state() > LogState::Lost, "{} to {}", name, end);
        recorder.dir = untouched;
        recorder.dir.file(name).extend(more);
        prop_assert!(recorder.verify().state() > LogState::Lost, "{} longer", name);
    }

    /// Any bytes get an answer, and the answer is never that all is well.
    #[test]
    fn noise_is_not_a_log(
        noise in proptest::collection::vec((0usize..6, any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut recorder = sealed();
        let untouched = recorder.dir.clone();
        for (which, place, byte) in noise {
            let name = recorder.dir.0.keys().nth(which).expect("six files").clone();
            let file = recorder.dir.file(&name);
            let at = place.index(file.len());
            file[at] = byte;
        }
        if recorder.dir != untouched {
            prop_assert!(recorder.verify().state() > LogState::Lost);
        }
    }
}
