//! Counters that the programs in the kernel add to, in shared memory: they can be read without
//! privileges.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Losses;

/// Numbers of `struct counters` in `tls.bpf.c`.
const COUNT: usize = 4;

/// The mapping.
pub(crate) struct Counters {
    base: NonNull<AtomicU64>,
}

// SAFETY: the memory belongs to this value, and is only read, atomically.
unsafe impl Send for Counters {}

impl Counters {
    /// Maps the only entry of an array in the kernel.
    pub(crate) fn map(array: BorrowedFd<'_>) -> io::Result<Counters> {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            let bytes = COUNT * size_of::<u64>();
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, array.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Counters { base })
    }

    pub(crate) fn losses(&self) -> Losses {
        // SAFETY: the mapping has whole pages, and lives as long as `self`.
        let at = |index: usize| unsafe { self.base.add(index).as_ref() };
        // Each number counts for itself.
        let [pieces, bytes, streams] = [0, 1, 3].map(|index| at(index).load(Ordering::Relaxed));
        Losses { pieces, bytes, streams }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), COUNT * size_of::<u64>()) };
    }
}
