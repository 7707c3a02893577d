//! The memory of an arena, on large pages if the kernel has some.
//!
//! Each statement touches memory that has not been touched for a while, and a chunk is eight pages
//! of 4 KiB: with small pages, one call in seven misses the TLB, and under virtualisation such a
//! miss takes about 100 ns to 1 µs. With pages of 2 MiB an arena of 64 MiB has 32 pages, which the
//! TLB keeps (`docs/benchmarks.md`, "The tail of a record's cost").
//!
//! tmpfs uses small pages unless `shmem_enabled` is set, which is rare. But since Linux 6.1 the
//! owner of a mapping may ask for large ones regardless of that setting: `madvise(2)`,
//! `MADV_COLLAPSE`. This does not work in a process that has turned large pages off for itself, as
//! MariaDB does at its start because of its heap (MDEV-33279): there they are allowed for the
//! duration of the call, some 100 ms. Pages that are mapped by then stay mapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant};

/// Bytes that are requested at once.
const STEP_BYTES: usize = 32 << 20;
/// Time limit for the requests: a starting server waits for them. The rest of a very large arena
/// stays on small pages.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of a large page on x86-64, and on other machines with pages of 4 KiB. (Elsewhere there are
/// none, and a few addresses stay reserved.)
pub const LARGE_PAGE_BYTES: usize = 2 << 20;

/// `<linux/mman.h>`, Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;

/// The process has turned large pages off entirely (`prctl(2)`).
const DISABLED: libc::c_int = 1;

/// Allows large pages in this process until it is dropped.
struct Allowed;

impl Allowed {
    /// `None`: large pages are already allowed, or cannot be allowed.
    fn new() -> Option<Allowed> {
        // SAFETY: asks for an attribute of the process, by value.
        let is_disabled = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == DISABLED;
        // SAFETY: sets an attribute of the process, by value. Mappings stay as they are.
        (is_disabled && unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0) } == 0)
            .then_some(Allowed)
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        // SAFETY: as in `new`. It was set before, so it can be set again.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, DISABLED, 0, 0, 0) };
    }
}

/// A shared mapping of the beginning of a file, at an address where a large page can begin.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is shared with other processes anyway; its user defines the access (`Arena`).
unsafe impl Send for Mapping {}
// SAFETY: as above; a reference gives the address, and advice to the kernel from any thread.
unsafe impl Sync for Mapping {}

/// Reserves addresses and maps nothing there.
fn reserve(bytes: usize) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let room = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if room == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(room) }
}

/// # Safety
/// Nothing uses these bytes, which were mapped here.
unsafe fn unmap(base: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as promised by the caller. It fails only for a part of a page.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}

impl Mapping {
    /// Maps `bytes` of a file, which has as many: whole pages. `flags`: further `MAP_*` bits.
    pub fn new(file: &File, bytes: usize, flags: libc::c_int) -> io::Result<Mapping> {
        let room_bytes = bytes + LARGE_PAGE_BYTES;
        let room = reserve(room_bytes)?.cast::<u8>();
        let before = room.align_offset(LARGE_PAGE_BYTES);
        let behind = room_bytes - before - bytes;
        let base = room.wrapping_add(before);
        // SAFETY: the addresses are within those reserved above, which no other code knows.
        let mapped = unsafe {
            unmap(room, before);
            unmap(base.wrapping_add(bytes), behind);
            libc::mmap(
                base.cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED | flags,
                file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            // The addresses stay reserved: the kernel may have unmapped them before it failed, and
            // may have given them to another thread of the server.
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { base, bytes })
    }

    /// Address of its first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Asks for large pages. Small pages are slower but work as well, so a refusal is not reported.
    /// `ShmemPmdMapped` in `/proc/PID/smaps` shows how much the kernel granted.
    pub fn take_large_pages(&self) {
        let bytes = self.bytes / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        if bytes == 0 {
            return;
        }
        let _allowed = Allowed::new();
        let begin = Instant::now();
        for at in (0..bytes).step_by(STEP_BYTES) {
            if begin.elapsed() > TIME_LIMIT {
                return;
            }
            let part = STEP_BYTES.min(bytes - at);
            // SAFETY: addresses of this mapping; its content stays the same.
            unsafe { libc::madvise(self.base.add(at).cast(), part, MADV_COLLAPSE) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; all users of its address end before
        // (`ArenaFile::arena`).
        unsafe { unmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A large page and a half.
    const BYTES: usize = LARGE_PAGE_BYTES * 3 / 2;

    #[test]
    fn a_mapping_begins_where_a_large_page_can_begin() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(BYTES as u64).expect("a size");
        let mapping = Mapping::new(&file, BYTES, libc::MAP_POPULATE).expect("a mapping");
        assert_eq!(mapping.base() as usize % LARGE_PAGE_BYTES, 0);
        // SAFETY: the first and the last byte of the mapping, which this test alone has.
        let (first, last) = unsafe { (mapping.base(), mapping.base().add(BYTES - 1)) };
        // SAFETY: as above.
        unsafe { (first.write(1), last.write(2)) };
        mapping.take_large_pages();
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes[..1], 0).expect("the first byte");
        file.read_exact_at(&mut bytes[1..], BYTES as u64 - 1).expect("the last byte");
        assert_eq!(bytes, [1, 2]);
        file.write_all_at(&[3], 0).expect("writing");
        // SAFETY: as above.
        assert_eq!(unsafe { first.read() }, 3);
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_an_error() {
        let file = File::open("/dev/null").expect("a file");
        assert!(Mapping::new(&file, BYTES, 0).is_err());
    }
}
