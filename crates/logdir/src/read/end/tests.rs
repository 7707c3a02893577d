use std::path::PathBuf;

use tacho_chain::entry::CheckpointReason;
use tacho_chain::hash::Hash;

use super::super::files;
use super::*;

struct Log(tempfile::TempDir);

impl Log {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, number: u32, ending: &str) -> PathBuf {
        self.0.path().join(format!("audit-20261121T100000Z-{number:06}.{ending}"))
    }

    fn write(&self, number: u32, text: &str) {
        std::fs::write(self.path(number, "jsonl"), text).unwrap();
    }

    fn files(&self) -> Vec<LogFile> {
        files::list(self.0.path()).unwrap().files
    }

    fn newest(&self) -> Option<u64> {
        newest_line(&self.files()).unwrap().map(|line| line.seq)
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn line(seq: u64, second: i64, sql: &str) -> String {
    let ts = at(second);
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"statement\",\"outcome\":\"ok\",\
         \"sql\":\"{sql}\",\"query_time_us\":2000000}}\n"
    )
}

fn lost(seq: u64, second: i64, count: &str) -> String {
    let ts = at(second);
    format!(
        "{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}\",\"event\":\"lost\",\"run\":1,\
         \"start_ts\":\"{ts}\",{count}\"cause\":\"dropped\"}}\n"
    )
}

#[test]
fn the_newest_line_is_found_behind_empty_files_and_before_a_torn_line() {
    let log = Log::new();
    assert_eq!(log.newest(), None);
    log.write(1, "");
    assert_eq!(log.newest(), None);
    log.write(1, &(line(1, 10, "a") + &line(2, 20, "b")));
    log.write(2, "");
    let found = newest_line(&log.files()).unwrap().unwrap();
    let event = "statement".to_owned();
    assert_eq!(found, NewestLine { seq: 2, time: at(22), event }, "the end of its statement");
    log.write(2, "{\"v\":1,\"seq\":3,\"ts\":\"2026");
    assert_eq!(log.newest(), Some(2));
    log.write(2, &(line(3, 30, "c") + "{\"v\":1,\"seq\":4"));
    assert_eq!(log.newest(), Some(3));
}

#[test]
fn long_lines_are_found_and_there_is_a_limit() {
    let log = Log::new();
    for bytes in [1 << 10, 64 << 10, (64 << 10) + 1, 3 << 20] {
        let long = "x".repeat(bytes);
        log.write(1, &(line(1, 10, "a") + &line(2, 20, &long)));
        assert_eq!(log.newest(), Some(2), "{bytes}");
        log.write(1, &(line(1, 10, "a") + &line(2, 20, &long) + "{\"v\":1"));
        assert_eq!(log.newest(), Some(2), "{bytes}");
        // The torn line is longer than the first steps.
        log.write(1, &(line(1, 10, "a") + &line(2, 20, &long).replace('\n', "")));
        assert_eq!(log.newest(), Some(1), "{bytes}");
    }
    let file = File::options().write(true).open(log.path(1, "jsonl")).unwrap();
    file.set_len(200 << 20).unwrap();
    assert_eq!(log.newest(), None, "the hole is a line of more than 64 MiB");
}

#[test]
fn losses_are_counted_in_the_part_that_is_searched() {
    let log = Log::new();
    log.write(1, &(lost(1, 10, "\"count\":5,") + &line(2, 11, "a")));
    log.write(2, &(line(3, 20, "b") + &lost(4, 21, "\"count\":7,") + &lost(5, 22, "")));
    let planted = "\\\",\\\"event\\\":\\\"lost\\\"";
    log.write(3, &(line(6, 30, planted) + "{\"event\":\"lost\""));
    let found = lost_lines(&log.files(), 1 << 20).unwrap();
    let newest = Some((at(22), "dropped".to_owned()));
    let searched_since = Some(at(10));
    let all =
        LostLines { lines: 3, records: 12, encrypted: 0, newest, searched_since, has_more: false };
    assert_eq!(found, all);

    // All of the third file, and only the last line of the second one.
    let third = std::fs::metadata(log.path(3, "jsonl")).unwrap().len();
    let last = lost(5, 22, "").len() as u64;
    let found = lost_lines(&log.files(), third + last + 10).unwrap();
    assert_eq!((found.lines, found.searched_since, found.has_more), (1, Some(at(22)), true));
    let found = lost_lines(&log.files(), 0).unwrap();
    assert_eq!(found, LostLines { has_more: true, ..LostLines::default() });

    std::fs::rename(log.path(1, "jsonl"), log.path(1, "jsonl.zst")).unwrap();
    let found = lost_lines(&log.files(), 1 << 20).unwrap();
    assert_eq!((found.lines, found.has_more), (2, true));
    assert_eq!(lost_lines(&[], 9).unwrap(), LostLines::default());
}

#[test]
fn encrypted_connections_of_a_capture_are_counted_once() {
    let log = Log::new();
    let tls = |seq, bytes: &str| lost(seq, 20, bytes).replace("dropped", "tls");
    // One that is still open, one that has ended, and another loss.
    let lines = [tls(1, ""), tls(2, ""), tls(3, "\"lost_bytes\":900,"), lost(4, 21, "")];
    log.write(1, &lines.concat());
    let found = lost_lines(&log.files(), 1 << 20).unwrap();
    assert_eq!((found.lines, found.encrypted), (4, 2));
}

#[test]
fn what_no_checkpoint_covers_is_measured() {
    let log = Log::new();
    let (one, two, three) = (line(1, 10, "a"), line(2, 20, "b"), line(3, 30, "c"));
    log.write(1, &(one.clone() + &two));
    log.write(2, &three);
    let checkpoint = |number: u32, offset: usize| Checkpoint {
        origin: String::new(),
        seq: 0,
        chain: Hash::ZERO,
        time_s: 0,
        file: format!("audit-20261121T100000Z-{number:06}.jsonl"),
        offset: offset as u64,
        reason: CheckpointReason::Interval,
        next: None,
    };
    let unsigned = |checkpoint: Option<Checkpoint>| {
        let found = unsigned(&log.files(), checkpoint.as_ref()).unwrap();
        (found.bytes as usize, found.since.map(Timestamp::as_second))
    };
    assert_eq!(unsigned(None), (one.len() + two.len() + three.len(), Some(12)));
    assert_eq!(unsigned(Some(checkpoint(1, one.len()))), (two.len() + three.len(), Some(22)));
    assert_eq!(unsigned(Some(checkpoint(1, one.len() + two.len()))), (three.len(), Some(32)));
    assert_eq!(unsigned(Some(checkpoint(2, three.len()))), (0, None));
    // The file was cut since, or the line is not complete yet.
    assert_eq!(unsigned(Some(checkpoint(2, 5000))), (0, None));
    log.write(2, "{");
    assert_eq!(unsigned(Some(checkpoint(2, 0))), (1, None));
}

#[test]
fn a_checkpoint_is_read_from_the_end_of_the_newest_sidecar_that_has_one() {
    let log = Log::new();
    log.write(1, "");
    log.write(2, "");
    let newest = || newest_checkpoint(log.0.path(), &log.files()).unwrap();
    assert_eq!(newest(), None);
    let key = tacho_chain::key::SecretKey::from_bytes(&[1; 32]);
    let origin = key.root().origin().to_owned();
    let checkpoint = Checkpoint {
        origin: origin.clone(),
        seq: 7,
        chain: Hash::ZERO,
        time_s: 3,
        file: "audit-20261121T100000Z-000001.jsonl".to_owned(),
        offset: 9,
        reason: CheckpointReason::Rotate,
        next: None,
    };
    let note = tacho_chain::note::sign(&checkpoint.to_text(), &origin, &key);
    let frame = format!("frame 0 9 7 7 {}\n", "0".repeat(64));
    std::fs::write(log.path(1, "chain"), frame.clone() + &note).unwrap();
    std::fs::write(log.path(2, "chain"), frame.clone()).unwrap();
    assert_eq!(newest().as_ref(), Some(&checkpoint));
    // Many frames behind the last one.
    std::fs::write(log.path(1, "chain"), note + &frame.repeat(20_000)).unwrap();
    assert_eq!(newest().as_ref(), Some(&checkpoint));
}
