//! Append with back-pressure; fragments.
//!
//! Runs on the server's query threads: copies and stores, nothing else, unless no chunk is
//! free. What then happens is the `overflow` setting; every record that is given up is
//! counted by its cause before the call returns.

use crate::arena::Arena;
use crate::chunk::{self, OpenChunk};
use crate::codec::{
    BODY_BYTES, Body, Event, FIGURES_BYTES, PRESENT_FIGURES, RecordKind, STRING_BYTES_MAX,
    STRING_COUNT,
};
use crate::free;
use crate::gate::Park;
use crate::layout::{
    FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_MIDDLE, FRAGMENT_WHOLE, OVERFLOW_BLOCK, OVERFLOW_DROP,
    RECORD_ALIGN, RECORD_HEADER_BYTES, Session,
};
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin};
use crate::{session, sys};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// It is in the arena.
    Accepted,
    /// It is lost, and counted.
    Lost,
}

/// Sleeps and wakes through futexes on the shared words.
pub struct Futex;

impl Park for Futex {
    fn wait(&self, word: &AtomicU32, expected: u32, timeout_us: u64) {
        sys::futex_wait(word, expected, timeout_us);
    }
    fn wake(&self, word: &AtomicU32, count: u32) {
        sys::futex_wake(word, count);
    }
}

/// Tries before sleeping. Short: the writer needs the processor too.
const SPIN_COUNT: u32 = 64;
/// A waiting producer looks at the settings again at least this often, µs.
const WAIT_SLICE_US: u64 = 100_000;
/// Head of a MIDDLE or LAST fragment: header, u32 length, u32 zero.
const TAIL_HEAD_BYTES: usize = RECORD_HEADER_BYTES + 8;

#[inline]
fn align_up(bytes: usize) -> usize {
    bytes.wrapping_add(RECORD_ALIGN - 1) & !(RECORD_ALIGN - 1)
}

/// Copies `len` bytes; most strings are shorter than 32 bytes and not worth a call.
///
/// # Safety
/// As for `copy_nonoverlapping::<u8>`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access below lies within the `len` bytes that the caller vouches for:
    // the two halves of each case overlap, and each starts at least its width before the end.
    unsafe {
        if len > 32 {
            core::ptr::copy_nonoverlapping(from, to, len);
        } else if len >= 16 {
            let end = len.wrapping_sub(16);
            let head = from.cast::<u128>().read_unaligned();
            let tail = from.add(end).cast::<u128>().read_unaligned();
            to.cast::<u128>().write_unaligned(head);
            to.add(end).cast::<u128>().write_unaligned(tail);
        } else if len >= 8 {
            let end = len.wrapping_sub(8);
            let head = from.cast::<u64>().read_unaligned();
            let tail = from.add(end).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(head);
            to.add(end).cast::<u64>().write_unaligned(tail);
        } else if len >= 4 {
            let end = len.wrapping_sub(4);
            let head = from.cast::<u32>().read_unaligned();
            let tail = from.add(end).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(head);
            to.add(end).cast::<u32>().write_unaligned(tail);
        } else if len > 0 {
            let end = len.wrapping_sub(1);
            let middle = len >> 1;
            let a = from.read();
            let b = from.add(middle).read();
            let c = from.add(end).read();
            to.write(a);
            to.add(middle).write(b);
            to.add(end).write(c);
        }
    }
}

/// A reserved place in the thread's chunk.
struct Place {
    at: *mut u8,
    /// Room from `at` to the end of the chunk, bytes.
    room: usize,
}

/// Makes room for `need` bytes in the thread's chunk, which is BUSY on success.
#[inline]
fn reserve(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    need: usize,
) -> Option<Place> {
    let chunk_bytes = arena.geometry().chunk_bytes as usize;
    if open.idle_word != 0
        && let Some(control) = arena.controls().get(open.index as usize)
    {
        if chunk::enter(control, open) {
            let room = chunk_bytes.wrapping_sub(open.position as usize);
            if need <= room {
                let base = arena.chunk_base(open.index);
                return Some(Place { at: base.wrapping_add(open.position as usize), room });
            }
            chunk::close(control, open);
            arena.shared().bell.0.chunk_closed(&Futex);
        } else {
            open.forget();
        }
    }
    take_chunk(arena, open, session)
}

/// Takes a fresh chunk, waiting as the settings say.
#[inline(never)]
fn take_chunk(arena: &Arena, open: &mut OpenChunk, session: Option<&Session>) -> Option<Place> {
    let shared = arena.shared();
    let index = match free::pop(&shared.free_head.0, arena.controls()) {
        Some(index) => index,
        None => wait_for_chunk(arena, session)?,
    };
    let base = arena.chunk_base(index);
    let control = arena.controls().get(index as usize)?;
    if base.is_null() {
        return None;
    }
    // SAFETY: the first word of an existing chunk, which this thread alone holds now.
    unsafe { base.cast::<u32>().write(0) };
    if open.owner == 0 {
        open.owner = sys::thread_id();
    }
    chunk::acquire(control, index, open);
    Some(Place { at: base, room: arena.geometry().chunk_bytes as usize })
}

/// No chunk is free: the declared back-pressure wait. `None`: given up, and counted.
#[cold]
fn wait_for_chunk(arena: &Arena, session: Option<&Session>) -> Option<u32> {
    let shared = arena.shared();
    let counters = &shared.counters.0;
    let settings = &shared.settings.0;
    let pop = || free::pop(&shared.free_head.0, arena.controls());
    shared.bell.0.ring(&Futex);
    // Who turns recording off does not want to wait for it any longer.
    let overflow = || match settings.logging.load(Ordering::Relaxed) {
        0 => OVERFLOW_DROP,
        _ => settings.overflow.load(Ordering::Relaxed),
    };
    if overflow() == OVERFLOW_DROP {
        counters.lost_dropped.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    for _ in 0..SPIN_COUNT {
        if let Some(index) = pop() {
            return Some(index);
        }
        spin();
    }
    counters.blocked_count.fetch_add(1, Ordering::Relaxed);
    let start_us = sys::monotonic_us();
    let (index, lost): (Option<u32>, Option<&AtomicU64>) = loop {
        let epoch = shared.gate.0.announce();
        if let Some(index) = pop() {
            shared.gate.0.retract();
            break (Some(index), None);
        }
        let waited_us = sys::monotonic_us().wrapping_sub(start_us).max(0) as u64;
        let slice_us = match overflow() {
            OVERFLOW_BLOCK => WAIT_SLICE_US,
            OVERFLOW_DROP => {
                shared.gate.0.retract();
                break (None, Some(&counters.lost_dropped));
            }
            _ => {
                let limit_us = settings.overflow_timeout_us.load(Ordering::Relaxed);
                if waited_us >= limit_us {
                    shared.gate.0.retract();
                    break (None, Some(&counters.lost_timeout));
                }
                limit_us.wrapping_sub(waited_us).min(WAIT_SLICE_US)
            }
        };
        if let Some(session) = session {
            // A connection that waits is not stale, however long it takes.
            session.seen_us.store(sys::now_us(), Ordering::Relaxed);
        }
        shared.bell.0.ring(&Futex);
        sys::futex_wait(&shared.gate.0.epoch, epoch, slice_us);
        shared.gate.0.retract();
    };
    let waited_us = sys::monotonic_us().wrapping_sub(start_us).max(0) as u64;
    counters.blocked_time_us.fetch_add(waited_us, Ordering::Relaxed);
    if let Some(counter) = lost {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    index
}

/// Empties the next commit word, publishes the record and leaves the chunk.
///
/// # Safety
/// `place` was reserved for at least `record_bytes`, a multiple of 8, in `open`'s chunk.
#[inline(always)]
unsafe fn publish(arena: &Arena, open: &mut OpenChunk, place: &Place, record_bytes: usize) {
    if place.room > record_bytes {
        // SAFETY: sizes are multiples of 8, so at least 8 bytes follow within the chunk.
        unsafe { place.at.add(record_bytes).cast::<u32>().write(0) };
    }
    // SAFETY: the first word of the place, aligned to 8, touched by others as an atomic only.
    let word = unsafe { AtomicU32::from_ptr(place.at.cast::<u32>()) };
    chunk::commit(word, record_bytes as u32);
    open.position = open.position.wrapping_add(record_bytes as u32);
    if let Some(control) = arena.controls().get(open.index as usize) {
        chunk::leave(control, open);
    }
}

/// The numbers a record gets within its connection; 0 where there is no session slot.
#[derive(Clone, Copy)]
struct Numbers {
    rec_no: u64,
    conn_seq: u64,
    conn_seq_after: u64,
}

impl Numbers {
    #[inline(always)]
    fn next(session: Option<&Session>, kind: u32) -> Numbers {
        let Some(session) = session else {
            return Numbers { rec_no: 0, conn_seq: 0, conn_seq_after: 0 };
        };
        let rec_no = session.rec_no.load(Ordering::Relaxed).wrapping_add(1);
        let last = session.conn_seq.load(Ordering::Relaxed);
        if RecordKind::begins_line(kind) {
            let conn_seq = last.wrapping_add(1);
            Numbers { rec_no, conn_seq, conn_seq_after: conn_seq }
        } else {
            Numbers { rec_no, conn_seq: 0, conn_seq_after: last }
        }
    }

    /// Without a slot, fragments would have nothing in common but their connection: they get
    /// an epoch of their own.
    fn of_fragments_alone(self, arena: &Arena) -> Numbers {
        let epoch = session::next_epoch(&arena.shared().settings.0);
        Numbers { rec_no: epoch.wrapping_add(1), ..self }
    }

    /// Only what was accepted takes numbers: the numbers in the arena have no gaps.
    #[inline(always)]
    fn keep(self, session: &Session) {
        session.rec_no.store(self.rec_no, Ordering::Relaxed);
        session.conn_seq.store(self.conn_seq_after, Ordering::Relaxed);
    }
}

/// Lengths that the fixed part of a record needs.
struct Sizes {
    string_bytes: [u16; STRING_COUNT],
    has_strings: bool,
    fixed: usize,
    text: usize,
}

#[inline(always)]
fn measure(event: &Event) -> Sizes {
    let mut string_bytes = [0u16; STRING_COUNT];
    let mut strings = 0usize;
    for (len, string) in string_bytes.iter_mut().zip(event.strings.iter()) {
        let capped = string.len.min(STRING_BYTES_MAX);
        *len = capped as u16;
        strings = strings.wrapping_add(capped);
    }
    let mut fixed = strings.wrapping_add(RECORD_HEADER_BYTES + BODY_BYTES);
    if event.present & PRESENT_FIGURES != 0 {
        fixed = fixed.wrapping_add(FIGURES_BYTES);
    }
    let text = event.text.len.min(u32::MAX as usize);
    Sizes { string_bytes, has_strings: strings > 0, fixed, text }
}

/// Writes header, body, figures and strings; returns where the text goes.
///
/// # Safety
/// `at` has room for `sizes.fixed` bytes and is aligned to 8; the event's pointers are valid.
#[inline(always)]
unsafe fn write_fixed(
    at: *mut u8,
    event: &Event,
    sizes: &Sizes,
    numbers: Numbers,
    fragment: u8,
) -> *mut u8 {
    let [s0, s1, s2, s3, s4, ..] = event.sqlstate;
    // SAFETY: all writes stay within the first `sizes.fixed` bytes, as measured.
    unsafe {
        write_header(at, event, numbers, fragment, 0);
        let body_at = at.add(RECORD_HEADER_BYTES);
        body_at.cast::<Body>().write(Body {
            text_bytes: sizes.text as u32,
            sql_command: event.sql_command,
            errno: event.errno_,
            present: event.present,
            string_bytes: sizes.string_bytes,
            sqlstate: [s0, s1, s2, s3, s4],
            reserved: [0; 3],
            shown_bytes: event.shown_bytes,
        });
        let mut to = body_at.add(BODY_BYTES);
        if event.present & PRESENT_FIGURES != 0 {
            to.cast::<[u64; 5]>().write(event.figures);
            to = to.add(FIGURES_BYTES);
        }
        // The end of a statement has no strings: what it is about, its start says.
        if sizes.has_strings {
            for (len, string) in sizes.string_bytes.iter().zip(event.strings.iter()) {
                let len = usize::from(*len);
                if len > 0 {
                    copy(string.data, to, len);
                    to = to.add(len);
                }
            }
        }
        to
    }
}

/// Writes a record's header, all but its commit word: that one is 0 already, and the writer
/// may be reading it at this moment.
///
/// # Safety
/// `at` has room for a header and is aligned to 8.
#[inline(always)]
unsafe fn write_header(
    at: *mut u8,
    event: &Event,
    numbers: Numbers,
    fragment: u8,
    fragment_number: u16,
) {
    let kinds =
        u32::from(event.kind as u8) | u32::from(fragment) << 8 | u32::from(fragment_number) << 16;
    // SAFETY: bytes 4 to 64 of the header; the order of its fields is asserted in `layout`.
    unsafe {
        at.add(4).cast::<u32>().write(kinds);
        at.add(8).cast::<[u64; 7]>().write([
            0,
            event.conn,
            numbers.rec_no,
            event.ts_us as u64,
            event.query_id,
            event.text_id,
            numbers.conn_seq,
        ]);
    }
}

/// Appends one record. `session`: the slot of its connection, if it has one.
///
/// # Safety
/// The pointers in `event` are valid for their lengths during the call. `open` belongs to
/// the calling thread and to this arena.
#[inline]
pub unsafe fn emit(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) -> Emitted {
    let sizes = measure(event);
    let numbers = Numbers::next(session, event.kind);
    let record_bytes = align_up(sizes.fixed.wrapping_add(sizes.text));
    if record_bytes > arena.geometry().chunk_bytes as usize {
        // SAFETY: as promised by the caller.
        return unsafe { emit_fragments(arena, open, session, event, &sizes, numbers) };
    }
    let Some(place) = reserve(arena, open, session, record_bytes) else {
        return Emitted::Lost;
    };
    // SAFETY: `place` has room for the record; pointers are promised by the caller.
    unsafe {
        let to = write_fixed(place.at, event, &sizes, numbers, FRAGMENT_WHOLE);
        copy(event.text.data, to, sizes.text);
        publish(arena, open, &place, record_bytes);
    }
    if let Some(session) = session {
        numbers.keep(session);
    }
    Emitted::Accepted
}

/// A record that is larger than a chunk: FIRST, MIDDLE …, LAST, each in a chunk of its own.
///
/// # Safety
/// As for [`emit`].
#[cold]
unsafe fn emit_fragments(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
    sizes: &Sizes,
    numbers: Numbers,
) -> Emitted {
    let chunk_bytes = arena.geometry().chunk_bytes as usize;
    let numbers = match session {
        Some(_) => numbers,
        None => numbers.of_fragments_alone(arena),
    };
    let mut done = 0usize;
    let mut number = 0u16;
    while number == 0 || done < sizes.text {
        // The first fragment starts a chunk, so that `fixed` fits for certain.
        let Some(place) = reserve(arena, open, session, chunk_bytes) else {
            if let (Some(session), 1..) = (session, number) {
                session::abandon(session, numbers.rec_no);
            }
            return Emitted::Lost;
        };
        let left = sizes.text.wrapping_sub(done);
        // SAFETY: each branch writes at most `place.room` bytes, and reads the text within
        // its bounds.
        unsafe {
            if number == 0 {
                let part = place.room.wrapping_sub(sizes.fixed).min(left);
                let to = write_fixed(place.at, event, sizes, numbers, FRAGMENT_FIRST);
                core::ptr::copy_nonoverlapping(event.text.data, to, part);
                done = part;
                publish(arena, open, &place, place.room);
            } else {
                let part = place.room.wrapping_sub(TAIL_HEAD_BYTES).min(left);
                let last = part == left;
                let kind = if last { FRAGMENT_LAST } else { FRAGMENT_MIDDLE };
                write_header(place.at, event, numbers, kind, number);
                let to = place.at.add(RECORD_HEADER_BYTES);
                to.cast::<[u32; 2]>().write([part as u32, 0]);
                let from = event.text.data.add(done);
                core::ptr::copy_nonoverlapping(from, to.add(8), part);
                done = done.wrapping_add(part);
                publish(arena, open, &place, align_up(part.wrapping_add(TAIL_HEAD_BYTES)));
            }
        }
        // 65,535 fragments of 8 KiB are 512 MiB; beyond that the number wraps, and the
        // reader expects it to.
        number = if number == u16::MAX { 1 } else { number.wrapping_add(1) };
    }
    if let Some(session) = session {
        numbers.keep(session);
        if session::taken_early(session, numbers.rec_no) {
            wait_until_settled(arena, session, numbers.rec_no);
        }
    }
    Emitted::Accepted
}

/// The writer had to take this record out of the arena while it was still coming in: it is
/// nowhere but in the writer's memory. Waits until its line is in the file, so that no
/// statement runs that a crash could take out of the record.
#[cold]
fn wait_until_settled(arena: &Arena, session: &Session, rec_no: u64) {
    let shared = arena.shared();
    let settings = &shared.settings.0;
    let start_us = sys::monotonic_us();
    while let Some(epoch) = session::unsettled(session, &shared.writer.0, rec_no) {
        let waited_us = sys::monotonic_us().wrapping_sub(start_us).max(0) as u64;
        let limit_us = match settings.overflow.load(Ordering::Relaxed) {
            OVERFLOW_BLOCK => u64::MAX,
            OVERFLOW_DROP => 0,
            _ => settings.overflow_timeout_us.load(Ordering::Relaxed),
        };
        if waited_us >= limit_us || settings.logging.load(Ordering::Relaxed) == 0 {
            return;
        }
        // As in `wait_for_chunk`. If the slot went to another connection, nobody would say that
        // the record is in the file, and the wait would have no end.
        session.seen_us.store(sys::now_us(), Ordering::Relaxed);
        shared.bell.0.ring(&Futex);
        sys::futex_wait(&shared.writer.0.written_epoch, epoch, WAIT_SLICE_US);
    }
}

/// Gives the thread's chunk back: its session has ended.
pub fn release(arena: &Arena, open: &mut OpenChunk) {
    if open.idle_word == 0 {
        return;
    }
    if let Some(control) = arena.controls().get(open.index as usize)
        && chunk::enter(control, open)
    {
        chunk::close(control, open);
        arena.shared().bell.0.chunk_closed(&Futex);
    }
    open.forget();
}
