//! Content of any bytes is read back from a file by columns. An untrusted frame and dictionary are
//! an error or some content, in bounded memory.
#![no_main]

use std::io::{self, Write as _};

use libfuzzer_sys::fuzz_target;
use tacho_columns::{CONTENT_BYTES, ColumnsReader, Writer};
use twox_hash::XxHash3_64;

fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let reader = ColumnsReader::open(file)?;
    let mut content = vec![0; usize::try_from(reader.length()).unwrap_or(0).min(CONTENT_BYTES)];
    let count = reader.read_at(&mut content, 0)?;
    content.truncate(count);
    Ok(content)
}

/// A file with one frame, whose other checksums are right.
fn file(frame: &[u8], dictionary: &[u8], length: u64) -> Vec<u8> {
    let stored = zstd::bulk::compress(dictionary, 1).expect("compresses");
    let mut end = (frame.len() as u32 + 9).to_le_bytes().to_vec();
    end.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    end.extend_from_slice(&(dictionary.len() as u32).to_le_bytes());
    end.extend_from_slice(&XxHash3_64::oneshot(dictionary).to_le_bytes());
    end.extend_from_slice(&1_u32.to_le_bytes());
    end.extend_from_slice(&length.to_le_bytes());
    let checksum = XxHash3_64::oneshot(&end);
    end.extend_from_slice(&checksum.to_le_bytes());
    end.extend_from_slice(b"\x01\0\0tcol\xF1");
    [b"\xF1tcol\0\0\x01", &[0; 9][..], frame, &stored, &end].concat()
}

// The first byte says which of both; of a frame the next ones are its length, that of the
// dictionary, and that of the content.
fuzz_target!(|input: &[u8]| {
    let Some((&[kind, split, l0, l1], rest)) = input.split_first_chunk::<4>() else { return };
    if kind < 128 {
        let mut writer = Writer::new(Vec::new()).expect("memory can be written");
        // Lines come again, so that they are cut.
        let content = rest.repeat(usize::from(split % 4) + 1);
        if !content.is_empty() {
            writer.part(&content).expect("it is short");
        }
        let packed = writer.finish().expect("memory can be written");
        assert!(read(&packed).expect("a good file") == content);
        return;
    }
    let (dictionary, frame) = rest.split_at(usize::from(split).min(rest.len()));
    let length = u64::from(u16::from_le_bytes([l0, l1])) + 1;
    let _ = read(&file(frame, dictionary, length));
});
