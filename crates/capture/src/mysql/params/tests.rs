use tacho_ring::params::Params;

use super::*;
use crate::mysql::frame::Kept;

const LIMIT: usize = 1 << 10;

fn execution(bytes: &[u8]) -> Args {
    Args::Execution { is_bulk: false, bytes: bytes.to_vec(), total: bytes.len() as u64 }
}

/// An execution with these NULLs and types, and its values.
fn packet(nulls: &[u8], types: &[u16], values: &[u8]) -> Vec<u8> {
    let types = types.iter().flat_map(|kind| kind.to_le_bytes()).collect::<Vec<_>>();
    [b"\x01\0\0\0\0\x01\0\0\0", nulls, &[1], &types, values].concat()
}

fn words(values: &Values) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let word = |param: Param<'_>| match param {
        Param::Null => "NULL".to_owned(),
        Param::Number(number) => text(number),
        Param::Text(value) => format!("text {}", text(value)),
        Param::Bytes(value) => format!("bytes {}", text(value)),
        Param::Plain(value) => format!("plain {}", text(value)),
        Param::Mark(value) => format!("mark {}", text(value)),
    };
    Params::new(&values.text).map(word).collect()
}

fn read(count: u16, args: &Args) -> Option<Vec<String>> {
    let values = Bound::new(count).execute(Some(args), Some(0), LIMIT)?;
    assert_eq!(values.whole_bytes(), 0);
    Some(words(&values))
}

#[test]
fn all_types_are_read() {
    const U: u16 = 1 << 15;
    let cases: &[(u16, &[u8], &str)] = &[
        (1, b"\xff", "-1"),
        (1 | U, b"\xff", "255"),
        (2, b"\xfe\xff", "-2"),
        (2 | U, b"\xfe\xff", "65534"),
        (3, b"\xff\xff\xff\xff", "-1"),
        (3 | U, b"\xff\xff\xff\xff", "4294967295"),
        (8, b"\xff\xff\xff\xff\xff\xff\xff\xff", "-1"),
        (8 | U, b"\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
        (4, &0.1_f32.to_le_bytes(), "0.1"),
        (5, &1e300_f64.to_le_bytes(), "1e300"),
        (5, &(-2.5e-7_f64).to_le_bytes(), "-2.5e-7"),
        (5, &f64::INFINITY.to_le_bytes(), "plain inf"),
        (0, b"\x03-.5", "plain -.5"),
        (0xf6, b"\x0412.5", "plain 12.5"),
        (10, b"\x04\xea\x07\x0b\x1a", "plain 2026-11-26"),
        (10, b"\0", "plain 0000-00-00"),
        (12, b"\x04\xea\x07\x0b\x1a", "plain 2026-11-26 00:00:00"),
        (12, b"\x07\xea\x07\x0b\x1a\x01\x02\x03", "plain 2026-11-26 01:02:03"),
        (7, b"\x0b\xea\x07\x0b\x1a\x01\x02\x03\x40\xe2\x01\0", "plain 2026-11-26 01:02:03.123456"),
        (11, b"\0", "plain 00:00:00"),
        (11, b"\x08\x01\x22\0\0\0\x16\x3b\x3b", "plain -838:59:59"),
        (11, b"\x0c\0\0\0\0\0\x01\x02\x03\x01\0\0\0", "plain 01:02:03.000001"),
        (0x0f, b"\x01a", "text a"),
        (0xfd, b"\x02ab", "text ab"),
        (0xfe, b"\0", "text "),
        (0xf5, b"\x02{}", "text {}"),
        (0xf7, b"\x01e", "text e"),
        (0xf8, b"\x01s", "text s"),
        (0x10, b"\x01b", "bytes b"),
        (0xf2, b"\x01v", "bytes v"),
        (0xf9, b"\x01t", "bytes t"),
        (0xfc, b"\xfc\x01\0x", "bytes x"),
        (0xff, b"\x01g", "bytes g"),
    ];
    for (kind, value, word) in cases {
        let args = execution(&packet(b"\0", &[*kind], value));
        assert_eq!(read(1, &args), Some(vec![(*word).to_owned()]), "{kind}");
        // A byte less or more: it is something else.
        let short = execution(&packet(b"\0", &[*kind], &value[..value.len() - 1]));
        assert_eq!(read(1, &short), None, "{kind}");
        let long = execution(&packet(b"\0", &[*kind], &[value, &b"x"[..]].concat()));
        assert_eq!(read(1, &long), None, "{kind}");
    }
    // YEAR, INT24, NULL, BOOL: servers differ. Other lengths of times.
    for kind in [6, 9, 13, 244, 0x101] {
        assert_eq!(read(1, &execution(&packet(b"\0", &[kind], b"\x01a"))), None, "{kind}");
    }
    for kind in [10, 11, 12] {
        assert_eq!(read(1, &execution(&packet(b"\0", &[kind], b"\x01a"))), None, "{kind}");
    }
}

#[test]
fn nulls_have_no_value() {
    let nine = [1; 9];
    let args = execution(&packet(b"\x81\x01", &nine, b"\x01\x02\x03\x04\x05\x06"));
    let expected = ["NULL", "1", "2", "3", "4", "5", "6", "NULL", "NULL"];
    assert_eq!(read(9, &args).unwrap(), expected);
    // No parameters, or another number of them.
    assert_eq!(read(0, &args), None);
    assert_eq!(read(8, &args), None);
}

#[test]
fn types_are_those_of_the_last_execution_that_had_some() {
    let mut bound = Bound::new(1);
    let mut next = |bytes: &[u8]| {
        let args = execution(bytes);
        bound.execute(Some(&args), Some(0), LIMIT).map(|values| words(&values))
    };
    let again = |value: u8| [&b"\x01\0\0\0\0\x01\0\0\0\0\0"[..], &[value]].concat();
    assert_eq!(next(&again(7)), None, "there are none yet");
    assert_eq!(next(&packet(b"\0", &[1], b"\x07")), Some(vec!["7".to_owned()]));
    assert_eq!(next(&again(8)), Some(vec!["8".to_owned()]));
    assert_eq!(next(&packet(b"\0", &[2], b"\x07\0")), Some(vec!["7".to_owned()]));
    // Not that of before.
    assert_eq!(next(&again(9)), None);
    // An execution that was not captured may have had other types.
    let args = execution(&packet(b"\0", &[1], b"\x07"));
    assert!(bound.execute(Some(&args), Some(0), LIMIT).is_some());
    assert!(bound.execute(None, Some(0), LIMIT).is_none());
    assert!(bound.execute(Some(&execution(&again(8))), Some(0), LIMIT).is_none());
}

#[test]
fn query_attributes_are_no_parameters() {
    let session = Some(caps::QUERY_ATTRIBUTES);
    // Two values, of which one is an attribute; each has a name.
    let bytes = b"\x01\0\0\0\x08\x01\0\0\0\x02\0\x01\x01\0\0\x01\0\x03tag\x05\x06";
    let values = Bound::new(1).execute(Some(&execution(bytes)), session, LIMIT).unwrap();
    assert_eq!((words(&values), values.whole_bytes()), (vec!["5".to_owned()], 0));
    // Without their number there is a name nevertheless.
    let bytes = b"\x01\0\0\0\0\x01\0\0\0\0\x01\x01\0\0\x05";
    let values = Bound::new(1).execute(Some(&execution(bytes)), session, LIMIT).unwrap();
    assert_eq!(words(&values), ["5"]);
    // Fewer than the statement has; the capabilities are not known.
    let fewer = b"\x01\0\0\0\x08\x01\0\0\0\0";
    assert!(Bound::new(1).execute(Some(&execution(fewer)), session, LIMIT).is_none());
    assert!(Bound::new(1).execute(Some(&execution(bytes)), None, LIMIT).is_none());
}

fn long_data(param: u16, data: &[u8]) -> Args {
    let head = data[..data.len().min(LIMIT)].to_vec();
    Args::LongData { param, head, total: data.len() as u64 }
}

#[test]
fn long_data_is_not_in_the_execution() {
    let mut bound = Bound::new(3);
    for part in [&b"ab"[..], b"", b"c"] {
        bound.take_long_data(Some(&long_data(1, part)), LIMIT);
    }
    assert!(bound.held_bytes() >= 3);
    // The bit of its NULL does not matter.
    let args = execution(&packet(b"\x02", &[1, 0xfe, 1], b"\x05\x06"));
    let values = bound.execute(Some(&args), Some(0), LIMIT).unwrap();
    assert_eq!(words(&values), ["5", "text abc", "6"]);
    // The next one has none, nor has one after a reset.
    assert!(bound.execute(Some(&args), Some(0), LIMIT).is_some_and(|it| words(&it)[1] == "NULL"));
    bound.take_long_data(Some(&long_data(1, b"x")), LIMIT);
    bound.reset();
    assert!(bound.execute(Some(&args), Some(0), LIMIT).is_some_and(|it| words(&it)[1] == "NULL"));
    // A part of it was not captured.
    bound.take_long_data(None, LIMIT);
    assert!(bound.execute(Some(&args), Some(0), LIMIT).is_none());
}

#[test]
fn values_are_cut_at_the_limit() {
    let text = [&b"\x05"[..], b"abcde"].concat();
    let two = execution(&packet(b"\0", &[0xfe, 0xfe], &text.repeat(2)));
    let cut = |limit| {
        let values = Bound::new(2).execute(Some(&two), Some(0), limit).unwrap();
        (words(&values), values.whole_bytes())
    };
    let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(cut(10), (of(&["text abcde", "text abcde"]), 0));
    assert_eq!(cut(9), (of(&["text abcde", "text abcd"]), 10));
    assert_eq!(cut(5), (of(&["text abcde"]), 10));
    assert_eq!(cut(2), (of(&["text ab"]), 10));
    // A number is not cut, and nothing behind it is shown.
    let args = execution(&packet(b"\0", &[2, 1], b"\xe8\x03\x01"));
    let values = Bound::new(2).execute(Some(&args), Some(0), 3).unwrap();
    assert_eq!((words(&values), values.whole_bytes()), (of(&[]), 3));
    assert!(!values.is_empty());
    // NULLs are not free.
    let nulls = execution(&packet(b"\xff", &[1; 8], b""));
    let values = Bound::new(8).execute(Some(&nulls), Some(0), 5).unwrap();
    assert_eq!((words(&values).len(), values.whole_bytes()), (5, 1));
    // Long data.
    let mut bound = Bound::new(1);
    for part in [[b'a'; 800], [b'b'; 800]] {
        bound.take_long_data(Some(&long_data(0, &part)), LIMIT);
    }
    bound.take_long_data(Some(&long_data(0, b"c")), LIMIT);
    let args = execution(&packet(b"\0", &[0xfc], b""));
    let values = bound.execute(Some(&args), Some(0), LIMIT).unwrap();
    let shown = format!("bytes {}{}", "a".repeat(800), "b".repeat(224));
    assert_eq!((words(&values), values.whole_bytes()), (vec![shown], 1601));
}

#[test]
fn of_a_large_execution_only_the_beginning_is_kept() {
    let large = [&b"\xfd\x40\x42\x0f"[..], &[b'x'; 1_000_000]].concat();
    let payload = packet(b"\0", &[1, 0xfc, 1], &[&b"\x05"[..], &large, b"\x06"].concat());
    let total = payload.len() as u64 + 1;
    let (bytes, kept) = (&payload[..], Kept::InMemory);
    let message = Message { seq: 0, next_seq: 1, bytes, total, is_damaged: false, kept };
    let args = Args::of(EXECUTE, &payload, &message, LIMIT).unwrap();
    assert!(args.held_bytes() <= 2 * EXECUTION_BYTES_MAX);
    let values = Bound::new(3).execute(Some(&args), Some(0), LIMIT).unwrap();
    let shown = words(&values);
    assert_eq!((shown.len(), &shown[0][..], shown[1].len()), (2, "5", 6 + LIMIT - 1));
    assert!(values.whole_bytes() > 1_000_000, "{}", values.whole_bytes());
    let damaged = Message { is_damaged: true, ..message };
    assert!(Args::of(EXECUTE, &payload, &damaged, LIMIT).is_none());
    assert!(Args::of(EXECUTE, &payload, &message, 0).is_none());
}

#[test]
fn a_bulk_execution_has_its_rows_one_after_the_other() {
    let head = b"\x01\0\0\0\x80\0\x01\0\xfe\0";
    let rows = b"\0\x05\0\x01a\x01\x02\0\x06\x03";
    let bytes = [&head[..], rows].concat();
    let args = |bytes: &[u8]| Args::Execution {
        is_bulk: true,
        bytes: bytes.to_vec(),
        total: bytes.len() as u64,
    };
    let mut bound = Bound::new(2);
    let values = bound.execute(Some(&args(&bytes)), None, LIMIT).unwrap();
    let expected = ["5", "text a", "NULL", "mark default", "6", "mark ignore"];
    assert_eq!(words(&values), expected);
    // Without types: those of before.
    let again = [&b"\x01\0\0\0\0\0"[..], &rows[..5]].concat();
    let values = bound.execute(Some(&args(&again)), None, LIMIT).unwrap();
    assert_eq!(words(&values), ["5", "text a"]);
    for wrong in [&bytes[..bytes.len() - 1], &[&bytes[..], b"\x09"].concat()] {
        assert!(bound.execute(Some(&args(wrong)), None, LIMIT).is_none());
    }
}

#[test]
fn no_packet_is_too_strange() {
    let good = packet(b"\0", &[0xfe, 12, 8], b"\x02ab\x04\xea\x07\x0b\x1a\x01\0\0\0\0\0\0\0");
    for end in 0..good.len() {
        for is_bulk in [false, true] {
            let bytes = good[..end].to_vec();
            for total in [end as u64, 1 << 40] {
                let args = Args::Execution { is_bulk, bytes: bytes.clone(), total };
                let mut bound = Bound::new(3);
                let values = bound.execute(Some(&args), Some(0), LIMIT);
                // A bulk execution without rows.
                let is_whole = total == end as u64 && (end, is_bulk) != (6, true);
                assert!(!is_whole || values.is_none(), "{end}");
            }
        }
    }
}
