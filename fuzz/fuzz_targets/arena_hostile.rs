//! The consumer with an untrusted arena: no panic, nothing out of bounds, no endless loop. The body
//! is shared with the tests of `tacho-ring`.
#![no_main]

#[path = "../../crates/ring/tests/arena/damage.rs"]
mod damage;
#[path = "../../crates/ring/tests/arena/heap.rs"]
mod heap;
#[path = "../../crates/ring/tests/arena/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| hostile::drive(input));
