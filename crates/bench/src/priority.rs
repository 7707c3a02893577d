//! The thread that measures goes before those that it measures.
//!
//! A block begins and ends where the counters are read. With 512 connections on two processors a thread
//! like theirs would wait for seconds between one counter and the next, and what lies between two
//! edges would be of different times.

/// Puts the calling thread before all threads without real-time priority, where that is allowed (root,
/// CAP_SYS_NICE): it sleeps nearly always. What it starts has the usual priority.
///
/// To others the kernel says no, and all goes on as before: then the width of the A/A interval tells.
pub fn raise() {
    // The lowest one of real time (`sched(7)`).
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
