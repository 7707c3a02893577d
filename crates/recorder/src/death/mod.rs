//! Death at every point: a model test of servers that die, and of what must still be true of the
//! log.
//!
//! A case is a history of several servers, one after the other, on one log directory. Each has an
//! arena in plain memory, connections that move between threads, and a writer on a file system that
//! can die after any byte of any operation. A death keeps what it keeps in reality: the arena as it
//! is, and the bytes that were written. Then recovery runs, and may die as well, as often as the
//! case says.
//!
//! A writer can also die alone, or release the log; another one then takes over the living arena.
//!
//! The oracle is conservation: every record that was acknowledged to its producer as accepted is in
//! exactly one line, every record that was acknowledged as lost is counted, and the log has nothing
//! else.

mod log;
mod server;

use proptest::prelude::*;

use log::Expected;
use server::{Server, World};
use tacho_logdir::faulty::{Fault, FaultyFs};

/// One step of a server's life.
#[derive(Clone, Debug)]
enum Op {
    /// A statement starts; `late`: its start time is long ago.
    Start { conn: usize, thread: usize, text_bytes: usize, late: bool },
    /// The innermost statement ends, or with `outermost` the outermost one.
    End { conn: usize, thread: usize, outermost: bool },
    /// A command that is reported only at its end.
    Point { conn: usize, thread: usize, text_bytes: usize },
    /// A table is accessed.
    Table { conn: usize, thread: usize },
    /// The session ends, and another one takes its place.
    Reconnect { conn: usize, thread: usize },
    /// The writer does one round.
    Round,
    /// The writer is asked to begin a new file, and does one round.
    Rotate,
    /// The writer does one round and dies in it, if it gets that far.
    Die { operations: u64, bytes: usize },
    /// The disk has space for this many bytes only; `None`: enough space.
    Room(Option<u64>),
    /// Another writer takes over the living arena. `last_round`: the previous one does a last
    /// round, and dies in it if it gets that far. `deaths`: where the first attempts to take over
    /// die.
    Succeed { last_round: Option<(u64, usize)>, deaths: Vec<(u64, usize)> },
}

/// How a server ends.
#[derive(Clone, Debug)]
enum End {
    /// `kill -9`.
    Killed,
    /// `kill -9` while a large statement arrives; this many fragments of it are in the arena.
    KilledInText { conn: usize, text_bytes: usize, fragments: u16 },
    /// Orderly; the disk may be full, or the server may be killed meanwhile.
    Stopped { die: Option<(u64, usize)>, again: bool },
}

/// What happens to one attempt to recover.
#[derive(Clone, Debug)]
enum Mishap {
    /// It dies there.
    Die { operations: u64, bytes: usize },
    /// It dies after the last write, before the arena is removed.
    DieBeforeRemoval,
    /// The disk is full: the arenas stay, and the server runs without recovery.
    Full { room_bytes: u64 },
}

#[derive(Clone, Debug)]
struct Life {
    mishaps: Vec<Mishap>,
    ops: Vec<Op>,
    end: End,
    flush_bytes: u64,
    rotate_bytes: u64,
}

const CONNS: usize = 4;
const THREADS: usize = 3;

fn text_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 12..200usize, 1 => 7_000..9_000usize, 1 => 9_000..40_000usize]
}

fn fault() -> impl Strategy<Value = (u64, usize)> {
    // A write covers part of a line, several lines, or everything.
    (0..9u64, prop_oneof![0..2_000usize, Just(usize::MAX)])
}

fn op() -> impl Strategy<Value = Op> {
    let conn = 0..CONNS;
    let thread = 0..THREADS;
    let at = (conn, thread);
    prop_oneof![
        8 => (at.clone(), text_bytes(), prop::bool::weighted(0.2)).prop_map(
            |((conn, thread), text_bytes, late)| Op::Start { conn, thread, text_bytes, late }
        ),
        7 => (at.clone(), prop::bool::weighted(0.1))
            .prop_map(|((conn, thread), outermost)| Op::End { conn, thread, outermost }),
        2 => (at.clone(), text_bytes())
            .prop_map(|((conn, thread), text_bytes)| Op::Point { conn, thread, text_bytes }),
        2 => at.clone().prop_map(|(conn, thread)| Op::Table { conn, thread }),
        1 => at.prop_map(|(conn, thread)| Op::Reconnect { conn, thread }),
        4 => Just(Op::Round),
        1 => Just(Op::Rotate),
        2 => fault().prop_map(|(operations, bytes)| Op::Die { operations, bytes }),
        1 => prop::option::weighted(0.6, 0..5_000u64).prop_map(Op::Room),
        2 => (prop::option::of(fault()), prop::collection::vec(fault(), 0..3))
            .prop_map(|(last_round, deaths)| Op::Succeed { last_round, deaths }),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Killed),
        1 => (0..CONNS, 9_000..70_000usize, 0..9u16).prop_map(|(conn, text_bytes, fragments)| {
            End::KilledInText { conn, text_bytes, fragments }
        }),
        1 => (prop::option::of(fault()), any::<bool>())
            .prop_map(|(die, again)| End::Stopped { die, again }),
    ]
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        4 => fault().prop_map(|(operations, bytes)| Mishap::Die { operations, bytes }),
        1 => Just(Mishap::DieBeforeRemoval),
        2 => (0..4_000u64).prop_map(|room_bytes| Mishap::Full { room_bytes }),
    ]
}

fn life() -> impl Strategy<Value = Life> {
    let sizes = (prop_oneof![1..3_000u64, Just(262_144)], prop_oneof![Just(0u64), 500..20_000u64]);
    (prop::collection::vec(mishap(), 0..4), prop::collection::vec(op(), 0..60), end(), sizes)
        .prop_map(|(mishaps, ops, end, (flush_bytes, rotate_bytes))| Life {
            mishaps,
            ops,
            end,
            flush_bytes,
            rotate_bytes,
        })
}

/// Runs one life. What it leaves behind is in the world.
fn live(world: &mut World, life: &Life) {
    let Some(mut server) = world.start(&life.mishaps, life.flush_bytes, life.rotate_bytes) else {
        return;
    };
    for op in &life.ops {
        server.run(world, op);
        if world.fs.is_dead() {
            break;
        }
    }
    if !world.fs.is_dead() {
        end_of(world, &mut server, &life.end);
    }
    world.bury(server);
}

fn end_of(world: &mut World, server: &mut Server, end: &End) {
    match end {
        End::Killed => {}
        End::KilledInText { conn, text_bytes, fragments } => {
            server.break_off(world, *conn, *text_bytes, *fragments);
        }
        End::Stopped { die, again } => {
            if let Some((operations, bytes)) = die {
                world.fs.fault_after(*operations, Fault::Die(*bytes));
            }
            server.stop(world, *again);
        }
    }
}

fn check(lives: &[Life]) -> Expected {
    let mut world = World::new(FaultyFs::new());
    for life in lives {
        live(&mut world, life);
    }
    // The last server finds everything in order and adds nothing of its own.
    world.fs.repair();
    let last = world.start(&[], 262_144, 0).expect("the disk is repaired");
    assert!(world.dead.is_empty(), "arenas are left");
    world.bury(last);
    log::check(&world);
    world.expected
}

/// Few enough for a build without optimisation; set PROPTEST_CASES for more.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if is_asked { usual.cases } else { 64 };
    ProptestConfig { cases, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_record_is_in_exactly_one_line(lives in prop::collection::vec(life(), 1..5)) {
        check(&lives);
    }
}

/// A life whose `start` line is in the file before anything happens.
fn life_of(ops: Vec<Op>, end: End) -> Life {
    let ops = std::iter::once(Op::Round).chain(ops).collect();
    Life { mishaps: Vec::new(), ops, end, flush_bytes: 262_144, rotate_bytes: 0 }
}

fn start(conn: usize) -> Op {
    Op::Start { conn, thread: 0, text_bytes: 20, late: false }
}

fn end_of_statement(conn: usize) -> Op {
    Op::End { conn, thread: 1, outermost: false }
}

/// The records of the second arena were marked with numbers that recovery then gave to lines of the
/// first arena, and were taken for written.
#[test]
fn marks_in_one_arena_mean_nothing_to_the_recovery_of_another() {
    let point = |conn| Op::Point { conn, thread: 0, text_bytes: 20 };
    let first = life_of(vec![point(0), point(1), point(2)], End::Killed);
    for operations in 0..6 {
        // A part of the first arena is recovered, the rest stays; then the disk has space again,
        // and the server dies while it writes the first line of its own.
        let die = Op::Die { operations, bytes: 0 };
        let ops = vec![Op::Room(None), Op::Round, point(0), point(1), die];
        let mut second = Life { flush_bytes: 1, ..life_of(ops, End::Killed) };
        second.mishaps = vec![Mishap::Full { room_bytes: 0 }];
        assert_eq!(check(&[first.clone(), second]).accepted_count(), 5);
    }
}

/// A recovery that stopped half-way left the rest of its queue behind, which was then read from the
/// next server's arena.
#[test]
fn what_an_incomplete_recovery_had_queued_is_not_read_from_another_arena() {
    let large = Op::Start { conn: 0, thread: 0, text_bytes: 7_000, late: false };
    let first = life_of(vec![large, start(0), start(1)], End::Killed);
    let mut second = life_of(vec![Op::Room(None)], End::Stopped { die: None, again: false });
    second.mishaps = vec![Mishap::Full { room_bytes: 0 }];
    for flush_bytes in [1, 300, 7_000] {
        check(&[first.clone(), Life { flush_bytes, ..second.clone() }]);
    }
}

/// The mark of a `running` line that never reached the file became that of another line, once
/// recovery was killed after it.
#[test]
fn a_running_line_that_was_never_written_is_not_completed() {
    let late = |conn| Op::Start { conn, thread: 0, text_bytes: 20, late: true };
    let ops = vec![late(0), late(1), late(2), Op::Die { operations: 0, bytes: 0 }];
    let first = life_of(ops, End::Killed);
    for operations in 0..16 {
        let mut second = Life { flush_bytes: 1, ..life_of(Vec::new(), End::Killed) };
        second.mishaps = vec![Mishap::Die { operations, bytes: usize::MAX }];
        check(&[first.clone(), second]);
    }
}

/// Every operation of a writer's round, and every few bytes of its write.
#[test]
fn death_after_any_byte_of_a_write() {
    for operations in 0..6 {
        for bytes in (0..900).step_by(7) {
            let ops = vec![start(0), start(1), end_of_statement(0), Op::Die { operations, bytes }];
            check(&[life_of(ops, End::Killed)]);
        }
    }
}

/// The arena had forgotten a loss before its `lost` line was in the file.
#[test]
fn losses_are_reported_once_wherever_the_writer_dies() {
    let large = Op::Point { conn: 0, thread: 0, text_bytes: 60_000 };
    for operations in 0..20 {
        for bytes in [0, 100, usize::MAX] {
            let mut ops = vec![large.clone(); 20];
            ops.push(Op::Die { operations, bytes });
            let mut second = life_of(Vec::new(), End::Killed);
            second.mishaps = vec![Mishap::Die { operations: 9, bytes }];
            let expected = check(&[life_of(ops, End::Killed), second]);
            assert!(expected.lost_count() > 0, "the arena took everything");
        }
    }
}

/// A chain of writers on one arena, each dead after a different byte of its last round.
#[test]
fn a_writer_takes_over_from_each_dead_one() {
    let point = |conn| Op::Point { conn, thread: conn % 2, text_bytes: 20 };
    for operations in 0..6 {
        for bytes in (0..900).step_by(31) {
            let succeed = Op::Succeed {
                last_round: Some((operations, bytes)),
                deaths: vec![(operations, bytes), (operations + 3, usize::MAX)],
            };
            let late = Op::Start { conn: 2, thread: 0, text_bytes: 20, late: true };
            let ops = vec![
                late,
                start(0),
                start(1),
                point(3),
                succeed.clone(),
                end_of_statement(0),
                point(3),
                end_of_statement(2),
                succeed.clone(),
                end_of_statement(1),
                start(0),
                succeed,
            ];
            let expected = check(&[life_of(ops, End::Stopped { die: None, again: false })]);
            assert_eq!(expected.accepted_count(), 6);
        }
    }
}
