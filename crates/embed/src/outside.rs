//! What the server's threads and the writer thread share about a recorder outside the server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// State of the recorder outside, see the module documentation.
pub struct Outside {
    /// `tacho_writer` is EXTERNAL.
    is_wanted: AtomicBool,
    /// Process id of the recorder that has the log; 0 = none.
    pid: AtomicU32,
    /// An eventfd(2): wakes the writer thread while it waits for the recorder.
    wakeup: File,
}

impl Outside {
    /// # Errors
    /// The system call failed.
    pub fn new() -> io::Result<Outside> {
        // SAFETY: plain numbers; the call makes a new descriptor, which is checked.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nothing else owns.
        let wakeup = unsafe { File::from_raw_fd(descriptor) };
        Ok(Outside { is_wanted: AtomicBool::new(false), pid: AtomicU32::new(0), wakeup })
    }

    /// Whether a recorder outside should write.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    pub fn want(&self, wanted: bool) {
        self.is_wanted.store(wanted, Ordering::Relaxed);
    }

    /// The recorder that writes; `None`: the server writes.
    pub fn writer_pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    pub fn set_writer(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }

    /// Wakes the writer thread after a change.
    pub fn wake(&self) {
        // A full counter wakes as well.
        let _: io::Result<usize> = (&self.wakeup).write(&1u64.to_ne_bytes());
    }

    /// Readable after a change, until [`Outside::clear`].
    pub fn descriptor(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }

    /// Call this before looking at what has changed.
    pub fn clear(&self) {
        // A failure has no consequence: the changes are read anyway.
        let _: io::Result<usize> = (&self.wakeup).read(&mut [0; 8]);
    }
}
