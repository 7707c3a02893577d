//! Every byte of the arena file. Little-endian, fixed-width integers, offsets from the
//! start of the file. The normative text is `docs/specs/arena.md`.
//!
//! ```text
//! 0        Header            identity, geometry                        4096 bytes
//! 4096     Shared            free list, waits, settings, counters      4096 bytes
//! names    NameEntry[256]    sql_command number -> name                8 KiB
//! sessions Session[n]        one per connection                        128 bytes each
//! running  RunningEntry[n]   statements written as `running`           64 bytes each
//! controls ChunkControl[n]   one per chunk                             64 bytes each
//! chunks   bytes             chunk_count × chunk_bytes, page-aligned
//! ```
//!
//! A chunk is a sequence of records, each at a multiple of 8, ended by a record whose
//! first word is 0 (not committed) or by the end of the chunk:
//!
//! ```text
//! 0  u32 record_bytes   commit word: 0 until every other byte is in place
//! 4  u8  kind           RecordKind
//! 5  u8  fragment       0 whole, else FIRST / MIDDLE / LAST
//! 6  u16 fragment_number
//! 8  u64 line_seq       0; the writer stores the `seq` of the line it went into
//! 16 u64 conn           connection id
//! 24 u64 rec_no         number of the record within its connection, 0 = not numbered
//! 32 i64 ts_us          microseconds since 1970-01-01 UTC
//! 40 u64 query_id
//! 48 u64 text_id        joins the end of a statement with its start
//! 56 u64 conn_seq       number of the line within its connection, 0 = begins no line
//! 64 …                  body, see `codec`; in MIDDLE and LAST fragments: text
//! ```
//!
//! Life of a chunk (the low byte of [`ChunkControl::state`]; the other bits count how
//! often it was taken, so that a stale owner can never mistake it for its own):
//!
//! ```text
//!          acquire            leave           close (full, session ended)
//!   FREE ──────────► BUSY ───────────► IDLE      BUSY ─────────► CLOSED
//!    ▲                 ▲      enter      │                          │
//!    │                 └─────────────────┤ steal (writer) ────────► │
//!    └──────────────────────────────────────────────────────────────┘
//!                 recycle (writer, all records settled)
//! ```

use crate::sync::{AtomicI64, AtomicU32, AtomicU64};

/// First eight bytes of every arena.
pub const MAGIC: [u8; 8] = *b"TACHOAR\x01";
/// Major version: readers refuse another one.
pub const VERSION_MAJOR: u16 = 1;
/// Minor version: readers accept any.
pub const VERSION_MINOR: u16 = 10;
/// Reads as this value only on a machine of the same byte order.
pub const ENDIAN_MARK: u32 = 0x0102_0304;

/// Size of [`Header`] and of the region of [`Shared`], bytes.
pub const PAGE_BYTES: usize = 4096;
/// Smallest arena that is accepted, bytes.
pub const ARENA_BYTES_MIN: u64 = 1 << 20;
/// Largest arena that is accepted, bytes.
pub const ARENA_BYTES_MAX: u64 = 1 << 36;
/// Number of entries of the table of names.
pub const NAME_COUNT: usize = 256;
/// Alignment of records within a chunk, bytes.
pub const RECORD_ALIGN: usize = 8;
/// Size of [`RecordHeader`], bytes.
pub const RECORD_HEADER_BYTES: usize = 64;

/// Identity and geometry. Written once, before the arena is visible to other threads.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION_MAJOR`].
    pub version_major: u16,
    /// [`VERSION_MINOR`].
    pub version_minor: u16,
    /// [`ENDIAN_MARK`].
    pub endian_mark: u32,
    /// Size of the whole file, bytes.
    pub arena_bytes: u64,
    /// Size of one chunk, bytes; a power of two.
    pub chunk_bytes: u32,
    /// Number of chunks.
    pub chunk_count: u32,
    /// Number of session slots; a power of two.
    pub session_count: u32,
    /// Number of entries of the table of running statements.
    pub running_count: u32,
    /// Offset of the table of names.
    pub names_offset: u64,
    /// Offset of the session slots.
    pub sessions_offset: u64,
    /// Offset of the table of running statements.
    pub running_offset: u64,
    /// Offset of the chunk controls.
    pub controls_offset: u64,
    /// Offset of the chunks; a multiple of 4096.
    pub chunks_offset: u64,
    /// When the arena was created, µs since 1970-01-01 UTC.
    pub created_us: i64,
    /// Process id of the owner.
    pub owner_pid: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// Start time of the owner, in clock ticks since boot (`/proc/<pid>/stat` field 22).
    pub owner_start_ticks: u64,
    /// Server and version, NUL-padded.
    pub server: [u8; 256],
    /// Log directory the records belong to, NUL-padded.
    pub log_directory: [u8; 3072],
}

/// State that both sides change while the arena is in use. Each group has cache lines of its own.
#[repr(C)]
pub struct Shared {
    /// Free list: tag in the high half, chunk index + 1 in the low half, 0 = empty.
    pub free_head: Line<AtomicU64>,
    /// Waiting for chunks.
    pub backpressure: Line<Backpressure>,
    /// Waking the writer.
    pub wakeup: Line<Wakeup>,
    /// Settings the producers read.
    pub settings: Line<Settings>,
    /// Counters the producers add to, when something is wrong or slow.
    pub counters: Line<Counters>,
    /// What the writer keeps here so that it survives the process.
    pub writer: Line<WriterState>,
    /// The same, for the next writer.
    pub successor: Line<Successor>,
}

/// A value on cache lines of its own (128: the adjacent-line prefetcher takes pairs).
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// Where producers wait for a free chunk. See [`crate::backpressure`].
#[repr(C)]
pub struct Backpressure {
    /// Changes whenever chunks are freed or a setting changes; producers sleep on it.
    pub epoch: AtomicU32,
    /// How many producers wait.
    pub waiters: AtomicU32,
}

/// How producers wake the writer. See [`crate::wakeup`].
#[repr(C)]
pub struct Wakeup {
    /// Changes when the writer should look; the writer sleeps on it.
    pub rings: AtomicU32,
    /// 1 while the writer sleeps or is about to, and no thread has taken on waking it.
    pub asleep: AtomicU32,
    /// Chunks closed since the writer last looked.
    pub closed: AtomicU32,
    /// Wake the writer when `closed` reaches this.
    pub closed_limit: AtomicU32,
}

/// Settings the producers read on each record.
#[repr(C)]
pub struct Settings {
    /// 1 = record.
    pub logging: AtomicU32,
    /// [`OVERFLOW_BLOCK`], [`OVERFLOW_TIMEOUT`], [`OVERFLOW_DROP`] or [`OVERFLOW_LET_GO`].
    pub overflow: AtomicU32,
    /// Longest wait under [`OVERFLOW_TIMEOUT`], µs.
    pub overflow_timeout_us: AtomicU64,
    /// Epoch for session slots: high 16 bits of `rec_no`, counts slots taken.
    pub session_epoch: AtomicU64,
    /// [`REDACT_SECRETS`] or [`REDACT_LITERALS`]. For the writer, and for recovery: the arena is
    /// the only place where a dead server leaves this setting. Anything else means literals.
    pub redact: AtomicU32,
    /// [`DURABILITY_ASYNC`], [`DURABILITY_GROUP`] or [`DURABILITY_SYNC`].
    pub durability: AtomicU32,
    /// How often the filter was changed. It is stored before any producer can ask the new filter,
    /// so a reader of a record knows which filters may have applied to it. Filters are too large
    /// for the arena.
    pub filter_version: AtomicU64,
}

/// The operating system decides when the log reaches the device.
pub const DURABILITY_ASYNC: u32 = 0;
/// The writer syncs the log at intervals.
pub const DURABILITY_GROUP: u32 = 1;
/// No statement of a client begins before its line is on the device.
pub const DURABILITY_SYNC: u32 = 2;

/// Passwords and keys stay out of the log.
pub const REDACT_SECRETS: u32 = 0;
/// All literals stay out of the log.
pub const REDACT_LITERALS: u32 = 1;

/// Wait for a chunk without limit: nothing is lost.
pub const OVERFLOW_BLOCK: u32 = 0;
/// Wait at most `overflow_timeout_us`, then drop the record and count it.
pub const OVERFLOW_TIMEOUT: u32 = 1;
/// Do not wait: drop the record and count it.
pub const OVERFLOW_DROP: u32 = 2;
/// As [`OVERFLOW_DROP`], whatever a rule of the filter says: the writer has ended, or the server
/// shuts down while the log cannot be written.
pub const OVERFLOW_LET_GO: u32 = 3;

/// Counters of the producers.
#[repr(C)]
pub struct Counters {
    /// Records lost because the wait took longer than allowed.
    pub lost_timeout: AtomicU64,
    /// Records lost because the policy is to drop.
    pub lost_dropped: AtomicU64,
    /// Records lost because the arena or a record in it was damaged (writer).
    pub lost_corrupt: AtomicU64,
    /// How often a producer had to wait.
    pub blocked_count: AtomicU64,
    /// How long producers waited, µs.
    pub blocked_time_us: AtomicU64,
    /// Events of connections that found no free session slot.
    pub sessions_untracked: AtomicU64,
    /// Records given up because the session was killed while it waited.
    pub lost_killed: AtomicU64,
    /// Statements that began before their line was on the device, although [`DURABILITY_SYNC`]
    /// requires it: they could not wait any longer. None of their records is lost.
    pub sync_given_up: AtomicU64,
}

/// What the writer keeps in the arena.
#[repr(C)]
pub struct WriterState {
    /// `seq` of the last line that is in the file.
    pub written_seq: AtomicU64,
    /// Records lost, by cause, that a `lost` line already reports.
    pub reported_timeout: AtomicU64,
    /// See `reported_timeout`.
    pub reported_dropped: AtomicU64,
    /// See `reported_timeout`.
    pub reported_corrupt: AtomicU64,
    /// When the writer last looked, µs since 1970-01-01 UTC.
    pub heartbeat_us: AtomicI64,
    /// Changes when `written_seq` does; a producer of a huge record sleeps on it.
    pub written_epoch: AtomicU32,
    /// Reserved, 0.
    pub reserved: AtomicU32,
    /// Losses by cause (timeout, dropped, corrupt) reported by a `lost` line that may not be in the
    /// file yet.
    pub telling: [Telling; 3],
    /// `seq` of the `start` line of this server; 0 = none yet.
    pub start_seq: AtomicU64,
    /// See `reported_timeout`.
    pub reported_killed: AtomicU64,
    /// As `telling`, for records of killed sessions.
    pub telling_killed: Telling,
}

/// What the next writer of a living arena must know. 0 in an arena of a minor version before 3.
#[repr(C)]
pub struct Successor {
    /// `seq` of the `stop` line of this server; 0 = none yet.
    pub stop_seq: AtomicU64,
    /// Which log file was last synced to the device: the time in its name << 20 | its number.
    /// Everything written before is on the device. 0 = unknown (also before minor version 4).
    pub synced_file: AtomicU64,
    /// How much of it is on the device, bytes. Set to 0 before `synced_file` changes.
    pub synced_bytes: AtomicU64,
}

/// A `lost` line on its way to the file.
#[repr(C)]
pub struct Telling {
    /// `seq` of the line; 0 = there is none. Stored last.
    pub seq: AtomicU64,
    /// Total of records lost for this cause, once the line is in the file.
    pub count: AtomicU64,
}

/// Name of one `sql_command` number, NUL-padded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NameEntry(pub [u8; 32]);

/// How many statement starts a session remembers. Deeper nesting is still recorded: the end of a
/// forgotten start carries its text again, and the writer finds the start.
pub const OPEN_COUNT: usize = 4;

/// State that follows a connection from thread to thread. Only the thread that executes the
/// connection at the moment changes it, and the server hands connections over with its own
/// synchronisation; other threads that look for a slot also compare `conn`.
#[repr(C)]
pub struct Session {
    /// Connection id; 0 = the slot is free, all ones = it is being given to a connection.
    pub conn: AtomicU64,
    /// `rec_no` of the last record, epoch in the high 16 bits.
    pub rec_no: AtomicU64,
    /// When the session was last active, µs.
    pub seen_us: AtomicI64,
    /// Number of entries of `open` in use.
    pub open_len: AtomicU32,
    /// Reserved, 0.
    pub reserved: AtomicU32,
    /// Statements that started and have not ended, innermost last.
    pub open: [OpenStatement; OPEN_COUNT],
    /// Number of the last line of this connection.
    pub conn_seq: AtomicU64,
    /// `rec_no` of a record in fragments that the writer had to take out of the arena before it was
    /// complete (writer): its producer waits until the next field reaches it.
    pub early_rec_no: AtomicU64,
    /// `rec_no` of the last such record whose line is in the file (writer).
    pub settled_rec_no: AtomicU64,
    /// `rec_no` of the last record in fragments that its producer gave up (and counted as lost)
    /// after some of its fragments were in the arena: it will not be completed.
    pub abandoned_rec_no: AtomicU64,
}

/// One statement that started.
#[repr(C)]
pub struct OpenStatement {
    /// `text_id` of the start.
    pub text_id: AtomicU64,
    /// Query id of the start, in the low half, and length of its text in the high half.
    pub query_id_and_bytes: AtomicU64,
}

/// A statement that was written as `running` and has not ended yet. Writer only.
#[repr(C)]
pub struct RunningEntry {
    /// `seq` of the `running` line; 0 = the entry is free. Stored last.
    pub running_seq: AtomicU64,
    /// Connection id.
    pub conn: AtomicU64,
    /// `seq` of the line that completes it; 0 = none yet.
    pub done_seq: AtomicU64,
    /// `conn_seq` of its line.
    pub conn_seq: AtomicU64,
    /// Query id.
    pub query_id: AtomicU64,
    /// `text_id` of its start.
    pub text_id: AtomicU64,
    /// When it started, µs since 1970-01-01 UTC.
    pub ts_us: AtomicI64,
    /// Length of its text, bytes.
    pub text_bytes: AtomicU64,
}

/// State of one chunk.
#[repr(C, align(64))]
pub struct ChunkControl {
    /// How often it was taken << 8 | one of the states of [`crate::chunk`].
    pub state: AtomicU64,
    /// Free list: index + 1 of the next free chunk.
    pub next_free: AtomicU32,
    /// Kernel thread id of the owner.
    pub owner: AtomicU32,
}

/// The fixed part of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RecordHeader {
    /// Size of the record in the chunk; commit word.
    pub record_bytes: u32,
    /// `RecordKind`.
    pub kind: u8,
    /// One of `FRAGMENT_*`.
    pub fragment: u8,
    /// 0, 1, 2 … within one record.
    pub fragment_number: u16,
    /// See the module documentation.
    pub line_seq: u64,
    /// Connection id.
    pub conn: u64,
    /// Number of the record within its connection.
    pub rec_no: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub ts_us: i64,
    /// The server's query id.
    pub query_id: u64,
    /// Joins an end with its start.
    pub text_id: u64,
    /// Number of the line that this record begins, within its connection; 0 = none.
    pub conn_seq: u64,
}

/// The record is whole.
pub const FRAGMENT_WHOLE: u8 = 0;
/// The record continues in another chunk.
pub const FRAGMENT_FIRST: u8 = 1;
/// Neither first nor last.
pub const FRAGMENT_MIDDLE: u8 = 2;
/// The last one.
pub const FRAGMENT_LAST: u8 = 3;

#[cfg(not(loom))]
mod asserts {
    use super::*;
    use core::mem::{align_of, offset_of, size_of};

    const _: () = assert!(size_of::<Header>() <= PAGE_BYTES);
    const _: () = assert!(offset_of!(Header, version_major) == 8);
    const _: () = assert!(offset_of!(Header, endian_mark) == 12);
    const _: () = assert!(offset_of!(Header, arena_bytes) == 16);
    const _: () = assert!(offset_of!(Header, chunk_bytes) == 24);
    const _: () = assert!(offset_of!(Header, chunk_count) == 28);
    const _: () = assert!(offset_of!(Header, session_count) == 32);
    const _: () = assert!(offset_of!(Header, running_count) == 36);
    const _: () = assert!(offset_of!(Header, names_offset) == 40);
    const _: () = assert!(offset_of!(Header, sessions_offset) == 48);
    const _: () = assert!(offset_of!(Header, running_offset) == 56);
    const _: () = assert!(offset_of!(Header, controls_offset) == 64);
    const _: () = assert!(offset_of!(Header, chunks_offset) == 72);
    const _: () = assert!(offset_of!(Header, created_us) == 80);
    const _: () = assert!(offset_of!(Header, owner_pid) == 88);
    const _: () = assert!(offset_of!(Header, owner_start_ticks) == 96);
    const _: () = assert!(offset_of!(Header, server) == 104);
    const _: () = assert!(offset_of!(Header, log_directory) == 360);
    const _: () = assert!(size_of::<Header>() == 3432);

    const _: () = assert!(size_of::<Shared>() == 7 * 128 && size_of::<Shared>() <= PAGE_BYTES);
    const _: () = assert!(offset_of!(Shared, backpressure) == 128);
    const _: () = assert!(offset_of!(Shared, wakeup) == 256);
    const _: () = assert!(offset_of!(Shared, settings) == 384);
    const _: () = assert!(offset_of!(Shared, counters) == 512);
    const _: () = assert!(offset_of!(Shared, writer) == 640);
    const _: () = assert!(offset_of!(Shared, successor) == 768);
    const _: () = assert!(offset_of!(Successor, synced_file) == 8);
    const _: () = assert!(offset_of!(Successor, synced_bytes) == 16);
    const _: () = assert!(offset_of!(Settings, overflow_timeout_us) == 8);
    const _: () = assert!(offset_of!(Settings, session_epoch) == 16);
    const _: () = assert!(offset_of!(Settings, redact) == 24);
    const _: () = assert!(offset_of!(Settings, durability) == 28);
    const _: () = assert!(offset_of!(Settings, filter_version) == 32);
    const _: () = assert!(offset_of!(WriterState, heartbeat_us) == 32);
    const _: () = assert!(offset_of!(WriterState, written_epoch) == 40);
    const _: () = assert!(offset_of!(WriterState, telling) == 48);
    const _: () = assert!(offset_of!(WriterState, start_seq) == 96);
    const _: () = assert!(offset_of!(WriterState, reported_killed) == 104);
    const _: () = assert!(offset_of!(WriterState, telling_killed) == 112);
    const _: () = assert!(size_of::<WriterState>() == 128);
    const _: () = assert!(offset_of!(Counters, sessions_untracked) == 40);
    const _: () = assert!(offset_of!(Counters, lost_killed) == 48);
    const _: () = assert!(offset_of!(Counters, sync_given_up) == 56);

    const _: () = assert!(size_of::<NameEntry>() == 32);
    const _: () = assert!(size_of::<Session>() == 128);
    const _: () = assert!(offset_of!(Session, rec_no) == 8);
    const _: () = assert!(offset_of!(Session, seen_us) == 16);
    const _: () = assert!(offset_of!(Session, open_len) == 24);
    const _: () = assert!(offset_of!(Session, open) == 32);
    const _: () = assert!(offset_of!(Session, conn_seq) == 96);
    const _: () = assert!(offset_of!(Session, early_rec_no) == 104);
    const _: () = assert!(offset_of!(Session, settled_rec_no) == 112);
    const _: () = assert!(offset_of!(Session, abandoned_rec_no) == 120);
    const _: () = assert!(size_of::<OpenStatement>() == 16);
    const _: () = assert!(size_of::<RunningEntry>() == 64);
    const _: () = assert!(offset_of!(RunningEntry, conn) == 8);
    const _: () = assert!(offset_of!(RunningEntry, done_seq) == 16);
    const _: () = assert!(offset_of!(RunningEntry, conn_seq) == 24);
    const _: () = assert!(offset_of!(RunningEntry, query_id) == 32);
    const _: () = assert!(offset_of!(RunningEntry, text_id) == 40);
    const _: () = assert!(offset_of!(RunningEntry, ts_us) == 48);
    const _: () = assert!(offset_of!(RunningEntry, text_bytes) == 56);
    const _: () = assert!(size_of::<ChunkControl>() == 64);
    const _: () = assert!(offset_of!(ChunkControl, next_free) == 8);
    const _: () = assert!(offset_of!(ChunkControl, owner) == 12);

    const _: () = assert!(size_of::<RecordHeader>() == RECORD_HEADER_BYTES);
    const _: () = assert!(align_of::<RecordHeader>() == RECORD_ALIGN);
    const _: () = assert!(offset_of!(RecordHeader, kind) == 4);
    const _: () = assert!(offset_of!(RecordHeader, fragment) == 5);
    const _: () = assert!(offset_of!(RecordHeader, fragment_number) == 6);
    const _: () = assert!(offset_of!(RecordHeader, line_seq) == 8);
    const _: () = assert!(offset_of!(RecordHeader, conn) == 16);
    const _: () = assert!(offset_of!(RecordHeader, rec_no) == 24);
    const _: () = assert!(offset_of!(RecordHeader, ts_us) == 32);
    const _: () = assert!(offset_of!(RecordHeader, query_id) == 40);
    const _: () = assert!(offset_of!(RecordHeader, text_id) == 48);
    const _: () = assert!(offset_of!(RecordHeader, conn_seq) == 56);
    // The file is little-endian; a big-endian port would have to swap at the edges.
    const _: () = assert!(cfg!(target_endian = "little"));
    const _: () = assert!(cfg!(target_pointer_width = "64"));
}

/// Geometry of an arena of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// See [`Header`].
    pub arena_bytes: u64,
    /// See [`Header`].
    pub chunk_bytes: u32,
    /// See [`Header`].
    pub chunk_count: u32,
    /// See [`Header`].
    pub session_count: u32,
    /// See [`Header`].
    pub running_count: u32,
    /// See [`Header`].
    pub names_offset: u64,
    /// See [`Header`].
    pub sessions_offset: u64,
    /// See [`Header`].
    pub running_offset: u64,
    /// See [`Header`].
    pub controls_offset: u64,
    /// See [`Header`].
    pub chunks_offset: u64,
}

impl Header {
    /// The header of a new arena of this geometry, without time of creation, owner and log.
    pub fn of(geometry: &Geometry) -> Header {
        Header {
            magic: MAGIC,
            version_major: VERSION_MAJOR,
            version_minor: VERSION_MINOR,
            endian_mark: ENDIAN_MARK,
            arena_bytes: geometry.arena_bytes,
            chunk_bytes: geometry.chunk_bytes,
            chunk_count: geometry.chunk_count,
            session_count: geometry.session_count,
            running_count: geometry.running_count,
            names_offset: geometry.names_offset,
            sessions_offset: geometry.sessions_offset,
            running_offset: geometry.running_offset,
            controls_offset: geometry.controls_offset,
            chunks_offset: geometry.chunks_offset,
            created_us: 0,
            owner_pid: 0,
            reserved: 0,
            owner_start_ticks: 0,
            server: [0; 256],
            log_directory: [0; 3072],
        }
    }
}

impl Geometry {
    /// Divides `arena_bytes` (clamped to the accepted range, rounded down to pages) into parts.
    ///
    /// Small arenas get small chunks, so that there are always about 100 of them.
    #[allow(clippy::arithmetic_side_effects)] // Bounded by ARENA_BYTES_MAX, cold.
    pub fn for_bytes(arena_bytes: u64) -> Geometry {
        let page = PAGE_BYTES as u64;
        let arena_bytes = arena_bytes.clamp(ARENA_BYTES_MIN, ARENA_BYTES_MAX) / page * page;
        let power = |n: u64| 1u64 << (63 - n.max(1).leading_zeros());
        let chunk_bytes = power(arena_bytes / 128).clamp(8192, 32768);
        let session_count = power(arena_bytes / 1024).clamp(512, 16384);
        let running_count = session_count / 4;
        let names_offset = 2 * page;
        let sessions_offset = names_offset + (NAME_COUNT * 32) as u64;
        let running_offset = sessions_offset + session_count * 128;
        let controls_offset = running_offset + running_count * 64;
        let room = arena_bytes - controls_offset - page;
        let chunk_count = room / (chunk_bytes + 64);
        let chunks_offset = (controls_offset + chunk_count * 64).div_ceil(page) * page;
        Geometry {
            arena_bytes,
            chunk_bytes: chunk_bytes as u32,
            chunk_count: chunk_count as u32,
            session_count: session_count as u32,
            running_count: running_count as u32,
            names_offset,
            sessions_offset,
            running_offset,
            controls_offset,
            chunks_offset,
        }
    }

    /// Reads and checks the geometry of an untrusted header.
    ///
    /// `None`: not an arena of this version, or its parts do not fit into `file_bytes`.
    #[allow(clippy::arithmetic_side_effects)] // Every product is bounded before it is formed.
    pub fn checked(header: &Header, file_bytes: u64) -> Option<Geometry> {
        if header.magic != MAGIC
            || header.version_major != VERSION_MAJOR
            || header.endian_mark != ENDIAN_MARK
            || header.arena_bytes > file_bytes
        {
            return None;
        }
        // There is one geometry for each size: any other is damage.
        let g = Geometry::for_bytes(header.arena_bytes);
        let same = g.arena_bytes == header.arena_bytes
            && g.chunk_bytes == header.chunk_bytes
            && g.chunk_count == header.chunk_count
            && g.session_count == header.session_count
            && g.running_count == header.running_count
            && g.names_offset == header.names_offset
            && g.sessions_offset == header.sessions_offset
            && g.running_offset == header.running_offset
            && g.controls_offset == header.controls_offset
            && g.chunks_offset == header.chunks_offset;
        same.then_some(g)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn geometry_fits_for_every_size() {
        let mut bytes = ARENA_BYTES_MIN;
        while bytes <= 1 << 33 {
            let g = Geometry::for_bytes(bytes);
            let end = g.chunks_offset + u64::from(g.chunk_count) * u64::from(g.chunk_bytes);
            assert!(end <= g.arena_bytes, "{g:?}");
            assert!(g.chunk_count >= 80, "{g:?}");
            assert_eq!(g.chunks_offset % 4096, 0);
            assert_eq!(g.controls_offset % 64, 0);
            assert_eq!(Geometry::checked(&Header::of(&g), bytes), Some(g), "read back");
            bytes += bytes / 7 + 4096;
        }
    }
}
