//! A sink for the tests of this module, and compressed files.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::reader::Placed;
use super::request::{ReadError, Sink};

/// Writes a file as the recorder compresses it.
pub(super) fn compress(path: &Path, content: &[u8]) {
    let mut stream = tacho_seekable::Stream::new(File::create(path).unwrap(), 1).unwrap();
    stream.write_all(content).unwrap();
    stream.finish().unwrap();
}

/// Writes a file as a hub stores it.
pub(super) fn columns(path: &Path, content: &[u8]) {
    let mut writer = tacho_columns::Writer::new(File::create(path).unwrap()).unwrap();
    let parts = content.chunks(tacho_columns::CONTENT_BYTES);
    parts.for_each(|part| writer.part(part).unwrap());
    writer.finish().unwrap();
}

/// Keeps all lines, and must not get a problem.
#[derive(Default)]
pub(super) struct Kept(pub(super) Vec<Vec<u8>>);

impl Sink for Kept {
    type Error = ReadError;

    fn wants(&mut self, _: &Path, line: Placed<'_>) -> bool {
        self.0.push(line.bytes.to_vec());
        false
    }

    fn show(&mut self, _: &[u8]) -> Result<(), ReadError> {
        panic!("no line was wanted")
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        panic!("{}: {reason}", path.display())
    }

    fn note(&mut self, text: &str) {
        panic!("{text}")
    }

    fn out_of_room(&mut self, path: &Path, _: usize) {
        panic!("{}: out of room", path.display())
    }
}
