//! Reading a line back returns the record that it was written from.

use proptest::prelude::*;
use tacho_record::Line;
use tacho_record::OwnedRecord;
use tacho_record::json::write_line;
use tacho_record::time::TimeFormatter;

use crate::arbitrary::record;
use crate::samples::samples;

fn line(record: &OwnedRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut clock = TimeFormatter::named("Europe/Berlin").expect("tzdata");
    record.with(|record| write_line(&mut out, record, &mut clock));
    out
}

fn read(line: &[u8]) -> OwnedRecord {
    let parsed = Line::parse(line).unwrap_or_else(|e| panic!("{e}: {:?}", line.escape_ascii()));
    OwnedRecord::of_line(&parsed).unwrap_or_else(|e| panic!("{e}: {:?}", line.escape_ascii()))
}

#[test]
fn samples_come_back() {
    for record in samples() {
        assert_eq!(read(&line(&record)), record);
    }
}

proptest! {
    #[test]
    fn every_record_comes_back(record in record()) {
        let line = line(&record);
        prop_assert_eq!(read(&line), record);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(line) = Line::parse(&bytes) {
            let _ = OwnedRecord::of_line(&line);
        }
    }

    #[test]
    fn no_damage_causes_a_panic(
        record in record(),
        at in any::<prop::sample::Index>(),
        by in any::<u8>(),
    ) {
        let mut line = line(&record);
        let at = at.index(line.len());
        line[at] ^= by;
        if let Ok(parsed) = Line::parse(&line) {
            let _ = OwnedRecord::of_line(&parsed);
        }
    }
}
