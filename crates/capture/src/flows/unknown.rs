//! Sessions of which something is not known, and what their server says about them.

use std::net::SocketAddr;

use super::{Flows, Key, is_at};
use crate::mysql::Output;
use crate::mysql::session::unknown::{Completed, Facts, Unknown};

/// A question about the session of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    key: Key,
    number: u32,
    /// What is known, and what is not.
    pub unknown: Unknown,
}

impl Question {
    /// The capture's own number of the connection.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Flows {
    /// All sessions of these servers of which something is not known.
    pub fn unknown(&self, servers: &[SocketAddr]) -> Vec<Question> {
        let of_servers = self.flows.iter().filter(|(key, _)| is_at(servers, key.1));
        let question = |(key, flow): (&Key, &super::Flow)| {
            let unknown = flow.unknown()?;
            Some(Question { key: *key, number: flow.number(), unknown })
        };
        of_servers.filter_map(question).collect()
    }

    /// Passes an answer to its session, if the connection is still the same.
    pub fn complete(
        &mut self,
        question: &Question,
        facts: &Facts,
        out: &mut dyn Output,
    ) -> Completed {
        let flow = self.flows.get_mut(&question.key);
        let Some(flow) = flow.filter(|flow| flow.number() == question.number) else {
            return Completed::No;
        };
        let completed = flow.complete(&question.unknown, facts, out);
        flow.count_memory(&mut self.held_bytes);
        // The server's texts need memory.
        self.keep_limit(self.now_us, out);
        completed
    }
}
