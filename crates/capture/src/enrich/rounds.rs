//! Rounds of questions, in which all threads ask together: the server is asked once, whatever the
//! number of threads.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Answers, Ask, Facts, Figures, Question};

/// Time between two rounds of questions.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Time between two rounds if there is no question: the server's local sessions are counted.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Longest time until a server that has not answered is asked again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Sessions of one round.
const QUESTIONS_MAX: usize = 1000;
/// How long a round waits for the questions of a thread that is busy.
const GATHER: Duration = Duration::from_millis(500);

/// A round of questions, answered.
struct Reply {
    questions: Vec<Question>,
    answers: Result<Answers, String>,
    at: Instant,
}

/// Answers that are not used yet.
#[derive(Default)]
pub(super) struct Waiting {
    pub answers: Vec<(Question, Facts)>,
    pub at: Option<Instant>,
}

/// The part of one thread in a round.
#[derive(Default)]
struct Part {
    /// Its questions for the next round; `None`: it was not asked for them yet.
    questions: Option<Vec<Question>>,
    /// It uses the answers of an earlier round, and has no questions meanwhile.
    is_busy: bool,
    /// How many of the questions of the current round are its own.
    asked: usize,
    answers: Option<Waiting>,
}

/// The rounds, see the module documentation.
pub(super) struct Rounds {
    questions: SyncSender<Vec<Question>>,
    replies: Receiver<Reply>,
    parts: Vec<Part>,
    is_asking: bool,
    /// When the first thread gave its questions for the next round.
    given_at: Option<Instant>,
    /// The next round.
    next_at: Instant,
    /// The next round without questions.
    look_at: Instant,
    retry: Duration,
    has_texts: bool,
    figures: Figures,
    /// The last problems, each of which is reported once.
    problems: [String; 2],
}

impl Rounds {
    /// Of so many threads; `ask` runs in a thread of its own, which ends with the process.
    pub(super) fn start(threads: usize, mut ask: Box<Ask>) -> io::Result<Rounds> {
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
        Ok(Rounds {
            questions,
            replies,
            parts: (0..threads).map(|_| Part::default()).collect(),
            is_asking: false,
            given_at: None,
            next_at: now,
            look_at: now,
            retry: EVERY,
            has_texts: true,
            figures: Figures::default(),
            problems: Default::default(),
        })
    }

    /// What was asked and answered.
    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    /// Answers have completed so many sessions.
    pub(super) fn count_completed(&mut self, count: u64) {
        self.figures.completed += count;
    }

    /// A question is on its way.
    #[cfg(test)]
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Takes a reply, if there is one. `false`: the thread that asks has ended.
    pub(super) fn receive(&mut self, now: Instant, say: fn(&str)) -> bool {
        match self.replies.try_recv() {
            Ok(reply) => self.take(reply, now, say),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                self.report(0, "the thread that asks the server has ended", say);
                self.figures.is_answered = false;
                return false;
            }
        }
        true
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
        // In the order of the questions, which is that of the threads.
        let mut pairs = reply.questions.into_iter().zip(answers.facts);
        for part in &mut self.parts {
            let own = pairs.by_ref().take(part.asked);
            let known = own.filter_map(|(question, facts)| Some((question, facts?)));
            part.answers = Some(Waiting { answers: known.collect(), at: Some(reply.at) });
        }
    }

    /// Says what is new.
    fn report(&mut self, which: usize, problem: &str, say: fn(&str)) {
        if self.problems[which] != problem && !problem.is_empty() {
            say(problem);
        }
        problem.clone_into(&mut self.problems[which]);
    }

    /// The answers for a thread, if there are new ones.
    pub(super) fn answers(&mut self, index: usize) -> Option<Waiting> {
        self.parts[index].answers.take()
    }

    /// How many questions a thread may give for the next round. `None`: it is not the time for any.
    /// `is_busy`: it still uses answers.
    pub(super) fn wanted(&mut self, index: usize, is_busy: bool, now: Instant) -> Option<usize> {
        let most = QUESTIONS_MAX / self.parts.len();
        let part = &mut self.parts[index];
        part.is_busy = is_busy;
        let is_time = !self.is_asking && now >= self.next_at;
        (is_time && !is_busy && part.questions.is_none()).then_some(most)
    }

    /// Whether the texts of prepared statements can be known.
    pub(super) fn has_texts(&self) -> bool {
        self.has_texts
    }

    /// Takes the questions of a thread for the next round.
    pub(super) fn give(&mut self, index: usize, questions: Vec<Question>, now: Instant) {
        self.parts[index].questions = Some(questions);
        self.given_at.get_or_insert(now);
    }

    /// Begins the next round, if all threads have given their questions.
    pub(super) fn begin(&mut self, now: Instant) {
        let Some(given_at) = self.given_at.filter(|_| !self.is_asking) else { return };
        let has_all = self.parts.iter().all(|part| part.questions.is_some() || part.is_busy);
        if !has_all && now < given_at + GATHER {
            return;
        }
        self.given_at = None;
        self.next_at = now + EVERY;
        let mut questions = Vec::new();
        for part in &mut self.parts {
            let own = part.questions.take().unwrap_or_default();
            part.asked = own.len();
            questions.extend(own);
        }
        if questions.is_empty() && now < self.look_at {
            return;
        }
        let count = questions.len() as u64;
        if self.questions.try_send(questions).is_ok() {
            self.is_asking = true;
            self.look_at = now + LOOK_EVERY;
            self.figures.questions += count;
        }
    }
}
