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

pub mod rows;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::flows::Flows;
pub use crate::flows::Question;
use crate::mysql::Output;
pub use crate::mysql::session::unknown::{Completed, Facts, Unknown};

/// How much later than the server's answer packets may arrive that were sent before it.
const MARGIN: Duration = Duration::from_millis(500);
/// Time between two rounds of questions.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two rounds if there is no question: the server's local sessions are counted.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long an answer waits for the end of a session's commands.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest time until a server that has not answered is asked again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Longest time until a session is asked about again of which something is still unknown.
const AGAIN_MAX: Duration = Duration::from_secs(16);
/// Sessions of one round.
const QUESTIONS_MAX: usize = 1000;

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

/// A round of questions, answered.
struct Reply {
    questions: Vec<Question>,
    answers: Result<Answers, String>,
    at: Instant,
}

/// Answers that are not used yet.
#[derive(Default)]
struct Waiting {
    answers: Vec<(Question, Facts)>,
    at: Option<Instant>,
}

/// When a session may be asked about again.
#[derive(Clone, Copy)]
struct Again {
    at: Instant,
    delay: Duration,
}

/// Asks about sessions, see the module documentation.
pub struct Enricher {
    servers: Vec<SocketAddr>,
    questions: SyncSender<Vec<Question>>,
    replies: Receiver<Reply>,
    is_asking: bool,
    waiting: Waiting,
    /// The next round.
    next_at: Instant,
    /// The next round without questions.
    look_at: Instant,
    retry: Duration,
    again: HashMap<u32, Again>,
    has_texts: bool,
    figures: Figures,
    /// The last problems, each of which is reported once.
    problems: [String; 2],
}

impl Enricher {
    /// Asks about sessions of these servers, which are all one: `ask` asks it, in a thread of its
    /// own, which ends with the process.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(servers: Vec<SocketAddr>, mut ask: Box<Ask>) -> io::Result<Enricher> {
        let (questions, asked) = sync_channel::<Vec<Question>>(1);
        let (answer, replies) = sync_channel(1);
        thread::Builder::new().name("tacho-enrich".to_owned()).spawn(move || {
            while let Ok(questions) = asked.recv() {
                let answers = ask(&questions);
                let reply = Reply { questions, answers, at: Instant::now() };
                if answer.send(reply).is_err() {
                    break;
                }
            }
        })?;
        let now = Instant::now();
        Ok(Enricher {
            servers,
            questions,
            replies,
            is_asking: false,
            waiting: Waiting::default(),
            next_at: now,
            look_at: now,
            retry: EVERY,
            again: HashMap::new(),
            has_texts: true,
            figures: Figures::default(),
            problems: Default::default(),
        })
    }

    /// What was asked and answered.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Takes and uses answers, and asks; never waits. All packets were read that were captured up
    /// to `read_up_to`. `say` says something to the person who runs the capture.
    pub fn turn(
        &mut self,
        now: Instant,
        read_up_to: Instant,
        flows: &mut Flows,
        out: &mut dyn Output,
        say: fn(&str),
    ) {
        match self.replies.try_recv() {
            Ok(reply) => self.take(reply, now, say),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                self.report(0, "the thread that asks the server has ended", say);
                self.figures.is_answered = false;
                return;
            }
        }
        self.complete(now, read_up_to, flows, out);
        if !self.is_asking && self.waiting.answers.is_empty() && now >= self.next_at {
            self.ask(now, flows);
        }
    }

    fn take(&mut self, reply: Reply, now: Instant, say: fn(&str)) {
        self.is_asking = false;
        let answers = match reply.answers {
            Ok(answers) => answers,
            Err(problem) => {
                self.figures.errors += 1;
                self.figures.is_answered = false;
                self.next_at = now + self.retry;
                self.look_at = self.next_at;
                self.retry = (self.retry * 2).min(RETRY_MAX);
                return self.report(0, &format!("{problem}; retrying"), say);
            }
        };
        if !self.problems[0].is_empty() {
            say("the server answers again about sessions");
        }
        self.report(0, "", say);
        self.report(1, answers.no_texts.as_deref().unwrap_or_default(), say);
        self.retry = EVERY;
        self.has_texts = answers.no_texts.is_none();
        self.figures.is_answered = true;
        self.figures.local_sessions = answers.local_sessions;
        let pairs = reply.questions.into_iter().zip(answers.facts);
        let known = pairs.filter_map(|(question, facts)| Some((question, facts?)));
        self.waiting = Waiting { answers: known.collect(), at: Some(reply.at) };
    }

    /// Says what is new.
    fn report(&mut self, which: usize, problem: &str, say: fn(&str)) {
        if self.problems[which] != problem && !problem.is_empty() {
            say(problem);
        }
        problem.clone_into(&mut self.problems[which]);
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
        let (figures, again) = (&mut self.figures, &mut self.again);
        self.waiting.answers.retain(|(question, facts)| {
            match flows.complete(question, facts, out) {
                Completed::Later => !is_last,
                Completed::No => false,
                Completed::Yes => {
                    figures.completed += 1;
                    // A later change is another question.
                    again.remove(&question.number());
                    false
                }
            }
        });
    }

    /// Sends the next questions.
    fn ask(&mut self, now: Instant, flows: &Flows) {
        self.next_at = now + EVERY;
        let mut questions = flows.unknown(&self.servers);
        let wanted = |it: &Question| self.has_texts || !it.unknown.only_texts;
        questions.retain(wanted);
        let unknown = questions.iter().map(Question::number).collect::<HashSet<_>>();
        self.again.retain(|number, _| unknown.contains(number));
        questions.retain(|it| self.again.get(&it.number()).is_none_or(|again| now >= again.at));
        questions.truncate(QUESTIONS_MAX);
        if questions.is_empty() && now < self.look_at {
            return;
        }
        let numbers = questions.iter().map(Question::number).collect::<Vec<_>>();
        if self.questions.try_send(questions).is_err() {
            return;
        }
        self.is_asking = true;
        self.look_at = now + LOOK_EVERY;
        self.figures.questions += numbers.len() as u64;
        for number in numbers {
            let delay = self.again.get(&number).map_or(EVERY, |it| (it.delay * 2).min(AGAIN_MAX));
            self.again.insert(number, Again { at: now + delay, delay });
        }
    }
}

#[cfg(test)]
mod tests;
