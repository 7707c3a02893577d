//! The verifier with an untrusted directory: it must end, without a panic, and never report that
//! all is well, because the input does not have the key.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use tacho_chain::key::SecretKey;
use tacho_chain::verify::{Directory, Options, LogState, verify};

/// The input, cut at each byte 0: log and sidecar of two files, and the tombstones.
struct Files<'a>(Vec<(&'static str, &'a [u8])>);

const NAMES: [&str; 6] = [
    "audit-20261121T015944Z-000001.chain",
    "audit-20261121T015944Z-000001.jsonl",
    "audit-20261121T015944Z-000002.chain",
    "audit-20261121T015944Z-000002.jsonl",
    "removed.chain",
    "hub-removed.chain",
];

impl Directory for Files<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        let file = self.0.iter().find(|(other, _)| *other == name);
        Ok(Box::new(file.ok_or(io::ErrorKind::NotFound)?.1))
    }
}

fuzz_target!(|data: &[u8]| {
    let files = Files(NAMES.into_iter().zip(data.split(|&byte| byte == 0)).collect());
    // A public key whose secret half does not occur in the input.
    let key = SecretKey::from_bytes(&[0x5a; 32]).root();
    let options = Options { keys: vec![key], ..Default::default() };
    let report = verify(&files, &options, &mut |_| {}).expect("memory can be read");
    assert!(report.state() > LogState::Lost);
    // The key of the seeds: signatures are good up to where the input was changed.
    let key = SecretKey::from_bytes(&[1; 32]).root();
    let options = Options { keys: vec![key], ..Default::default() };
    verify(&files, &options, &mut |_| {}).expect("memory can be read");
});
