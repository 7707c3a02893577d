//! When the writer sleeps: not over what somebody wanted while it was busy.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use support::{DEADLINE, place};
use tacho_recorder::control::Control;
use tacho_ring::producer::Futex;
use tacho_ring::sys;

const HOUR_MS: u64 = 3_600_000;

#[test]
fn what_rings_during_a_round_has_one_of_its_own() {
    let place = place();
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.flush_interval_ms.store(HOUR_MS, Ordering::Relaxed);
    let mut writer = place.writer_of(arena.arena(), control);
    assert!(writer.round());
    // As a setting that the round has looked at already.
    arena.arena().shared().wakeup.0.call(&Futex);
    let (tell, told) = mpsc::channel();
    // Not joined before it has told: it may sleep for an hour.
    let sleeper = thread::spawn(move || {
        writer.sleep(sys::monotonic_us(), HOUR_MS);
        tell.send(()).expect("somebody listens");
    });
    told.recv_timeout(DEADLINE).expect("it does not sleep");
    sleeper.join().expect("no panic");
    arena.remove().expect("removes");
}
