//! What is not known of the session of a connection, and what its server says about that.

use super::{Flow, Sort};
use crate::mysql::Output;
use crate::mysql::session::unknown::{Completed, Facts, Unknown};

impl Flow {
    /// The question to its server, if there is one.
    pub fn unknown(&self) -> Option<Unknown> {
        let is_open = self.end.is_none() && self.reset.is_none() && self.sort == Sort::MySql;
        if is_open { self.session.unknown() } else { None }
    }

    /// Takes what the server says about the session, if nothing is on its way.
    pub fn complete(&mut self, asked: &Unknown, facts: &Facts, out: &mut dyn Output) -> Completed {
        if self.end.is_some() {
            Completed::No
        } else if self.reset.is_some() || self.is_waiting() {
            Completed::Later
        } else {
            self.session.complete(asked, facts, out)
        }
    }
}
