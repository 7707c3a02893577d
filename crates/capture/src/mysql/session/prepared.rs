//! Prepared statements: their texts, and the parameters of their executions.

use super::{Command, PreparedText, Session};
use crate::mysql::params::{Args, Bound};
use crate::mysql::text::Text;
use crate::mysql::{Event, Output, track};

/// Texts of prepared statements that are kept for a connection, bytes.
const PREPARED_BYTES_MAX: usize = 64 << 20;
/// The number that MariaDB's clients give to the statement that they prepared last.
const LAST_PREPARED: u32 = u32::MAX;

impl Session {
    /// The statement that a client means by this number.
    fn resolved(&self, id: u32) -> Option<u32> {
        if id == LAST_PREPARED { self.prepared.last } else { Some(id) }
    }

    pub(super) fn prepared_of(&self, id: u32) -> Option<&PreparedText> {
        self.prepared.texts.get(&self.resolved(id)?)
    }

    /// The text of a command, or that of the prepared statement that it executes.
    pub(super) fn text_of<'s>(&'s self, command: &'s Command) -> Option<&'s [u8]> {
        match command.statement {
            Some(id) => self.prepared_of(id).map(|it| &it.text[..]),
            None => command.text.as_deref(),
        }
    }

    pub(super) fn close_prepared(&mut self, id: u32) {
        let Some(id) = self.resolved(id) else { return };
        self.forget_prepared(id);
        self.prepared.last = self.prepared.last.filter(|last| *last != id);
    }

    pub(super) fn forget_prepared(&mut self, id: u32) {
        if let Some(old) = self.prepared.texts.remove(&id) {
            self.prepared.bytes -= old.held_bytes();
        }
    }

    pub(super) fn keep_prepared(&mut self, id: u32, text: Text, bound: Bound) {
        self.forget_prepared(id);
        if text.len() > PREPARED_BYTES_MAX {
            return;
        }
        let text = text.into_memory();
        let changes_nothing = track::change(&text) == track::Change::default();
        let prepared = PreparedText { text, changes_nothing, bound };
        let bytes = prepared.held_bytes();
        if self.prepared.bytes + bytes <= PREPARED_BYTES_MAX {
            self.prepared.bytes += bytes;
            self.prepared.texts.insert(id, prepared);
        }
    }

    /// The parameters of the first command of the queue, an execution.
    pub(super) fn emit_params(&mut self, out: &mut dyn Output) {
        let Some(command) = self.queue.front_mut() else { return };
        let ts_us = command.ts_us;
        let held_bytes = command.held_bytes();
        let args = command.args.take();
        self.queue_bytes -= held_bytes - command.held_bytes();
        let statement = command.statement;
        let (caps, limit) = (self.caps, self.limits.params_bytes);
        let mut values = None;
        let change = |bound: &mut Bound| values = bound.execute(args.as_ref(), caps, limit);
        if statement.is_some() {
            self.change_prepared(statement, change);
        } else {
            self.forget_bound();
        }
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            let (text, whole_bytes) = (&values.text[..], values.whole_bytes());
            out.emit(&self.who, ts_us, &Event::Params { text, whole_bytes });
        }
    }

    /// Data of a parameter that is sent before the execution.
    pub(super) fn take_long_data(&mut self, id: Option<u32>, args: Option<&Args>) {
        let limit = self.limits.params_bytes;
        if id.is_some() {
            self.change_prepared(id, |bound| bound.take_long_data(args, limit));
        } else {
            self.forget_bound();
        }
    }

    /// A command was damaged that says which statement it is about: it may be about any of them.
    fn forget_bound(&mut self) {
        self.prepared.texts.values_mut().for_each(|it| it.bound.forget());
        self.prepared.bytes = self.prepared.texts.values().map(PreparedText::held_bytes).sum();
    }

    /// Changes what is known of the parameters of a statement, within the limit of memory.
    pub(super) fn change_prepared(&mut self, id: Option<u32>, change: impl FnOnce(&mut Bound)) {
        let Some(id) = id.and_then(|id| self.resolved(id)) else { return };
        let Some(prepared) = self.prepared.texts.get_mut(&id) else { return };
        let others = self.prepared.bytes - prepared.held_bytes();
        change(&mut prepared.bound);
        if others + prepared.held_bytes() > PREPARED_BYTES_MAX {
            prepared.bound.forget();
        }
        self.prepared.bytes = others + prepared.held_bytes();
    }
}
