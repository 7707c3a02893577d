//! Zone: outside. Cost of rules that rewrite for the thread of a statement, through the C
//! functions: a point select, with 5,000 rules for other tables in force.
//!
//! ```text
//! cargo build -p tacho-cost --profile inproc
//! valgrind --tool=callgrind --toggle-collect=cost_of_rewrites \
//!     target/inproc/tacho-cost rewrite miss
//! ```
//!
//! `miss`: no rule matches, as is known from another id. `first`: the statement's form is unknown,
//! and no rule has its shape. `hit`: a rule matches; the new text is written (the server's
//! allocation is not counted). callgrind's total divided by the number that is printed is the
//! instructions of one.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use nothing::arena;
use tacho_probe::{
    CompiledRules, Probe, RewriteFacts, RewriteServer, Rewritten, tacho_probe_may_rewrite,
    tacho_probe_rewrite,
};
use tacho_rewrite::compile::{Compiler, RuleSource};
use tacho_ring::codec::Bytes;

/// Statements that are counted.
const STATEMENTS: usize = 10_000;
/// Rules in force.
const RULES: usize = 5_000;

/// An arena that no record is written to.
mod nothing {
    use tacho_ring::arena::Arena;
    use tacho_ring::layout::Geometry;

    pub fn arena() -> Arena {
        let geometry = Geometry::for_bytes(8 << 20);
        let words = vec![0u128; geometry.arena_bytes as usize / size_of::<u128>() + 256].leak();
        let base = words.as_mut_ptr().cast::<u8>();
        // SAFETY: zeroed memory that is never freed, with room to begin at a whole page.
        unsafe {
            let base = base.add(base.align_offset(4096));
            let arena = Arena::from_raw(base, geometry);
            // No other process opens this arena: its identity stays empty.
            arena.initialise(std::mem::zeroed());
            arena
        }
    }
}

/// Memory for the new text: the cost of the server's allocator is not counted.
unsafe extern "C" fn allocate(bytes: usize) -> *mut u8 {
    static ROOM: [std::sync::atomic::AtomicU64; 64] =
        [const { std::sync::atomic::AtomicU64::new(0) }; 64];
    assert!(bytes <= size_of_val(&ROOM));
    ROOM.as_ptr().cast::<u8>().cast_mut()
}

unsafe extern "C" fn not_exempt() -> bool {
    false
}

const SERVER: RewriteServer = RewriteServer { is_exempt: not_exempt, allocate };

fn ask(probe: &Probe, text: &[u8]) -> bool {
    // SAFETY: all of it is valid.
    if !unsafe { tacho_probe_may_rewrite(probe, Bytes::of(text)) } {
        return false;
    }
    let facts = RewriteFacts {
        text: Bytes::of(text),
        db: Bytes::of(b"sbtest"),
        charset: Bytes::of(b"utf8mb4"),
        conn: 7,
        modes: 0,
        reserved: 0,
    };
    let mut out = Rewritten { text: Bytes::EMPTY, rule_id: 0 };
    // SAFETY: all of it is valid.
    unsafe { tacho_probe_rewrite(probe, black_box(&facts), &SERVER, &mut out) }
}

/// The function whose instructions callgrind counts.
#[unsafe(no_mangle)]
#[inline(never)]
fn cost_of_rewrites(probe: &Probe, texts: &[String]) -> usize {
    texts.iter().filter(|text| ask(probe, text.as_bytes())).count()
}

fn probe() -> Probe {
    let mut compiler = Compiler::default();
    for number in 0..RULES {
        let pattern = format!("SELECT c FROM other{number} WHERE id=?");
        let source = RuleSource {
            id: number as u64,
            pattern: pattern.as_bytes(),
            database: None,
            replacement: b"SELECT c FROM sbtest1 WHERE id=? LIMIT 1",
        };
        compiler.add(&source).expect("a rule");
    }
    let bytes = Bytes::of(compiler.finish().expect("a program").leak());
    let rules = Box::leak(Box::new(CompiledRules { bytes, epoch: 1 }));
    let probe = Probe::keyed(arena(), 1, [0x0123_4567_89AB_CDEF, 0x1357_9BDF]);
    for shard in &probe.rewrites.shards {
        // SAFETY: never freed.
        unsafe { shard.rules.replace(rules) };
    }
    probe.rewrites.epoch.store(1, Ordering::Release);
    probe
}

/// Asks the rules as the argument says.
pub fn run(arguments: &[String]) {
    let which = arguments.first().map_or("", String::as_str);
    let probe = probe();
    let of =
        |table: &str, id: usize| format!("SELECT c FROM {table} WHERE id={}", 5001 + id % 4000);
    let (texts, expected): (Vec<String>, usize) = match which {
        "miss" => ((0..STATEMENTS).map(|id| of("sbtest1", id)).collect(), 0),
        "first" => ((0..STATEMENTS).map(|id| of(&format!("s_{id:05}"), id)).collect(), 0),
        "hit" => ((0..STATEMENTS).map(|id| of("other4711", id)).collect(), STATEMENTS),
        _ => {
            println!("usage: tacho-cost rewrite miss | first | hit");
            return;
        }
    };
    if which == "miss" {
        // The first search stores the result.
        assert!(!ask(&probe, of("sbtest1", 1).as_bytes()));
    }
    assert_eq!(cost_of_rewrites(&probe, &texts), expected);
    println!("{STATEMENTS} statements");
}
