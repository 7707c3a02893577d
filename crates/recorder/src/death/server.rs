//! A server without a database: producers, an arena in plain memory, a writer.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tacho_logdir::faulty::{Fault, FaultyFs};
use tacho_logdir::{LogFiles, Options};
use tacho_record::EventKind;
use tacho_ring::arena::Arena;
use tacho_ring::chunk::OpenChunk;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_FIGURES, PRESENT_OUTERMOST, PRESENT_ROWS_SENT, PRESENT_TEXT, RecordKind,
    STRING_COUNT, STRING_PRIV_USER, STRING_USER,
};
use tacho_ring::layout::{ARENA_BYTES_MIN, FRAGMENT_FIRST, Geometry, Header, OVERFLOW_DROP};
use tacho_ring::producer::{self, Emitted};
use tacho_ring::{session, sys};
use tacho_settings::Setting;

use super::log::Expected;
use super::{CONNS, Mishap, Op, THREADS};
use crate::control::{Control, Status};
use crate::drain::Drain;
use crate::recover;
use crate::writer::Writer;

pub(super) const LOG_DIRECTORY: &str = "/log";

/// An arena in plain memory: it outlives the server that used it.
pub(super) struct Memory {
    base: *mut u8,
    geometry: Geometry,
}

impl Memory {
    fn layout(geometry: &Geometry) -> Layout {
        Layout::from_size_align(geometry.arena_bytes as usize, 4096).expect("a small arena")
    }

    fn new() -> Memory {
        let geometry = Geometry::for_bytes(ARENA_BYTES_MIN);
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(Self::layout(&geometry)) };
        assert!(!base.is_null());
        let memory = Memory { base, geometry };
        memory.arena().initialise(Header::of(&geometry));
        let arena = memory.arena();
        let settings = &arena.shared().settings.0;
        settings.logging.store(1, Ordering::Relaxed);
        // One thread plays all parts, so no part can wait for another.
        settings.overflow.store(OVERFLOW_DROP, Ordering::Relaxed);
        memory
    }

    pub(super) fn arena(&self) -> Arena {
        // SAFETY: the allocation has the geometry's size and lives as long as `self`; its users
        // (server, recovery) end before.
        unsafe { Arena::from_raw(self.base, self.geometry) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base, Self::layout(&self.geometry)) };
    }
}

/// State that outlives the servers.
pub(super) struct World {
    pub(super) fs: FaultyFs,
    /// Arenas of dead servers, oldest first.
    pub(super) dead: Vec<Memory>,
    pub(super) expected: Expected,
    next_tag: u64,
    next_conn: u64,
}

impl World {
    pub(super) fn new(fs: FaultyFs) -> World {
        World { fs, dead: Vec::new(), expected: Expected::default(), next_tag: 1, next_conn: 1 }
    }

    fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    fn conn(&mut self) -> u64 {
        self.next_conn += 1;
        self.next_conn
    }

    /// Starts a server, which recovers what it finds; each mishap affects one attempt.
    pub(super) fn start(
        &mut self,
        mishaps: &[Mishap],
        flush_bytes: u64,
        rotate_bytes: u64,
    ) -> Option<Server> {
        let mut mishaps = mishaps.iter();
        loop {
            self.fs.restart_process();
            self.fs.repair();
            let mishap = mishaps.next();
            match mishap {
                Some(Mishap::Die { operations, bytes }) => {
                    self.fs.fault_after(*operations, Fault::Die(*bytes));
                }
                Some(Mishap::Full { room_bytes }) => self.fs.set_room(Some(*room_bytes)),
                _ => {}
            }
            let server = self.try_start(mishap, flush_bytes, rotate_bytes);
            if !self.fs.is_dead() && !matches!(mishap, Some(Mishap::DieBeforeRemoval)) {
                return server;
            }
        }
    }

    fn try_start(
        &mut self,
        mishap: Option<&Mishap>,
        flush_bytes: u64,
        rotate_bytes: u64,
    ) -> Option<Server> {
        let options = Options { rotate_bytes: 0 };
        // The directory cannot be opened if the process dies or the disk is full.
        let (files, opened) =
            LogFiles::open(self.fs.clone(), Path::new(LOG_DIRECTORY), options).ok()?;
        let last_seq = match opened.last_seq {
            Ok(last_seq) => last_seq.unwrap_or(0),
            Err(error) => {
                assert!(self.fs.is_dead(), "{error}");
                return None;
            }
        };
        let memory = Memory::new();
        let control = Arc::new(Control::default());
        control.set(Setting::FlushBytes, flush_bytes);
        control.set(Setting::RotateBytes, rotate_bytes);
        control.set(Setting::Timestamps, 1);
        let mut writer = Writer::new(
            memory.arena(),
            files,
            last_seq,
            control.clone(),
            Arc::new(Status::default()),
            Box::new(|_, _| {}),
        );
        self.recover(&mut writer, matches!(mishap, Some(Mishap::DieBeforeRemoval)));
        let mut writer = writer.with_arena(memory.arena());
        writer.note(EventKind::Start, "model");
        let conns = (0..CONNS).map(|_| Conn { id: self.conn(), open: Vec::new() }).collect();
        let threads = vec![OpenChunk::default(); THREADS];
        Some(Server { memory, writer, control, conns, threads, stopped: false })
    }

    /// Recovers the arenas of dead servers. `dies`: it dies before it removes the first one.
    fn recover(&mut self, writer: &mut Writer<FaultyFs>, dies: bool) {
        for dead in &self.dead {
            recover::take_back_marks(dead.arena(), writer.last_seq()).expect("it has no spill");
        }
        while !self.dead.is_empty() {
            writer.take_up(self.dead[0].arena());
            if !recover::recover_one(writer) || dies {
                break;
            }
            self.dead.remove(0);
        }
    }

    /// The server is gone; its arena stays, unless the server was stopped in the orderly way.
    pub(super) fn bury(&mut self, server: Server) {
        let Server { memory, writer, stopped, .. } = server;
        drop(writer);
        if !stopped {
            self.dead.push(memory);
        }
    }
}

struct Conn {
    id: u64,
    /// Tags of the statements that have started, innermost last.
    open: Vec<u64>,
}

pub(super) struct Server {
    memory: Memory,
    writer: Writer<FaultyFs>,
    control: Arc<Control>,
    conns: Vec<Conn>,
    threads: Vec<OpenChunk>,
    stopped: bool,
}

/// One record to be emitted.
struct Draft<'a> {
    kind: RecordKind,
    present: u32,
    /// Query id, and identity of the text.
    statement: u64,
    rows_sent: u64,
    late: bool,
    text: &'a str,
    string: (usize, &'a str),
}

impl Default for Draft<'_> {
    fn default() -> Self {
        Draft {
            kind: RecordKind::Start,
            present: 0,
            statement: 0,
            rows_sent: 0,
            late: false,
            text: "",
            string: (STRING_USER, ""),
        }
    }
}

/// The text of a statement: its tag, and varied content of the wanted length.
fn text_of(tag: u64, bytes: usize) -> String {
    let mut text = format!("t{tag}.");
    let mut n = tag;
    while text.len() < bytes {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push(char::from(b'a' + (n >> 33) as u8 % 26));
    }
    text
}

impl Server {
    pub(super) fn run(&mut self, world: &mut World, op: &Op) {
        self.writer.forget_pause();
        match *op {
            Op::Start { conn, thread, text_bytes, late } => {
                let tag = world.tag();
                let text = text_of(tag, text_bytes);
                let draft = Draft {
                    present: PRESENT_TEXT,
                    statement: tag,
                    late,
                    text: &text,
                    ..Draft::default()
                };
                if self.emit(world, conn, thread, &draft) {
                    world.expected.statement(tag, &text);
                    self.conns[conn].open.push(tag);
                }
            }
            Op::End { conn, thread, outermost } => self.end(world, conn, thread, outermost),
            Op::Point { conn, thread, text_bytes } => {
                let tag = world.tag();
                let text = text_of(tag, text_bytes);
                let draft = Draft {
                    kind: RecordKind::Point,
                    present: PRESENT_TEXT | PRESENT_FIGURES | PRESENT_ROWS_SENT,
                    statement: tag,
                    rows_sent: tag,
                    text: &text,
                    ..Draft::default()
                };
                if self.emit(world, conn, thread, &draft) {
                    world.expected.statement(tag, &text);
                    world.expected.end(tag, tag);
                }
            }
            Op::Table { conn, thread } => {
                let tag = world.tag();
                let name = format!("T{tag}");
                let draft = Draft {
                    kind: RecordKind::Table,
                    statement: self.conns[conn].open.last().copied().unwrap_or(0),
                    string: (STRING_PRIV_USER, &name),
                    ..Draft::default()
                };
                if self.emit(world, conn, thread, &draft) {
                    world.expected.table(tag);
                }
            }
            Op::Reconnect { conn, thread } => self.reconnect(world, conn, thread),
            Op::Round => {
                self.writer.round();
            }
            Op::Rotate => {
                self.control.rotate_now.store(true, Ordering::Relaxed);
                self.writer.round();
            }
            Op::Die { operations, bytes } => {
                world.fs.fault_after(operations, Fault::Die(bytes));
                self.writer.round();
            }
            Op::Room(room_bytes) => world.fs.set_room(room_bytes),
            Op::Succeed { last_round, ref deaths } => self.succeed_after(world, last_round, deaths),
        }
    }

    /// The writer dies in its last round, if that is given; then its successors die, each after so
    /// many operations and bytes. The last one stays.
    fn succeed_after(
        &mut self,
        world: &mut World,
        last_round: Option<(u64, usize)>,
        deaths: &[(u64, usize)],
    ) {
        if let Some((operations, bytes)) = last_round {
            world.fs.fault_after(operations, Fault::Die(bytes));
            self.writer.round();
        }
        let mut deaths = deaths.iter();
        loop {
            world.fs.restart_process();
            if let Some((operations, bytes)) = deaths.next() {
                world.fs.fault_after(*operations, Fault::Die(*bytes));
            } else {
                world.fs.repair();
            }
            if self.succeed(world) && !world.fs.is_dead() {
                break;
            }
        }
        // A fault that was planned and did not happen.
        world.fs.repair();
    }

    /// Another writer takes over. `false`: the log could not be opened.
    fn succeed(&mut self, world: &mut World) -> bool {
        let options = Options { rotate_bytes: 0 };
        let opened = LogFiles::open(world.fs.clone(), Path::new(LOG_DIRECTORY), options);
        let Ok((files, opened)) = opened else { return false };
        let Ok(last_seq) = opened.last_seq else {
            assert!(world.fs.is_dead(), "the last line can be read");
            return false;
        };
        let arena = self.memory.arena();
        let (control, status) = (self.control.clone(), Arc::new(Status::default()));
        let last_seq = last_seq.unwrap_or(0);
        let mut writer = Writer::new(arena, files, last_seq, control, status, Box::new(|_, _| {}));
        recover::take_back_marks(arena, last_seq).expect("it has no spill");
        world.recover(&mut writer, false);
        self.writer = writer.take_over(arena);
        self.writer.round();
        true
    }

    fn end(&mut self, world: &mut World, conn: usize, thread: usize, outermost: bool) {
        let at = if outermost { 0 } else { self.conns[conn].open.len().wrapping_sub(1) };
        let Some(statement) = self.conns[conn].open.get(at).copied() else { return };
        self.conns[conn].open.truncate(at);
        let tag = world.tag();
        let draft = Draft {
            kind: RecordKind::End,
            present: PRESENT_FIGURES
                | PRESENT_ROWS_SENT
                | if outermost { PRESENT_OUTERMOST } else { 0 },
            statement,
            rows_sent: tag,
            ..Draft::default()
        };
        if self.emit(world, conn, thread, &draft) {
            world.expected.end(statement, tag);
        }
    }

    fn reconnect(&mut self, world: &mut World, conn: usize, thread: usize) {
        let tag = world.tag();
        let user = format!("u{tag}");
        let draft = Draft {
            kind: RecordKind::Disconnect,
            string: (STRING_USER, &user),
            ..Draft::default()
        };
        if self.emit(world, conn, thread, &draft) {
            world.expected.user(tag);
        }
        let arena = self.memory.arena();
        if let Some(slot) = session::find(arena.sessions(), self.conns[conn].id) {
            session::forget(slot);
        }
        self.conns[conn] = Conn { id: world.conn(), open: Vec::new() };
        let tag = world.tag();
        let user = format!("u{tag}");
        let draft =
            Draft { kind: RecordKind::Connect, string: (STRING_USER, &user), ..Draft::default() };
        if self.emit(world, conn, thread, &draft) {
            world.expected.user(tag);
        }
    }

    /// `false`: the record was lost, and the model has noted it.
    fn emit(&mut self, world: &mut World, conn: usize, thread: usize, draft: &Draft<'_>) -> bool {
        let arena = self.memory.arena();
        let id = self.conns[conn].id;
        let now_us = sys::now_us();
        let slot = session::find(arena.sessions(), id)
            .or_else(|| session::claim(arena.sessions(), &arena.shared().settings.0, id, now_us));
        let mut strings = [Bytes::EMPTY; STRING_COUNT];
        strings[draft.string.0] = Bytes::of(draft.string.1.as_bytes());
        let event = Event {
            kind: draft.kind as u32,
            present: draft.present,
            conn: id,
            query_id: draft.statement,
            text_id: draft.statement,
            // Longer ago than a statement may run without a `running` line.
            ts_us: if draft.late { now_us - 60_000_000 } else { now_us },
            sql_command: -1,
            errno_: 0,
            sqlstate: [0; 8],
            shown_bytes: u32::MAX,
            reserved: 0,
            figures: [draft.rows_sent, 0, 0, 0, 0],
            strings,
            text: Bytes::of(draft.text.as_bytes()),
        };
        // SAFETY: the event borrows strings that live here; the chunk is of this arena.
        let emitted = unsafe { producer::emit(&arena, &mut self.threads[thread], slot, &event) };
        if emitted == Emitted::Lost {
            world.expected.lost();
        }
        emitted == Emitted::Accepted
    }

    /// A statement arrives, and the server dies after this many of its fragments.
    pub(super) fn break_off(
        &mut self,
        world: &mut World,
        conn: usize,
        text_bytes: usize,
        fragments: u16,
    ) {
        let tag = world.tag();
        let text = text_of(tag, text_bytes);
        let draft =
            Draft { present: PRESENT_TEXT, statement: tag, text: &text, ..Draft::default() };
        if !self.emit(world, conn, 0, &draft) {
            return;
        }
        world.expected.broken_off(tag, &text);
        let arena = self.memory.arena();
        Drain::new(arena).pass(|head, at| {
            let is_first = head.fragment <= FRAGMENT_FIRST;
            // Later fragments identify their statement by the query id only.
            if head.query_id == tag && (is_first || head.fragment_number > 0) {
                let number = if is_first { 0 } else { head.fragment_number };
                if number >= fragments {
                    let base = arena.chunk_base(at.chunk).wrapping_add(at.position as usize);
                    // SAFETY: the commit word of a record that was just found.
                    let word = unsafe { AtomicU32::from_ptr(base.cast::<u32>()) };
                    word.store(0, Ordering::Relaxed);
                }
            }
        });
    }

    /// Stops in the orderly way; `again`: once more, when the disk has space again.
    pub(super) fn stop(&mut self, world: &mut World, again: bool) {
        self.memory.arena().shared().settings.0.logging.store(0, Ordering::Relaxed);
        // Open statements may now get a `running` line that no later line completes.
        for conn in &self.conns {
            conn.open.iter().for_each(|tag| world.expected.left_running(*tag));
        }
        world.expected.stop();
        self.stopped = self.writer.finish();
        if !self.stopped && again && !world.fs.is_dead() {
            world.fs.repair();
            self.stopped = self.writer.finish();
            assert!(self.stopped, "the disk is repaired");
        }
    }
}
