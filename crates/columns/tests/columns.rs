//! Any content, any slice: what is read is what was written, or an error.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;
use tacho_columns::{CONTENT_BYTES, ColumnsReader, Writer, length};

mod support;

use support::{Numbers, lines};

/// Bytes of the end of a file, behind the table.
const FOOTER_BYTES: usize = 44;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn pack(content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    content.chunks(CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
    writer.finish().unwrap()
}

fn slice(reader: &ColumnsReader, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match reader.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(bytes)
}

fn read(packed: &[u8]) -> io::Result<Vec<u8>> {
    let reader = ColumnsReader::open(file(packed))?;
    slice(&reader, 0, reader.length() as usize)
}

/// Values of JSON, and what is almost one.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        (0..50_u64).prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec![
            "-0",
            "00",
            "007",
            "1e5",
            "1E+5",
            "-",
            "null",
            "true",
            "false",
            "nul",
            "+1",
            "1.50",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999",
            "\"\"",
            "\"",
            "\"\\\"",
            "\"\\u0000\"",
            "\"'\"",
            "\"''\"",
            "\"\\\\'\"",
            "{}",
            "[]",
            "[1,2,3]",
            "{\"a\":1}",
            "",
            " ",
            "\"2026-11-21T01:02:03.123456+01:00\"",
            "\"2026-11-31T01:02:03.123456+01:00\"",
            "\"9999-12-31T23:59:59.999999\"",
        ])
        .prop_map(str::to_owned),
        "[0-9a-f]{4,40}".prop_map(|text| format!("\"{text}\"")),
        "[0-9A-F]{4,20}".prop_map(|text| format!("\"x {text}\"")),
        "[ -~]{0,40}".prop_map(|text| format!("\"{text}\"")),
        ("[a-c]{1,2}", "[ -~]{0,9}", 0..100_000_u32).prop_map(|(table, text, id)| {
            format!("\"SELECT {table} FROM t1_2 WHERE a = '{text}' AND id = {id:05} LIMIT {id}\"")
        }),
    ]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let keys = prop::sample::select(vec!["a", "b", "a\\\"b", "ts", "sql", ""]);
    let members = prop::collection::vec((keys, value()), 0..6);
    let object = members.prop_map(|members| {
        let members = members.iter().map(|(key, value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
    });
    prop_oneof![
        8 => object,
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => prop::collection::vec(0..0x22_u8, 0..20),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lines_are_read_back(
        lines in prop::collection::vec((line(), 1..5_usize), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut content = Vec::new();
        for _ in 0..2 {
            for (line, count) in &lines {
                for _ in 0..*count {
                    content.extend_from_slice(line);
                    content.push(b'\n');
                }
            }
        }
        content.truncate(cut.index(content.len() + 1));
        let packed = pack(&content);
        prop_assert_eq!(length(&file(&packed)).unwrap(), content.len() as u64);
        prop_assert!(read(&packed).unwrap() == content);
    }

    #[test]
    fn any_bytes_are_read_back(content in prop::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert!(read(&pack(&content)).unwrap() == content);
    }

    #[test]
    fn a_change_of_values_is_read_back(seed in any::<u64>(), change in any::<u64>()) {
        let mut content = lines(seed, 60);
        let mut numbers = Numbers(change | 1);
        for _ in 0..30 {
            let at = numbers.below(content.len() as u64) as usize;
            content[at] = match numbers.below(3) {
                0 => numbers.below(256) as u8,
                1 => b"\"',:{}[]\\0- \n"[numbers.below(13) as usize],
                _ => b'0' + numbers.below(10) as u8,
            };
        }
        prop_assert!(read(&pack(&content)).unwrap() == content);
    }
}

#[test]
fn slices_of_several_frames() {
    let content = lines(1, 2 * CONTENT_BYTES / 250);
    assert!(content.len() > 2 * CONTENT_BYTES);
    let packed = pack(&content);
    assert!(packed.len() < content.len() / 6, "{} of {}", packed.len(), content.len());
    let reader = ColumnsReader::open(file(&packed)).unwrap();
    assert_eq!(reader.length(), content.len() as u64);
    let size = CONTENT_BYTES as u64;
    for offset in [0, 1, size - 5, size, 2 * size - 1, content.len() as u64 - 10] {
        let expected = &content[offset as usize..][..10.min(content.len() - offset as usize)];
        assert!(slice(&reader, offset, expected.len()).unwrap() == expected, "{offset}");
    }
    assert!(slice(&reader, 0, content.len()).unwrap() == content);
    assert_eq!(reader.read_at(&mut [0], content.len() as u64).unwrap(), 0);
}

#[test]
fn a_changed_byte_is_an_error_or_the_same_bytes() {
    let content = lines(3, 150);
    let packed = pack(&content);
    for at in 0..packed.len() {
        let change = [1, 0x80, 0xFF, 0x10][at % 4];
        let mut changed = packed.clone();
        changed[at] ^= change;
        match read(&changed) {
            Ok(read) => assert!(read == content, "byte {at} ^ {change}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}"),
        }
    }
}

#[test]
fn a_file_that_was_cut_or_extended_is_damaged() {
    let packed = pack(&lines(4, 100));
    let is_damage = |bytes: &[u8]| {
        let errors = [read(bytes).err(), length(&file(bytes)).err()];
        errors.iter().flatten().any(|error| error.kind() == io::ErrorKind::InvalidData)
    };
    for bytes in 0..packed.len() {
        assert!(is_damage(&packed[..bytes]), "{bytes}");
    }
    assert!(is_damage(&[&packed[..], b"x"].concat()));
    assert!(is_damage(&packed[1..]));
    assert!(is_damage(b"{\"v\":1}\n"));
}

/// Each frame is good, but not in this place.
#[test]
fn frames_in_another_order_are_damage() {
    let packed = pack(&lines(5, 3 * CONTENT_BYTES / 250));
    let end = packed.len() - FOOTER_BYTES;
    let number = |at: usize| u32::from_le_bytes(packed[at..at + 4].try_into().unwrap()) as usize;
    let table = end - 4 * number(end + 16);
    let (first, second) = (number(table), number(table + 4));
    let mut changed = packed.clone();
    changed[8..8 + first + second].rotate_left(first);
    changed[table..table + 8].rotate_left(4);
    let checksum = twox_hash::XxHash3_64::oneshot(&changed[table..end + 28]);
    changed[end + 28..end + 36].copy_from_slice(&checksum.to_le_bytes());
    let reader = ColumnsReader::open(file(&changed)).unwrap();
    for offset in [0, CONTENT_BYTES as u64] {
        let error = slice(&reader, offset, 1).unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_damaged() {
    let packed = pack(&lines(6, 100));
    let stored = file(&packed);
    let reader = ColumnsReader::open(stored.try_clone().unwrap()).unwrap();
    assert_eq!(reader.length_now().unwrap(), reader.length());
    stored.set_len(packed.len() as u64 - 1).unwrap();
    assert_eq!(reader.length_now().unwrap_err().kind(), io::ErrorKind::InvalidData);
    stored.set_len(20).unwrap();
    assert_eq!(slice(&reader, 0, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(stored.read_at(&mut [0], 0).is_ok());
}

#[test]
fn parts_of_a_wrong_length_are_refused() {
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    let mut writer = Writer::new(Vec::new()).unwrap();
    assert_eq!(kind(writer.part(b"")), io::ErrorKind::InvalidInput);
    writer.part(b"lines\n").unwrap();
    assert_eq!(kind(writer.part(b"more\n")), io::ErrorKind::InvalidInput);
    let mut writer = Writer::new(Vec::new()).unwrap();
    assert!(writer.part(&vec![0; CONTENT_BYTES + 1]).is_err());
    assert_eq!(read(&pack(b"")).unwrap(), b"");
}

/// Content that is not lines is stored as it is, and a line can be as long as a frame.
#[test]
fn content_without_lines_takes_no_more_space() {
    let mut numbers = Numbers(9);
    let random: Vec<u8> = (0..CONTENT_BYTES + 5).map(|_| numbers.below(256) as u8).collect();
    let packed = pack(&random);
    assert!(packed.len() < random.len() + 200, "{}", packed.len());
    assert!(read(&packed).unwrap() == random);
    let zeros = vec![0; CONTENT_BYTES];
    assert!(read(&pack(&zeros)).unwrap() == zeros);
    let feeds = vec![b'\n'; CONTENT_BYTES];
    assert!(read(&pack(&feeds)).unwrap() == feeds);
}

/// Keys and texts that never come again do not fill the memory.
#[test]
fn a_dictionary_is_bounded() {
    let mut content = Vec::new();
    for number in 0..6000 {
        let keys = (0..9).map(|key| format!("\"k{number}_{key}\":{key}")).collect::<Vec<_>>();
        let line = format!("{{{},\"x\":\"w{number} a\"}}\n", keys.join(","));
        content.extend_from_slice(line.repeat(2).as_bytes());
    }
    assert!(read(&pack(&content)).unwrap() == content);
}
