//! A file of the trait as one of the standard library.

use std::io::{self, Read};

use super::fs::FsFile;

/// Reads files of the trait as those of the standard library.
pub(crate) struct Stream<'a, L> {
    file: &'a L,
    offset: u64,
}

impl<'a, L> Stream<'a, L> {
    pub(crate) fn new(file: &'a L) -> Stream<'a, L> {
        Stream { file, offset: 0 }
    }
}

impl<L: FsFile> Read for Stream<'_, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
