//! The state of a thread, derived from its system call.

use serde::{Deserialize, Serialize};

use crate::task::Whereabouts;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// Computes. (If the kernel does not count: or is ready to.)
    Running,
    /// Has work, and waits for a CPU: see `turns.rs`.
    Runnable,
    /// Waits for a mutex, or another plain futex.
    Lock,
    /// Waits for a condition variable, a read-write lock, a semaphore: futexes with a bit set.
    Condition,
    /// Waits for the disk.
    Disk,
    /// Waits for the network or a pipe.
    Network,
    /// Waits for a time to pass.
    Sleep,
    /// Waits for a page of memory.
    Memory,
    /// Anything else.
    Other,
}

impl ThreadState {
    /// All states, in their order of display.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Runnable,
        Self::Lock,
        Self::Condition,
        Self::Disk,
        Self::Network,
        Self::Sleep,
        Self::Memory,
        Self::Other,
    ];

    /// Its name, in texts and as a frame.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Sleep => "sleep",
            Self::Memory => "memory",
            Self::Other => "other",
        }
    }

    /// From the names of the innermost functions, for a thread whose call was interrupted and
    /// restarted: the kernel shows it as `restart_syscall`.
    pub fn of_functions<'a>(innermost: impl Iterator<Item = &'a str>) -> Self {
        for name in innermost.take(3) {
            let name = name.trim_start_matches('_');
            let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
            if is(&["lll_lock", "pthread_mutex"]) {
                return Self::Lock;
            }
            if is(&["futex", "pthread_cond", "pthread_rwlock", "sem_", "pthread_join"]) {
                return Self::Condition;
            }
            if is(&["poll", "ppoll", "select", "pselect", "epoll"]) {
                return Self::Network;
            }
            if is(&["nanosleep", "clock_nanosleep", "usleep", "sleep"]) {
                return Self::Sleep;
            }
        }
        Self::Other
    }

    /// From the location of the thread. `letter` is the state in `/proc/<pid>/task/<tid>/stat`.
    pub fn of(place: &Whereabouts, letter: char) -> Self {
        match *place {
            Whereabouts::Running => Self::Running,
            Whereabouts::Blocked { syscall, .. } if syscall < 0 => {
                if letter == 'D' {
                    Self::Memory
                } else {
                    Self::Other
                }
            }
            Whereabouts::Blocked { syscall, arguments, .. } => {
                Self::of_syscall(syscall, arguments[1], letter)
            }
        }
    }

    /// From the number of the system call in which it waits and that call's second argument.
    pub fn of_syscall(syscall: i64, argument: u64, letter: char) -> Self {
        match syscall {
            libc::SYS_futex => match argument as i32 & libc::FUTEX_CMD_MASK {
                libc::FUTEX_WAIT | libc::FUTEX_LOCK_PI => Self::Lock,
                _ => Self::Condition,
            },
            libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync_file_range
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_msync
            | libc::SYS_fallocate
            | libc::SYS_ftruncate => Self::Disk,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_pause => Self::Sleep,
            _ if is_network_idle(syscall) => Self::Network,
            libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_connect => Self::Network,
            _ if letter == 'D' => Self::Disk,
            // For a file the state would be D: this is a socket or a pipe.
            libc::SYS_read | libc::SYS_readv | libc::SYS_write | libc::SYS_writev => Self::Network,
            _ => Self::Other,
        }
    }
}

impl ThreadState {
    /// Whether this system call does nothing but wait: a thread that has work and is in it has just
    /// been woken.
    pub fn only_waits(syscall: i64) -> bool {
        matches!(syscall, libc::SYS_nanosleep | libc::SYS_clock_nanosleep)
            || is_network_idle(syscall)
    }
}

/// Whether this call waits for a peer, rather than for an operation to complete.
fn is_network_idle(syscall: i64) -> bool {
    matches!(
        syscall,
        libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_accept
            | libc::SYS_accept4
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_a_mutex_from_a_condition_variable() {
        let futex = |op: i32| ThreadState::of_syscall(libc::SYS_futex, op as u64, 'S');
        assert_eq!(futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG), ThreadState::Lock);
        let timed = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(futex(timed), ThreadState::Condition);
    }

    #[test]
    fn distinguishes_a_file_from_a_socket() {
        assert_eq!(ThreadState::of_syscall(libc::SYS_write, 0, 'D'), ThreadState::Disk);
        assert_eq!(ThreadState::of_syscall(libc::SYS_read, 0, 'S'), ThreadState::Network);
        assert_eq!(ThreadState::of_syscall(libc::SYS_fdatasync, 0, 'S'), ThreadState::Disk);
    }

    #[test]
    fn a_restarted_call_is_recognised_by_its_function() {
        let of = |names: &[&str]| ThreadState::of_functions(names.iter().copied());
        assert_eq!(of(&["poll", "vio_io_wait"]), ThreadState::Network);
        assert_eq!(
            of(&["[libc.so.6+0x85e60]", "pthread_cond_timedwait", "x"]),
            ThreadState::Condition
        );
        assert_eq!(of(&["__clock_nanosleep"]), ThreadState::Sleep);
        assert_eq!(of(&["a", "b", "c", "poll"]), ThreadState::Other);
    }

    #[test]
    fn names_are_those_of_the_json() {
        for state in ThreadState::ALL {
            let json = serde_json::to_string(&state).expect("a name");
            assert_eq!(json, format!("\"{}\"", state.name()));
        }
    }
}
