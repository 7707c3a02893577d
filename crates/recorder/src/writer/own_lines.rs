//! Lines of the recorder itself: `start`, `stop`, `config`.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tacho_record::{EventKind, Record};
use tacho_ring::arena::Arena;
use tacho_ring::sys;

use super::batch::Batch;
use super::context::Context;
use crate::control::ConfigLogged;

/// `seq` of the `start` line of the recorder that owns this arena, or owned it, during recovery.
pub(super) fn run_of(arena: &Arena) -> Option<u64> {
    let seq = arena.shared().writer.0.start_seq.load(Ordering::Relaxed);
    (seq != 0).then_some(seq)
}

/// State of the recorder's own lines, see the module documentation.
#[derive(Default)]
pub(super) struct OwnLines {
    /// Callback for the lines of changes.
    config_logged: Option<ConfigLogged>,
    /// The `stop` line is in the batch, or in the file.
    has_stop: bool,
}

impl OwnLines {
    pub(super) fn set_config_logged(&mut self, logged: ConfigLogged) {
        self.config_logged = Some(logged);
    }

    /// Whether the `stop` line was written, which is the last one.
    pub(super) fn has_stop(&self) -> bool {
        self.has_stop
    }

    pub(super) fn set_has_stop(&mut self, has_stop: bool) -> bool {
        std::mem::replace(&mut self.has_stop, has_stop)
    }

    /// A line for each change of a setting.
    pub(super) fn config_changes(
        &mut self,
        now_us: i64,
        arena: &Arena,
        batch: &mut Batch,
        context: &Context,
    ) {
        let changes = {
            let waiting = &context.control.config_changes;
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        for change in changes {
            let seq = batch.take_seq();
            if let Some(logged) = &mut self.config_logged {
                logged(change.number, seq);
            }
            let who = &change.who;
            batch.write(&Record {
                seq,
                ts_us: now_us,
                event: Some(EventKind::Config),
                run: run_of(arena),
                conn: (who.conn != 0).then_some(who.conn),
                user: &who.user,
                priv_user: &who.priv_user,
                host: &who.host,
                ip: &who.ip,
                variable: &change.variable,
                old_value: &change.old_value,
                new_value: &change.new_value,
                ..Record::default()
            });
        }
    }
}

/// A line of the recorder: `start`, `stop`. `signing_key` verifies the log from here on.
pub(super) fn note(
    event: EventKind,
    server: &[u8],
    ts_us: i64,
    signing_key: &str,
    arena: &Arena,
    batch: &mut Batch,
) {
    let seq = batch.take_seq();
    let shared = arena.shared();
    match event {
        EventKind::Start => shared.writer.0.start_seq.store(seq, Ordering::Relaxed),
        EventKind::Stop => shared.successor.0.stop_seq.store(seq, Ordering::Relaxed),
        _ => {}
    }
    let (event, run) = (Some(event), run_of(arena));
    let signing_key = signing_key.as_bytes();
    batch.write(&Record { seq, ts_us, event, run, server, signing_key, ..Record::default() });
}

/// A `config` line for a change that the recorder made.
pub(super) fn own_change(
    variable: &str,
    old_value: &str,
    new_value: &str,
    arena: &Arena,
    batch: &mut Batch,
) {
    let seq = batch.take_seq();
    batch.write(&Record {
        seq,
        ts_us: sys::now_us(),
        event: Some(EventKind::Config),
        run: run_of(arena),
        variable: variable.as_bytes(),
        old_value: old_value.as_bytes(),
        new_value: new_value.as_bytes(),
        ..Record::default()
    });
}
