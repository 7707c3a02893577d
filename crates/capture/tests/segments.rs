//! A real capture whose segments are dropped, doubled, cut and reordered: whatever arrives, nothing
//! is recorded that was not sent, what is not recorded is declared, and memory stays within the
//! budget.

mod support;

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use support::packet_file::{Fate, Owned, SEGMENTS, SERVER, arrival, fate, port};
use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::Segment;
use tacho_capture::mysql::{Event, Identity, Limits, Output};

/// The statements that were sent, by client port.
static SENT: LazyLock<HashMap<u16, Vec<String>>> =
    LazyLock::new(|| recorded(&*SEGMENTS, Budget::default()).statements);

/// What was recorded: the statements of each client port, and how they ended.
#[derive(Default)]
struct Records {
    statements: HashMap<u16, Vec<String>>,
    ends: usize,
    /// Connections with a loss, by client port.
    lost: HashMap<u16, usize>,
    logins: usize,
}

impl Output for Records {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        match event {
            Event::Start { command, text: Some(text) } => {
                let text = format!("{command} {}", String::from_utf8_lossy(text));
                self.statements.entry(who.port).or_default().push(text);
            }
            Event::End(_) => self.ends += 1,
            Event::Lost { .. } => *self.lost.entry(who.port).or_default() += 1,
            Event::Login { .. } => self.logins += 1,
            _ => {}
        }
    }
}

fn recorded<'s>(segments: impl IntoIterator<Item = &'s Owned>, budget: Budget) -> Records {
    let limit_bytes = budget.bytes;
    let mut flows = Flows::new(vec![SERVER.parse().expect("an address")], budget);
    let mut records = Records::default();
    for segment in segments {
        flows.segment(&segment.segment(), &mut records);
        assert!(flows.held_bytes() <= limit_bytes, "{} bytes", flows.held_bytes());
    }
    flows.finish(&mut records);
    records
}

/// Whether all of `part` is in `whole`, in the same order.
fn is_part(part: &[String], whole: &[String]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|statement| rest.any(|other| other == statement))
}

#[test]
fn the_whole_file_is_understood() {
    let records = recorded(&*SEGMENTS, Budget::default());
    assert_eq!((records.lost.len(), records.logins), (0, 8));
    let statements = records.statements.values().flatten().collect::<Vec<_>>();
    assert_eq!(records.ends, statements.len());
    for wanted in [
        "Query select 'tagged 2'",
        "Query select repeat('a', 2000)",
        "Query load data local infile 'load.txt' into table l",
        "Query select 'multi 1'; select 'multi 2'; update t set v = 'm' where id = 2",
        "Query select 'after'",
        "Execute COMMIT",
    ] {
        assert!(statements.iter().any(|it| *it == wanted), "{wanted}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_recorded_that_was_not_sent(
        fates in prop::collection::vec(fate(), 1..400),
        first in 0..60_usize,
    ) {
        let limits = Limits { statement_bytes: 30_000, ..Limits::default() };
        let budget = Budget { bytes: 256 << 10, each: limits, ..Budget::default() };
        let arrived = recorded(&arrival(&SEGMENTS[first..], &fates), budget).statements;
        for (port, statements) in &arrived {
            let of_port = SENT.get(port).map(Vec::as_slice).unwrap_or_default();
            prop_assert!(is_part(statements, of_port), "{statements:?}\nof {of_port:?}");
        }
    }

    /// If the beginning and the end of each connection were captured.
    #[test]
    fn what_is_not_recorded_is_declared(fates in prop::collection::vec(fate(), 1..400)) {
        let mut fates = fates.iter().cloned().cycle().take(SEGMENTS.len()).collect::<Vec<_>>();
        let ports = SEGMENTS.iter().map(port).collect::<Vec<_>>();
        for (at, port) in ports.iter().enumerate() {
            let is_first = ports[..at].iter().filter(|other| *other == port).count() < 3;
            let is_last = ports[at + 1..].iter().filter(|other| *other == port).count() < 2;
            if is_first || is_last {
                fates[at] = Fate::Arrives;
            }
        }
        let records = recorded(&arrival(&SEGMENTS, &fates), Budget::default());
        for (port, sent) in SENT.iter() {
            let count = records.statements.get(port).map_or(0, Vec::len);
            let is_declared = records.lost.contains_key(port);
            prop_assert!(count == sent.len() || is_declared, "{port}: {count} of {sent:?}");
        }
    }

    /// A network may cut segments anywhere, between the bytes of a header too.
    #[test]
    fn records_do_not_depend_on_the_size_of_segments(
        cuts in prop::collection::vec(1..40_usize, 1..100),
    ) {
        let mut cuts = cuts.into_iter().cycle();
        let mut parts = Vec::new();
        for whole in SEGMENTS.iter() {
            let (mut rest, mut seq) = (&whole.payload[..], whole.segment.seq);
            while let Some((part, behind)) = cuts.next().and_then(|cut| rest.split_at_checked(cut))
            {
                let segment = Segment { seq, fin: false, ..whole.segment };
                parts.push(Owned { segment, payload: part.to_vec(), missing: 0 });
                (rest, seq) = (behind, seq.wrapping_add(part.len() as u32));
            }
            let segment = Segment { seq, ..whole.segment };
            parts.push(Owned { segment, payload: rest.to_vec(), missing: whole.missing });
        }
        let records = recorded(&parts, Budget::default());
        prop_assert_eq!(&records.statements, &*SENT);
        prop_assert_eq!(records.ends, SENT.values().map(Vec::len).sum::<usize>());
        prop_assert!(records.lost.is_empty(), "{:?}", records.lost);
    }

    /// The beginning of a capture in the middle of all sessions.
    #[test]
    fn a_capture_can_begin_anywhere(first in any::<prop::sample::Index>()) {
        let begun = &SEGMENTS[first.index(SEGMENTS.len())..];
        for (port, statements) in recorded(begun, Budget::default()).statements {
            prop_assert!(is_part(&statements, &SENT[&port]), "{statements:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..40),
        sides in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut changed = SEGMENTS[..2].to_vec();
        let (mut seqs, opening) = ([0_u32; 2], SEGMENTS[0].segment);
        seqs[0] = opening.seq.wrapping_add(1);
        seqs[1] = changed[1].segment.seq.wrapping_add(1);
        for (payload, from_server) in payloads.into_iter().zip(sides) {
            let (from, to) = if from_server {
                (opening.to, opening.from)
            } else {
                (opening.from, opening.to)
            };
            let seq = &mut seqs[usize::from(from_server)];
            let ts_us = opening.ts_us;
            let (syn, fin, rst) = (false, false, false);
            let segment = Segment {
                ts_us, from, to, seq: *seq, ack: None, syn, fin, rst, payload: &[], missing: 0,
            };
            *seq = seq.wrapping_add(payload.len() as u32);
            changed.push(Owned { segment, payload, missing: 0 });
        }
        let records = recorded(&changed, Budget::default());
        prop_assert!(records.statements.is_empty());
    }
}
