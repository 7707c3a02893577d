//! What the writer thread costs: `bench/writer/measure.sh` runs this and explains the figures.
//!
//! The real producer fills an arena, as many connections would. Then one round of the real writer
//! empties it into a real log directory; only that round is measured. The time is the thread's own
//! user and system time, so other work on the machine does not count. Under callgrind, collect in
//! `measured_round` only to see the cost of a line.
//!
//! ```text
//! tacho-cost writer SHAPE LOG_DIRECTORY ROUNDS [ARENA_BYTES [KEY_FILE]]   sealed, with a key file
//! tacho-cost writer idle LOG_DIRECTORY ROUNDS         rounds with nothing to do
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tacho_logdir::{LogFiles, Options, RealFs, SealOptions};
use tacho_probe::{Probe, Thread, tacho_probe_emit, tacho_probe_end_known, tacho_probe_session};
use tacho_record::EventKind;
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::{Control, Status};
use tacho_recorder::writer::Writer;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_FIGURES, PRESENT_LOCK_TIME, PRESENT_QUERY_TIME, PRESENT_ROWS_EXAMINED,
    PRESENT_ROWS_SENT, PRESENT_SQL_COMMAND, PRESENT_TEXT, RecordKind, STRING_CHARSET,
    STRING_COMMAND, STRING_DB, STRING_HOST, STRING_IP, STRING_PRIV_USER, STRING_USER,
};
use tacho_ring::layout::OVERFLOW_DROP;
use tacho_ring::sys;

const ARENA_BYTES: u64 = 64 << 20;
/// Most connections that take turns.
const CONNECTIONS_MAX: u64 = 64;
/// The part of the arena that is filled before a round, of 8.
const FILLED_EIGHTHS: u64 = 6;

const POINT_SELECT: &str = "SELECT c FROM sbtest1 WHERE id=5031";
const JOIN: &str = "SELECT o.id, o.created_at, o.total_cents, c.name, c.email FROM orders o \
     JOIN customers c ON c.id = o.customer_id WHERE o.status = 'open' AND o.created_at >= \
     '2026-11-01' ORDER BY o.created_at DESC LIMIT 50";

/// What the records of a statement look like.
struct Shape {
    name: &'static str,
    sql: &'static str,
    /// Each statement ends with a number of its own.
    differs: bool,
    /// Start and end, or one record for both.
    pair: bool,
    host: &'static str,
    ip: &'static str,
}

const LOCAL: Shape = Shape {
    name: "select",
    sql: POINT_SELECT,
    differs: false,
    pair: true,
    host: "localhost",
    ip: "",
};

fn shape(name: &str) -> Option<Shape> {
    match name {
        // The records of a local point select of sysbench.
        "select" => Some(LOCAL),
        // The same with literals: no text is like an earlier one.
        "literals" => Some(Shape { name: "literals", differs: true, ..LOCAL }),
        // A statement of 200 bytes from an application server.
        "join" => Some(Shape {
            name: "join",
            sql: &JOIN[..200],
            host: "app-17.internal",
            ip: "10.20.30.40",
            ..LOCAL
        }),
        // A command that is reported only at its end.
        "point" => Some(Shape { name: "point", pair: false, ..LOCAL }),
        _ => None,
    }
}

/// Number of connections that take turns. Each keeps a chunk that is not full, and the arena is not
/// emptied while it is filled. Full chunks also have up to a twentieth of unused space.
fn connection_count(chunk_count: u64) -> u64 {
    let filled = chunk_count * FILLED_EIGHTHS / 8 * 21 / 20;
    let fits = |count: &u64| (filled / count + 1) * count <= chunk_count;
    (1..=CONNECTIONS_MAX).rev().find(fits).expect("one fits")
}

/// One round of the writer. Its own symbol, for callgrind's `--toggle-collect`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn measured_round(writer: &mut Writer) -> bool {
    writer.round()
}

struct Producer {
    probe: Probe,
    threads: Vec<Thread>,
    number: u64,
    /// Text of the last statement.
    text: String,
}

#[derive(Clone, Copy, Default)]
struct Filled {
    records: u64,
    bytes: u64,
}

impl Producer {
    fn event(kind: RecordKind, conn: u64, number: u64, ts_us: i64) -> Event {
        Event {
            kind: kind as u32,
            conn,
            query_id: number,
            text_id: 0x7f00_0000_1000 + conn,
            ts_us,
            ..Event::EMPTY
        }
    }

    /// The text of the statement `number`.
    fn write_text(&mut self, shape: &Shape) {
        self.text.clear();
        self.text.push_str(shape.sql);
        if shape.differs {
            // As many digits for each.
            let number = 1_000_000 + self.number % 1_000_000;
            write!(self.text, "{number}").expect("memory");
        }
    }

    fn say_what(event: &mut Event, shape: &Shape, text: &str) {
        for (which, text) in [
            (STRING_USER, "sbtest"),
            (STRING_PRIV_USER, "sbtest"),
            (STRING_HOST, shape.host),
            (STRING_IP, shape.ip),
            (STRING_DB, "sbtest"),
            (STRING_COMMAND, "Query"),
            (STRING_CHARSET, "utf8mb4"),
        ] {
            event.strings[which] = Bytes::of(text.as_bytes());
        }
        event.text = Bytes::of(text.as_bytes());
        event.present |= PRESENT_TEXT;
    }

    fn say_outcome(event: &mut Event, text: &str) {
        event.sql_command = 0;
        event.shown_bytes = text.len() as u32;
        event.figures = [1, 1, 0, 87, 4];
        event.present |= PRESENT_SQL_COMMAND
            | PRESENT_FIGURES
            | PRESENT_ROWS_SENT
            | PRESENT_ROWS_EXAMINED
            | PRESENT_QUERY_TIME
            | PRESENT_LOCK_TIME;
    }

    fn emit(&mut self, conn: u64, event: &Event, filled: &mut Filled) {
        let fixed = 64 + 48 + if event.present & PRESENT_FIGURES != 0 { 40 } else { 0 };
        let strings: usize = event.strings.iter().map(|s| s.len).sum();
        filled.bytes += (fixed + strings + event.text.len).next_multiple_of(8) as u64;
        filled.records += 1;
        let count = self.threads.len();
        let thread = &mut self.threads[conn as usize % count];
        // SAFETY: the strings outlive the call, the session is the one of this connection.
        unsafe {
            let session = tacho_probe_session(&self.probe, conn, event.ts_us);
            if event.kind == RecordKind::End as u32 {
                tacho_probe_end_known(session, event.text_id, event.query_id, event.shown_bytes);
            }
            tacho_probe_emit(&self.probe, thread, session, event);
        }
    }

    /// Connects all sessions. A session that begins has no earlier records, so its records need not
    /// wait for a second pass over the arena.
    fn connect(&mut self, shape: &Shape) {
        for conn in 1..=self.threads.len() as u64 {
            let mut event = Self::event(RecordKind::Connect, conn, 0, sys::now_us());
            Self::say_what(&mut event, shape, "");
            event.present &= !PRESENT_TEXT;
            self.emit(conn, &event, &mut Filled::default());
        }
    }

    /// Fills the arena, the connections taking turns.
    fn fill(&mut self, shape: &Shape) -> Filled {
        let mut filled = Filled::default();
        let limit = u64::from(self.probe.arena.geometry().chunk_count)
            * u64::from(self.probe.arena.geometry().chunk_bytes)
            / 8
            * FILLED_EIGHTHS;
        let now_us = sys::now_us();
        while filled.bytes < limit {
            self.number += 1;
            let conn = 1 + self.number % self.threads.len() as u64;
            let ts_us = now_us + filled.records as i64;
            let first = if shape.pair { RecordKind::Start } else { RecordKind::Point };
            let mut event = Self::event(first, conn, self.number, ts_us);
            self.write_text(shape);
            Self::say_what(&mut event, shape, &self.text);
            if shape.pair {
                self.emit(conn, &event, &mut filled);
                event = Self::event(RecordKind::End, conn, self.number, ts_us + 87);
            }
            Self::say_outcome(&mut event, &self.text);
            self.emit(conn, &event, &mut filled);
        }
        // With another setting the producer would wait for a writer that runs only after it.
        let lost = self.probe.arena.shared().counters.0.lost_dropped.load(Ordering::Relaxed);
        assert_eq!(lost, 0, "the arena is too small for this load");
        filled
    }
}

/// User and system time of this thread.
fn thread_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Writes the lines that the arguments say.
pub fn run(arguments: &[String]) {
    measure(arguments);
}

/// Rounds that find nothing.
fn measure_idle(writer: &mut Writer, producer: &mut Producer, rounds: usize) {
    let shape = shape("select").expect("a shape");
    producer.fill(&shape);
    // Two rounds: the first empties the arena, the second takes idle chunks back.
    assert!(writer.round() && writer.round());
    let start = thread_seconds();
    for _ in 0..rounds {
        assert!(measured_round(writer));
    }
    let us = (thread_seconds() - start) * 1e6 / rounds as f64;
    println!("idle: {us:.1} us per round");
}

/// Rounds that each empty a full arena.
fn measure_lines(
    writer: &mut Writer,
    producer: &mut Producer,
    status: &Status,
    shape: &Shape,
    rounds: usize,
    directory: &Path,
) {
    producer.connect(shape);
    assert!(writer.round());
    let mut line_rates = Vec::new();
    let (mut lines, mut filled, mut line_bytes) = (0, Filled::default(), 0);
    for _ in 0..rounds {
        let before = (
            status.records_written.load(Ordering::Relaxed),
            status.bytes_written.load(Ordering::Relaxed),
        );
        filled = producer.fill(shape);
        let start = thread_seconds();
        assert!(measured_round(writer));
        let seconds = thread_seconds() - start;
        lines = status.records_written.load(Ordering::Relaxed) - before.0;
        line_bytes = (status.bytes_written.load(Ordering::Relaxed) - before.1) / lines.max(1);
        line_rates.push(lines as f64 / seconds);
        remove_complete_files(directory, status);
    }
    line_rates.sort_by(f64::total_cmp);
    let per_line = filled.records as f64 / lines as f64;
    let show = |what: &str, rate: f64| {
        println!(
            "{:7} {what:6} {:5.2} M records/s  {:5.2} M lines/s  {:4.0} MB/s  \
             ({:.0} B/record, {line_bytes} B/line, {lines} lines per round)",
            shape.name,
            rate * per_line / 1e6,
            rate / 1e6,
            rate * line_bytes as f64 / 1e6,
            filled.bytes as f64 / filled.records as f64,
        );
    };
    show("best", line_rates[rounds - 1]);
    show("median", line_rates[rounds / 2]);
}

/// The files are not measured: keeps the directory small.
fn remove_complete_files(directory: &Path, status: &Status) {
    for entry in std::fs::read_dir(directory).expect("the log directory") {
        let path = entry.expect("a file").path();
        let current = status.current_file.lock().expect("no thread panicked").clone();
        if path.extension().is_some_and(|e| e == "jsonl") && path != Path::new(&current) {
            std::fs::remove_file(&path).expect("removing a complete file");
        }
    }
}

fn measure(arguments: &[String]) {
    let [name, directory, rounds, rest @ ..] = arguments else {
        panic!(
            "usage: tacho-cost writer select|literals|join|point|idle LOG_DIRECTORY ROUNDS [ARENA_BYTES [KEY_FILE]]"
        )
    };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let arena_bytes = rest.first().map_or(ARENA_BYTES, |b| b.parse().expect("a number of bytes"));
    let directory = Path::new(directory);
    std::fs::create_dir_all(directory).expect("a log directory");
    let directory = directory.canonicalize().expect("a log directory");
    let arena_file = ArenaFile::create(Path::new("/dev/shm"), arena_bytes, &directory, "bench")
        .expect("an arena");
    let arena = arena_file.arena();
    arena.set_name(0, b"select");
    let settings = &arena.shared().settings.0;
    settings.overflow.store(OVERFLOW_DROP, Ordering::Relaxed);
    settings.logging.store(1, Ordering::Relaxed);
    let (mut files, _) = LogFiles::open(RealFs, &directory, Options { rotate_bytes: 0 })
        .expect("a log directory that no other process uses");
    if let Some(key_file) = rest.get(1) {
        let options =
            SealOptions { key_file: key_file.into(), checkpoint_interval_s: 60, may_break: true };
        files.seal(&options, 0).expect("a log that can be sealed");
    }
    let control = Arc::new(Control::default());
    let status = Arc::new(Status::default());
    let log = Box::new(|_, text: &str| {
        if !text.contains("is complete") {
            eprintln!("{text}");
        }
    });
    let mut writer = Writer::new(arena, files, 0, control, status.clone(), log);
    // Lines name the run that this call begins.
    writer.note(EventKind::Start, "bench");
    let mut producer = Producer {
        probe: Probe::new(arena, 1),
        threads: (0..connection_count(arena.geometry().chunk_count.into()))
            .map(|_| Thread::default())
            .collect(),
        number: 0,
        text: String::new(),
    };

    if name == "idle" {
        measure_idle(&mut writer, &mut producer, rounds);
    } else {
        let shape = shape(name).expect("select, literals, join, point or idle");
        measure_lines(&mut writer, &mut producer, &status, &shape, rounds, &directory);
    }
    drop(writer);
    arena_file.remove().expect("removing the arena");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_of_every_size_are_filled_and_emptied() {
        for mib in [1, 2, 3, 4, 6, 9] {
            for name in ["select", "literals", "join", "point"] {
                let log = tempfile::tempdir().expect("a directory");
                let bytes = (mib << 20).to_string();
                let log = log.path().to_str().expect("text");
                measure(&[name, log, "1", &bytes].map(str::to_owned));
            }
        }
    }

    /// The sizes for which the figures of `bench/instructions.toml` were counted.
    #[test]
    fn large_arenas_have_all_connections() {
        for mib in [8, 16, 64] {
            let geometry = tacho_ring::layout::Geometry::for_bytes(mib << 20);
            assert_eq!(connection_count(geometry.chunk_count.into()), CONNECTIONS_MAX, "{mib} MiB");
        }
    }
}
