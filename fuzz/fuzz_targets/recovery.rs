//! Recovery of an untrusted arena and its spill. The body is shared with the tests of
//! `tacho-recorder`.
#![no_main]

#[path = "../../crates/recorder/tests/hostile_recovery.rs"]
mod hostile_recovery;

libfuzzer_sys::fuzz_target!(|input: &[u8]| hostile_recovery::drive(input));
