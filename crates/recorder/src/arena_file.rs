//! The arena as a file: created, locked, mapped, found after a crash, removed.
//!
//! The owner holds an open-file-description lock while it lives; the kernel releases the lock when
//! the owner dies, for any reason. An arena that can be locked therefore has no owner, and its
//! records wait for recovery.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tacho_logdir::private_file;
use tacho_ring::arena::Arena;
use tacho_ring::layout::{Geometry, Header, MAGIC, PAGE_BYTES};
use tacho_ring::sys;

pub use crate::arena_error::ArenaError;
use crate::arena_error::{io_error, refused};
use crate::mapping::Mapping;
use crate::spill::{self, ArenaSource};

/// When an arena was created, µs since 1970-01-01 UTC, according to its name.
pub fn created_us(path: &Path) -> Option<i64> {
    path.file_stem()?.to_str()?.split('-').nth(2)?.parse().ok()
}

/// A mapped arena file that is locked by this process.
#[derive(Debug)]
pub struct ArenaFile {
    path: PathBuf,
    file: File,
    mapping: Mapping,
    geometry: Geometry,
}

impl Drop for ArenaFile {
    /// Releases the lock itself: a child that was forked a moment ago, and has not executed its
    /// program yet, has the file open, too.
    fn drop(&mut self) {
        let unlock = libc::flock { l_type: libc::F_UNLCK as libc::c_short, ..ofd_lock() };
        // SAFETY: a valid descriptor and a valid flock. If it fails, closing the file unlocks it.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &unlock) };
    }
}

/// How long a server that starts waits for a dead owner's lock, and the time between two attempts.
const RELEASE: Duration = Duration::from_secs(5);
const RELEASE_STEP: Duration = Duration::from_millis(5);
/// Space for the log directory in a header, with a NUL.
const LOG_DIRECTORY_BYTES: usize = 3072;

/// Prefix of the names of all arenas of a log directory. Two servers with different log directories
/// may share an arena directory.
pub fn name_prefix(log_directory: &Path) -> String {
    // FNV-1a, 64 bits: a stable name, not a secret.
    let hash =
        log_directory.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("tacho-{hash:016x}-")
}

/// What can be read of an arena without its lock.
#[derive(Debug, Clone)]
pub struct ArenaInfo {
    /// The file.
    pub path: PathBuf,
    /// Log directory its records belong to.
    pub log_directory: PathBuf,
    /// Server and version.
    pub server: String,
    /// Process id of its owner.
    pub owner_pid: u32,
    /// Whether its owner is alive.
    pub owned: bool,
}

impl ArenaFile {
    /// Creates an arena for a log directory (canonical path). The file's pages are allocated now: a
    /// full /dev/shm is an error here, not a SIGBUS in a query thread.
    pub fn create(
        arena_directory: &Path,
        arena_bytes: u64,
        log_directory: &Path,
        server: &str,
    ) -> Result<ArenaFile, ArenaError> {
        if log_directory.as_os_str().len() >= LOG_DIRECTORY_BYTES {
            // The header would truncate the path, and recovery would never find the arena.
            let source = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
            return Err(io_error("creating an arena for", log_directory)(source));
        }
        let geometry = Geometry::for_bytes(arena_bytes);
        let prefix = name_prefix(log_directory);
        let pid = std::process::id();
        let created_us = sys::now_us();
        let path = arena_directory.join(format!("{prefix}{created_us}-{pid}.arena"));
        let file = private_file::create(&path).map_err(io_error("creating the arena", &path))?;
        let unlink = |error| {
            // Best effort: the returned error names the first failure.
            let _ = std::fs::remove_file(&path);
            error
        };
        lock(&file, &path).map_err(unlink)?;
        // SAFETY: a valid descriptor; the call reads no memory of ours.
        let rc = unsafe {
            libc::posix_fallocate(file.as_raw_fd(), 0, geometry.arena_bytes as libc::off_t)
        };
        if rc != 0 {
            let source = io::Error::from_raw_os_error(rc);
            return Err(unlink(io_error("allocating the arena", &path)(source)));
        }
        let mapping = map_new(&file, geometry.arena_bytes, &path).map_err(unlink)?;
        let arena_file = ArenaFile { path, file, mapping, geometry };
        let mut header = Header {
            // Stored last: a process that dies before this leaves a file without magic.
            magic: [0; 8],
            created_us,
            owner_pid: pid,
            owner_start_ticks: start_ticks(pid).unwrap_or(0),
            ..Header::of(&geometry)
        };
        fill(&mut header.server, server.as_bytes());
        fill(&mut header.log_directory, log_directory.as_os_str().as_bytes());
        arena_file.arena().initialise(header);
        // SAFETY: the first eight bytes of the mapping, page-aligned; nothing else writes them.
        let magic = unsafe { AtomicU64::from_ptr(arena_file.mapping.base().cast::<u64>()) };
        // SYNC magic: pairs with a copy of the header elsewhere, which sees everything that
        // precedes it.
        magic.store(u64::from_le_bytes(MAGIC), Ordering::Release);
        Ok(arena_file)
    }

    /// A small unnamed arena in private memory, for a writer that has nothing to drain yet.
    pub fn placeholder() -> Result<ArenaFile, ArenaError> {
        let path = PathBuf::new();
        let geometry = Geometry::for_bytes(0);
        // SAFETY: the name is terminated; the call makes a new descriptor, which is checked.
        let descriptor = unsafe { libc::memfd_create(c"tacho".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io_error("making memory", &path)(io::Error::last_os_error()));
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(geometry.arena_bytes).map_err(io_error("sizing memory", &path))?;
        let mapping = map(&file, geometry.arena_bytes, &path)?;
        Ok(ArenaFile { path, file, mapping, geometry })
    }

    /// Opens and locks an arena whose owner is dead, if a recorder of this process's user created
    /// it: its content is trusted.
    pub fn open_dead(path: &Path) -> Result<ArenaFile, ArenaError> {
        let file = open_believed(path)?;
        let (header, geometry) = read_header(&file, path)?;
        lock(&file, path).map_err(|error| match error {
            ArenaError::InUse { path, .. } => ArenaError::InUse { path, pid: header.owner_pid },
            other => other,
        })?;
        let mapping = map(&file, geometry.arena_bytes, path)?;
        Ok(ArenaFile { path: path.to_owned(), file, mapping, geometry })
    }

    /// As [`ArenaFile::open_dead`], and waits a moment for the lock if the owner has just died.
    ///
    /// A program that reads the memory map of a process, as `ps` does for the command line, holds
    /// the map, and with it the arena and its lock, a little beyond the death of the process. If
    /// the next server did not wait, it would leave these records to the one after it.
    pub fn open_released(path: &Path) -> Result<ArenaFile, ArenaError> {
        let deadline = Instant::now() + RELEASE;
        loop {
            match Self::open_dead(path) {
                Err(ArenaError::InUse { .. })
                    if Instant::now() < deadline && has_dead_owner(path)? =>
                {
                    std::thread::sleep(RELEASE_STEP);
                }
                result => return result,
            }
        }
    }

    /// Maps an arena of another process without locking it, if a recorder of this process's user
    /// created it: its content is trusted.
    pub fn open_living(path: &Path) -> Result<ArenaFile, ArenaError> {
        let file = open_believed(path)?;
        let (_, geometry) = read_header(&file, path)?;
        let mapping = map(&file, geometry.arena_bytes, path)?;
        Ok(ArenaFile { path: path.to_owned(), file, mapping, geometry })
    }

    /// Maps an arena without locking it: to inspect it, dead or alive, or to change a setting of a
    /// living one.
    pub fn open_unlocked(path: &Path) -> Result<ArenaFile, ArenaError> {
        let file = open(path)?;
        let (_, geometry) = read_header(&file, path)?;
        let mapping = map(&file, geometry.arena_bytes, path)?;
        Ok(ArenaFile { path: path.to_owned(), file, mapping, geometry })
    }

    /// The mapping.
    pub fn arena(&self) -> Arena {
        // SAFETY: the mapping has the geometry's size; it ends with `self`, and the users of the
        // copy (the writer, the adapter) end before.
        unsafe { Arena::from_raw(self.mapping.base(), self.geometry) }
    }

    /// The mapping, with the content of its spill.
    ///
    /// # Errors
    /// As [`ArenaSource::open`].
    pub fn source(&self) -> Result<ArenaSource, ArenaError> {
        ArenaSource::open(self.arena(), &self.path)
    }

    /// The mapping of an arena that was just created: its spill is empty.
    pub fn new_source(&self) -> ArenaSource {
        ArenaSource::empty(self.arena(), &self.path)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file and its spill: their content is no longer needed.
    ///
    /// # Errors
    /// One of them could not be removed.
    pub fn remove(self) -> Result<(), ArenaError> {
        // The spill first: without its arena, no later cleanup would find it. Foreign files in its
        // place do not keep the arena.
        let spill = spill::remove_all(&self.path);
        std::fs::remove_file(&self.path).map_err(io_error("removing the arena", &self.path))?;
        spill
    }

    /// Whether a process holds the lock.
    pub fn is_owned(&self) -> bool {
        is_locked(&self.file)
    }

    /// What the header says.
    pub fn info(&self) -> ArenaInfo {
        info_of(&self.arena().header(), &self.path, self.is_owned())
    }
}

/// Removes the files of servers that died while they created their arenas. The caller holds the
/// lock of the log directory, so no server is creating one now.
pub fn remove_unfinished(arena_directory: &Path, log_directory: &Path) -> Result<(), ArenaError> {
    let paths = files(arena_directory, Some(log_directory));
    for path in paths.map_err(io_error("listing", arena_directory))? {
        // The search for arenas that follows reports files that cannot be opened.
        let Ok(file) = open_believed(&path) else { continue };
        if is_unfinished(&file) && lock(&file, &path).is_ok() {
            std::fs::remove_file(&path).map_err(io_error("removing the arena", &path))?;
        }
    }
    Ok(())
}

/// Whether an arena is incomplete: its creator died, or is still creating it. It has no records.
pub fn is_unfinished(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) => magic == [0; MAGIC.len()],
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}

/// Files in a directory that are named like arenas, oldest first; only those of one log directory
/// if it is given. The name has only a hash of the log directory: the content decides.
pub fn files(arena_directory: &Path, log_directory: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let prefix = log_directory.map_or_else(|| "tacho-".to_owned(), name_prefix);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(arena_directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if name.starts_with(&prefix) && name.ends_with(".arena") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_locked(file: &File) -> bool {
    let mut lock = ofd_lock();
    // SAFETY: a valid descriptor and a valid flock.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    rc == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

fn info_of(header: &Header, path: &Path, owned: bool) -> ArenaInfo {
    let text = |bytes: &[u8]| bytes.split(|b| *b == 0).next().unwrap_or(&[]).to_vec();
    ArenaInfo {
        path: path.to_owned(),
        // Byte for byte: recovery must also find a path that is not UTF-8.
        log_directory: PathBuf::from(OsString::from_vec(text(&header.log_directory))),
        server: String::from_utf8_lossy(&text(&header.server)).into_owned(),
        owner_pid: header.owner_pid,
        owned,
    }
}

fn fill(to: &mut [u8], from: &[u8]) {
    let n = from.len().min(to.len() - 1);
    to[..n].copy_from_slice(&from[..n]);
}

const OPENING: &str = "opening the arena";

/// Opens a file that the recorder created.
fn open_believed(path: &Path) -> Result<File, ArenaError> {
    private_file::open(path).map_err(|refusal| refused(OPENING, path, refusal))
}

/// Opens a regular file to inspect it, created by any user. All users may write to the directory,
/// so a link or a pipe in the place of an arena is refused.
fn open(path: &Path) -> Result<File, ArenaError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        // The server's user may still be able to open it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            private_file::open(path).map_err(|_| io_error(OPENING, path)(error))?
        }
        opened => opened.map_err(io_error(OPENING, path))?,
    };
    let metadata = file.metadata().map_err(io_error("looking at the arena", path))?;
    if !metadata.is_file() {
        return Err(ArenaError::NotAnArena { path: path.to_owned() });
    }
    Ok(file)
}

/// Whether the process that created an arena is gone, as far as this process can see.
fn has_dead_owner(path: &Path) -> Result<bool, ArenaError> {
    let (header, _) = read_header(&open_believed(path)?, path)?;
    let is_known = header.owner_start_ticks != 0;
    Ok(is_known && start_ticks(header.owner_pid) != Some(header.owner_start_ticks))
}

fn ofd_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

fn lock(file: &File, path: &Path) -> Result<(), ArenaError> {
    let lock = ofd_lock();
    // SAFETY: a valid descriptor and a valid flock.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => {
            Err(ArenaError::InUse { path: path.to_owned(), pid: 0 })
        }
        _ => Err(io_error("locking the arena", path)(source)),
    }
}

fn read_header(file: &File, path: &Path) -> Result<(Header, Geometry), ArenaError> {
    let bytes = file.metadata().map_err(io_error("reading the arena", path))?.size();
    let not = || ArenaError::NotAnArena { path: path.to_owned() };
    if bytes < PAGE_BYTES as u64 {
        return Err(not());
    }
    let mut page = vec![0u64; PAGE_BYTES / 8];
    // SAFETY: the vector's bytes, viewed as bytes.
    let view = unsafe { std::slice::from_raw_parts_mut(page.as_mut_ptr().cast(), PAGE_BYTES) };
    file.read_exact_at(view, 0).map_err(io_error("reading the arena", path))?;
    // SAFETY: a page holds a Header, the vector is aligned to 8, any bytes are valid.
    let header = unsafe { page.as_ptr().cast::<Header>().read() };
    let geometry = Geometry::checked(&header, bytes).ok_or_else(not)?;
    Ok((header, geometry))
}

fn map(file: &File, bytes: u64, path: &Path) -> Result<Mapping, ArenaError> {
    Mapping::new(file, bytes as usize, 0).map_err(io_error("mapping the arena", path))
}

/// [`map`] for query threads: populated, so that they take no page faults, with large pages against
/// TLB misses.
fn map_new(file: &File, bytes: u64, path: &Path) -> Result<Mapping, ArenaError> {
    let mapping = Mapping::new(file, bytes as usize, libc::MAP_POPULATE)
        .map_err(io_error("mapping the arena", path))?;
    mapping.take_large_pages();
    Ok(mapping)
}

/// Start time of a process in clock ticks since boot.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the fields after it are numbered from 3.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
