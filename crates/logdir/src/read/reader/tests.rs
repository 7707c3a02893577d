use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use super::super::line_limit::LINE_BYTES_MAX;
use super::*;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn backward(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let file = file(bytes);
    let mut lines = Backward::new(&file, 0..bytes.len() as u64, LINE_BYTES_MAX);
    let mut all = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        all.push((line.offset, line.bytes.to_vec()));
    }
    all.reverse();
    all
}

fn forward(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut lines = Forward::new(file(bytes), 0..bytes.len() as u64, LINE_BYTES_MAX);
    let mut all = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        all.push((line.offset, line.bytes.to_vec()));
    }
    let rest = lines.unfinished();
    if !rest.bytes.is_empty() {
        all.push((rest.offset, rest.bytes.to_vec()));
    }
    all
}

fn expected(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut offset = 0;
    let mut all = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        all.push((offset, line.strip_suffix(b"\n").unwrap_or(line).to_vec()));
        offset += line.len() as u64;
    }
    all
}

#[test]
fn both_directions_give_the_same_lines() {
    let block = BLOCK_BYTES;
    let mut cases: Vec<Vec<u8>> = vec![
        b"".into(),
        b"\n".into(),
        b"\n\n".into(),
        b"a".into(),
        b"a\nb".into(),
        b"a\n\nbc\n".into(),
    ];
    // Lines that end near the border of a block, and lines of several blocks.
    for length in [block - 2, block - 1, block, block + 1, 2 * block, 5 * block + 7] {
        for tail in ["", "x", "x\n", "\n"] {
            let mut case = vec![b'a'; length];
            case.push(b'\n');
            case.extend(vec![b'b'; length]);
            case.extend(tail.bytes());
            cases.push(case);
        }
    }
    let many: String = (0..50_000).map(|n| format!("{n:0width$}\n", width = n % 37)).collect();
    cases.push(many.into_bytes());
    for case in cases {
        assert!(backward(&case) == expected(&case), "{} bytes", case.len());
        assert!(forward(&case) == expected(&case), "{} bytes", case.len());
    }
}

fn placed(offset: u64, bytes: &[u8]) -> Placed<'_> {
    Placed { offset, bytes, is_too_long: false }
}

#[test]
fn lines_that_are_too_long_are_skipped_in_both_directions() {
    const LIMIT: usize = 3 * BLOCK_BYTES;
    let lengths = [5, LIMIT + 1, 7, LIMIT, 4 * LIMIT, 9 * LIMIT + 3, 0, LIMIT + 1];
    for has_end in [true, false] {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for length in lengths {
            expected.push((text.len() as u64, length > LIMIT, length));
            text.extend(std::iter::repeat_n(b'x', length));
            text.push(b'\n');
        }
        if !has_end {
            text.pop();
        }
        let file = file(&text);
        let all = 0..text.len() as u64;
        let kept = |line: Placed| (line.offset, line.is_too_long, line.bytes.len());
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(offset, is_too_long, length)| {
                (offset, is_too_long, if is_too_long { 0 } else { length })
            })
            .collect();
        let mut backward = Backward::new(&file, all.clone(), LIMIT);
        let mut found = Vec::new();
        while let Some(line) = backward.next_line().unwrap() {
            found.push(kept(line));
            assert!(backward.buffer.capacity() <= LIMIT + BLOCK_BYTES_MAX);
        }
        found.reverse();
        assert_eq!(found, expected, "backward, {has_end}");
        let mut forward = Forward::new(&file, all, LIMIT);
        let mut found = Vec::new();
        while let Some(line) = forward.next_line().unwrap() {
            found.push(kept(line));
            assert!(forward.buffer.capacity() <= 3 * LIMIT);
        }
        if !has_end {
            found.push(kept(forward.unfinished()));
        }
        assert_eq!(found, expected, "forward, {has_end}");
    }
}

#[test]
fn a_range_is_kept() {
    let file = file(b"one\ntwo\nthree\n");
    let mut lines = Backward::new(&file, 4..8, LINE_BYTES_MAX);
    assert_eq!(lines.next_line().unwrap(), Some(placed(4, b"two")));
    assert_eq!(lines.next_line().unwrap(), None);
    let mut lines = Forward::new(&file, 4..10, LINE_BYTES_MAX);
    assert_eq!(lines.next_line().unwrap(), Some(placed(4, b"two")));
    assert_eq!(lines.next_line().unwrap(), None);
    assert_eq!(lines.unfinished(), placed(8, b"th"));
    lines.extend_to(14);
    assert_eq!(lines.next_line().unwrap(), Some(placed(8, b"three")));
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let file = file(b"one\n");
    assert!(Backward::new(&file, 0..8, LINE_BYTES_MAX).next_line().is_err());
    assert!(Forward::new(&file, 0..8, LINE_BYTES_MAX).next_line().is_err());
}

#[test]
fn complete_length_ends_after_the_last_newline() {
    let long = [&b"a\n"[..], &vec![b'x'; 3 * BLOCK_BYTES]].concat();
    for (bytes, length) in [(&b""[..], 0), (b"a", 0), (b"a\n", 2), (b"a\nb", 2), (&long, 2)] {
        assert_eq!(complete_length(&file(bytes), bytes.len() as u64).unwrap(), length);
    }
}

#[test]
fn the_end_of_a_huge_file_costs_one_block() {
    let file = tempfile::tempfile().unwrap();
    let length = 10 << 30;
    // A hole as large as a real log, which must not be read.
    file.write_all_at(b"\nlast but one\nlast\n", length - 19).unwrap();
    let mut lines = Backward::new(&file, 0..length, LINE_BYTES_MAX);
    assert_eq!(lines.next_line().unwrap().unwrap().bytes, b"last");
    assert_eq!(lines.next_line().unwrap().unwrap().bytes, b"last but one");
    assert_eq!(lines.bytes_read, BLOCK_BYTES as u64);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn log_line(ts: i64, rest: &str) -> String {
    let ts = at(ts);
    format!("{{\"v\":1,\"seq\":1,\"ts\":\"{ts}\",\"event\":\"statement\"{rest}}}\n")
}

#[test]
fn split_is_exact_and_reads_little() {
    // Two lines a second; every tenth second is followed by a statement that has been open since
    // the start, which must not mislead the search.
    let mut text = String::new();
    let mut starts = Vec::new();
    for second in 0..100_000 {
        starts.push(text.len() as u64);
        for _ in 0..2 {
            text += &log_line(second, r#","outcome":"ok","query_time_us":10"#);
        }
        if second % 10 == 0 {
            text += &log_line(0, r#","outcome":"running""#);
            text += "broken\n";
        }
    }
    let length = text.len() as u64;
    let file = file(text.as_bytes());
    for second in [1, 2, 9, 10, 11, 4_999, 50_000, 99_998, 99_999] {
        let split = split_at(&file, length, at(second), LINE_BYTES_MAX).unwrap();
        let start = starts[usize::try_from(second).unwrap()];
        assert_eq!(split.after, Some(start), "second {second}");
        assert!(split.before <= start && start - split.before < 300, "second {second}");
        assert!(split.bytes_read < 20 * BLOCK_BYTES as u64, "{} bytes", split.bytes_read);
    }
    let before_all = split_at(&file, length, at(-5), LINE_BYTES_MAX).unwrap();
    assert_eq!((before_all.before, before_all.after), (0, Some(0)));
    let after_all = split_at(&file, length, at(200_000), LINE_BYTES_MAX).unwrap();
    assert_eq!((after_all.before, after_all.after), (length, None));
}

#[test]
fn a_long_statement_counts_at_its_end() {
    let lines = [
        log_line(100, r#","outcome":"ok""#),
        log_line(10, r#","outcome":"ok","query_time_us":91000000"#),
        log_line(102, r#","outcome":"ok""#),
    ];
    let text = lines.concat();
    let split =
        split_at(&file(text.as_bytes()), text.len() as u64, at(101), LINE_BYTES_MAX).unwrap();
    assert_eq!(split.before, lines[0].len() as u64);
    assert_eq!(split.after, Some(split.before));
}
