//! Asks a server about sessions of which packets have not shown everything.
//!
//! ```text
//!  thread of the packets   questions ──> a thread that waits for the server
//!                          answers   <──
//! ```
//!
//! The thread of the packets never waits: it takes an answer between blocks of packets, and uses it
//! when all packets were read that were captured up to half a second after it. The changes of all
//! commands before the answer are known by then, unless their packets arrive later than that.
//!
//! Several threads of packets ask together ([`rounds`]), each about its own connections.

mod rounds;
pub mod rows;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::flows::Flows;
pub use crate::flows::Question;
use crate::mysql::Output;
pub use crate::mysql::session::unknown::{Completed, Facts, Unknown};
use rounds::{EVERY, Rounds, Waiting};

/// How much later than the server's answer packets may arrive that were sent before it.
const MARGIN: Duration = Duration::from_millis(500);
/// How long an answer waits for the end of a session's commands.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest time until a session is asked about again of which something is still unknown.
const AGAIN_MAX: Duration = Duration::from_secs(16);

/// What the server says to a round of questions.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// What it says about each session, in the order of the questions.
    pub facts: Vec<Option<Facts>>,
    /// Its sessions without a network address: they have no packets.
    pub local_sessions: u64,
    /// Why the texts of prepared statements cannot be known.
    pub no_texts: Option<String>,
}

/// Asks the server; it may wait for it. The error says why there is no answer.
pub type Ask = dyn FnMut(&[Question]) -> Result<Answers, String> + Send;

/// What was asked and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Questions about sessions.
    pub questions: u64,
    /// Answers that have completed a session, or a part of it.
    pub completed: u64,
    /// Rounds without an answer.
    pub errors: u64,
    /// The last round had an answer.
    pub is_answered: bool,
    /// Sessions of the server without a network address, by its last answer.
    pub local_sessions: u64,
}

/// When a session may be asked about again.
#[derive(Clone, Copy)]
struct Again {
    at: Instant,
    delay: Duration,
}

/// Asks about the sessions of a thread's connections, see the module documentation.
pub struct Enricher {
    servers: Vec<SocketAddr>,
    rounds: Arc<Mutex<Rounds>>,
    index: usize,
    waiting: Waiting,
    again: HashMap<u32, Again>,
}

impl Enricher {
    /// Asks about sessions of these servers, which are all one: `ask` asks it, in a thread of its
    /// own, which ends with the process. There is an enricher for each of so many threads.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(
        servers: &[SocketAddr],
        threads: usize,
        ask: Box<Ask>,
    ) -> io::Result<Vec<Enricher>> {
        let rounds = Arc::new(Mutex::new(Rounds::start(threads, ask)?));
        let of_thread = |index| Enricher {
            servers: servers.to_vec(),
            rounds: Arc::clone(&rounds),
            index,
            waiting: Waiting::default(),
            again: HashMap::new(),
        };
        Ok((0..threads).map(of_thread).collect())
    }

    /// Questions and answers of all threads.
    pub fn figures(&self) -> Figures {
        lock(&self.rounds).figures()
    }

    /// Takes and uses answers, and asks; never waits for the server. All packets were read that
    /// were captured up to `read_up_to`. `say` says something to the person who runs the capture.
    pub fn turn(
        &mut self,
        now: Instant,
        read_up_to: Instant,
        flows: &mut Flows,
        out: &mut dyn Output,
        say: fn(&str),
    ) {
        if !self.receive(now, say) {
            return;
        }
        self.complete(now, read_up_to, flows, out);
        let is_busy = !self.waiting.answers.is_empty();
        let mut rounds = lock(&self.rounds);
        let wanted = rounds.wanted(self.index, is_busy, now);
        let has_texts = rounds.has_texts();
        if let Some(most) = wanted {
            // It looks at all connections: other threads do not wait for that.
            drop(rounds);
            let questions = self.questions(now, most, has_texts, flows);
            rounds = lock(&self.rounds);
            rounds.give(self.index, questions, now);
        }
        rounds.begin(now);
    }

    /// Takes answers. `false`: there will be none.
    fn receive(&mut self, now: Instant, say: fn(&str)) -> bool {
        let mut rounds = lock(&self.rounds);
        let is_alive = rounds.receive(now, say);
        if let Some(waiting) = rounds.answers(self.index) {
            self.waiting = waiting;
        }
        is_alive
    }

    /// Uses the answers that can be used now.
    fn complete(
        &mut self,
        now: Instant,
        read_up_to: Instant,
        flows: &mut Flows,
        out: &mut dyn Output,
    ) {
        let Some(at) = self.waiting.at.filter(|at| read_up_to >= *at + MARGIN) else { return };
        let is_last = now >= at + MARGIN + WAIT_MAX;
        let (mut count, again) = (0, &mut self.again);
        self.waiting.answers.retain(|(question, facts)| {
            match flows.complete(question, facts, out) {
                Completed::Later => !is_last,
                Completed::No => false,
                Completed::Yes => {
                    count += 1;
                    // A later change is another question.
                    again.remove(&question.number());
                    false
                }
            }
        });
        if count > 0 {
            lock(&self.rounds).count_completed(count);
        }
    }

    /// The questions for the next round.
    fn questions(
        &mut self,
        now: Instant,
        most: usize,
        has_texts: bool,
        flows: &Flows,
    ) -> Vec<Question> {
        let mut questions = flows.unknown(&self.servers);
        questions.retain(|it| has_texts || !it.unknown.only_texts);
        let unknown = questions.iter().map(Question::number).collect::<HashSet<_>>();
        self.again.retain(|number, _| unknown.contains(number));
        questions.retain(|it| self.again.get(&it.number()).is_none_or(|again| now >= again.at));
        questions.truncate(most);
        for number in questions.iter().map(Question::number) {
            let delay = self.again.get(&number).map_or(EVERY, |it| (it.delay * 2).min(AGAIN_MAX));
            self.again.insert(number, Again { at: now + delay, delay });
        }
        questions
    }
}

fn lock(rounds: &Mutex<Rounds>) -> MutexGuard<'_, Rounds> {
    rounds.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
