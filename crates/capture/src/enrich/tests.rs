use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::rounds::LOOK_EVERY;
use super::*;
use crate::flows::Budget;
use crate::link::Segment;
use crate::mysql::{Event, Identity};

const OK: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0\0\0";

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn say(text: &str) {
    SAID.with_borrow_mut(|said| said.push(text.to_owned()));
}

/// The users of statements.
#[derive(Default)]
struct Users(Vec<String>);

impl Output for Users {
    fn emit(&mut self, who: &Identity, _: i64, event: &Event<'_>) {
        if matches!(event, Event::Start { .. }) {
            self.0.push(String::from_utf8_lossy(&who.user).into_owned());
        }
    }
}

impl Enricher {
    fn is_asking(&self) -> bool {
        lock(&self.rounds).is_asking()
    }
}

/// A connection of which nothing was captured before, and an enricher.
struct Scene {
    flows: Flows,
    users: Users,
    enricher: Enricher,
    /// The next number of each side.
    seqs: [u32; 2],
    now: Instant,
}

impl Scene {
    /// The server answers each question with what this returns.
    fn new(
        mut answer: impl FnMut(usize) -> Result<Facts, String> + Send + 'static,
    ) -> (Scene, Arc<AtomicUsize>) {
        let servers = vec!["192.0.2.1:3306".parse().unwrap()];
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&rounds);
        let ask = move |questions: &[Question]| {
            let round = counted.fetch_add(1, Ordering::Relaxed);
            let facts = answer(round)?;
            let facts = questions.iter().map(|_| Some(facts.clone())).collect();
            Ok(Answers { facts, local_sessions: 2, no_texts: None })
        };
        let mut enrichers = Enricher::start(&servers, 1, Box::new(ask)).expect("a thread");
        let enricher = enrichers.remove(0);
        let flows = Flows::new(servers, Budget::default());
        let now = Instant::now();
        let scene = Scene { flows, users: Users::default(), enricher, seqs: [1000, 2000], now };
        (scene, rounds)
    }

    fn of_me() -> (Scene, Arc<AtomicUsize>) {
        Scene::new(|_| {
            let user = Some(b"me".to_vec());
            Ok(Facts { conn: 7, user, db: Some(Vec::new()), texts: Some(Vec::new()) })
        })
    }

    fn send(&mut self, by_server: bool, payload: &[u8], flag: &str) {
        let ends = ["192.0.2.7:4000", "192.0.2.1:3306"].map(|it| it.parse().unwrap());
        let (side, other) = (usize::from(by_server), usize::from(!by_server));
        let syn = flag == "syn";
        let segment = Segment {
            ts_us: 0,
            from: ends[side],
            to: ends[other],
            seq: self.seqs[side],
            ack: (by_server || !syn).then_some(self.seqs[other]),
            syn,
            fin: false,
            rst: flag == "rst",
            payload,
            missing: 0,
        };
        self.seqs[side] += payload.len() as u32 + u32::from(syn);
        self.flows.segment(&segment, &mut self.users);
    }

    /// A statement and its answer. Before the first one the server has the last word.
    fn statement(&mut self) {
        if self.users.0.is_empty() {
            self.send(true, OK, "");
        }
        self.send(false, b"\x05\0\0\0\x03DO 1", "");
        self.send(true, OK, "");
    }

    /// All packets were read up to now, or nearly so.
    fn turn(&mut self, behind: Duration) {
        let (now, read_up_to) = (self.now, self.now - behind);
        self.enricher.turn(now, read_up_to, &mut self.flows, &mut self.users, say);
    }

    /// Turns until this is so; no answer is used meanwhile.
    fn turn_until(&mut self, is: impl Fn(&Enricher) -> bool) {
        while !is(&self.enricher) {
            self.turn(Duration::from_secs(100));
            thread::yield_now();
        }
        self.now = self.now.max(Instant::now());
    }
}

#[test]
fn an_answer_is_used_when_later_packets_were_read() {
    let (mut scene, _) = Scene::of_me();
    scene.statement();
    scene.turn_until(|it| it.figures().is_answered);
    // Not all packets of that time were read yet.
    scene.turn(Duration::ZERO);
    assert_eq!(scene.enricher.figures().completed, 0);
    scene.statement();
    scene.now += MARGIN;
    scene.turn(Duration::ZERO);
    let figures =
        Figures { questions: 1, completed: 1, errors: 0, is_answered: true, local_sessions: 2 };
    assert_eq!(scene.enricher.figures(), figures);
    scene.statement();
    assert_eq!(scene.users.0, ["", "", "me"]);
    // Nothing is unknown any more: it is asked only for the sessions without packets.
    scene.now += EVERY;
    scene.turn(Duration::ZERO);
    assert!(!scene.enricher.is_asking());
    scene.now += LOOK_EVERY;
    scene.turn(Duration::ZERO);
    assert!(scene.enricher.is_asking());
    assert_eq!(scene.enricher.figures().questions, 1);
}

#[test]
fn an_answer_waits_for_the_end_of_a_command() {
    let (mut scene, _) = Scene::of_me();
    scene.statement();
    scene.turn_until(|it| it.figures().is_answered);
    scene.send(false, b"\x05\0\0\0\x03DO 2", "");
    scene.now += MARGIN;
    scene.turn(Duration::ZERO);
    assert_eq!((scene.enricher.figures().completed, scene.enricher.waiting.answers.len()), (0, 1));
    scene.send(true, OK, "");
    scene.turn(Duration::ZERO);
    assert_eq!(scene.enricher.figures().completed, 1);
    // For ever it does not.
    let (mut scene, _) = Scene::of_me();
    scene.statement();
    scene.turn_until(|it| it.figures().is_answered);
    scene.send(false, b"\x05\0\0\0\x03DO 2", "");
    scene.now += MARGIN + WAIT_MAX;
    scene.turn(Duration::ZERO);
    assert_eq!((scene.enricher.figures().completed, scene.enricher.waiting.answers.len()), (0, 0));
}

#[test]
fn an_answer_about_an_earlier_connection_of_the_port_is_not_used() {
    let (mut scene, _) = Scene::of_me();
    scene.statement();
    scene.turn_until(|it| it.figures().is_answered);
    // The client has connected again, and this was not captured from its login on.
    scene.send(false, b"", "rst");
    scene.seqs = [700_000, 800_000];
    scene.send(false, b"", "syn");
    scene.send(true, b"", "syn");
    scene.now += MARGIN;
    scene.turn(Duration::ZERO);
    assert_eq!(scene.enricher.figures().completed, 0);
    assert!(scene.enricher.waiting.answers.is_empty());
}

#[test]
fn a_session_is_not_asked_about_at_every_turn() {
    let (mut scene, rounds) = Scene::new(|_| Ok(Facts::default()));
    scene.statement();
    let mut asked_at = Vec::new();
    let first = scene.now;
    for _ in 0..40 {
        scene.turn_until(|it| !it.is_asking());
        let before = scene.enricher.figures().questions;
        scene.now += EVERY;
        scene.turn(Duration::ZERO);
        if scene.enricher.figures().questions > before {
            asked_at.push((scene.now - first).as_secs());
        }
    }
    assert!((4..=6).contains(&asked_at.len()), "{asked_at:?}");
    assert!(rounds.load(Ordering::Relaxed) >= asked_at.len());
}

#[test]
fn a_server_that_is_away_is_reported_once_and_asked_more_rarely() {
    let (mut scene, rounds) = Scene::new(|round| match round {
        0..5 => Err("it is away".to_owned()),
        _ => Ok(Facts::default()),
    });
    scene.statement();
    let mut seconds = 0;
    while rounds.load(Ordering::Relaxed) < 6 {
        scene.turn_until(|it| !it.is_asking());
        scene.now += EVERY;
        seconds += 1;
        scene.turn(Duration::ZERO);
        if scene.enricher.is_asking() {
            scene.turn_until(|it| !it.is_asking());
        }
    }
    scene.turn_until(|it| it.figures().is_answered);
    assert_eq!(scene.enricher.figures().errors, 5);
    // 1 + 2 + 4 + 8 + 16.
    assert!(seconds >= 25, "{seconds}");
    let said = SAID.take();
    assert_eq!(said, ["it is away; retrying", "the server answers again about sessions"]);
}

/// Two threads of packets, and a server that says that the user is the number of the connection.
fn two_scenes() -> ([Scene; 2], Arc<AtomicUsize>) {
    let servers: Vec<SocketAddr> = vec!["192.0.2.1:3306".parse().unwrap()];
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rounds);
    let ask = move |questions: &[Question]| {
        counted.fetch_add(1, Ordering::Relaxed);
        let facts = |it: &Question| {
            let user = Some(it.number().to_string().into_bytes());
            Some(Facts { conn: 7, user, db: Some(Vec::new()), texts: Some(Vec::new()) })
        };
        Ok(Answers { facts: questions.iter().map(facts).collect(), ..Answers::default() })
    };
    let mut enrichers = Enricher::start(&servers, 2, Box::new(ask)).expect("a thread");
    let mut flows = Flows::of_threads(&servers, Budget::default(), 2);
    let now = Instant::now();
    let scenes = [0, 1].map(|_| {
        let (flows, enricher) = (flows.remove(0), enrichers.remove(0));
        Scene { flows, users: Users::default(), enricher, seqs: [1000, 2000], now }
    });
    (scenes, rounds)
}

#[test]
fn threads_ask_together() {
    let (mut scenes, rounds) = two_scenes();
    scenes.iter_mut().for_each(Scene::statement);
    scenes[0].turn(Duration::ZERO);
    assert!(!scenes[0].enricher.is_asking(), "the other thread has not given its questions");
    scenes[1].turn(Duration::ZERO);
    scenes[1].turn_until(|it| it.figures().is_answered);
    for scene in &mut scenes {
        scene.now = Instant::now() + MARGIN;
        scene.turn(Duration::ZERO);
        scene.statement();
    }
    assert_eq!(rounds.load(Ordering::Relaxed), 1);
    // The numbers of the first connections.
    assert_eq!(scenes.map(|scene| scene.users.0[1].clone()), ["2", "3"]);
}

#[test]
fn a_thread_that_is_stuck_keeps_the_others_from_asking_only_for_a_while() {
    let (mut scenes, _) = two_scenes();
    scenes[1].statement();
    scenes[1].turn(Duration::ZERO);
    assert!(!scenes[1].enricher.is_asking());
    scenes[1].now += EVERY;
    scenes[1].turn(Duration::ZERO);
    assert!(scenes[1].enricher.is_asking());
    assert_eq!(scenes[0].enricher.figures().questions, 1);
}
