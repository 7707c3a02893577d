//! Changes of settings, as records in the arena.

use tacho_probe::{Probe, tacho_probe_session};
use tacho_recorder::control::ConfigChange;
use tacho_ring::chunk::OpenChunk;
use tacho_ring::codec::{
    Bytes, Event, PRESENT_TEXT, RecordKind, STRING_COMMAND, STRING_COUNT, STRING_HOST, STRING_IP,
    STRING_PRIV_USER, STRING_USER,
};
use tacho_ring::producer::{self, Emitted};
use tacho_ring::sys;

fn bytes(text: &[u8]) -> Bytes {
    Bytes { data: text.as_ptr(), len: text.len() }
}

/// Records it, as the thread that executes the connection that has changed the setting. `false`: the
/// arena has no room; nothing was waited for, and nothing counted.
pub fn record(probe: &Probe, change: &ConfigChange) -> bool {
    let ConfigChange { who, variable, old_value, new_value, .. } = change;
    let values = [&old_value[..], new_value].concat();
    let mut strings = [Bytes::EMPTY; STRING_COUNT];
    for (which, text) in [
        (STRING_USER, &who.user),
        (STRING_PRIV_USER, &who.priv_user),
        (STRING_HOST, &who.host),
        (STRING_IP, &who.ip),
        (STRING_COMMAND, variable),
    ] {
        strings[which] = bytes(text);
    }
    let event = Event {
        kind: RecordKind::Config as u32,
        present: PRESENT_TEXT,
        conn: who.conn,
        ts_us: sys::now_us(),
        sql_command: -1,
        shown_bytes: u32::try_from(old_value.len()).unwrap_or(u32::MAX),
        strings,
        text: bytes(&values),
        ..Event::EMPTY
    };
    // A chunk of its own: that of the thread is known to the adapter alone.
    let mut open = OpenChunk::default();
    // SAFETY: the probe is valid; this thread executes the connection, if it is one, and is in no
    // callback of the server meanwhile.
    let session = unsafe { tacho_probe_session(probe, who.conn, event.ts_us) };
    // SAFETY: all texts outlive the call; `open` is of this thread and of no arena yet.
    let emitted = unsafe { producer::emit(&probe.arena, &mut open, session, &event) };
    producer::release(&probe.arena, &mut open);
    emitted == Emitted::Accepted
}

#[cfg(test)]
mod tests {
    use tacho_probe::Probe;
    use tacho_recorder::arena_file::ArenaFile;
    use tacho_recorder::control::{ConfigChange, Who};
    use tacho_ring::sync::Ordering;

    /// However large it is, and though the settings say that records wait.
    #[test]
    fn a_change_that_finds_no_room_is_refused_at_once_and_not_counted() {
        for (conn, bytes) in [(0, 10), (7, 10), (0, 300_000), (7, 300_000)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            let made = ArenaFile::create(path, 1 << 20, path, "").unwrap();
            let arena = made.arena();
            arena.shared().settings.0.logging.store(1, Ordering::Relaxed);
            let probe = Probe::keyed(arena, 1, [0; 2]);
            let change = ConfigChange {
                who: Who { conn, user: b"root".to_vec(), ..Who::default() },
                new_value: vec![b'x'; bytes],
                ..ConfigChange::default()
            };
            let chunks = arena.free_count();
            let fitting = chunks as usize / bytes.div_ceil(arena.geometry().chunk_bytes as usize);
            let recorded = (0..chunks + 1).take_while(|_| super::record(&probe, &change)).count();
            assert!((1..=fitting).contains(&recorded), "{conn} {bytes}: {recorded} of {fitting}");
            let counters = &arena.shared().counters.0;
            for count in [&counters.lost_dropped, &counters.lost_timeout, &counters.blocked_count] {
                assert_eq!(count.load(Ordering::Relaxed), 0, "{conn} {bytes}");
            }
        }
    }
}
