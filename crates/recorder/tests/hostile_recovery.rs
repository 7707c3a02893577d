//! Recovery of an untrusted arena and spill: with any content, it ends, does not panic, and writes
//! only valid lines.
//!
//! [`drive`] is also the body of the fuzz target `recovery`. Here it runs over the target's seeds.

#[path = "../../ring/tests/arena/damage.rs"]
mod damage;
mod support;

use std::sync::Arc;

use damage::damage;
use support::{TestLog, emit, event, place};
use tacho_logdir::private_file;
use tacho_probe::{Probe, Thread};
use tacho_record::Line;
use tacho_recorder::arena_file::ArenaFile;
use tacho_recorder::control::Control;
use tacho_recorder::{arena_list, recover, spill};
use tacho_ring::codec::RecordKind;

/// Creates an arena with some records, damages it, gives it a spill, and recovers it.
///
/// ```text
/// 0  u16  bytes of the damage
/// 2  u16  bytes of the list of arenas
/// 4  …    damage, as `damage::damage` reads it
///    …    list of arenas
///    …    spill
/// ```
pub fn drive(input: &[u8]) {
    let Some((&[d0, d1, l0, l1], rest)) = input.split_first_chunk::<4>() else { return };
    let part = |rest: &[u8], bytes| usize::from(u16::from_le_bytes(bytes)).min(rest.len());
    let (patches, rest) = rest.split_at(part(rest, [d0, d1]));
    let (list, spilled) = rest.split_at(part(rest, [l0, l1]));

    let place = place();
    let file = place.arena();
    record(&file);
    damage(&file.arena(), patches);
    let spill_path = file.path().with_extension(format!("0.{}", spill::ENDING));
    put(&spill_path, spilled);
    // No process has its lock any more.
    drop(file);
    std::fs::create_dir(&place.log).expect("makes");
    if !list.is_empty() {
        put(&place.log.join(arena_list::NAME), list);
    }
    recover(&place);
    for line in place.lines() {
        Line::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

fn record(file: &ArenaFile) {
    static LARGE: [u8; 20_000] = [b'x'; 20_000];
    let probe = Probe::new(file.arena(), 1);
    let mut thread = Thread::default();
    for (query_id, text) in [(1, &b"SELECT 1"[..]), (2, &LARGE), (3, b"SET PASSWORD = 'x'")] {
        emit(&probe, &mut thread, &event(RecordKind::Start, 1, query_id, text));
        emit(&probe, &mut thread, &event(RecordKind::Error, 1, query_id, b"Unknown table"));
        emit(&probe, &mut thread, &event(RecordKind::End, 1, query_id, b""));
    }
    emit(&probe, &mut thread, &event(RecordKind::Point, 2, 4, b"SELECT 2"));
    emit(&probe, &mut thread, &event(RecordKind::Start, 2, 5, b"SELECT 3"));
}

fn put(path: &std::path::Path, bytes: &[u8]) {
    let mut file = private_file::create(path).expect("makes");
    std::io::Write::write_all(&mut file, bytes).expect("writes");
}

fn recover(place: &TestLog) {
    let own = ArenaFile::placeholder().expect("makes");
    let writer = place.writer_of(own.arena(), Arc::new(Control::default()));
    let (writer, result) = recover::recover_all(writer, &place.arenas, &place.log);
    if let Ok(recovered) = result {
        assert!(recovered.arenas <= 1, "{recovered:?}");
    }
    writer.close().expect("the disk works");
}

#[cfg(not(fuzzing))]
mod tests {
    use super::drive;

    #[test]
    fn damaged_arenas_do_no_harm() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recovery");
        let seeds = std::fs::read_dir(folder).expect("the folder of seeds");
        let seeds: Vec<_> = seeds.map(|entry| entry.expect("a seed").path()).collect();
        assert!(seeds.len() >= 5, "the seeds are missing");
        for seed in seeds {
            drive(&std::fs::read(seed).expect("a seed"));
        }
    }
}
