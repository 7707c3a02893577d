//! Statements with not enough memory for their text: the writer continues without the text. This
//! program's allocator refuses large pieces beyond a limit, as the system does.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use support::{TestLog, drain_while, emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::Severity;
use tacho_recorder::writer::Writer;
use tacho_ring::codec::{Bytes, Event, RecordKind, STRING_USER};

/// Allocated bytes, their peak, and their limit.
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Smaller pieces are never refused: texts do not use them.
const SMALL_BYTES: usize = 64 << 10;

struct Limited;

fn take(bytes: usize) -> bool {
    let used = USED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes >= SMALL_BYTES && used > LIMIT.load(Ordering::Relaxed) {
        USED.fetch_sub(bytes, Ordering::Relaxed);
        return false;
    }
    PEAK.fetch_max(used, Ordering::Relaxed);
    true
}

// SAFETY: all memory is the system's; refusing some is allowed.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // The system grows large pieces in place, by its page table.
        let more = bytes.saturating_sub(layout.size());
        if more > 0 && !take(more) {
            return std::ptr::null_mut();
        }
        USED.fetch_sub(layout.size().saturating_sub(bytes), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// One test at a time, because they share the allocator.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// From now on, `bytes` more may be used.
fn limit(bytes: usize) {
    LIMIT.store(USED.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

fn end(conn: u64, query_id: u64) -> Event {
    Event { present: 0, shown_bytes: u32::MAX, ..event(RecordKind::End, conn, query_id, b"") }
}

fn with_user(mut event: Event) -> Event {
    event.strings[STRING_USER] = Bytes::of(b"app");
    event
}

struct Output {
    /// The line of the statement with the text.
    line: String,
    /// The messages of the error log.
    errors: Vec<String>,
}

/// Records a statement with this text between two others, while only `room_bytes` of memory are
/// left.
fn record(place: &TestLog, text: &'static [u8], arena_bytes: u64, room_bytes: usize) -> Output {
    let made = ArenaFile::create(&place.arenas, arena_bytes, &place.log, "").expect("makes");
    made.arena().shared().settings.0.logging.store(1, Ordering::Relaxed);
    let mut writer: Writer = place.writer(made.arena());
    limit(room_bytes);
    drain_while(made.arena(), &mut writer, |probe| {
        let mut thread = Thread::default();
        let mut statement = |query_id, text| {
            emit(probe, &mut thread, &with_user(event(RecordKind::Start, 1, query_id, text)));
            emit(probe, &mut thread, &end(1, query_id));
        };
        statement(1, b"SELECT 'before'");
        statement(2, text);
        statement(3, b"SELECT 'after'");
    });
    assert!(writer.finish());
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    assert_eq!(made.arena().shared().counters.0.lost_corrupt.load(Ordering::Relaxed), 0);
    drop(writer);
    made.remove().expect("removes");
    let lines = place.lines();
    // The large one may have a `running` line with its text, and a line that completes it.
    assert!(lines[0].contains("'before'"), "the first of {}", lines.len());
    let of = |id: u64| format!("\"query_id\":{id},\"user\":\"app\"");
    let ended: Vec<_> = lines.iter().filter(|l| l.contains("\"outcome\":\"ok\"")).collect();
    assert_eq!(ended.len(), 3);
    assert!(ended[1].contains(&of(2)) && ended[2].contains("'after'"));
    let line = lines.iter().find(|line| line.contains(&of(2))).expect("a line").clone();
    Output { line, errors: place.said(Severity::Error) }
}

fn long_text(begin: &str, filling: &[u8], bytes: usize) -> &'static [u8] {
    let mut text = begin.as_bytes().to_vec();
    text.reserve_exact(bytes);
    while text.len() < bytes {
        text.extend_from_slice(filling);
    }
    text.leak()
}

/// The result for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Gone,
    Redacted,
    Whole,
}

fn fate_of(output: &Output, text: &[u8], redacted: &str) -> Fate {
    let Output { line, errors } = output;
    let size = format!("\"sql_bytes\":{}", text.len());
    if !line.contains("\"sql\":") {
        assert!(line.contains(&size), "{line}");
        assert!(!line.contains("sql_charset") && !line.contains("sql_redacted"), "{line}");
        assert!(errors.iter().any(|said| said.contains("not enough memory")), "{errors:?}");
        return Fate::Gone;
    }
    assert_eq!(errors.len(), 0, "{errors:?}");
    if line.contains("\"sql\":\"<redacted>\"") {
        assert!(line.contains(&size) && line.contains("\"sql_redacted\":true"), "{line}");
        return Fate::Redacted;
    }
    let shown = if redacted.is_empty() { text.len() } else { redacted.len() };
    assert!(line.len() > shown, "{} of {shown} bytes", line.len());
    assert_eq!(line.contains("sql_bytes"), !redacted.is_empty());
    Fate::Whole
}

/// Every amount of memory, from none to plenty: no step may end the process.
#[track_caller]
fn try_every_limit(text: &'static [u8], arena_bytes: u64, redacted: &str) -> Vec<Fate> {
    let step = text.len() / 2;
    let mut fates: Vec<Fate> = (0..22)
        .map(|n| {
            let place = place();
            fate_of(&record(&place, text, arena_bytes, n * step), text, redacted)
        })
        .collect();
    assert_eq!((fates.first(), fates.last()), (Some(&Fate::Gone), Some(&Fate::Whole)));
    assert!(fates.is_sorted(), "{fates:?}");
    fates.dedup();
    fates
}

const MIB: usize = 1 << 20;

#[test]
fn a_text_that_is_assembled_from_the_arena() {
    let _turn = alone();
    let text = long_text("SELECT '", b"0123456789abcdef", MIB);
    assert_eq!(try_every_limit(text, 8 << 20, ""), [Fate::Gone, Fate::Whole]);
}

#[test]
fn a_text_that_leaves_the_arena_piece_by_piece() {
    let _turn = alone();
    let text = long_text("SELECT '", b"0123456789abcdef", 2 * MIB);
    assert_eq!(try_every_limit(text, 1 << 20, ""), [Fate::Gone, Fate::Whole]);
}

/// Each byte becomes six in JSON, plus its base64.
#[test]
fn a_line_much_larger_than_its_text() {
    let _turn = alone();
    let text = long_text("SELECT '", b"\x01\xFF\x02\x03", MIB);
    assert_eq!(try_every_limit(text, 8 << 20, ""), [Fate::Gone, Fate::Whole]);
}

/// A possible password is never shown because of a lack of memory.
#[test]
fn a_text_with_a_secret() {
    let _turn = alone();
    let filling = b"/* a long comment */ 'and \\' a literal', ";
    let text = long_text("CREATE USER u IDENTIFIED BY 'hidden'; SELECT ", filling, MIB / 2);
    let text: &'static [u8] = [text, b"1"].concat().leak();
    let redacted = "CREATE USER u IDENTIFIED BY <secret>";
    let fates = try_every_limit(text, 8 << 20, redacted);
    assert_eq!(fates, [Fate::Gone, Fate::Redacted, Fate::Whole]);
}

/// An error message quotes the statement. Without the text, it is unknown whether that is a secret.
#[test]
fn the_message_of_a_text_that_is_gone() {
    let _turn = alone();
    let place = place();
    let made = ArenaFile::create(&place.arenas, 8 << 20, &place.log, "").expect("makes");
    made.arena().shared().settings.0.logging.store(1, Ordering::Relaxed);
    let mut writer = place.writer(made.arena());
    let probe = Probe::new(made.arena(), 1);
    let mut thread = Thread::default();
    let text = long_text("CREATE USER u IDENTIFIED BY 'hidden' ", b"x ", 2 * MIB);
    emit(&probe, &mut thread, &event(RecordKind::Start, 1, 1, text));
    emit(&probe, &mut thread, &event(RecordKind::Error, 1, 1, b"You have an error near 'hidden'"));
    emit(&probe, &mut thread, &Event { errno_: 1242, ..end(1, 1) });
    limit(0);
    assert!(writer.finish());
    LIMIT.store(usize::MAX, Ordering::Relaxed);
    let line = &place.lines()[0];
    assert!(line.contains("\"error\":\"<redacted>\""), "{line}");
    assert!(line.contains("\"sql_bytes\":") && !line.contains("hidden"), "{line}");
}

/// Besides the text that was sent there are two copies: the assembled text and the line. (The copy
/// in the arena belongs to the arena.)
#[test]
fn a_huge_text_costs_twice_its_size() {
    const TEXT_BYTES: usize = 60 * MIB;
    let _turn = alone();
    let text = long_text("SELECT '", b"0123456789abcdef", TEXT_BYTES);
    for arena_bytes in [1 << 20, 128 << 20] {
        let place = place();
        let before = USED.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let made = ArenaFile::create(&place.arenas, arena_bytes, &place.log, "").expect("makes");
        made.arena().shared().settings.0.logging.store(1, Ordering::Relaxed);
        let mut writer = place.writer(made.arena());
        drain_while(made.arena(), &mut writer, |probe| {
            let mut thread = Thread::default();
            emit(probe, &mut thread, &event(RecordKind::Start, 1, 1, text));
            emit(probe, &mut thread, &end(1, 1));
        });
        assert!(writer.finish());
        let peak = PEAK.load(Ordering::Relaxed) - before;
        println!("{} MiB at most, arena of {} MiB", peak / MIB, arena_bytes >> 20);
        assert!(peak < 2 * TEXT_BYTES + 16 * MIB, "{peak} bytes for {TEXT_BYTES}");
        let kept = USED.load(Ordering::Relaxed) - before;
        assert!(kept < 16 * MIB, "{kept} bytes are kept");
    }
}
