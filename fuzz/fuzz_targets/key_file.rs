//! An untrusted signing key file: rejected, or unchanged when it is written again.
#![no_main]

use tacho_chain::key_file::KeyFile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(file) = KeyFile::parse(text) {
        let again = file.to_text();
        let second = KeyFile::parse(&again).expect("what was written can be read");
        assert_eq!(*second.to_text(), *again);
        let _ = (file.begun(), file.closed());
    }
});
