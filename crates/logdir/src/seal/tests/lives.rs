//! Deaths, faults and power failures at any operation: the next start continues, nothing is
//! declared broken, and in the end everything is sealed.

use std::path::Path;

use proptest::prelude::*;
use tacho_chain::verify::LogState;

use super::{DIR, KEY, assert_state, check, lines, new_fs, options};
use crate::aside::last_seq;
use crate::faulty::{Fault, FaultyFs, NamesAfter};
use crate::seal::Sealed;
use crate::write::{LogFiles, Options};

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Rotate,
    Tick,
    Clock(i64),
    Fault(u64, Fault),
    Room(Option<u64>),
    Repair,
    /// Whether the keys can be changed.
    Keys(bool),
    Kill,
    PowerFailure(NamesAfter),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Fail(libc::EIO)),
        (1usize..200).prop_map(Fault::Short),
        (0usize..300).prop_map(|bytes| Fault::FailAfter(bytes, libc::EIO)),
        (0usize..300).prop_map(Fault::Die),
    ];
    let names = prop::sample::select(vec![
        NamesAfter::NoChange,
        NamesAfter::Removals,
        NamesAfter::AllChanges,
    ]);
    prop_oneof![
        12 => (1u8..5).prop_map(Step::Write),
        3 => Just(Step::Rotate),
        4 => Just(Step::Tick),
        2 => (0i64..200).prop_map(Step::Clock),
        10 => (0u64..25, fault).prop_map(|(skipped, fault)| Step::Fault(skipped, fault)),
        2 => prop::option::of(0u64..900).prop_map(Step::Room),
        2 => Just(Step::Repair),
        3 => any::<bool>().prop_map(Step::Keys),
        2 => Just(Step::Kill),
        1 => names.prop_map(Step::PowerFailure),
        2 => Just(Step::Close),
    ]
}

/// A recorder that runs through the steps.
struct Life {
    fs: FaultyFs,
    files: Option<LogFiles<FaultyFs>>,
    root: Option<Sealed>,
    next_seq: u64,
    pending: Option<(Vec<u8>, usize)>,
    now_s: i64,
}

impl Life {
    fn notice_death(&mut self) {
        if self.fs.is_dead() {
            self.files = None;
            self.fs.restart_process();
        }
    }

    fn start(&mut self) {
        if self.files.is_some() {
            return;
        }
        let opened = LogFiles::open(self.fs.clone(), Path::new(DIR), Options { rotate_bytes: 300 });
        if let Ok((mut files, opened)) = opened
            && let Ok(last) = opened.last_seq
        {
            let last = last.unwrap_or(0);
            // A recorder that cannot seal does not start here, so that the result is defined.
            match files.seal(&options(), last) {
                Ok(sealed) => {
                    assert_eq!(sealed.declared, None, "no other process changed it");
                    if let Some(root) = &self.root {
                        assert_eq!(root.root, sealed.root);
                    }
                    self.root = Some(sealed);
                    self.files = Some(files);
                    let end = std::mem::replace(&mut self.next_seq, last + 1);
                    self.pending = None;
                    if self.next_seq < end {
                        self.pending = Some((lines(last + 1, end - 1).into_bytes(), 0));
                        self.next_seq = end;
                    }
                }
                Err(error) => assert!(
                    error.errno().is_some()
                        || self.fs.is_dead()
                        || error.to_string().contains("zero"),
                    "{error}"
                ),
            }
        }
        self.notice_death();
    }

    fn offer(&mut self) {
        if let (Some(files), Some((batch, progress))) = (&mut self.files, &mut self.pending)
            && files.write(batch, progress).is_ok()
        {
            self.pending = None;
        }
        self.notice_death();
    }

    fn run(&mut self, step: Step) {
        self.start();
        match step {
            Step::Write(count) => {
                self.offer();
                if self.pending.is_none() && self.files.is_some() {
                    let last = self.next_seq + u64::from(count) - 1;
                    self.pending = Some((lines(self.next_seq, last).into_bytes(), 0));
                    self.next_seq = last + 1;
                    self.offer();
                }
            }
            Step::Rotate => {
                if let Some(files) = &mut self.files {
                    let _: Result<(), _> = files.rotate_now();
                }
            }
            Step::Tick => {
                if let Some(files) = &mut self.files {
                    files.tick();
                }
            }
            Step::Clock(more_s) => {
                self.now_s += more_s;
                self.fs.set_now_s(self.now_s);
            }
            Step::Fault(skipped, fault) => self.fs.fault_after(skipped, fault),
            Step::Room(room) => self.fs.set_room(room),
            Step::Repair => self.fs.repair(),
            Step::Keys(can_change) => {
                self.fs.forbid((!can_change).then_some(Path::new(KEY)));
            }
            Step::PowerFailure(names) => {
                self.files = None;
                self.fs.cut_power(names);
            }
            Step::Kill => {
                self.files = None;
                self.fs.restart_process();
            }
            Step::Close => {
                if let Some(files) = self.files.take() {
                    // Giving up a batch after a failed write that may have arrived leaves bytes
                    // that no writer can confirm: a recorder that dies does better.
                    if self.pending.is_none() {
                        let _: Result<(), _> = files.close();
                    }
                    self.fs.restart_process();
                }
            }
        }
        self.notice_death();
    }

    /// The directory is never in a worse state than incomplete.
    fn check(&self) {
        let Some(sealed) = &self.root else { return };
        let report = check(&self.fs, sealed);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let bad: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| finding.state != LogState::UnsignedTail)
            // Lines whose frame was not written before a death.
            .filter(|finding| finding.state != LogState::Recovered)
            // A file that was begun without its sidecar.
            .filter(|finding| finding.state != LogState::NotSealed)
            .collect();
        assert!(bad.is_empty(), "{findings:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 300 }
    ))]

    /// Deaths and faults at any operation: the next start continues, nothing is declared broken,
    /// and in the end everything is sealed.
    #[test]
    fn an_honest_log_verifies(steps in prop::collection::vec(step(), 1..40)) {
        let mut life = Life {
            fs: new_fs(),
            files: None,
            root: None,
            next_seq: 1,
            pending: None,
            now_s: 951_827_696,
        };
        for step in steps {
            life.run(step);
            life.check();
        }
        life.fs.repair();
        life.fs.forbid(None);
        life.start();
        life.offer();
        let files = life.files.take().expect("nothing fails any more");
        files.close().expect("nothing fails any more");
        let sealed = life.root.as_ref().expect("it was started");
        let report = check(&life.fs, sealed);
        let state = if report.recovered_lines > 0 { LogState::Recovered } else { LogState::Ok };
        assert_state(&report, state);
        prop_assert_eq!(report.last_seq, last_seq(&life.fs, Path::new(DIR), Path::new("")).expect("known").unwrap_or(0));
        prop_assert_eq!(report.lines, report.last_seq);
    }
}
