//! An untrusted sidecar or `removed.chain`, entry by entry: it ends, no entry is longer than the
//! maximum, and an entry with a meaning has the same one when it is written again.
#![no_main]

use tacho_chain::entry::{Checkpoint, Epoch, Frame, Tombstone};
use tacho_chain::hub_tombstone::HubTombstone;
use tacho_chain::note::Note;
use tacho_chain::sidecar::{Entries, Meaning};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut entries = Entries::new(input);
    let mut bytes = 0;
    while let Some(entry) = entries.next_entry().expect("memory can be read") {
        assert!(!entry.bytes.is_empty() && entry.bytes.len() <= 2 * 4096);
        bytes += entry.bytes.len() as u64;
        assert_eq!(entries.whole_bytes(), bytes);
        match entry.meaning {
            Some(Meaning::Frame(it)) => assert_eq!(Frame::parse(&it.to_line()), Ok(it)),
            Some(Meaning::Epoch(it, _)) => assert_eq!(Epoch::parse(&it.to_text()), Ok(*it)),
            Some(Meaning::Checkpoint(it, _)) => assert_eq!(Checkpoint::parse(&it.to_text()), Ok(it)),
            Some(Meaning::Tombstone(it, _)) => assert_eq!(Tombstone::parse(&it.to_text()), Ok(it)),
            Some(Meaning::HubTombstone(it, _)) => {
                assert_eq!(HubTombstone::parse(&it.to_text()), Ok(*it));
            }
            None => {}
        }
    }
    assert!(bytes <= input.len() as u64);
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = tacho_chain::verify::read_checkpoint(text);
        // Without a signature around it, which random bytes never have.
        let _ = (Epoch::parse(text), Checkpoint::parse(text), Tombstone::parse(text));
        let _ = (Frame::parse(text), Note::parse(text), HubTombstone::parse(text));
    }
});
