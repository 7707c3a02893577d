//! Frames and dictionaries that no encoder has made, in files whose other checksums are right.

use std::fs::File;
use std::io::{self, Write as _};

use proptest::prelude::*;
use tacho_columns::{ColumnsReader, Writer};
use twox_hash::XxHash3_64;

mod support;

use support::{Numbers, lines};

const MAGIC_BYTES: usize = 8;
const FOOTER_BYTES: usize = 44;
/// Of a frame: its checksum.
const CHECKSUM_BYTES: usize = 8;

/// The parts of a file with one frame.
struct Parts {
    frame: Vec<u8>,
    dictionary: Vec<u8>,
    length: u64,
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

impl Parts {
    fn of(content: &[u8]) -> Self {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.part(content).unwrap();
        let packed = writer.finish().unwrap();
        let footer = &packed[packed.len() - FOOTER_BYTES..];
        assert_eq!(number(&footer[16..20]), 1);
        let end = packed.len() - FOOTER_BYTES - 4;
        let begin = end - number(&footer[..4]);
        let dictionary = zstd::bulk::decompress(&packed[begin..end], number(&footer[4..8]));
        let frame = packed[MAGIC_BYTES..begin].to_vec();
        Self { frame, dictionary: dictionary.unwrap(), length: content.len() as u64 }
    }

    /// The file with right checksums, except that of the frame.
    fn read(&self) -> io::Result<Vec<u8>> {
        let stored = zstd::bulk::compress(&self.dictionary, 1)?;
        let mut file = tempfile::tempfile()?;
        file.write_all(b"\xF1tcol\0\0\x01")?;
        file.write_all(&self.frame)?;
        file.write_all(&stored)?;
        let mut end = (self.frame.len() as u32).to_le_bytes().to_vec();
        end.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        end.extend_from_slice(&(self.dictionary.len() as u32).to_le_bytes());
        end.extend_from_slice(&XxHash3_64::oneshot(&self.dictionary).to_le_bytes());
        end.extend_from_slice(&1_u32.to_le_bytes());
        end.extend_from_slice(&self.length.to_le_bytes());
        end.extend_from_slice(&XxHash3_64::oneshot(&end).to_le_bytes());
        end.extend_from_slice(b"\x01\0\0tcol\xF1");
        file.write_all(&end)?;
        read(file)
    }
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let reader = ColumnsReader::open(file)?;
    let mut content = vec![0; reader.length() as usize];
    let count = reader.read_at(&mut content, 0)?;
    content.truncate(count);
    Ok(content)
}

/// An error that says that the file is damaged, or the same bytes.
fn check(result: io::Result<Vec<u8>>, content: &[u8]) {
    match result {
        Ok(read) => assert!(read == content),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}"),
    }
}

fn change(bytes: &mut Vec<u8>, numbers: &mut Numbers, from: usize) {
    for _ in 0..=numbers.below(4) {
        let left = bytes.len() - from;
        if left == 0 {
            return;
        }
        let at = from + numbers.below(left as u64) as usize;
        match numbers.below(5) {
            0 => bytes[at] = numbers.below(256) as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes[at] = [0, 1, 2, 0x7F, 0xFF][numbers.below(5) as usize],
            3 => drop(bytes.remove(at)),
            _ => bytes.insert(at, numbers.below(256) as u8),
        }
    }
}

#[test]
fn the_parts_are_those_of_a_file() {
    let content = lines(1, 200);
    assert!(Parts::of(&content).read().unwrap() == content);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_changed_frame_is_an_error_or_the_same_bytes(seed in any::<u64>(), count in 1..120_usize) {
        let content = lines(7, count);
        let mut parts = Parts::of(&content);
        change(&mut parts.frame, &mut Numbers(seed | 1), CHECKSUM_BYTES);
        check(parts.read(), &content);
    }

    #[test]
    fn a_changed_dictionary_is_an_error_or_the_same_bytes(
        seed in any::<u64>(),
        count in 1..120_usize,
    ) {
        let content = lines(8, count);
        let mut parts = Parts::of(&content);
        change(&mut parts.dictionary, &mut Numbers(seed | 1), 0);
        check(parts.read(), &content);
    }

    #[test]
    fn any_bytes_are_an_error(
        frame in prop::collection::vec(any::<u8>(), 9..200),
        dictionary in prop::collection::vec(prop_oneof![0..12_u8, any::<u8>()], 0..60),
        length in 1..5000_u64,
    ) {
        check(Parts { frame, dictionary, length }.read(), b"");
    }
}

/// What a frame claims to have does not take memory before it is there.
#[test]
fn a_frame_that_claims_too_much_is_refused() {
    let shapes = {
        // One shape with 500 places and no text.
        let mut bytes = vec![1, 0xF4, 0x03];
        bytes.extend_from_slice(&[1; 500]);
        bytes
    };
    for (count, claimed) in [([0x80, 0x80, 0x40], 1 << 20), ([0xFF, 0xFF, 0x3F], 1 << 20)] {
        // Lines of that shape: the varint of their number, fine tokens, all of them 1.
        let frame = [&[0; CHECKSUM_BYTES][..], &[0], &count, &[0, 1, 1]].concat();
        let parts = Parts { frame, dictionary: shapes.clone(), length: claimed };
        let error = parts.read().unwrap_err();
        assert!(error.to_string().contains("too much content"), "{error}");
    }
}
