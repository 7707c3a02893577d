//! Long commands on their way to the log: in files without a name instead of memory.
//!
//! A record in the arena begins with the length of its text, and the protocol does not say in
//! advance how long a command of several packets is. So such a command is written to a file until
//! it is complete. Then the file is mapped, and the text is passed on as if it was in memory.
//!
//! The files are in the directory of the log, because their content is that of the log, before its
//! secrets are removed: on the same disk, made by the same user, with mode 0600. They have no name
//! (`O_TMPFILE`), so they end with their connection, and with this process however that ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tacho_logdir::{Fs as _, RealFs, Space};

use crate::mysql::Cause;

/// The longest command, bytes: the largest value of the servers' `max_allowed_packet`.
pub const COMMAND_BYTES_MAX: u64 = 1 << 30;
/// All files of a capture, bytes: four of the longest commands at the same time. Each has at least
/// 16 MiB when it is made, so there are at most 256 descriptors, a quarter of the usual limit.
pub const ALL_BYTES_MAX: u64 = 4 << 30;
/// Bytes that are written at once: few system calls, and little memory.
const WRITE_BYTES: usize = 1 << 20;
/// The line of a command takes up to so many times its space in the log. (Escapes. Only control
/// characters need more.)
const LINE_PER_BYTE: u64 = 2;
/// A disk that stays full is reported once in this time.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Where files are made, and how much they have; shared by all threads of a capture.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    limit_bytes: u64,
    used_bytes: AtomicU64,
    problem: Mutex<Problem>,
    /// Held by the thread whose command passes to the recorder.
    turn: Mutex<()>,
}

/// The last error, and when one was reported.
#[derive(Debug, Default)]
struct Problem {
    error: Option<io::Error>,
    reported: Option<Instant>,
}

impl Spool {
    /// In a directory, which exists when the first file is made.
    pub fn new(directory: &Path) -> Arc<Spool> {
        Spool::with_limit(directory, ALL_BYTES_MAX)
    }

    /// With another limit for all files together.
    pub(crate) fn with_limit(directory: &Path, limit_bytes: u64) -> Arc<Spool> {
        Arc::new(Spool {
            directory: directory.to_owned(),
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            problem: Mutex::default(),
            turn: Mutex::default(),
        })
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// An error since the last call, in words.
    pub fn take_problem(&self) -> Option<String> {
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.reported.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return None;
        }
        let error = problem.error.take()?;
        problem.reported = Some(Instant::now());
        let directory = self.directory.display();
        Some(format!(
            "cannot keep a statement over 16 MiB in a file in {directory}: {error}; until this is \
             fixed, such a statement is in memory, and recorded without its text if it is over 64 \
             MiB or if the disk fails within it"
        ))
    }

    fn fail(&self, error: io::Error) -> Cause {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).error = Some(error);
        Cause::Disk
    }

    /// Begins a file with the first bytes of a command. `room`: how many its connection may have.
    ///
    /// # Errors
    /// Why there is no file.
    pub fn begin(self: &Arc<Spool>, bytes: &[u8], room: u64) -> Result<Growing, Cause> {
        let charge = Charge { spool: Arc::clone(self), bytes: 0 };
        let first = bytes.first().copied().unwrap_or_default();
        // Before the file: its descriptor counts, too.
        let mut growing = Growing { file: None, charge, room, first, buffer: Vec::new() };
        growing.write(bytes)?;
        Ok(growing)
    }

    /// Whether the log has enough space beside the files, and for what they will become.
    fn check_space(&self) -> io::Result<()> {
        let Space { free_bytes, total_bytes } = RealFs.space(&self.directory)?;
        let lines_bytes = self.used_bytes().saturating_mul(LINE_PER_BYTE);
        let rest = Space { free_bytes: free_bytes.saturating_sub(lines_bytes), total_bytes };
        if rest.is_to_spare() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

/// Bytes of a file that are counted.
#[derive(Debug)]
struct Charge {
    spool: Arc<Spool>,
    bytes: u64,
}

impl Charge {
    fn add(&mut self, bytes: u64) -> Result<(), Cause> {
        let Spool { used_bytes, limit_bytes, .. } = &*self.spool;
        let add = |used: u64| used.checked_add(bytes).filter(|sum| sum <= limit_bytes);
        let added = used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.map_err(|_| Cause::TooLarge)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.spool.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A file that grows.
#[derive(Debug)]
pub struct Growing {
    /// Made with the first write.
    file: Option<File>,
    charge: Charge,
    /// The most bytes that it may have.
    room: u64,
    first: u8,
    buffer: Vec<u8>,
}

impl Growing {
    /// The first byte.
    pub fn first(&self) -> u8 {
        self.first
    }

    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        size_of::<Growing>() + self.buffer.capacity()
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Why they cannot be kept: the file is of no use any more.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        if self.buffer.len() + bytes.len() <= WRITE_BYTES {
            if self.buffer.capacity() == 0 {
                self.buffer.reserve_exact(WRITE_BYTES);
            }
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        if bytes.len() < WRITE_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Cause> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        let total = self.charge.bytes.saturating_add(bytes.len() as u64);
        if total > self.room.min(COMMAND_BYTES_MAX) {
            return Err(Cause::TooLarge);
        }
        self.charge.add(bytes.len() as u64)?;
        let spool = Arc::clone(&self.charge.spool);
        self.try_write(&spool, bytes).map_err(|error| spool.fail(error))
    }

    fn try_write(&mut self, spool: &Spool, bytes: &[u8]) -> io::Result<()> {
        spool.check_space()?;
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(&spool.directory)?),
        };
        file.write_all(bytes)
    }

    /// All bytes are there.
    ///
    /// # Errors
    /// Why they are not.
    pub fn complete(mut self) -> Result<Spooled, Cause> {
        self.flush()?;
        let Growing { file, charge, .. } = self;
        let spool = Arc::clone(&charge.spool);
        let mapped = file.ok_or(io::ErrorKind::NotFound.into());
        let mapped = mapped.and_then(|file| Mapping::of(&file, charge.bytes));
        Ok(Spooled { mapping: mapped.map_err(|error| spool.fail(error))?, charge })
    }
}

/// A complete command in a file, whose bytes can be read as if they were in memory.
#[derive(Debug)]
pub struct Spooled {
    mapping: Mapping,
    charge: Charge,
}

impl Spooled {
    /// Waits until no other thread passes on a command from a file. Beside the arena and in the
    /// recorder, a command needs several times its size: not for each thread at the same time.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.charge.spool.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Spooled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Mapping { base, bytes } = self.mapping;
        // SAFETY: `Mapping::of` has mapped so many bytes of a file that has as many, readable until
        // `self` is dropped. They do not change, and the file does not become shorter (SIGBUS): it
        // has no name under which another process could open it, its only descriptor was that of
        // `Growing::complete`, which is closed, and there is no writable mapping. (A process of the
        // same user could have opened it through `/proc/PID/fd` before; it could also write into
        // this process's memory.) A page that the kernel has written to the disk and forgotten is
        // read again: if the disk fails at that moment, the process gets a SIGBUS, as with any
        // other file that it maps, and the records in the arena are recovered by the next one.
        unsafe { std::slice::from_raw_parts(base.as_ptr(), bytes) }
    }
}

/// A file in memory, for reading.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing changes the bytes (`Spooled::deref`), and the addresses are those of the process.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file that has so many bytes, which are at least one.
    fn of(file: &File, file_bytes: u64) -> io::Result<Mapping> {
        let bytes = usize::try_from(file_bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if file.metadata()?.len() != file_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // What the kernel could not write to the disk may be forgotten, and other bytes be read in
        // its place. This asks for such errors, and writes nothing.
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
        // SAFETY: a descriptor that is open; no memory is passed.
        let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
        match io::Error::last_os_error() {
            // Sandboxes that have no such call.
            error if done != 0 && error.raw_os_error() != Some(libc::ENOSYS) => return Err(error),
            _ => {}
        }
        let (address, protection) = (std::ptr::null_mut(), libc::PROT_READ);
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { libc::mmap(address, bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { base, bytes };
        mapping.read_in()?;
        Ok(mapping)
    }

    /// Reads what is not in the page cache any more, so that an error of the disk is an error here.
    fn read_in(&self) -> io::Result<()> {
        let Mapping { base, bytes } = *self;
        // SAFETY: the whole of this mapping; its content stays the same.
        let done = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_READ) };
        let error = io::Error::last_os_error();
        // Others mean that the pages are read when they are used: Linux before 5.14 has no such
        // advice.
        let is_unreadable = matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EHWPOISON));
        if done != 0 && is_unreadable { Err(error) } else { Ok(()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `Mapping::of` with this length; nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests;
