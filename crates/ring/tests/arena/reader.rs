//! The smallest writer that keeps the protocol of `docs/specs/arena.md`: drains, joins
//! fragments, gives chunks back, steals under pressure. Lines are a vector of records.

use std::collections::BTreeMap;

use tacho_ring::arena::Arena;
use tacho_ring::chunk;
use tacho_ring::codec::{Body, RecordKind, View};
use tacho_ring::consumer::{self, Next};
use tacho_ring::free;
use tacho_ring::layout::{FRAGMENT_FIRST, FRAGMENT_LAST, FRAGMENT_WHOLE, RecordHeader, Session};
use tacho_ring::producer::Futex;
use tacho_ring::session;

/// A whole record, owned.
#[derive(Clone, Debug)]
pub struct Whole {
    pub header: RecordHeader,
    pub kind: RecordKind,
    pub body: Body,
    pub figures: [u64; 5],
    pub strings: Vec<Vec<u8>>,
    pub text: Vec<u8>,
}

impl Whole {
    fn of(view: &View) -> Whole {
        Whole {
            header: view.header,
            kind: view.kind,
            body: view.body,
            figures: view.figures,
            strings: (0..10).map(|which| view.string(which).to_vec()).collect(),
            text: view.text.to_vec(),
        }
    }
}

/// A record in fragments that is not complete yet.
#[derive(Default)]
struct Partial {
    first: Option<Whole>,
    parts: BTreeMap<u16, Vec<u8>>,
    last: Option<u16>,
    /// Its fragments have left the arena: its producer waits for `announce_settled`.
    early: bool,
}

#[derive(Clone, Copy, Default)]
struct Cursor {
    generation: u64,
    position: u32,
}

pub struct Reader {
    arena: Arena,
    cursors: Vec<Cursor>,
    partials: BTreeMap<(u64, u64), Partial>,
    /// The completed records, in the order in which they became complete.
    pub records: Vec<Whole>,
    /// Records and rests of chunks that could not be decoded.
    pub damaged: u64,
    buffer: Vec<u8>,
}

impl Reader {
    pub fn new(arena: Arena) -> Reader {
        Reader {
            arena,
            cursors: vec![Cursor::default(); arena.geometry().chunk_count as usize],
            partials: BTreeMap::new(),
            records: Vec::new(),
            damaged: 0,
            buffer: vec![0; arena.geometry().chunk_bytes as usize],
        }
    }

    /// One round over all chunks; those that are drained and closed go back. `true`: there
    /// was something to do.
    pub fn pass(&mut self) -> bool {
        let before = self.records.len();
        let closed = self.look_at_all();
        if !self.partials.is_empty() && !closed.is_empty() {
            // Some of the chunks hold fragments of records that are not complete.
            for (&(conn, rec_no), partial) in &mut self.partials {
                partial.early = true;
                if let Some(slot) = slot(&self.arena, conn, rec_no) {
                    session::announce_early(slot, rec_no);
                }
            }
            self.look_at_all();
        }
        let freed = !closed.is_empty();
        for index in closed {
            chunk::release(&self.arena.controls()[index as usize]);
            free::push(&self.arena.shared().free_head.0, self.arena.controls(), index);
        }
        if freed {
            self.arena.shared().backpressure.0.open(&Futex);
        } else if self.arena.free_count() == 0 {
            for control in self.arena.controls() {
                chunk::steal(control, chunk::look(control));
            }
        }
        freed || self.records.len() > before
    }

    /// Until nothing is left to do. Only when no producer runs.
    pub fn finish(&mut self) {
        while self.pass() {}
    }

    /// Number of records whose end is missing, except those that their producers gave up.
    pub fn incomplete(&self) -> usize {
        let given_up = |&&(conn, rec_no): &&(u64, u64)| {
            slot(&self.arena, conn, rec_no).is_some_and(|s| session::abandoned(s, rec_no))
        };
        self.partials.keys().filter(|key| !given_up(key)).count()
    }

    /// Drains every chunk as far as it is committed; returns those that are drained and were
    /// closed before.
    fn look_at_all(&mut self) -> Vec<u32> {
        let mut closed = Vec::new();
        for index in 0..self.arena.geometry().chunk_count {
            let word = chunk::look(&self.arena.controls()[index as usize]);
            if chunk::state_of(word) == chunk::FREE {
                continue;
            }
            self.drain(index, chunk::generation_of(word));
            if chunk::state_of(word) == chunk::CLOSED {
                closed.push(index);
            }
        }
        closed
    }

    fn drain(&mut self, index: u32, generation: u64) {
        let mut cursor = self.cursors[index as usize];
        if cursor.generation != generation {
            cursor = Cursor { generation, position: 0 };
        }
        loop {
            match consumer::peek(&self.arena, index, cursor.position) {
                Next::Record(bytes) => {
                    self.take(index, cursor.position, bytes);
                    cursor.position += bytes;
                }
                Next::Empty | Next::End => break,
                Next::Damaged => {
                    self.damaged += 1;
                    cursor.position = self.arena.geometry().chunk_bytes;
                }
            }
        }
        self.cursors[index as usize] = cursor;
    }

    fn take(&mut self, index: u32, position: u32, bytes: u32) {
        let Some(record) = consumer::fetch(&self.arena, index, position, bytes, &mut self.buffer)
        else {
            self.damaged += 1;
            return;
        };
        let Some(view) = View::decode(record) else {
            self.damaged += 1;
            return;
        };
        consumer::settle(&self.arena, index, position, self.records.len() as u64 + 1);
        if view.header.fragment == FRAGMENT_WHOLE {
            self.records.push(Whole::of(&view));
            return;
        }
        let key = (view.header.conn, view.header.rec_no);
        let partial = self.partials.entry(key).or_default();
        if view.header.fragment == FRAGMENT_FIRST {
            partial.first = Some(Whole::of(&view));
        } else {
            partial.parts.insert(view.header.fragment_number, view.text.to_vec());
            if view.header.fragment == FRAGMENT_LAST {
                partial.last = Some(view.header.fragment_number);
            }
        }
        self.complete(key);
    }

    fn complete(&mut self, key: (u64, u64)) {
        let partial = &self.partials[&key];
        if partial.first.is_none() || partial.last.map(usize::from) != Some(partial.parts.len()) {
            return;
        }
        let Some(partial) = self.partials.remove(&key) else { return };
        let Some(mut whole) = partial.first else { return };
        for part in partial.parts.values() {
            whole.text.extend_from_slice(part);
        }
        self.records.push(whole);
        if let (true, Some(slot)) = (partial.early, slot(&self.arena, key.0, key.1)) {
            session::announce_settled(slot, key.1);
            session::wake_settled(&self.arena.shared().writer.0, &Futex);
        }
    }
}

/// The slot of a connection, if it still is the one that gave out this number.
fn slot(arena: &Arena, conn: u64, rec_no: u64) -> Option<&Session> {
    let sessions = arena.sessions();
    // SAFETY: the table of sessions lives as long as the mapping, which the tests keep.
    let sessions: &[Session] =
        unsafe { std::slice::from_raw_parts(sessions.as_ptr(), sessions.len()) };
    session::find(sessions, conn).filter(|slot| {
        let last = slot.rec_no.load(std::sync::atomic::Ordering::Relaxed);
        session::epoch_of(last) == session::epoch_of(rec_no)
    })
}
