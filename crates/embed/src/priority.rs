//! The writer's place among the threads of the server.
//!
//! The scheduler shares a processor that is wanted by more threads than there are processors
//! equally among them. Of 64 busy sessions on two processors the writer would get three per cent
//! of one, which is not enough for what they record: the arena fills, and each of them waits for
//! the writer from time to time. It needs a share that grows with their number, and uses
//! no more of it than what they have recorded.

/// What the writer asks for: nine times the share of a thread at 0 (`sched_prio_to_weight` in the
/// kernel's `kernel/sched/core.c`).
const NICE: libc::c_int = -10;

/// Asks for it, for the calling thread.
///
/// The kernel allows it to who has CAP_SYS_NICE or a sufficient RLIMIT_NICE (systemd's
/// `LimitNICE=-10`, which the package sets); to others it says no, and all goes on as before. What
/// came of it shows in the column NI of `ps -L`.
pub(crate) fn raise() {
    // SAFETY: takes numbers only. On Linux, 0 is the calling thread, not its process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> libc::c_int {
        // SAFETY: takes numbers only.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn it_is_raised_where_that_is_allowed_and_for_one_thread() {
        let before = nice();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid pointer to an rlimit.
        let rc = unsafe { libc::getrlimit(libc::RLIMIT_NICE, &mut limit) };
        assert_eq!(rc, 0);
        // SAFETY: takes nothing. Root may be without CAP_SYS_NICE, in some containers.
        let is_root = unsafe { libc::geteuid() } == 0;
        let raised = std::thread::spawn(|| {
            raise();
            nice()
        });
        let raised = raised.join().unwrap();
        if limit.rlim_cur >= (20 - NICE) as libc::rlim_t {
            assert_eq!(raised, NICE);
        } else if !is_root {
            assert_eq!(raised, before);
        }
        assert!(raised == NICE || raised == before);
        assert_eq!(nice(), before, "the thread that made it is as it was");
    }
}
