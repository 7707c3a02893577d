//! Facts about a session that packets have not shown, and the server's answer about them.
//!
//! The server answers while packets pass, and the instant of its answer is not known exactly. So an
//! answer is used only if all commands that were sent before it have their own answer, and if
//! nothing has changed since the question: each change of the user, the database or the prepared
//! statements has a new number in [`Changes`].

use super::commands::trimmed;
use super::{Phase, Prepared, Session};
use crate::mysql::Output;
use crate::mysql::login::name;
use crate::mysql::params::Bound;
use crate::mysql::text::Text;

/// What is known of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    user: bool,
    /// It may be known to be none.
    pub(super) db: bool,
    /// The text of each prepared statement, as far as it can be known.
    prepared: bool,
    /// A statement was executed whose text is not known.
    misses_text: bool,
}

/// How often something has changed, or may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    user: u32,
    db: u32,
    prepared: u32,
}

/// A session of which something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The client's address.
    pub ip: String,
    /// The client's port.
    pub port: u16,
    /// The server's id of the connection; 0: not known.
    pub conn: u32,
    /// The texts of prepared statements are not known.
    pub texts: bool,
    /// A statement was executed whose text is not known, and nothing else is unknown.
    pub only_texts: bool,
    changes: Changes,
}

#[cfg(test)]
impl Unknown {
    /// The session of a client of which nothing is known.
    pub fn of_client(ip: &str, port: u16) -> Unknown {
        let (ip, changes) = (ip.to_owned(), Changes::default());
        Unknown { ip, port, conn: 0, texts: true, only_texts: false, changes }
    }
}

/// What the server says about a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its id of the connection.
    pub conn: u64,
    /// The user's name.
    pub user: Option<Vec<u8>>,
    /// The default database; empty: there is none.
    pub db: Option<Vec<u8>>,
    /// The prepared statements: their numbers and texts.
    pub texts: Option<Vec<(u32, Vec<u8>)>>,
}

/// The use of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// A command has no answer yet: try again.
    Later,
    /// Something is known now that was not.
    Yes,
    /// Nothing of it is certain.
    No,
}

impl Session {
    pub(super) fn user_is_known(&mut self) {
        self.known.user = true;
        self.changes.user = self.changes.user.wrapping_add(1);
    }

    pub(super) fn user_is_unknown(&mut self) {
        self.user_is_known();
        self.known.user = false;
    }

    /// A prepared statement is executed, whose text may be unknown.
    pub(super) fn executes(&mut self, misses_text: bool) {
        self.known.misses_text |= misses_text;
    }

    /// The database has changed, or is known now.
    pub(super) fn set_db(&mut self, db: Vec<u8>) {
        self.who.db = db;
        self.known.db = true;
        self.changes.db = self.changes.db.wrapping_add(1);
    }

    /// The database may have changed.
    pub(super) fn forget_db(&mut self) {
        self.set_db(Vec::new());
        self.known.db = false;
    }

    /// There are no prepared statements.
    pub(super) fn has_no_prepared(&mut self) {
        self.forget_all_prepared();
        self.known.prepared = true;
    }

    /// There may be others than those that are known.
    pub(super) fn forget_all_prepared(&mut self) {
        self.prepared = Prepared::default();
        self.prepared_are_unknown();
    }

    /// A statement was prepared whose text was not captured.
    pub(super) fn has_unknown_prepared(&mut self, id: u32) {
        self.forget_prepared(id);
        self.prepared_are_unknown();
    }

    fn prepared_are_unknown(&mut self) {
        self.known.prepared = false;
        self.known.misses_text = false;
        self.changes.prepared = self.changes.prepared.wrapping_add(1);
    }

    /// The question to its server. `None`: there is none, or no command yet that is certain.
    pub fn unknown(&self) -> Option<Unknown> {
        if self.phase != Phase::Commands || self.is_trial {
            return None;
        }
        let texts = !self.known.prepared;
        let only_texts = self.known.user && self.known.db;
        if only_texts && !(texts && self.known.misses_text) {
            return None;
        }
        Some(Unknown {
            ip: self.who.ip.clone(),
            port: self.who.port,
            conn: self.who.conn,
            texts,
            only_texts,
            changes: self.changes,
        })
    }

    /// Takes what the server says, if it is still so.
    pub fn complete(&mut self, asked: &Unknown, facts: &Facts, out: &mut dyn Output) -> Completed {
        // A command may have changed something, and so may bytes that are not understood yet.
        if !self.queue.is_empty() || self.arrived_bytes(crate::mysql::Side::Client) > 0 {
            return Completed::Later;
        }
        let is_known = self.who.conn == 0 || u64::from(self.who.conn) == facts.conn;
        if self.phase != Phase::Commands || !is_known {
            return Completed::No;
        }
        let (was, before) = (asked.changes, self.known);
        if let Some(user) = &facts.user
            && !self.known.user
            && was.user == self.changes.user
        {
            self.who.user = name(user);
            self.known.user = true;
        }
        if let Some(db) = &facts.db
            && !self.known.db
            && was.db == self.changes.db
        {
            self.who.db = name(db);
            self.known.db = true;
        }
        if let Some(texts) = &facts.texts
            && !self.known.prepared
            && was.prepared == self.changes.prepared
        {
            self.take_texts(texts);
        }
        if self.known == before {
            return Completed::No;
        }
        self.take_conn(facts.conn, out);
        Completed::Yes
    }

    fn take_texts(&mut self, texts: &[(u32, Vec<u8>)]) {
        for (id, text) in texts {
            // One that was captured is the newer one of this number.
            if self.prepared_of(*id).is_none() {
                // The server does not say how many parameters it has.
                let text = Text::InMemory(trimmed(text).to_vec());
                self.keep_prepared(*id, text, Bound::default());
            }
        }
        self.known.prepared = true;
        self.known.misses_text = false;
    }

    /// The id of a connection is a part of the key of its records, so it is set between commands.
    fn take_conn(&mut self, conn: u64, out: &mut dyn Output) {
        if let Ok(conn) = u32::try_from(conn)
            && self.who.conn == 0
        {
            // There are no more records with the old one.
            out.leave(&self.who);
            self.who.conn = conn;
        }
    }
}
