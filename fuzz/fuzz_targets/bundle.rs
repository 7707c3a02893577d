//! An untrusted evidence bundle: the check must end, without a panic, and may not call a record
//! proven that the key of the log did not sign.
//!
//! Nearly each change of a signed bundle is found at its hashes. So the input is also checked as
//! the bundle of a hub that lies: with the hashes of its members and the hub's signature made anew.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use libfuzzer_sys::fuzz_target;
use tacho_chain::key::SecretKey;
use tacho_chain::verify::LogState;
use tacho_evidence::check::{Options, Report, check};
use tacho_evidence::container::{Member, Writer, list};
use tacho_evidence::manifest::{self, FilePart, Manifest};
use tacho_evidence::names::Name;

/// The keys of the seeds.
fn hub_key() -> SecretKey {
    SecretKey::from_bytes(&[42; 32])
}

/// A file in memory.
fn file() -> File {
    tempfile::tempfile_in("/dev/shm").expect("a file in memory")
}

fn checked(file: &File, root: &SecretKey) -> Report {
    let options = Options { keys: vec![root.root()], hub_key: Some(hub_key().root()) };
    check(file, &options, &mut |_| {}).expect("memory can be read")
}

fn bytes_of(file: &File, member: &Member) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(member.bytes).expect("a length in memory")];
    file.read_exact_at(&mut bytes, member.offset).expect("memory can be read");
    bytes
}

/// The same members as a bundle that the hub has signed. None: they have no manifest.
fn signed_anew(file: &File, members: &[Member]) -> Option<File> {
    let stated = members.iter().find(|member| member.name == Name::Manifest)?;
    let mut manifest: Manifest = serde_json::from_slice(&bytes_of(file, stated)).ok()?;
    let signed = self::file();
    let mut progress = |_| true;
    let mut writer = Writer::new(&signed, u64::MAX, &mut progress);
    let mut files = Vec::new();
    for member in members {
        if matches!(member.name, Name::Manifest | Name::Signature) {
            continue;
        }
        let written = writer.member(&member.name, &bytes_of(file, member)).ok()?;
        let part = manifest.files.iter().find(|part| part.name == written.name);
        files.push(FilePart {
            ranges: part.map(|part| part.ranges.clone()).unwrap_or_default(),
            name: written.name,
            bytes: written.bytes,
            sha256: written.sha256.to_string(),
        });
    }
    manifest.files = files;
    let text = serde_json::to_vec(&manifest).expect("a manifest can be written");
    writer.member(&Name::Manifest, &text).ok()?;
    let signature = manifest::sign(&text, &hub_key());
    writer.member(&Name::Signature, signature.as_bytes()).ok()?;
    writer.close().ok()?;
    Some(signed)
}

fuzz_target!(|input: &[u8]| {
    let given = file();
    given.write_all_at(input, 0).expect("memory can be written");
    // The secret half of this key does not occur in the input.
    let unknown = SecretKey::from_bytes(&[0x5a; 32]);
    let report = checked(&given, &unknown);
    assert_eq!(report.proven(), 0);
    let Ok(members) = list(&given) else {
        assert_eq!(report.state(), LogState::Modified);
        return;
    };
    if let Some(signed) = signed_anew(&given, &members) {
        assert_eq!(checked(&signed, &unknown).proven(), 0);
        // The seeds' own log: good up to where the input was changed.
        let report = checked(&signed, &SecretKey::from_bytes(&[1; 32]));
        assert!(report.proven() <= report.records());
    }
});
