//! The file of a rendition: existing bytes are compared, further ones appended.

use std::io;
use std::path::{Path, PathBuf};

use super::super::error::{At as _, FileError};
use super::super::fs::{FileId, Fs, FsFile, OpenMode};
use super::super::lines::{STEP_BYTES, read_exact_at};
use super::Trouble;

pub(super) struct Target<L> {
    file: L,
    path: PathBuf,
    id: FileId,
    /// Up to here the content is verified.
    end: u64,
}

impl<L: FsFile> Target<L> {
    /// Opens the file, or creates it. None of its content is trusted yet.
    ///
    /// # Errors
    /// [`Trouble::InTheWay`] if it is a directory, a symbolic link or the like; other errors are
    /// temporary.
    pub(super) fn open<F: Fs<File = L>>(fs: &F, path: &Path) -> Result<Target<L>, Trouble> {
        match fs.stat(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            stat => {
                if !stat.at("look at", path)?.is_file {
                    return Err(Trouble::InTheWay(path.to_owned()));
                }
            }
        }
        let file = match fs.open(path, OpenMode::Append) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                spare(fs, path)?;
                fs.open(path, OpenMode::AppendNew).at("create", path)?
            }
            file => file.at("open", path)?,
        };
        let id = file.stat().at("look at", path)?.id;
        Ok(Target { file, path: path.to_owned(), id, end: 0 })
    }

    /// Makes `bytes` the next ones of the file. `progress` is how many of them are in it: it is
    /// kept after errors, and the same call then continues.
    ///
    /// # Errors
    /// They cannot be written, or the file was replaced.
    pub(super) fn put<F: Fs<File = L>>(
        &mut self,
        fs: &F,
        bytes: &[u8],
        progress: &mut usize,
    ) -> Result<(), Trouble> {
        if *progress == bytes.len() {
            return Ok(());
        }
        let mut length = self.length(fs)?;
        let mut may_grow = false;
        while *progress < bytes.len() {
            let rest = &bytes[*progress..];
            if length > self.end {
                let (same, differs) = self.compare(rest, length)?;
                self.end += same as u64;
                *progress += same;
                if differs {
                    self.cut()?;
                    length = self.end;
                }
                continue;
            }
            if !may_grow {
                spare(fs, &self.path)?;
                may_grow = true;
            }
            match self.file.write(rest) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::WriteZero);
                    return Err(FileError::new("append to", &self.path, error).into());
                }
                Ok(count) => {
                    self.end += count as u64;
                    length = self.end;
                    *progress += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // If some bytes arrived nevertheless, the next call finds them.
                Err(error) => return Err(FileError::new("append to", &self.path, error).into()),
            }
        }
        Ok(())
    }

    /// Removes everything after the last byte that was put.
    pub(super) fn finish<F: Fs<File = L>>(&mut self, fs: &F) -> Result<(), Trouble> {
        if self.length(fs)? > self.end {
            self.cut()?;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), Trouble> {
        Ok(self.file.sync_data().at("sync", &self.path)?)
    }

    fn length<F: Fs<File = L>>(&self, fs: &F) -> Result<u64, Trouble> {
        let changed = |what| Trouble::Changed { path: self.path.clone(), what };
        let stat = match fs.stat(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(changed("removed or renamed"));
            }
            stat => stat.at("look at", &self.path)?,
        };
        if stat.id != self.id {
            return Err(changed("replaced"));
        }
        if stat.bytes < self.end {
            return Err(changed("truncated"));
        }
        Ok(stat.bytes)
    }

    /// How many bytes of `rest` exist already, and whether a different one follows them. Does not
    /// look at all of them.
    fn compare(&self, rest: &[u8], length: u64) -> Result<(usize, bool), Trouble> {
        let mut buffer = [0; STEP_BYTES];
        let there = usize::try_from(length - self.end).unwrap_or(usize::MAX);
        let step = &mut buffer[..STEP_BYTES.min(there).min(rest.len())];
        read_exact_at(&self.file, step, self.end).at("read", &self.path)?;
        let same = step.iter().zip(rest).take_while(|(a, b)| a == b).count();
        Ok((same, same < step.len()))
    }

    fn cut(&mut self) -> Result<(), Trouble> {
        Ok(self.file.set_len(self.end).at("truncate", &self.path)?)
    }
}

/// Checks that there is enough space for more than the log.
fn spare<F: Fs>(fs: &F, path: &Path) -> Result<(), Trouble> {
    let dir = path.parent().unwrap_or(path);
    let space = fs.space(dir).at("ask for the room in", dir)?;
    if !space.is_to_spare() {
        return Err(Trouble::Room { free_bytes: space.free_bytes });
    }
    Ok(())
}
