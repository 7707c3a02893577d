//! Untrusted packets, from frames to events: no panic, and no more memory than the budget.
//!
//! The first byte of the input says which servers are known, and how large the budget is. Each
//! following part has a byte that says what happens to it, its length and its bytes: a segment of
//! one of two connections, in order or not, doubled, cut, lost; or a whole frame with its headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link::{self, Link, Segment};
use tacho_capture::mysql::{Event, Identity, Limits, Output};

/// Enough for all that the limits of one connection permit, and enough for almost nothing.
const BUDGETS_BYTES: [usize; 2] = [256 << 10, 20_000];
const LINKS: [Link; 6] = [
    Link::Ethernet,
    Link::Loopback,
    Link::Raw,
    Link::Cooked,
    Link::Cooked2,
    Link::Packet(0x0800),
];

/// Checks the events.
#[derive(Default)]
struct Checks {
    ends: usize,
    starts: usize,
}

impl Output for Checks {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        match event {
            Event::Start { text, .. } => {
                self.starts += 1;
                assert!(text.is_none_or(|text| text.len() <= BUDGETS_BYTES[0]));
            }
            Event::Params { text, .. } => assert!(text.len() <= 6 << 10),
            Event::End(_) => self.ends += 1,
            _ => {}
        }
        assert!(who.user.len() + who.db.len() + who.os_user.len() <= 3 * 640);
    }
}

/// One connection: where each side is.
struct Connection {
    port: u16,
    next: [u32; 2],
}

impl Connection {
    fn segment<'p>(&mut self, side: usize, fate: u8, payload: &'p [u8], ts_us: i64) -> Segment<'p> {
        let client = ([127, 0, 0, 1], self.port).into();
        let server = ([127, 0, 0, 1], 3306).into();
        let (from, to) = if side == 0 { (client, server) } else { (server, client) };
        let seq = self.next[side];
        let kept = if fate == 3 { payload.len() / 2 } else { payload.len() };
        let syn = fate == 5;
        let sent = payload.len() as u32 + u32::from(syn);
        self.next[side] = seq.wrapping_add(sent);
        Segment {
            ts_us,
            from,
            to,
            seq,
            ack: (!syn || side == 1).then_some(self.next[1 - side]),
            syn,
            fin: fate == 6,
            rst: fate == 7,
            payload: &payload[..kept],
            missing: (payload.len() - kept) as u32,
        }
    }
}

/// A part of the input: what happens to it, and its bytes.
fn part<'i>(input: &mut &'i [u8]) -> Option<(u8, &'i [u8])> {
    let (&[kind, low, high], rest) = input.split_first_chunk::<3>()?;
    let bytes = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (part, rest) = rest.split_at(bytes);
    *input = rest;
    Some((kind, part))
}

fuzz_target!(|input: &[u8]| {
    let Some((&mode, mut rest)) = input.split_first() else { return };
    let servers = match mode % 3 {
        0 => Vec::new(),
        1 => vec![([127, 0, 0, 1], 3306).into()],
        _ => vec![([0, 0, 0, 0], 3306).into()],
    };
    let each = Limits {
        statement_bytes: 64 << 10,
        commands: 64,
        command_bytes: 64 << 10,
        params_bytes: 1 << 10,
        ..Limits::default()
    };
    let budget_bytes = BUDGETS_BYTES[usize::from(mode / 3 % 2)];
    let budget = Budget { bytes: budget_bytes, connections: 2, each };
    let mut flows = Flows::new(servers, budget);
    let mut checks = Checks::default();
    let mut connections = [4711, 3306].map(|port| Connection { port, next: [7, u32::MAX - 99] });
    let mut late: Option<Segment<'_>> = None;
    let mut ts_us = 0_i64;
    while let Some((kind, bytes)) = part(&mut rest) {
        // Sometimes a while passes.
        ts_us = ts_us.saturating_add(if kind & 0x40 == 0 { 100 } else { 1 << 40 });
        if kind & 0x80 != 0 {
            let link = LINKS[usize::from(kind) % LINKS.len()];
            if let Some(segment) = link::segment(link, bytes, bytes.len(), ts_us) {
                flows.segment(&segment, &mut checks);
                assert!(flows.held_bytes() <= budget_bytes, "{} bytes", flows.held_bytes());
            }
            continue;
        }
        let (side, fate) = (usize::from(kind & 1), kind >> 1 & 7);
        let connection = &mut connections[usize::from(kind >> 4 & 1)];
        let segment = connection.segment(side, fate, bytes, ts_us);
        match fate {
            1 => continue,
            2 => flows.segment(&segment, &mut checks),
            4 => {
                late = Some(segment);
                continue;
            }
            _ => {}
        }
        flows.segment(&segment, &mut checks);
        if let Some(late) = late.take() {
            flows.segment(&late, &mut checks);
        }
        assert!(flows.held_bytes() <= budget_bytes, "{} bytes", flows.held_bytes());
        if kind & 0x20 != 0 {
            // Nothing comes for a while.
            ts_us = ts_us.saturating_add(300_000);
            flows.tick(ts_us, &mut checks);
        }
        assert!(flows.held_bytes() <= budget_bytes, "{} bytes", flows.held_bytes());
    }
    flows.finish(&mut checks);
    assert_eq!(flows.held_bytes(), 0);
    assert!(checks.ends <= checks.starts);
});
