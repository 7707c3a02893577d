//! Commands of several packets, which are in files until they are recorded.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::mysql::caps::COMPRESS;
use crate::spool::Spool;

/// The longest packet.
const LONG: usize = 0xff_ffff;
const MIB: usize = 1 << 20;

/// A command in its packets, of which the last one is not full.
fn packets(command: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = command;
    for seq in 0.. {
        let (part, behind) = rest.split_at(rest.len().min(LONG));
        bytes.extend(packet(seq, part));
        rest = behind;
        if part.len() < LONG {
            break;
        }
    }
    bytes
}

/// A statement of so many bytes, and its packets.
fn statement(bytes: usize) -> (String, Vec<u8>) {
    let text = format!("INSERT INTO t VALUES ('{}')", "x".repeat(bytes - 25));
    assert_eq!(text.len(), bytes);
    let command = packets(&[b"\x03", text.as_bytes()].concat());
    (text, command)
}

/// The number of the answer to a command with a text of so many bytes.
fn answer_seq(bytes: usize) -> u8 {
    ((bytes + 1) / LONG + 1) as u8
}

struct Large {
    scene: Scene,
    spool: Arc<Spool>,
    _directory: Option<tempfile::TempDir>,
}

impl Large {
    fn new() -> Large {
        let directory = tempfile::tempdir().expect("a directory");
        let mut large = Large::of(Spool::new(directory.path()), 0);
        large._directory = Some(directory);
        large
    }

    fn of(spool: Arc<Spool>, caps: u64) -> Large {
        let mut scene = Scene::logged_in(caps);
        scene.session.limits.spool = Some(Arc::clone(&spool));
        Large { scene, spool, _directory: None }
    }

    /// The client sends bytes in segments.
    fn send(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(60_000) {
            self.scene.bytes(Side::Client, part);
            let held = self.scene.session.held_bytes();
            assert!(held <= 33 * MIB, "{held} bytes in memory");
        }
    }
}

fn start(text: &str) -> String {
    format!("Query [] {text}")
}

#[test]
fn a_statement_of_several_packets_is_recorded_as_a_whole() {
    let mut large = Large::new();
    for bytes in [LONG - 1, LONG, LONG + 70_000, 2 * LONG - 1, 80 * MIB] {
        let (text, command) = statement(bytes);
        let (most, last) = command.split_at(command.len() - 10_000);
        large.send(most);
        let is_in_file = bytes >= LONG + 70_000;
        assert_eq!(large.spool.used_bytes() > 0, is_in_file, "{bytes}");
        if is_in_file {
            let held = large.scene.session.held_bytes();
            assert!(held < 2 * MIB, "{held} bytes in memory");
        }
        large.send(last);
        // The file is not kept until the answer.
        assert_eq!(large.scene.take(), [start(&text)], "{bytes}");
        assert_eq!(large.spool.used_bytes(), 0);
        assert_eq!(large.scene.session.file_bytes, 0);
        large.scene.server(answer_seq(bytes), OK);
        assert_eq!(large.scene.take(), ["end Query 0 0"], "{bytes}");
    }
}

#[test]
fn a_long_statement_that_changes_the_session_is_followed() {
    let mut large = Large::new();
    let text = format!("USE /* {} */ other", "x".repeat(LONG));
    large.send(&packets(&[b"\x03", text.as_bytes()].concat()));
    assert!(large.spool.used_bytes() > 0);
    large.scene.server(2, OK).client(0, b"\x03DO 1");
    assert_eq!(
        large.scene.take(),
        [start(&text), "end Query 0 0".into(), "Query [other] DO 1".into()]
    );
    assert_eq!((large.spool.used_bytes(), large.scene.session.file_bytes), (0, 0));
}

#[test]
fn statements_before_the_answer_keep_their_files() {
    let mut large = Large::new();
    let (one, two) = (statement(LONG + 100), statement(LONG + 200));
    large.scene.client(0, b"\x03DO 1");
    large.send(&one.1);
    large.send(&two.1);
    let used = large.spool.used_bytes();
    assert!(used > 2 * LONG as u64, "{used}");
    assert_eq!(large.scene.session.file_bytes, used);
    assert_eq!(large.scene.take(), ["Query [] DO 1"]);
    large.scene.server(1, OK);
    assert_eq!(large.scene.take(), ["end Query 0 0".into(), start(&one.0)]);
    large.scene.server(2, OK);
    assert_eq!(large.scene.take(), ["end Query 0 0".into(), start(&two.0)]);
    assert_eq!((large.spool.used_bytes(), large.scene.session.file_bytes), (0, 0));
}

#[test]
fn what_ends_within_a_long_statement_leaves_no_file() {
    for end in ["close", "leave", "gap", "shed", "protocol"] {
        let mut large = Large::new();
        let (_, command) = statement(LONG + 5 * MIB);
        large.send(&command[..20 * MIB]);
        assert!(large.spool.used_bytes() > 0);
        let Scene { session, notes, ts_us } = &mut large.scene;
        match end {
            "close" => session.close(*ts_us, notes),
            "leave" => session.leave(*ts_us, notes),
            "gap" => session.gap(Side::Client, 1000, *ts_us, notes),
            "shed" => session.shed(*ts_us, notes),
            _ => session.data(Side::Server, &packet(7, b"?"), *ts_us, notes),
        }
        assert_eq!(large.spool.used_bytes(), 0, "{end}");
        let lost = match end {
            "close" | "leave" => format!("lost unanswered {}", 20 * MIB - 4),
            "gap" => "lost tcp_gap 1000".to_owned(),
            "shed" => format!("lost memory {} partial", 20 * MIB - 4),
            _ => format!("lost protocol {} partial", 20 * MIB - 4 + 1),
        };
        let noted = large.scene.take();
        let lost = lost.trim_end_matches(" partial");
        assert!(noted[0].trim_end_matches(" partial") == lost, "{end}: {noted:?}");
        if end == "gap" {
            large.send(&command[20 * MIB + 1000..]);
            large.scene.server(2, OK);
            assert_eq!(large.scene.take(), ["Query [] ?", "end Query 0 0"]);
        }
    }
}

#[test]
fn without_a_file_a_statement_is_in_memory_up_to_its_limit() {
    let too_large = || Spool::with_limit(Path::new("/tmp"), MIB as u64);
    let no_disk = || Spool::new(Path::new("/nosuch"));
    for (spool, cause) in [(too_large(), "too_large"), (no_disk(), "disk")] {
        let mut large = Large::of(spool, 0);
        let (text, command) = statement(LONG + 100);
        large.send(&command);
        large.scene.server(2, OK);
        assert_eq!(large.scene.take(), [start(&text), "end Query 0 0".into()]);
        large.scene.session.limits.statement_bytes = LONG + 50;
        large.send(&command);
        large.scene.server(2, OK);
        let lost = format!("lost {cause} {}", text.len() + 1);
        assert_eq!(large.scene.take(), [&lost, "Query [] ?", "end Query 0 0"]);
        // The next one is recorded.
        large.scene.client(0, b"\x03DO 1").server(1, OK);
        assert_eq!(large.scene.take(), ["Query [] DO 1", "end Query 0 0"]);
    }
}

#[test]
fn a_statement_over_a_limit_is_declared_as_too_large() {
    let directory = tempfile::tempdir().expect("a directory");
    for is_limit_of_all in [true, false] {
        let limit = if is_limit_of_all { 20 << 20 } else { u64::MAX };
        let mut large = Large::of(Spool::with_limit(directory.path(), limit), 0);
        if !is_limit_of_all {
            large.scene.session.limits.file_bytes = 20 << 20;
        }
        let (text, command) = statement(LONG + 10 * MIB);
        large.send(&command);
        assert_eq!(large.spool.used_bytes(), 0);
        large.scene.server(2, OK).client(0, b"\x03DO 1").server(1, OK);
        let lost = format!("lost too_large {}", text.len() + 1);
        assert_eq!(
            large.scene.take(),
            [&lost, "Query [] ?", "end Query 0 0", "Query [] DO 1", "end Query 0 0"]
        );
    }
}

#[test]
fn a_long_text_that_is_prepared_is_kept_for_its_executions() {
    for (bytes, is_kept) in [(LONG + 100, true), (65 * MIB, false)] {
        let (mut large, (text, _)) = (Large::new(), statement(bytes));
        large.send(&packets(&[b"\x16", text.as_bytes()].concat()));
        large.scene.server(answer_seq(bytes), b"\0\x05\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(large.scene.take(), [format!("Prepare [] {text}"), "end Prepare 0 0".into()]);
        assert_eq!(large.spool.used_bytes(), 0);
        large.scene.client(0, b"\x17\x05\0\0\0\0\x01\0\0\0").server(1, OK);
        let shown = if is_kept { &text } else { "?" };
        assert_eq!(large.scene.take(), [format!("Execute [] {shown}"), "end Execute 0 0".into()]);
    }
}

/// Values of an execution are read from its first bytes.
#[test]
fn long_executions_need_no_file() {
    let mut large = Large::new();
    let execution = [&b"\x17\x05\0\0\0\0\x01\0\0\0"[..], &vec![b'x'; LONG + 100]].concat();
    large.send(&packets(&execution));
    assert_eq!(large.spool.used_bytes(), 0);
    assert_eq!(large.scene.take(), ["Execute [] ?"]);
}

#[test]
fn a_compressed_statement_of_several_packets() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut large = Large::of(Spool::new(directory.path()), COMPRESS);
    let (text, command) = statement(LONG + 3 * MIB);
    for (seq, plain) in (0..).zip(command.chunks(9 * MIB)) {
        let fast = flate2::Compression::fast();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), fast);
        encoder.write_all(plain).expect("memory");
        let packed = encoder.finish().expect("memory");
        let (length, plain) = ((packed.len() as u32).to_le_bytes(), plain.len() as u32);
        let head = [&length[..3], &[seq], &plain.to_le_bytes()[..3]].concat();
        large.scene.bytes(Side::Client, &head).bytes(Side::Client, &packed);
    }
    assert_eq!(large.scene.take(), [start(&text)]);
    assert_eq!(large.spool.used_bytes(), 0);
}
