//! The text of a filter from an option file or a table: a program or an error, without a panic.
#![no_main]

use tacho_filter::compile::{Server, compile};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = compile(text, &Server::default());
});
