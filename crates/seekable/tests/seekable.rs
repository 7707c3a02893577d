//! Any content, any slice: what is read is what was written, or an error.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;
use tacho_seekable::{CONTENT_BYTES, LENGTH_MAX, Reader, Stream, Writer, length};

fn pack(content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 1).unwrap();
    content.chunks(CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
    writer.finish().unwrap()
}

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn slice(reader: &Reader, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        match reader.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Lines that compress, and bytes that do not.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => (0..3_000_usize, 0..9_u8).prop_map(|(lines, digit)| {
            let line = |at| format!("{{\"v\":1,\"seq\":{at},\"sql\":\"SELECT {digit}\"}}\n");
            (0..lines).map(line).collect::<String>().into_bytes()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..2_000),
        1 => Just(vec![b'x'; CONTENT_BYTES]),
        1 => Just(Vec::new()),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_slice_is_what_was_written(
        content in content(),
        slices in prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize << 19), 1..8),
    ) {
        let mut stream = Stream::new(Vec::new(), 1).unwrap();
        content.chunks(777_777).for_each(|part| stream.write_all(part).unwrap());
        prop_assert!(stream.finish().unwrap() == pack(&content));
        let packed = file(&pack(&content));
        prop_assert_eq!(length(&packed).unwrap(), content.len() as u64);
        let reader = Reader::open(packed).unwrap();
        prop_assert_eq!(reader.length(), content.len() as u64);
        for (from, bytes) in slices {
            let from = from.index(content.len() + 1);
            let end = content.len().min(from + bytes);
            prop_assert!(slice(&reader, from as u64, bytes).unwrap() == content[from..end]);
        }
    }

    /// A changed byte, or a cut: an error, or the same content.
    #[test]
    fn damage_is_an_error_and_never_other_content(
        content in content(),
        at in any::<prop::sample::Index>(),
        change in 1..=255_u8,
        is_cut in any::<bool>(),
    ) {
        let mut packed = pack(&content);
        let at = at.index(packed.len());
        if is_cut {
            packed.truncate(at);
        } else {
            packed[at] ^= change;
        }
        if let Ok(reader) = Reader::open(file(&packed)) {
            prop_assert!(!is_cut);
            prop_assert_eq!(reader.length(), content.len() as u64);
            for from in (0..content.len()).step_by(CONTENT_BYTES) {
                let end = content.len().min(from + CONTENT_BYTES);
                if let Ok(bytes) = slice(&reader, from as u64, end - from) {
                    prop_assert!(bytes == content[from..end]);
                }
            }
        }
    }

    /// Bytes that are no file of this format take neither memory nor time.
    #[test]
    fn arbitrary_bytes_are_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        frames in any::<u32>(),
    ) {
        bytes.extend(frames.to_le_bytes());
        bytes.extend([0, 0xb1, 0xea, 0x92, 0x8f]);
        if frames > 0 {
            prop_assert!(Reader::open(file(&bytes)).is_err());
        }
    }
}

/// A file of any length costs no disk if it is a hole, but memory for each frame of its table.
#[test]
fn a_table_that_is_too_long_is_an_error() {
    let sparse = |frames: u32| {
        let file = tempfile::tempfile().unwrap();
        let table = u64::from(frames) * 8;
        file.set_len(table + 8 + 9).unwrap();
        file.write_all_at(&0x184D_2A5E_u32.to_le_bytes(), 0).unwrap();
        file.write_all_at(&(table as u32).wrapping_add(9).to_le_bytes(), 4).unwrap();
        file.write_all_at(&frames.to_le_bytes(), table + 8).unwrap();
        file.write_all_at(&[0, 0xb1, 0xea, 0x92, 0x8f], table + 12).unwrap();
        file
    };
    let most = (LENGTH_MAX / CONTENT_BYTES as u64) as u32;
    // That of the last frame is 0.
    assert_eq!(length(&sparse(most)).unwrap(), LENGTH_MAX - CONTENT_BYTES as u64);
    for frames in [most + 1, u32::MAX] {
        let file = sparse(frames);
        let kinds = [length(&file).map(drop), Reader::open(file).map(drop)]
            .map(|result| result.unwrap_err().kind());
        assert_eq!(kinds, [io::ErrorKind::InvalidData; 2]);
    }
}

/// Each byte of the table and of the heads of the frames.
#[test]
fn no_byte_of_a_small_file_can_be_changed_unnoticed() {
    let content: Vec<u8> = (0..CONTENT_BYTES as u32 + 300).map(|at| (at / 7 % 251) as u8).collect();
    let packed = pack(&content);
    let read = |packed: &[u8]| -> io::Result<Vec<u8>> {
        let reader = Reader::open(file(packed))?;
        slice(&reader, 0, content.len() + 1)
    };
    assert!(read(&packed).unwrap() == content);
    let (head, tail) = (40, packed.len().saturating_sub(360));
    for at in (0..head).chain(tail..packed.len()) {
        for bit in 0..8 {
            let mut changed = packed.clone();
            changed[at] ^= 1 << bit;
            if let Ok(bytes) = read(&changed) {
                assert!(bytes == content, "byte {at}, bit {bit}");
            }
        }
    }
}

/// Two frames that change places have good checksums each.
#[test]
fn a_file_with_other_frames_is_an_error_or_has_their_order() {
    let mut writer = Writer::new(Vec::new(), 1).unwrap();
    writer.part(b"short").unwrap();
    let error = writer.part(b"more").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(Writer::new(Vec::new(), 1).unwrap().part(&vec![0; CONTENT_BYTES + 1]).is_err());
    // zstd's own file without a table.
    let plain = zstd::encode_all(&b"lines\n"[..], 1).unwrap();
    assert_eq!(Reader::open(file(&plain)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    // A table over frames without checksums.
    let mut packed = pack(b"lines\n");
    let frame = packed.len() - 25;
    let unchecked = zstd::bulk::compress(b"lines\n", 1).unwrap();
    packed.splice(..frame, unchecked.iter().copied());
    let entry = packed.len() - 17;
    packed[entry..entry + 4].copy_from_slice(&(unchecked.len() as u32).to_le_bytes());
    let error = slice(&Reader::open(file(&packed)).unwrap(), 0, 6).unwrap_err();
    assert!(error.to_string().contains("no checksum"), "{error}");
}

#[test]
fn zstd_reads_the_same_bytes() {
    for bytes in [0, 1, 5000, CONTENT_BYTES, 2 * CONTENT_BYTES + 1] {
        let content: Vec<u8> = (0..bytes).map(|at| (at / 11 % 200) as u8).collect();
        let packed = pack(&content);
        let mut read = Vec::new();
        zstd::Decoder::new(&packed[..]).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == content);
        let mut written = zstd::stream::write::Decoder::new(Vec::new()).unwrap();
        written.write_all(&packed).unwrap();
        written.flush().unwrap();
        assert!(written.into_inner() == content);
    }
}
