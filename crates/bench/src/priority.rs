//! The measuring thread has priority over the threads that it measures.
//!
//! A block begins and ends when the counters are read. With 512 connections on two processors a
//! thread with the same priority would wait for seconds between one counter and the next, and the
//! difference of two edges would cover different times.

/// Gives the calling thread priority over all threads without real-time priority, if that is
/// permitted (root, CAP_SYS_NICE): it sleeps nearly always. Its child processes have the usual
/// priority.
///
/// Without permission everything continues as before: then the width of the A/A interval shows the
/// effect.
pub fn raise() {
    // The lowest real-time priority (`sched(7)`).
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: takes numbers, and a pointer to a structure that outlives the call. 0 is the calling
    // thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const lowest)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: takes numbers only.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn it_is_raised_where_that_is_allowed_and_for_one_thread() {
        let before = policy();
        let (raised, of_what_it_starts) = std::thread::spawn(|| {
            raise();
            (policy(), std::thread::spawn(policy).join().expect("it ends"))
        })
        .join()
        .expect("it ends");
        assert!(raised == libc::SCHED_RR || raised == before);
        assert_eq!(of_what_it_starts, before);
        assert_eq!(policy(), before);
    }
}
