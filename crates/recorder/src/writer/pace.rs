//! How long the writer sleeps between two rounds.

use std::sync::atomic::Ordering;
use std::time::Duration;
use tacho_settings::Setting;

use tacho_ring::arena::Arena;
use tacho_ring::producer::Futex;
use tacho_ring::sys;
use tacho_ring::wakeup::Park;

use crate::control::{Control, Status};

/// How long the writer sleeps while there is much to write.
const NAP: Duration = Duration::from_millis(2);

/// State for the length of sleeps, see the module documentation.
#[derive(Default)]
pub(super) struct Pace {
    /// How often the writer had been woken before the last look at the arena.
    rings_seen: u32,
    /// `bytes_written` when it last slept.
    slept_at_bytes: u64,
}

/// What the length of a sleep depends on.
pub(super) struct Outlook {
    /// The file cannot be written.
    pub(super) is_failing: bool,
    /// Statements wait for a device that fails.
    pub(super) is_device_failing: bool,
    /// Statements wait for the device.
    pub(super) is_device_waited_for: bool,
    /// When it is time to sync, µs from now; `None`: never.
    pub(super) sync_due_us: Option<i64>,
    /// The records that were found wait for their filter.
    pub(super) is_filter_waited_for: bool,
}

impl Pace {
    /// A round begins.
    pub(super) fn begin_round(&mut self, arena: &Arena) {
        // SYNC wakeup: Acquire pairs with the Release in `Wakeup::ring`: this round sees what was
        // recorded before these wakeups. A later wakeup is not missed.
        self.rings_seen = arena.shared().wakeup.0.rings.load(Ordering::Acquire);
    }

    /// Whether so much was written since the last call that producers need not wake the writer: the
    /// system call is the largest delay for a query thread (tens of µs).
    fn is_busy(&mut self, control: &Control, status: &Status) -> bool {
        let written = status.bytes_written.load(Ordering::Relaxed);
        let new_bytes = written - std::mem::replace(&mut self.slept_at_bytes, written);
        new_bytes > control.setting(Setting::FlushBytes) / 8
    }

    /// Sleeps until the interval since `started_us` is over (`at_most_ms` if that is less), enough
    /// records wait, or it is woken. Under load it only naps.
    pub(super) fn sleep(
        &mut self,
        started_us: i64,
        at_most_ms: u64,
        outlook: &Outlook,
        arena: &Arena,
        (control, status): (&Control, &Status),
    ) {
        if self.is_busy(control, status) && !outlook.is_failing && !outlook.is_device_waited_for {
            std::thread::sleep(NAP);
            return;
        }
        let interval_ms = control.setting(Setting::FlushIntervalMs);
        let interval_ms = interval_ms.min(at_most_ms).max(1);
        let elapsed_us = sys::monotonic_us() - started_us;
        let left_us = (interval_ms as i64).saturating_mul(1_000) - elapsed_us;
        let left_us = match outlook.sync_due_us {
            // An overdue sync is retried in the next round.
            Some(due_us) if due_us > 0 => left_us.min(due_us),
            _ => left_us,
        };
        let wakeup = &arena.shared().wakeup.0;
        let word = wakeup.listen();
        let is_urgent = control.stop.load(Ordering::Relaxed)
            || control.release.load(Ordering::Relaxed)
            || control.rotate_now.load(Ordering::Relaxed)
            || control.flush_now.load(Ordering::Relaxed)
            // A wakeup since the round began may concern a setting that the round had already read.
            || word != self.rings_seen
            // Records that wait for their filter keep their chunks, however many are closed.
            || (!outlook.is_filter_waited_for
                && wakeup.closed.load(Ordering::Relaxed) >= wakeup.closed_limit.load(Ordering::Relaxed));
        let may_wait = !is_urgent || outlook.is_failing || outlook.is_device_failing;
        if left_us > 0 && may_wait {
            Futex.wait(&wakeup.rings, word, left_us as u64);
        }
        wakeup.awake();
    }
}
