//! Append; fragments.
//!
//! Runs on the server's query threads: copies and stores, nothing else, unless no chunk is
//! free (see [`crate::wait`]).

use crate::arena::Arena;
use crate::chunk::{self, OpenChunk};
use crate::codec::{
    BODY_BYTES, Body, Event, FIGURES_BYTES, PRESENT_FIGURES, RecordKind, STRING_BYTES_MAX,
    STRING_COUNT, STRING_RESERVED,
};
use crate::layout::{
    ChunkControl, FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_MIDDLE, FRAGMENT_WHOLE, RECORD_ALIGN,
    RECORD_HEADER_BYTES, Session,
};
use crate::sync::{AtomicU32, Ordering};
use crate::wait::{self, ChunkWait};
use crate::wakeup::Park;
use crate::{ahead, free};
use crate::{session, sys};

/// The result of appending a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    /// It is in the arena.
    Accepted,
    /// It is lost, and counted; a [`Config`](RecordKind::Config) is only refused.
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

/// Head of a MIDDLE or LAST fragment: header, u32 length, u32 zero.
const TAIL_HEAD_BYTES: usize = RECORD_HEADER_BYTES + 8;

/// Space that a record with strings (one that begins a statement) leaves behind it in its chunk:
/// enough for an error with the server's longest message (512 bytes) and an end. The server reports
/// some errors while it holds locks for which other sessions wait or even spin (the definition of a
/// table that does not exist, 10.11.19). So a thread waits for a chunk before the statement runs;
/// the statement's first error and its end are stored without a wait.
///
/// An end also leaves this space, if a chunk is free: for a statement that cannot be prepared, the
/// server reports the error first.
const SPARE_BYTES: usize = align_up(RECORD_HEADER_BYTES + BODY_BYTES + 512)
    .wrapping_add(align_up(RECORD_HEADER_BYTES + BODY_BYTES + FIGURES_BYTES));

/// A record that ends less than this before the space above begins takes the slow path, which
/// prefetches what the change of chunk needs; so the fast path does not have to check.
const AHEAD_BYTES: usize = 512;

/// How much of an error's message is kept, bytes. (The server's messages have at most 512.)
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// The five bytes of an SQLSTATE within eight.
const SQLSTATE_MASK: u64 = 0xff_ffff_ffff;

#[inline]
const fn align_up(bytes: usize) -> usize {
    bytes.wrapping_add(RECORD_ALIGN - 1) & !(RECORD_ALIGN - 1)
}

/// Copies `len` bytes; most strings are shorter than 32 bytes, too short to be worth a call.
///
/// # Safety
/// As for `copy_nonoverlapping::<u8>`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    /// Copies the first and the last bytes; they overlap.
    ///
    /// # Safety
    /// As for [`copy`]; `len` is at least the size of a `Word`.
    #[inline(always)]
    unsafe fn ends<Word>(from: *const u8, to: *mut u8, len: usize) {
        let end = len.wrapping_sub(size_of::<Word>());
        // SAFETY: both words lie within the `len` bytes that the caller guarantees.
        unsafe {
            let head = from.cast::<Word>().read_unaligned();
            let tail = from.add(end).cast::<Word>().read_unaligned();
            to.cast::<Word>().write_unaligned(head);
            to.add(end).cast::<Word>().write_unaligned(tail);
        }
    }
    // SAFETY: each branch is for lengths that its words fit into.
    unsafe {
        if len >= 8 {
            if len <= 16 {
                ends::<u64>(from, to, len);
            } else if len <= 32 {
                ends::<u128>(from, to, len);
            } else {
                core::ptr::copy_nonoverlapping(from, to, len);
            }
        } else if len >= 4 {
            ends::<u32>(from, to, len);
        } else if len > 0 {
            let middle = len >> 1;
            let between = from.add(middle).read();
            ends::<u8>(from, to, len);
            to.add(middle).write(between);
        }
    }
}

/// A reserved place in the thread's chunk.
struct Reservation<'a> {
    at: *mut u8,
    /// Room from `at` to the end of the chunk, bytes.
    room: usize,
    control: &'a ChunkControl,
}

/// Enters the thread's chunk if `need` bytes fit into what is left of it. It is BUSY on success.
#[inline(always)]
fn enter<'a>(arena: &'a Arena, open: &OpenChunk, need: usize) -> Option<Reservation<'a>> {
    let position = open.position as usize;
    let room = (arena.geometry().chunk_bytes as usize).wrapping_sub(position);
    if open.idle_word == 0 || need > room {
        return None;
    }
    let (control, base) = arena.chunk(open.index)?;
    chunk::enter(control, open).then(|| Reservation {
        at: base.wrapping_add(position),
        room,
        control,
    })
}

/// Reserves `need` bytes, in a fresh chunk if necessary, for which it waits as the settings and
/// `chunk_wait` say. It also takes a fresh chunk, if one is free, when less than `spare` bytes
/// would remain behind the record. The chunk is BUSY on success.
fn reserve<'a>(
    arena: &'a Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    need: usize,
    spare: usize,
    chunk_wait: ChunkWait,
) -> Option<Reservation<'a>> {
    if let Some(place) = enter(arena, open, need.wrapping_add(spare)) {
        return Some(place);
    }
    let free = free::pop(&arena.shared().free_head.0, arena.controls());
    if free.is_none()
        && spare > 0
        && let Some(place) = enter(arena, open, need)
    {
        return Some(place);
    }
    // There was no chunk, or it is full, or the writer has taken it.
    release(arena, open);
    let index = match free {
        Some(index) => index,
        None => wait::for_chunk(arena, session, open, chunk_wait)?,
    };
    let (control, base) = arena.chunk(index)?;
    // SAFETY: the first word of an existing chunk, which this thread alone holds now.
    unsafe { base.cast::<u32>().write(0) };
    if open.owner == 0 {
        open.owner = sys::thread_id();
    }
    chunk::acquire(control, index, open);
    Some(Reservation { at: base, room: arena.geometry().chunk_bytes as usize, control })
}

/// Empties the next commit word, publishes the record, keeps its numbers and leaves the chunk.
///
/// The numbers come in between: a session's last number is then the number of a committed record,
/// and a record that is committed but whose number is not stored yet lies in a chunk that its owner
/// has not left. So a new writer that reads the number first and the chunks afterwards knows that
/// every record up to that number is in one of them or was written before (`take_over` of the
/// recorder).
///
/// # Safety
/// `place` was reserved for at least `record_bytes`, a multiple of 8, in `open`'s chunk.
#[inline(always)]
unsafe fn publish(
    open: &mut OpenChunk,
    place: &Reservation<'_>,
    record_bytes: usize,
    numbers: Option<(&Session, Numbers)>,
) {
    if place.room > record_bytes {
        // SAFETY: sizes are multiples of 8, so at least 8 bytes follow within the chunk.
        unsafe { place.at.add(record_bytes).cast::<u32>().write(0) };
    }
    // SAFETY: the first word of the place, aligned to 8; other threads access it only as an atomic.
    let word = unsafe { AtomicU32::from_ptr(place.at.cast::<u32>()) };
    chunk::commit(word, record_bytes as u32);
    if let Some((session, numbers)) = numbers {
        numbers.keep(session);
    }
    open.position = open.position.wrapping_add(record_bytes as u32);
    chunk::leave(place.control, open);
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
    fn next(session: Option<&Session>, begins_line: bool) -> Numbers {
        let Some(session) = session else {
            return Numbers { rec_no: 0, conn_seq: 0, conn_seq_after: 0 };
        };
        let rec_no = session.rec_no.load(Ordering::Relaxed).wrapping_add(1);
        let begins = u64::from(begins_line);
        let conn_seq_after = session.conn_seq.load(Ordering::Relaxed).wrapping_add(begins);
        Numbers { rec_no, conn_seq: conn_seq_after.wrapping_mul(begins), conn_seq_after }
    }

    /// Without a slot, fragments would share nothing but their connection: they get an epoch of
    /// their own.
    fn of_fragments_alone(self, arena: &Arena) -> Numbers {
        let epoch = session::next_epoch(&arena.shared().settings.0);
        Numbers { rec_no: epoch.wrapping_add(1), ..self }
    }

    /// Only accepted records take numbers: the numbers in the arena have no gaps.
    #[inline(always)]
    fn keep(self, session: &Session) {
        // SYNC numbers: Release pairs with the Acquire in `session::last_number`: a thread that
        // reads the number finds the record.
        session.rec_no.store(self.rec_no, Ordering::Release);
        session.conn_seq.store(self.conn_seq_after, Ordering::Relaxed);
    }
}

/// Bytes of all strings of a record.
#[inline(always)]
fn string_bytes<const STRINGS: bool>(event: &Event) -> usize {
    if !STRINGS {
        return 0;
    }
    // Cannot wrap: no address space holds ten strings of that size.
    event
        .strings
        .iter()
        .take(STRING_RESERVED)
        .fold(0, |sum: usize, string| sum.wrapping_add(string.len))
}

/// Whether the record begins a line: only records with strings do.
#[inline(always)]
fn begins_line<const STRINGS: bool>(event: &Event) -> bool {
    STRINGS && RecordKind::begins_line(event.kind)
}

/// Bytes of header, body and figures.
#[inline(always)]
fn head_bytes(event: &Event) -> usize {
    let figures = if event.present & PRESENT_FIGURES != 0 { FIGURES_BYTES } else { 0 };
    figures.wrapping_add(RECORD_HEADER_BYTES + BODY_BYTES)
}

/// Writes header, body, figures and strings; returns where the text goes.
///
/// # Safety
/// `at` has room for all of that and is aligned to 8; the event's pointers are valid, and none
/// of its strings is longer than `STRING_BYTES_MAX`.
#[inline(always)]
unsafe fn write_fixed<const STRINGS: bool>(
    at: *mut u8,
    event: &Event,
    numbers: Numbers,
    fragment: u8,
) -> *mut u8 {
    // SAFETY: all writes stay within the bytes that were measured.
    unsafe {
        write_header(at, event, numbers, fragment, 0);
        let body = at.add(RECORD_HEADER_BYTES).cast::<Body>();
        body.write(Body {
            text_bytes: text_bytes(event) as u32,
            sql_command: event.sql_command,
            errno: event.errno_,
            present: event.present,
            string_bytes: [0; STRING_COUNT],
            sqlstate: [0; 5],
            reserved: [0; 3],
            shown_bytes: event.shown_bytes,
        });
        // As one word, with the reserved bytes behind it.
        let sqlstate = u64::from_le_bytes(event.sqlstate) & SQLSTATE_MASK;
        (&raw mut (*body).sqlstate).cast::<u64>().write_unaligned(sqlstate);
        let mut to = body.add(1).cast::<u8>();
        if event.present & PRESENT_FIGURES != 0 {
            to.cast::<[u64; 5]>().write(event.figures);
            to = to.add(FIGURES_BYTES);
        }
        if STRINGS {
            let lengths = (&raw mut (*body).string_bytes).cast::<u16>();
            for (which, string) in event.strings.iter().take(STRING_RESERVED).enumerate() {
                if string.len > 0 {
                    lengths.add(which).write(string.len as u16);
                    copy(string.data, to, string.len);
                    to = to.add(string.len);
                }
            }
        }
        to
    }
}

/// Writes a record's header except its commit word, which is 0 already and which the writer may be
/// reading at this moment.
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

/// Bytes of the text.
#[inline(always)]
fn text_bytes(event: &Event) -> usize {
    event.text.len.min(u32::MAX as usize)
}

/// Appends one record. `session`: the slot of its connection, if it has one.
///
/// # Safety
/// The pointers in `event` are valid for their lengths during the call. `open` belongs to
/// the calling thread and to this arena.
pub unsafe fn emit(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) -> Emitted {
    // SAFETY: as promised by the caller.
    unsafe {
        if RecordKind::has_strings(event.kind) {
            emit_kind::<true>(arena, open, session, event)
        } else if event.kind == RecordKind::Error as u32 {
            emit_error(arena, open, session, event)
        } else {
            emit_kind::<false>(arena, open, session, event)
        }
    }
}

/// [`emit`] for an event that is not an error, when it is known whether its kind has strings.
///
/// # Safety
/// As for [`emit`].
#[inline(always)]
pub unsafe fn emit_kind<const STRINGS: bool>(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) -> Emitted {
    let string_bytes = string_bytes::<STRINGS>(event);
    let record_bytes =
        align_up(head_bytes(event).wrapping_add(string_bytes).wrapping_add(text_bytes(event)));
    // If all strings together are no longer than one may be, each of them fits.
    if string_bytes <= STRING_BYTES_MAX
        && let Some(place) =
            enter(arena, open, record_bytes.wrapping_add(SPARE_BYTES + AHEAD_BYTES))
    {
        // SAFETY: `place` has room for the record; pointers are promised by the caller.
        unsafe { write_whole::<STRINGS>(open, &place, session, event, record_bytes) };
        return Emitted::Accepted;
    }
    // SAFETY: as promised by the caller.
    unsafe { emit_slowly::<STRINGS>(arena, open, session, event) }
}

/// [`emit`] for an error.
///
/// # Safety
/// As for [`emit`].
pub unsafe fn emit_error(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) -> Emitted {
    let mut cut = *event;
    cut.text.len = cut.text.len.min(MESSAGE_BYTES_MAX);
    // SAFETY: as promised by the caller, of the beginning of the text.
    unsafe { emit_slowly::<false>(arena, open, session, &cut) }
}

/// Appends a record that does not fit into the thread's chunk or ends close to its end, has long
/// strings, or is an error.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_slowly<const STRINGS: bool>(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
) -> Emitted {
    let mut cut;
    let event = if string_bytes::<STRINGS>(event) > STRING_BYTES_MAX {
        cut = *event;
        for string in &mut cut.strings {
            string.len = string.len.min(STRING_BYTES_MAX);
        }
        &cut
    } else {
        event
    };
    let fixed_bytes = head_bytes(event).wrapping_add(string_bytes::<STRINGS>(event));
    let record_bytes = align_up(fixed_bytes.wrapping_add(text_bytes(event)));
    if record_bytes > arena.geometry().chunk_bytes as usize {
        // SAFETY: as promised by the caller.
        return unsafe { emit_fragments::<STRINGS>(arena, open, session, event, fixed_bytes) };
    }
    let reserved = if STRINGS {
        // A fresh chunk need not have space for an error behind the record.
        let need = record_bytes.wrapping_add(SPARE_BYTES);
        // SAFETY: as promised by the caller.
        reserve(arena, open, session, need, 0, unsafe { ChunkWait::of(event) })
    } else if event.kind == RecordKind::Error as u32 {
        reserve(arena, open, session, record_bytes, 0, ChunkWait::little(event))
    } else {
        // SAFETY: as promised by the caller.
        let chunk_wait = unsafe { ChunkWait::of(event) };
        reserve(arena, open, session, record_bytes, SPARE_BYTES, chunk_wait)
    };
    let Some(place) = reserved else {
        open.lost_conn = event.conn as u32;
        return Emitted::Lost;
    };
    // SAFETY: `place` has room for the record; pointers are promised by the caller.
    unsafe { write_whole::<STRINGS>(open, &place, session, event, record_bytes) };
    if place.room < record_bytes.wrapping_add(SPARE_BYTES + AHEAD_BYTES) {
        ahead::next_chunk(arena);
    }
    Emitted::Accepted
}

/// Writes a record that fits, publishes it and leaves the chunk.
///
/// # Safety
/// `place` was reserved for `record_bytes`, which is the size of the record, in `open`'s chunk;
/// no string is longer than `STRING_BYTES_MAX`.
#[inline(always)]
unsafe fn write_whole<const STRINGS: bool>(
    open: &mut OpenChunk,
    place: &Reservation<'_>,
    session: Option<&Session>,
    event: &Event,
    record_bytes: usize,
) {
    let numbers = Numbers::next(session, begins_line::<STRINGS>(event));
    let text_bytes = text_bytes(event);
    // SAFETY: as promised by the caller.
    unsafe {
        let to = write_fixed::<STRINGS>(place.at, event, numbers, FRAGMENT_WHOLE);
        if text_bytes > 0 {
            core::ptr::copy_nonoverlapping(event.text.data, to, text_bytes);
        }
        publish(open, place, record_bytes, session.map(|session| (session, numbers)));
    }
}

/// A record that is larger than a chunk: FIRST, MIDDLE …, LAST, each in a chunk of its own.
///
/// # Safety
/// As for [`emit`]; no string is longer than `STRING_BYTES_MAX`; `fixed_bytes` is the size of
/// header, body, figures and strings.
#[cold]
#[inline(never)]
unsafe fn emit_fragments<const STRINGS: bool>(
    arena: &Arena,
    open: &mut OpenChunk,
    session: Option<&Session>,
    event: &Event,
    fixed_bytes: usize,
) -> Emitted {
    let text_bytes = text_bytes(event);
    let chunk_bytes = arena.geometry().chunk_bytes as usize;
    let numbers = Numbers::next(session, begins_line::<STRINGS>(event));
    let numbers = match session {
        Some(_) => numbers,
        None => numbers.of_fragments_alone(arena),
    };
    // SAFETY: as promised by the caller.
    let chunk_wait = unsafe { ChunkWait::of(event) };
    let mut done = 0usize;
    let mut number = 0u16;
    while number == 0 || done < text_bytes {
        // The first fragment starts a chunk, so that the fixed part always fits.
        let Some(place) = reserve(arena, open, session, chunk_bytes, 0, chunk_wait) else {
            if let (Some(session), 1..) = (session, number) {
                session::abandon(session, numbers.rec_no);
            }
            open.lost_conn = event.conn as u32;
            return Emitted::Lost;
        };
        let left = text_bytes.wrapping_sub(done);
        // SAFETY: each branch writes at most `place.room` bytes, and reads the text within
        // its bounds.
        unsafe {
            if number == 0 {
                let part = place.room.wrapping_sub(fixed_bytes).min(left);
                let to = write_fixed::<STRINGS>(place.at, event, numbers, FRAGMENT_FIRST);
                core::ptr::copy_nonoverlapping(event.text.data, to, part);
                done = part;
                publish(open, &place, place.room, None);
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
                let kept = session.filter(|_| last).map(|session| (session, numbers));
                publish(open, &place, align_up(part.wrapping_add(TAIL_HEAD_BYTES)), kept);
            }
        }
        // 65,535 fragments of 8 KiB are 512 MiB; beyond that the number wraps, and the
        // reader expects it to.
        number = if number == u16::MAX { 1 } else { number.wrapping_add(1) };
    }
    if let Some(session) = session
        && !matches!(chunk_wait, ChunkWait::None)
        && session::taken_early(session, numbers.rec_no)
    {
        let _waits_no_longer = wait::until_settled(arena, session, numbers.rec_no, open, false);
    }
    Emitted::Accepted
}

/// Waits until the line of the session's last record is on the device, for as long as `overflow`
/// permits, and counts it if that is not long enough. The record requests this with
/// [`PRESENT_AWAITED`](crate::codec::PRESENT_AWAITED).
#[cold]
pub fn wait_for_device(arena: &Arena, open: &OpenChunk, session: &Session) {
    let rec_no = session.rec_no.load(Ordering::Relaxed);
    if !wait::until_settled(arena, session, rec_no, open, true) {
        arena.shared().counters.0.sync_given_up.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives the thread's chunk back: its session has ended, or it needs another chunk.
pub fn release(arena: &Arena, open: &mut OpenChunk) {
    if open.idle_word == 0 {
        return;
    }
    if let Some(control) = arena.controls().get(open.index as usize)
        && chunk::enter(control, open)
    {
        chunk::close(control, open);
        arena.shared().wakeup.0.chunk_closed(&Futex);
    }
    open.forget();
}
