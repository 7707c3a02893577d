//! Rules that rewrite, on the query threads.
//!
//! Nearly all statements match no rule, and are repeated with other literals. If a statement has
//! the shape of no rule, the keyed hash of its [form](tacho_rewrite::form) is kept in a table that
//! all threads share: such a statement costs its form and one load. The table is only written when
//! a new form is found, and a lost write costs a second search.
//!
//! **Why an entry is never wrong.** The number of the rules (`epoch`) is part of the hash, and only
//! a thread that has searched the rules of that very number writes an entry. So the entry is true
//! for those rules, and a lookup with another number does not find it. A lookup while the rules
//! change uses the old ones or the new ones.
//!
//! The rules are read through [`Swap`]: one for each group of connections, so that readers do not
//! all announce themselves in the same word.

use tacho_rewrite::form::{self, Key};
use tacho_rewrite::matching::Parameters;
use tacho_rewrite::program::Rule;
use tacho_rewrite::reading::Modes;
use tacho_rewrite::{Program, RuleMatch, Statement, compose};
use tacho_ring::arena::slice;
use tacho_ring::codec::Bytes;
use tacho_ring::swap::Swap;
use tacho_ring::sync::{AtomicU64, Ordering};

/// Compiled rules in their own memory.
#[repr(C)]
pub struct CompiledRules {
    /// See `tacho_rewrite::program`.
    pub bytes: Bytes,
    /// Their number.
    pub epoch: u64,
}

// SAFETY: the bytes are not changed for as long as a thread may read them: see `Swap::replace`.
unsafe impl Sync for CompiledRules {}

/// Where a group of connections finds the rules; on its own cache line.
#[repr(align(128))]
#[derive(Default)]
pub struct Shard {
    /// The rules.
    pub rules: Swap<CompiledRules>,
    /// Statements that were rewritten.
    pub rewritten: AtomicU64,
    /// A rule matched, and there was no memory for the new text.
    pub failed: AtomicU64,
}

/// Shards; a power of two.
pub const SHARDS: usize = 16;
/// Statements known to match nothing; a power of two.
const KNOWN: usize = 4096;

/// See the module documentation.
pub struct Rewrites {
    /// Number of the rules; 0: no rules.
    pub epoch: AtomicU64,
    /// Protects the table from statements that are crafted to look like others.
    key: Key,
    /// The rules.
    pub shards: [Shard; SHARDS],
    known: [AtomicU64; KNOWN],
}

impl Rewrites {
    /// Without rules. `key`: random and secret.
    pub fn new(key: [u64; 2]) -> Rewrites {
        Rewrites {
            epoch: AtomicU64::new(0),
            key: Key(key),
            shards: core::array::from_fn(|_| Shard::default()),
            known: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// See `tacho_rewrite_mode`.
pub const REWRITE_ANSI_QUOTES: u32 = 1;
/// See `tacho_rewrite_mode`.
pub const REWRITE_NO_BACKSLASH_ESCAPES: u32 = 2;
/// See `tacho_rewrite_mode`.
pub const REWRITE_MODE_UNKNOWN: u32 = 4;

/// Facts about a statement before it is parsed. See `tacho_rewrite_facts`.
#[repr(C)]
pub struct RewriteFacts {
    /// Its text, to the end of the packet.
    pub text: Bytes,
    /// The session's database.
    pub db: Bytes,
    /// Name of the text's character set.
    pub charset: Bytes,
    /// Connection id.
    pub conn: u64,
    /// `REWRITE_*`
    pub modes: u32,
    /// 0.
    pub reserved: u32,
}

/// The text to parse instead. See `tacho_rewritten`.
#[repr(C)]
pub struct Rewritten {
    /// Allocated, followed by a NUL that is not counted.
    pub text: Bytes,
    /// Id of the rule.
    pub rule_id: u64,
}

/// The server's allocator. See `tacho_allocate`.
pub type Allocate = unsafe extern "C" fn(bytes: usize) -> *mut u8;
/// Whether the session is exempt from rules. See `tacho_is_exempt`.
pub type IsExempt = unsafe extern "C" fn() -> bool;

/// Functions of the server, called only if a rule matches. See `tacho_rewrite_server`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RewriteServer {
    /// Called first.
    pub is_exempt: IsExempt,
    /// Then called for the new text's memory.
    pub allocate: Allocate,
}

// The bits match those of the C side.
const _: () = assert!(
    REWRITE_ANSI_QUOTES == Modes::ANSI_QUOTES
        && REWRITE_NO_BACKSLASH_ESCAPES == Modes::NO_ESCAPES
        && REWRITE_MODE_UNKNOWN == Modes::UNKNOWN
);

#[inline]
fn modes(modes: u32, charset: &[u8]) -> Modes {
    // utf8mb4, utf8mb3, and utf8 as older servers call it.
    let is_utf8 = charset.first_chunk() == Some(b"utf8");
    let known = modes & (Modes::ANSI_QUOTES | Modes::NO_ESCAPES | Modes::UNKNOWN);
    Modes(if is_utf8 { known | Modes::UTF8 } else { known })
}

/// Texts that every session reads in the same way: without double quotes, backslashes in quotes,
/// and characters beyond ASCII. Other texts have no form with it.
const ALIKE: Modes = Modes(Modes::UNKNOWN);

impl Rewrites {
    /// The form of a text, and the entry where it is known to match nothing.
    #[inline]
    fn place(&self, text: &[u8], modes: Modes, epoch: u64) -> Option<(u64, &AtomicU64)> {
        let form = form::number(text, modes, &self.key, epoch)?;
        Some((form, self.known.get(form as usize & (KNOWN - 1))?))
    }

    /// Whether a rule may rewrite a statement, as far as its text shows: for most statements,
    /// nothing about the session is needed.
    #[inline]
    pub fn may_rewrite(&self, text: &[u8]) -> bool {
        // SYNC rules: Acquire pairs with the Release in `tacho_embed`: the rules are not older.
        let epoch = self.epoch.load(Ordering::Acquire);
        epoch != 0
            && self
                .place(text, ALIKE, epoch)
                // Relaxed: the number is all that is read.
                .is_none_or(|(form, entry)| entry.load(Ordering::Relaxed) != form)
    }

    /// Whether a rule rewrites a statement, and its new text.
    ///
    /// # Safety
    /// The bytes of `facts` are valid; `server.allocate` returns null or memory of as many bytes as
    /// requested.
    #[inline]
    pub unsafe fn rewrite(
        &self,
        facts: &RewriteFacts,
        server: &RewriteServer,
        out: &mut Rewritten,
    ) -> bool {
        // SYNC rules: Acquire pairs with the Release in `tacho_embed`: the rules are not older.
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == 0 {
            return false;
        }
        // SAFETY: as promised by the caller.
        let (text, charset) = unsafe { (slice(&facts.text), slice(&facts.charset)) };
        let modes = modes(facts.modes, charset);
        let known = self.place(text, ALIKE, epoch).or_else(|| self.place(text, modes, epoch));
        // Relaxed: the number is all that is read.
        if let Some((form, entry)) = known
            && entry.load(Ordering::Relaxed) == form
        {
            return false;
        }
        // SAFETY: as promised by the caller.
        unsafe { self.search(facts, modes, epoch, known, server, out) }
    }

    /// The same, by searching the rules.
    ///
    /// # Safety
    /// As for [`Self::rewrite`].
    #[cold]
    #[inline(never)]
    unsafe fn search(
        &self,
        facts: &RewriteFacts,
        modes: Modes,
        epoch: u64,
        known: Option<(u64, &AtomicU64)>,
        server: &RewriteServer,
        out: &mut Rewritten,
    ) -> bool {
        let place = facts.conn as usize & (SHARDS - 1);
        let Some(shard) = self.shards.get(place) else { return false };
        // SAFETY: as promised by the caller.
        let (text, database) = unsafe { (slice(&facts.text), slice(&facts.db)) };
        let statement = Statement { text, reading: modes.reading(), database };
        let mut parameters = Parameters::default();
        shard.rules.read(|rules| {
            let Some(rules) = rules else { return false };
            // SAFETY: valid for as long as the rules can be read.
            let program = Program::new(unsafe { slice(&rules.bytes) });
            match program.find(&statement, &mut parameters) {
                RuleMatch::Rule(rule) => {
                    // SAFETY: as promised by the caller.
                    if unsafe { (server.is_exempt)() } {
                        return false;
                    }
                    // SAFETY: as promised by the caller.
                    let done = unsafe { write(&rule, text, &parameters, server.allocate, out) };
                    let counter = if done { &shard.rewritten } else { &shard.failed };
                    counter.fetch_add(1, Ordering::Relaxed);
                    done
                }
                RuleMatch::Nothing => false,
                RuleMatch::NoShape => {
                    if let Some((form, entry)) = known
                        && rules.epoch == epoch
                    {
                        entry.store(form, Ordering::Relaxed);
                    }
                    false
                }
            }
        })
    }
}

/// Writes the new text into memory of the server. Returns whether there was some.
///
/// # Safety
/// As for [`Rewrites::rewrite`].
unsafe fn write(
    rule: &Rule<'_>,
    text: &[u8],
    parameters: &Parameters,
    allocate: Allocate,
    out: &mut Rewritten,
) -> bool {
    let Some(bytes) = compose::length(rule, text, parameters) else { return false };
    let Some(with_nul) = bytes.checked_add(1) else { return false };
    // SAFETY: as promised by the caller.
    let data = unsafe { allocate(with_nul) };
    if data.is_null() {
        return false;
    }
    // SAFETY: as many bytes as requested, which belong to no other owner; written first, so that
    // they have values.
    let room = unsafe {
        data.write_bytes(0, with_nul);
        core::slice::from_raw_parts_mut(data, bytes)
    };
    // It fits: its size was computed. Bytes that were not written are zero.
    let _fits = compose::write(rule, text, parameters, room);
    *out = Rewritten { text: Bytes { data, len: bytes }, rule_id: rule.id };
    true
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use super::*;
    use tacho_rewrite::compile::{Compiler, RuleSource};

    unsafe extern "C" fn allocate(bytes: usize) -> *mut u8 {
        // SAFETY: never 0 bytes.
        unsafe { std::alloc::alloc(Layout::array::<u8>(bytes).unwrap()) }
    }

    /// Any value that looks random.
    const KEY: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9];

    unsafe extern "C" fn refuse(_: usize) -> *mut u8 {
        core::ptr::null_mut()
    }

    fn rules(patterns: &[(&str, &str)], epoch: u64) -> Box<CompiledRules> {
        let mut compiler = Compiler::default();
        for (index, (pattern, replacement)) in patterns.iter().enumerate() {
            let source = RuleSource {
                id: index as u64 + 1,
                pattern: pattern.as_bytes(),
                database: None,
                replacement: replacement.as_bytes(),
            };
            compiler.add(&source).unwrap();
        }
        // Tests may keep them forever.
        let bytes = Bytes::of(compiler.finish().unwrap().leak());
        Box::new(CompiledRules { bytes, epoch })
    }

    fn publish(rewrites: &Rewrites, rules: Box<CompiledRules>) {
        let epoch = rules.epoch;
        let rules = Box::leak(rules);
        for shard in &rewrites.shards {
            // SAFETY: never freed.
            unsafe { shard.rules.replace(rules) };
        }
        rewrites.epoch.store(epoch, Ordering::Release);
    }

    unsafe extern "C" fn exempt() -> bool {
        true
    }

    unsafe extern "C" fn not_exempt() -> bool {
        false
    }

    const ANY: RewriteServer = RewriteServer { is_exempt: not_exempt, allocate };

    fn ask(
        rewrites: &Rewrites,
        text: &str,
        conn: u64,
        by: &RewriteServer,
    ) -> Option<(String, u64)> {
        let bytes = |text: &str| Bytes::of(text.as_bytes());
        let facts = RewriteFacts {
            text: bytes(text),
            db: bytes("test"),
            charset: bytes("utf8mb4"),
            conn,
            modes: 0,
            reserved: 0,
        };
        let mut out = Rewritten { text: Bytes::EMPTY, rule_id: 0 };
        // SAFETY: all of it is valid.
        if !unsafe { rewrites.rewrite(&facts, by, &mut out) } {
            return None;
        }
        let Rewritten { text: Bytes { data, len }, rule_id } = out;
        // SAFETY: from `allocate`, which was asked for one more.
        unsafe {
            assert_eq!(data.add(len).read(), 0);
            let text = String::from_utf8(core::slice::from_raw_parts(data, len).to_vec());
            std::alloc::dealloc(data.cast_mut(), Layout::array::<u8>(len + 1).unwrap());
            Some((text.unwrap(), rule_id))
        }
    }

    fn known(rewrites: &Rewrites) -> usize {
        rewrites.known.iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count()
    }

    #[test]
    fn statements_are_rewritten_by_the_rules_in_force() {
        let rewrites = Rewrites::new(KEY);
        let statement = "SELECT 5";
        assert_eq!(ask(&rewrites, statement, 1, &ANY), None);
        publish(&rewrites, rules(&[("SELECT ?", "SELECT ? + 1")], 7));
        assert_eq!(ask(&rewrites, statement, 1, &ANY), Some(("SELECT 5 + 1".into(), 1)));
        assert_eq!(ask(&rewrites, "SELECT 5, 6", 17, &ANY), None);
        assert_eq!(known(&rewrites), 1);
        assert_eq!(ask(&rewrites, "SELECT 7, 8", 2, &ANY), None);
        assert_eq!(known(&rewrites), 1);
        // The known forms are no longer valid.
        publish(&rewrites, rules(&[("SELECT ?, ?", "SELECT ?")], 8));
        assert_eq!(ask(&rewrites, "SELECT 7, 8", 2, &ANY), Some(("SELECT 7".into(), 1)));
        assert_eq!(ask(&rewrites, statement, 1, &ANY), None);
        rewrites.epoch.store(0, Ordering::Release);
        assert_eq!(ask(&rewrites, "SELECT 7, 8", 2, &ANY), None);
        let count = |of: fn(&Shard) -> &AtomicU64| -> u64 {
            rewrites.shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
        };
        assert_eq!((count(|it| &it.rewritten), count(|it| &it.failed)), (2, 0));
    }

    #[test]
    fn without_memory_nothing_is_rewritten() {
        let rewrites = Rewrites::new(KEY);
        publish(&rewrites, rules(&[("SELECT ?", "SELECT ? + 1")], 1));
        let without = RewriteServer { allocate: refuse, ..ANY };
        assert_eq!(ask(&rewrites, "SELECT 5", 3, &without), None);
        assert_eq!(rewrites.shards[3].failed.load(Ordering::Relaxed), 1);
        assert!(ask(&rewrites, "SELECT 5", 3, &ANY).is_some());
    }

    /// A statement of an exempt session is not rewritten, which is not a failure; other sessions
    /// are not affected.
    #[test]
    fn an_exempt_session_is_not_rewritten() {
        let rewrites = Rewrites::new(KEY);
        publish(&rewrites, rules(&[("SELECT ?", "SELECT ? + 1")], 1));
        let exempt = RewriteServer { is_exempt: exempt, allocate: refuse };
        assert_eq!(ask(&rewrites, "SELECT 5", 3, &exempt), None);
        assert_eq!(rewrites.shards[3].failed.load(Ordering::Relaxed), 0);
        assert!(ask(&rewrites, "SELECT 5", 3, &ANY).is_some());
    }

    /// A result found with rules other than those of the number is not kept for that number.
    #[test]
    fn the_result_of_other_rules_is_not_kept() {
        let rewrites = Rewrites::new(KEY);
        publish(&rewrites, rules(&[("SELECT ?, ?", "SELECT ?")], 1));
        // The new rules are there, but not yet their number.
        let new = Box::leak(rules(&[("SELECT ?", "SELECT ? + 1")], 2));
        // SAFETY: never freed.
        unsafe { rewrites.shards[0].rules.replace(new) };
        assert_eq!(ask(&rewrites, "SELECT 7, 8", 0, &ANY), None);
        assert_eq!(known(&rewrites), 0);
    }

    /// Rules change while other threads ask: each answer is one that rules in force at the time
    /// give.
    #[test]
    fn answers_are_never_older_than_the_rules() {
        const ROUNDS: u64 = 2000;
        let rewrites = Rewrites::new(KEY);
        let rewrites = &rewrites;
        let with = Box::leak(rules(&[("SELECT ?", "SELECT 0")], 0));
        let without = Box::leak(rules(&[("SELECT ?, ?", "SELECT 0")], 0));
        let begun = &AtomicU64::new(0);
        let done = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            for conn in 0..3 {
                scope.spawn(move || {
                    while done.load(Ordering::Acquire) < ROUNDS {
                        let before = done.load(Ordering::Acquire);
                        let text = format!("SELECT {conn}{before}");
                        let is_rewritten = ask(rewrites, &text, conn, &ANY).is_some();
                        let after = begun.load(Ordering::Acquire);
                        // Odd rounds have the rule. If nothing changed, the answer is known.
                        if before == after && before > 0 {
                            assert_eq!(is_rewritten, before % 2 == 1, "{before}");
                        }
                    }
                });
            }
            for round in 1..=ROUNDS {
                begun.store(round, Ordering::Release);
                let bytes = if round % 2 == 1 { with.bytes } else { without.bytes };
                publish(rewrites, Box::new(CompiledRules { bytes, epoch: round }));
                done.store(round, Ordering::Release);
            }
        });
    }
}
