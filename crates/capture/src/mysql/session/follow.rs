//! The changes of a session by commands that have succeeded.

use super::{Command, Session};
use crate::mysql::command::{
    BULK_EXECUTE, CHANGE_USER, EXECUTE, INIT_DB, PREPARE, QUERY, RESET, RESET_CONNECTION,
};
use crate::mysql::params::Bound;
use crate::mysql::response::Outcome;
use crate::mysql::{caps, login, track};

impl Session {
    /// What a successful command has changed in the session.
    pub(super) fn follow(&mut self, command: Command, outcome: &Outcome) {
        match command.kind.code {
            INIT_DB => match &command.text {
                Some(text) => self.set_db(login::name(text)),
                None => self.forget_db(),
            },
            CHANGE_USER => {
                self.has_no_prepared();
                self.is_untracked = false;
            }
            RESET_CONNECTION => {
                self.has_no_prepared();
                let charset = self.reset_charset.as_ref().unwrap_or(&self.login_charset);
                self.who.charset.clone_from(charset);
                self.is_untracked = false;
            }
            QUERY => {
                let change = command.text.as_deref().map(track::change);
                return self.follow_change(change, outcome);
            }
            EXECUTE | BULK_EXECUTE => {
                let prepared = command.statement.and_then(|id| self.prepared_of(id));
                if !prepared.is_some_and(|it| it.changes_nothing) {
                    let text = prepared.map(|it| it.text.clone());
                    return self.follow_change(text.as_deref().map(track::change), outcome);
                }
            }
            RESET => self.change_prepared(command.statement, Bound::reset),
            PREPARE => match (outcome.prepared, command.text) {
                (Some(it), Some(text)) => self.keep_prepared(it.id, text, Bound::new(it.params)),
                // One of an unknown text, perhaps with the number of another one.
                (Some(prepared), None) => self.has_unknown_prepared(prepared.id),
                _ => {}
            },
            _ => {}
        }
        self.take_ok(outcome.db.as_deref(), outcome.charset.as_deref());
    }

    /// What a statement has changed; `None`: its text is not known.
    fn follow_change(&mut self, change: Option<track::Change<'_>>, outcome: &Outcome) {
        let ends_tracking = change.as_ref().is_none_or(|it| it.ends_tracking);
        self.is_untracked |= ends_tracking;
        // Servers report both, if the client can read that, unless a statement has ended it.
        let can_track = self.caps.is_some_and(|session| session & caps::SESSION_TRACK != 0);
        let is_tracked = can_track && !self.is_untracked;
        let keeps_db = change.as_ref().is_some_and(|it| it.keeps_db);
        match change {
            Some(change) if !change.is_doubtful => {
                if let Some(name) = change.dropped_db {
                    self.drops_db(name, is_tracked);
                }
                if let Some(db) = change.db {
                    self.set_db(login::name(db));
                }
                if let Some(charset) = change.charset {
                    self.who.charset = login::name(charset).to_ascii_lowercase();
                }
            }
            _ if is_tracked => {}
            _ => {
                if !keeps_db {
                    self.forget_db();
                }
                self.who.charset.clear();
            }
        }
        // A report is right, unless the same packet has ended them and changed more.
        if !ends_tracking {
            self.take_ok(outcome.db.as_deref(), outcome.charset.as_deref());
        }
    }

    /// The session has dropped a database: if it was the default one, there is none.
    fn drops_db(&mut self, name: &[u8], is_tracked: bool) {
        if !self.known.db {
            self.forget_db();
        } else if self.who.db == name {
            self.set_db(Vec::new());
        } else if !is_tracked
            && (self.who.db.eq_ignore_ascii_case(name)
                || !self.who.db.is_ascii()
                || !name.is_ascii())
        {
            // Whether they are the same depends on the server's file system, and on the character
            // sets of both statements.
            self.forget_db();
        }
    }
}
