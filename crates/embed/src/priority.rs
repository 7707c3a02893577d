//! The writer's place among the threads of the server.
//!
//! If more threads are ready than there are processors, the scheduler divides the processors
//! equally among them. With 64 busy sessions on two processors the writer would get three per cent
//! of one, which is not enough for their records: the arena fills, and each session sometimes waits
//! for the writer. It needs a share that grows with their number, and uses only as much as their
//! records need.

/// The requested priority: nine times the share of a thread at 0 (`sched_prio_to_weight` in the
/// kernel's `kernel/sched/core.c`).
const NICE: libc::c_int = -10;

/// Requests it for the calling thread.
///
/// The kernel permits this if the server has CAP_SYS_NICE or a sufficient RLIMIT_NICE (systemd's
/// `LimitNICE=-10`, which the package sets); otherwise nothing changes. The column NI of `ps -L`
/// shows the result.
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
    fn it_is_raised_for_one_thread_if_that_is_permitted() {
        let before = nice();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid pointer to an rlimit.
        let rc = unsafe { libc::getrlimit(libc::RLIMIT_NICE, &mut limit) };
        assert_eq!(rc, 0);
        // SAFETY: no arguments. Root may lack CAP_SYS_NICE, in some containers.
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
        assert_eq!(nice(), before, "the creating thread is unchanged");
    }
}
