//! The segments of a real capture, and what may happen to them on their way.
//!
//! `data/sessions.pcap` was made on lo: MariaDB 10.11 with the client `mariadb` (text, compressed,
//! several statements in one packet, a local file, a failed login) and sysbench (prepared).

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use tacho_capture::link::{self, Segment};
use tacho_capture::source::file::{self, FileError};

/// The server's address.
pub const SERVER: &str = "127.0.0.1:33306";

/// A segment of the file, with its payload.
#[derive(Clone)]
pub struct Owned {
    pub segment: Segment<'static>,
    pub payload: Vec<u8>,
    pub missing: u32,
}

impl Owned {
    pub fn segment(&self) -> Segment<'_> {
        Segment { payload: &self.payload, missing: self.missing, ..self.segment }
    }
}

pub static SEGMENTS: LazyLock<Vec<Owned>> = LazyLock::new(read);

fn read() -> Vec<Owned> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sessions.pcap");
    let mut segments = Vec::new();
    file::read::<FileError>(&path, |frame| {
        let link = frame.link.expect("a supported link type");
        if let Some(found) = link::segment(link, frame.bytes, frame.frame_bytes, frame.ts_us) {
            segments.push(Owned {
                segment: Segment { payload: &[], ..found },
                payload: found.payload.to_vec(),
                missing: found.missing,
            });
        }
        Ok(())
    })
    .expect("the file of this test");
    segments
}

/// What happens to a segment.
#[derive(Clone, Debug)]
pub enum Fate {
    Arrives,
    IsLost,
    IsDoubled,
    /// Only so many of its bytes were captured.
    IsCut(usize),
    /// It arrives after so many others.
    IsLate(usize),
}

pub fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        40 => Just(Fate::Arrives),
        1 => Just(Fate::IsLost),
        2 => Just(Fate::IsDoubled),
        1 => (0..100_usize).prop_map(Fate::IsCut),
        3 => (1..9_usize).prop_map(Fate::IsLate),
    ]
}

/// The client's port.
pub fn port(segment: &Owned) -> u16 {
    let Segment { from, to, .. } = segment.segment;
    if from.port() == 33306 { to.port() } else { from.port() }
}

/// The segments as they arrive.
pub fn arrival(segments: &[Owned], fates: &[Fate]) -> Vec<Owned> {
    let mut arriving = Vec::new();
    for (place, (segment, fate)) in segments.iter().zip(fates.iter().cycle()).enumerate() {
        let mut at = place * 10;
        let mut segment = segment.clone();
        match fate {
            Fate::Arrives => {}
            Fate::IsLost => continue,
            Fate::IsDoubled => arriving.push((at + 35, segment.clone())),
            Fate::IsCut(bytes) => {
                let cut = segment.payload.len().saturating_sub(*bytes);
                segment.missing += cut as u32;
                segment.payload.truncate(*bytes);
            }
            Fate::IsLate(others) => at += others * 10 + 5,
        }
        arriving.push((at, segment));
    }
    arriving.sort_by_key(|(at, _)| *at);
    arriving.into_iter().map(|(_, segment)| segment).collect()
}
