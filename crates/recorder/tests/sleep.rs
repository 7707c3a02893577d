//! The writer does not miss a wakeup that arrives while it is busy.

mod support;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use support::{DEADLINE, place};
use tacho_recorder::control::Control;
use tacho_ring::producer::Futex;
use tacho_ring::sys;
use tacho_settings::Setting;

const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_wakeup_during_a_round_starts_another_round() {
    let place = place();
    let arena = place.arena();
    let control = Arc::new(Control::default());
    control.set(Setting::FlushIntervalMs, HOUR_MS);
    let mut writer = place.writer_of(arena.arena(), control);
    assert!(writer.round());
    // As after a change of a setting that the round has already read.
    arena.arena().shared().wakeup.0.call(&Futex);
    let (sender, receiver) = mpsc::channel();
    // Joined only after its message, because it may sleep for an hour.
    let sleeper = thread::spawn(move || {
        writer.sleep(sys::monotonic_us(), HOUR_MS);
        sender.send(()).expect("the receiver exists");
    });
    receiver.recv_timeout(DEADLINE).expect("it does not sleep");
    sleeper.join().expect("no panic");
    arena.remove().expect("removes");
}
