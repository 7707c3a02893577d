//! Complete lines of a log file that may still grow.

use std::io;
use std::path::{Path, PathBuf};

use super::super::error::At as _;
use super::super::fs::{FileId, Fs, FsFile, OpenMode};
use super::super::lines::read_exact_at;
use super::super::name::FileName;
use super::Trouble;

/// How much is read at once; a longer line needs more.
const BLOCK_BYTES: usize = 256 * 1024;

pub(super) struct LogLines<L> {
    file: L,
    path: PathBuf,
    id: FileId,
    /// The lines before this position were taken.
    offset: u64,
    buffer: Vec<u8>,
}

impl<L: FsFile> LogLines<L> {
    /// `None`: there is no such regular file.
    pub(super) fn open<F: Fs<File = L>>(
        fs: &F,
        dir: &Path,
        name: FileName,
    ) -> Result<Option<LogLines<L>>, Trouble> {
        let path = dir.join(name.log_file());
        // An entry of another type has no lines, whichever process created it.
        match fs.stat(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            stat => {
                if !stat.at("look at", &path)?.is_file {
                    return Ok(None);
                }
            }
        }
        let file = match fs.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.at("open", &path)?,
        };
        let id = file.stat().at("look at", &path)?.id;
        Ok(Some(LogLines { file, path, id, offset: 0, buffer: Vec::new() }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The lines before this position were taken, bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next complete lines: some of them, or a single larger one; empty: there are none yet.
    /// They are returned again until they are [`taken`](Self::taken).
    ///
    /// # Errors
    /// The file cannot be read, or was replaced: the writer may have created it again.
    pub(super) fn next_lines<F: Fs<File = L>>(&mut self, fs: &F) -> Result<&[u8], Trouble> {
        match fs.stat(&self.path) {
            // Moved away: its lines are complete under the new name. Removed: the writer creates it
            // again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            named => {
                if named.at("look at", &self.path)?.id != self.id {
                    return Err(self.changed("replaced"));
                }
            }
        }
        let bytes = self.file.stat().at("look at", &self.path)?.bytes;
        if bytes < self.offset {
            return Err(self.changed("truncated"));
        }
        let there = usize::try_from(bytes - self.offset).unwrap_or(usize::MAX);
        let mut wanted = BLOCK_BYTES.min(there);
        loop {
            self.read(wanted)?;
            if let Some(at) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                self.buffer.truncate(at + 1);
                break;
            }
            if wanted == there {
                self.buffer.clear();
                break;
            }
            wanted = wanted.saturating_mul(2).min(there);
        }
        Ok(&self.buffer)
    }

    /// Continues after these lines, and frees the memory of a huge one.
    pub(super) fn taken(&mut self) {
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BLOCK_BYTES);
    }

    fn read(&mut self, count: usize) -> Result<(), Trouble> {
        self.buffer.clear();
        self.buffer.try_reserve_exact(count).map_err(|_| Trouble::Memory(self.path.clone()))?;
        self.buffer.resize(count, 0);
        match read_exact_at(&self.file, &mut self.buffer, self.offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.changed("truncated"))
            }
            read => Ok(read.at("read", &self.path)?),
        }
    }

    fn changed(&self, what: &'static str) -> Trouble {
        Trouble::Changed { path: self.path.clone(), what }
    }
}
