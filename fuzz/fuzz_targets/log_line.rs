//! An untrusted line of a log, as `tail` and `convert` read it: an answer, without a panic.
#![no_main]

use tacho_record::Line;
use tacho_record::OwnedRecord;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(line) = Line::parse(input) {
        let _ = line.end_ts();
        let _ = OwnedRecord::of_line(&line);
    }
});
