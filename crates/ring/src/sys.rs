//! The only file with system calls of the hot zone. They are:
//!
//! | call | when |
//! |---|---|
//! | `futex(FUTEX_WAIT)` | the declared back-pressure wait: no chunk is free |
//! | `futex(FUTEX_WAKE)` | a chunk was closed and the writer sleeps; or chunks were freed and producers wait |
//! | `clock_gettime` | answered by the vDSO without entering the kernel |
//! | `gettid` | once per thread, so that a dead owner can be recognised |
//!
//! `errno` is the server's: the raw calls here save and restore it.

use crate::sync::AtomicU32;

/// Runs `f` and restores the thread's `errno`.
fn keep_errno<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: `__errno_location` returns a valid pointer to this thread's errno.
    let saved = unsafe { *libc::__errno_location() };
    let value = f();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = saved };
    value
}

/// Sleeps while `*word == expected`, at most `timeout_us` microseconds.
///
/// Returns for any reason (wakeup, timeout, signal, changed value): the caller checks again.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout_us: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_us / 1_000_000) as libc::time_t,
        tv_nsec: (timeout_us % 1_000_000).wrapping_mul(1_000) as libc::c_long,
    };
    keep_errno(|| {
        // SAFETY: `word` is a valid, aligned 32-bit word for the whole call, `timeout` lives
        // on the stack. The futex is shared (no PRIVATE flag): other processes map it too.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                expected,
                &timeout as *const libc::timespec,
            )
        }
    });
}

/// Wakes at most `count` sleepers on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    keep_errno(|| {
        // SAFETY: as in `futex_wait`; waking reads no memory of this process.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) }
    });
}

fn clock_us(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec; the clocks used exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec.wrapping_mul(1_000_000).wrapping_add(now.tv_nsec / 1_000)
}

/// Microseconds since 1970-01-01 UTC.
#[inline]
pub fn now_us() -> i64 {
    clock_us(libc::CLOCK_REALTIME)
}

/// Microseconds of a clock that never steps.
#[inline]
pub fn monotonic_us() -> i64 {
    clock_us(libc::CLOCK_MONOTONIC)
}

/// Kernel id of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: gettid takes no argument and cannot fail.
    (unsafe { libc::gettid() }) as u32
}
