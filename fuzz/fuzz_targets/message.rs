//! What server and recorder say to each other over a socket, as either side reads it.
#![no_main]

use tacho_recorder::external::message::{ToRecorder, ToServer};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = serde_json::from_slice::<ToRecorder>(input);
    let _ = serde_json::from_slice::<ToServer>(input);
});
