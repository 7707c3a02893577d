//! `tacho tail --follow` on files that change under it.

use crate::support::{Following, Log, statement};

const FIRST: &str = "audit-20261121T100000Z-000001.jsonl";
const SECOND: &str = "audit-20261121T110000Z-000002.jsonl";
const THIRD: &str = "audit-20261121T120000Z-000003.jsonl";

fn line(seq: u64) -> String {
    statement(seq, "2026-11-21T10:00:00.000000+00:00", &format!("SELECT {seq}"))
}

fn with_newline(seq: u64) -> String {
    line(seq) + "\n"
}

#[test]
fn continues_across_rotation() {
    let log = Log::new();
    log.append(FIRST, with_newline(1) + &with_newline(2));
    let following = Following::start(log.path(), &["-n", "1"]);
    assert_eq!(following.next(), line(2));
    log.append(FIRST, with_newline(3));
    assert_eq!(following.next(), line(3));
    // The old file gets a last line, and two new files are created between two reads.
    log.append(FIRST, with_newline(4));
    log.append(SECOND, with_newline(5));
    log.append(THIRD, with_newline(6));
    for seq in 4..=6 {
        assert_eq!(following.next(), line(seq));
    }
    log.append(THIRD, with_newline(7));
    assert_eq!(following.next(), line(7));
    assert_eq!(following.end("-INT"), (Some(0), vec![], String::new()));
}

/// A statement of a connection.
fn of(conn: u64, seq: u64) -> String {
    let line = line(seq).replace("\"conn\":7", &format!("\"run\":1,\"conn\":{conn}"));
    assert!(line.contains(&format!("\"conn\":{conn}")), "{line}");
    line + "\n"
}

#[test]
fn lines_around_a_match_are_shown_while_it_follows() {
    let log = Log::new();
    let conn = |seq| if seq % 2 == 0 { 8 } else { 9 };
    for seq in 1..=9 {
        log.append(if seq <= 4 { FIRST } else { SECOND }, of(conn(seq), seq));
    }
    log.append(SECOND, "nonsense\n");
    let expect = |following: &Following, seqs: &[u64]| {
        for seq in seqs {
            assert_eq!(following.next() + "\n", of(conn(*seq), *seq));
        }
    };
    let matches = ["--grep", "^SELECT (1|2|3|7|12|16)$", "-C", "1"];
    // The newest match, with a line of its connection in each direction; and then new ones.
    for (lines, shown) in [("1", &[5, 7, 9][..]), ("2", &[1, 3, 5, 7, 9])] {
        let following = Following::start(log.path(), &[&matches[..], &["-n", lines]].concat());
        expect(&following, shown);
        following.end("-INT");
    }
    let following = Following::start(log.path(), &[&matches[..], &["-n", "1"]].concat());
    expect(&following, &[5, 7, 9]);
    for seq in 10..=18 {
        log.append(if seq <= 14 { SECOND } else { THIRD }, of(conn(seq), seq));
    }
    // 14 is after one match and 16 another: no line is shown twice.
    expect(&following, &[10, 12, 14, 16, 18]);
    let (code, rest, errors) = following.end("-INT");
    assert_eq!((code, rest), (Some(1), vec![]), "{errors}");
    assert_eq!(errors.matches("broken line").count(), 1, "{errors}");
}

#[test]
fn lines_around_a_match_need_no_line_that_is_there() {
    let log = Log::new();
    let of = |seq| of(8, seq);
    let matches = ["--seq", "3", "-C", "1"];
    let none_yet = Following::start(log.path(), &matches);
    log.append(FIRST, of(1));
    let following = Following::start(log.path(), &matches);
    let all = Following::start(log.path(), &[&matches[..], &["-n", "all"]].concat());
    let single = Following::start(&log.file(FIRST), &matches);
    for seq in 2..=5 {
        log.append(FIRST, of(seq));
    }
    for following in [none_yet, following, all, single] {
        for seq in 2..=4 {
            assert_eq!(following.next() + "\n", of(seq));
        }
        following.end("-INT");
    }
}

#[test]
fn nothing_is_lost_or_doubled_while_files_rotate_quickly() {
    const LINES: u64 = 3000;
    let log = Log::new();
    log.append("audit-20261121T100000Z-000000.jsonl", with_newline(0));
    let following = Following::start(log.path(), &["-n", "all"]);
    assert_eq!(following.next(), line(0));
    for seq in 1..=LINES {
        let name = format!("audit-20261121T100000Z-{:06}.jsonl", seq / 100 + 1);
        // Lines are written in two parts, so that many reads get half a line.
        let text = with_newline(seq);
        let (head, tail) = text.split_at(text.len() / 2);
        log.append(&name, head);
        log.append(&name, tail);
    }
    for seq in 1..=LINES {
        assert_eq!(following.next(), line(seq));
    }
    assert_eq!(following.end("-INT"), (Some(0), vec![], String::new()));
}

#[test]
fn waits_for_the_rest_of_a_line() {
    let log = Log::new();
    let torn = with_newline(2);
    log.append(FIRST, with_newline(1) + &torn[..50]);
    let following = Following::start(log.path(), &[]);
    assert_eq!(following.next(), line(1));
    log.append(FIRST, &torn[50..]);
    assert_eq!(following.next(), line(2));
    assert_eq!(following.end("-TERM"), (Some(0), vec![], String::new()));
}

#[test]
fn a_line_that_stays_torn_at_rotation_is_reported() {
    let log = Log::new();
    log.append(FIRST, with_newline(1));
    let following = Following::start(log.path(), &[]);
    assert_eq!(following.next(), line(1));
    log.append(FIRST, &line(2)[..50]);
    log.append(SECOND, with_newline(3));
    assert_eq!(following.next(), line(3));
    let (code, rest, errors) = following.end("-INT");
    assert_eq!((code, rest.len()), (Some(1), 0));
    let place = format!("{FIRST} at byte {}: broken line: EOF", with_newline(1).len());
    assert!(errors.contains(&place), "{errors}");
}

#[test]
fn starts_again_in_a_truncated_file() {
    let log = Log::new();
    log.append(FIRST, with_newline(1) + &with_newline(2));
    let following = Following::start(log.path(), &["-n", "2"]);
    assert_eq!((following.next(), following.next()), (line(1), line(2)));
    std::fs::write(log.file(FIRST), with_newline(3)).unwrap();
    assert_eq!(following.next(), line(3));
    let (code, _, errors) = following.end("-INT");
    assert_eq!(code, Some(0));
    assert!(errors.contains("file truncated"), "{errors}");
}

#[test]
fn follows_a_single_file_that_is_replaced() {
    let log = Log::new();
    log.append("copy.jsonl", with_newline(1));
    let following = Following::start(&log.file("copy.jsonl"), &[]);
    assert_eq!(following.next(), line(1));
    std::fs::rename(log.file("copy.jsonl"), log.file("old.jsonl")).unwrap();
    log.append("old.jsonl", with_newline(2));
    log.append("copy.jsonl", with_newline(3));
    assert_eq!(following.next(), line(2));
    assert_eq!(following.next(), line(3));
    assert_eq!(following.end("-INT").0, Some(0));
}

#[test]
fn waits_for_the_first_file() {
    let log = Log::new();
    let following = Following::start(log.path(), &[]);
    log.append(FIRST, with_newline(1));
    assert_eq!(following.next(), line(1));
    assert_eq!(following.end("-INT").0, Some(0));
}

#[test]
fn a_removed_or_compressed_file_is_not_an_error() {
    let log = Log::new();
    log.append(FIRST, with_newline(1));
    let following = Following::start(log.path(), &[]);
    assert_eq!(following.next(), line(1));
    log.append(&format!("{FIRST}.zst"), "compressed");
    std::fs::remove_file(log.file(FIRST)).unwrap();
    // Compressed before it was read.
    let unseen = zstd::encode_all(with_newline(2).as_bytes(), 3).unwrap();
    log.append(&format!("{FIRST}.new"), unseen);
    std::fs::rename(log.file(&format!("{FIRST}.new")), log.file(&format!("{SECOND}.zst"))).unwrap();
    assert_eq!(following.next(), line(2));
    log.append("audit-20261121T120000Z-000003.jsonl", with_newline(3));
    assert_eq!(following.next(), line(3));
    assert_eq!(following.end("-INT"), (Some(0), vec![], String::new()));
}

#[test]
fn a_clock_set_back_hides_no_file() {
    let log = Log::new();
    log.append(SECOND, with_newline(1));
    let following = Following::start(log.path(), &[]);
    assert_eq!(following.next(), line(1));
    log.append(FIRST, with_newline(2));
    assert_eq!(following.next(), line(2));
    assert_eq!(following.end("-INT").0, Some(0));
}

#[test]
fn filters_apply_to_new_lines() {
    let log = Log::new();
    log.append(FIRST, with_newline(1));
    let following = Following::start(log.path(), &["--grep", "[24]$"]);
    log.append(FIRST, with_newline(2) + &with_newline(3) + &with_newline(4));
    assert_eq!((following.next(), following.next()), (line(2), line(4)));
    assert_eq!(following.end("-INT"), (Some(0), vec![], String::new()));
}
