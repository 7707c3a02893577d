//! A connection from its greeting to its end: which bytes are which command, and its answer.
//!
//! A session is in one of the phases of [`Phase`]. In `Commands` the client's messages are
//! commands, in a queue, and the server's messages answer the first one of the queue. Whatever does
//! not fit ends that: what follows is lost until [`lost`] finds the next command that is certain.

mod commands;
mod follow;
mod lost;
mod messages;
mod prepared;
mod tls;
pub mod unknown;

use std::collections::{BTreeMap, VecDeque};

use super::answer::{Failure, Ok};
use super::caps;
use super::charset;
use super::command::Kind;
use super::frame::{Framer, Message};
use super::inflate::{Algorithm, Inflater};
use super::login::{Answer, Client, Greeting, Login, name};
use super::params::{Args, Bound};
use super::proxy::{self, Proxied};
use super::release::{self, Release};
use super::response::Response;
use super::resync::Ends;
use super::text::Text;
use super::{Cause, Event, Identity, Limits, Output, Side};
use unknown::{Changes, Known};

/// The next part of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The server's greeting; before it perhaps a PROXY header of the client.
    Greeting,
    /// The client's answer to it.
    Answer,
    /// Authentication, up to OK or a failure.
    Login(Box<Client>),
    /// Encrypted, and perhaps decrypted elsewhere.
    Encrypted {
        /// Since when, µs.
        since_us: i64,
    },
    /// Commands and their answers.
    Commands,
    /// Bytes up to the next command that is certain.
    Lost {
        /// The server sent the last bytes: a command may follow.
        is_armed: bool,
    },
    /// Nothing that can be read any more.
    Over,
}

/// A command that has no answer yet.
struct Command {
    kind: Kind,
    ts_us: i64,
    /// Its own text, or that of a database.
    text: Option<Text>,
    /// The prepared statement that it is about.
    statement: Option<u32>,
    /// The user to change to.
    login: Option<Box<Login>>,
    /// The values of an execution, or a part of one of them.
    args: Option<Args>,
    /// Its length as it was sent, with a header.
    sent_bytes: u64,
    /// Sequence number of the first packet of its answer.
    answer_seq: u8,
}

impl Command {
    /// Memory outside of the queue.
    fn held_bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, Text::held_bytes);
        let args = self.args.as_ref().map_or(0, Args::held_bytes);
        let login = self.login.as_ref().map_or(0, |it| size_of::<Login>() + it.held_bytes());
        text + args + login
    }

    fn file_bytes(&self) -> u64 {
        self.text.as_ref().map_or(0, Text::file_bytes)
    }
}

/// Compression of both directions.
struct Packing {
    algorithm: Algorithm,
    inflaters: [Inflater; 2],
}

impl Packing {
    fn new(algorithm: Algorithm) -> Packing {
        Packing { algorithm, inflaters: Default::default() }
    }
}

/// The text of a statement that was prepared.
struct PreparedText {
    text: Vec<u8>,
    /// It changes neither the database nor the character set.
    changes_nothing: bool,
    /// Its parameters.
    bound: Bound,
}

impl PreparedText {
    /// Memory that it holds.
    fn held_bytes(&self) -> usize {
        /// What an entry needs beside that.
        const ENTRY_BYTES: usize = 128;
        self.text.len() + self.bound.held_bytes() + ENTRY_BYTES
    }
}

/// Statements that were prepared.
#[derive(Default)]
struct Prepared {
    /// By their numbers. These come from packets, so a hash would need a secret key: a tree finds
    /// one of a few faster.
    texts: BTreeMap<u32, PreparedText>,
    bytes: usize,
    last: Option<u32>,
}

/// A connection, see the module documentation.
pub struct Session {
    who: Identity,
    limits: Limits,
    phase: Phase,
    /// Capabilities of both sides; `None`: not known.
    caps: Option<u64>,
    server_caps: u64,
    /// The server's release, if its greeting was captured.
    release: Option<Release>,
    /// The character set of the login.
    login_charset: Vec<u8>,
    /// That of a session that is reset, if it is another one than that of the login.
    reset_charset: Option<Vec<u8>>,
    framers: [Framer; 2],
    packing: Option<Packing>,
    queue: VecDeque<Command>,
    queue_bytes: usize,
    /// Bytes of the files that the commands of the queue hold.
    file_bytes: u64,
    /// The answer to the first command of the queue.
    response: Option<Response>,
    /// Bytes of the answer up to now, as they were sent.
    answer_bytes: u64,
    /// When its first byte was sent, µs.
    answered_us: Option<i64>,
    /// Sequence number of the next packet of the answer.
    next_seq: u8,
    /// The first command after a gap: believed when its answer fits.
    is_trial: bool,
    /// An EOF packet may follow the last answer.
    may_have_eof: bool,
    prepared: Prepared,
    /// Something may have ended the server's reports of the database and the character set.
    is_untracked: bool,
    /// The first bytes of the client, which may be a PROXY header.
    proxy: Vec<u8>,
    /// Where the client's packets end, during the search for a command.
    ends: Ends,
    /// When the first byte of each side was sent that is not understood yet, at the earliest, µs.
    begun_us: [Option<i64>; 2],
    /// When each side has sent its last byte, µs.
    last_us: [Option<i64>; 2],
    /// Bytes that were skipped, and since when, µs.
    skipped: (u64, i64),
    /// Why they are skipped.
    skip_cause: Cause,
    /// There are records of it.
    has_records: bool,
    known: Known,
    changes: Changes,
}

impl Session {
    /// A connection; `is_joined`: its first packets were not captured.
    pub fn new(who: Identity, is_joined: bool, limits: Limits) -> Session {
        let phase = if is_joined { Phase::Lost { is_armed: false } } else { Phase::Greeting };
        Session {
            who: Identity { is_partial: is_joined, ..who },
            limits,
            phase,
            caps: None,
            server_caps: 0,
            release: None,
            login_charset: Vec::new(),
            reset_charset: None,
            framers: Default::default(),
            packing: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            file_bytes: 0,
            response: None,
            answer_bytes: 0,
            answered_us: None,
            next_seq: 0,
            is_trial: false,
            may_have_eof: false,
            prepared: Prepared::default(),
            is_untracked: false,
            proxy: Vec::new(),
            ends: Ends::default(),
            begun_us: [None; 2],
            last_us: [None; 2],
            skipped: (0, 0),
            skip_cause: Cause::Resync,
            has_records: false,
            known: Known::default(),
            changes: Changes::default(),
        }
    }

    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        let framers = self.framers.iter().map(Framer::held_bytes).sum::<usize>();
        let inflaters = self.packing.iter().flat_map(|packing| &packing.inflaters);
        let inflaters = inflaters.map(Inflater::held_bytes).sum::<usize>();
        let queue = self.queue.capacity() * size_of::<Command>() + self.queue_bytes;
        let login = if let Phase::Login(client) = &self.phase { client.held_bytes() } else { 0 };
        let Identity { user, os_user, db, charset, .. } = &self.who;
        let names = user.len() + os_user.len() + db.len() + charset.len();
        let proxy = self.proxy.capacity();
        framers + inflaters + queue + login + names + proxy + self.prepared.bytes
    }

    fn emit(&mut self, out: &mut dyn Output, ts_us: i64, event: &Event<'_>) {
        self.has_records = true;
        out.emit(&self.who, ts_us, event);
    }

    /// Takes the bytes of one segment.
    pub fn data(&mut self, side: Side, bytes: &[u8], ts_us: i64, out: &mut dyn Output) {
        self.begun_us[side as usize].get_or_insert(ts_us);
        match self.phase {
            Phase::Over | Phase::Encrypted { .. } => self.skip(bytes.len() as u64, ts_us),
            Phase::Lost { .. } => self.look_for_command(side, bytes, ts_us, out),
            Phase::Greeting if side == Side::Client => self.before_greeting(bytes, ts_us, out),
            _ if self.packing.is_none() => self.messages(side, bytes, ts_us, out),
            _ => self.unpack(side, bytes, ts_us, out),
        }
        self.last_us[side as usize] = Some(ts_us);
        self.note_begin(side);
    }

    /// If all bytes of a side are understood, the next loss begins later.
    fn note_begin(&mut self, side: Side) {
        if self.arrived_bytes(side) == 0 {
            self.begun_us[side as usize] = None;
        }
    }

    /// Bytes of a side that are not understood yet.
    fn arrived_bytes(&self, side: Side) -> u64 {
        let packed = self.packing.as_ref().map(|it| it.inflaters[side as usize].arrived_bytes());
        let proxy = if side == Side::Client { self.proxy.len() } else { 0 };
        self.framers[side as usize].arrived_bytes() + packed.unwrap_or(0) + proxy as u64
    }

    fn is_skipping(&self) -> bool {
        matches!(self.phase, Phase::Lost { .. } | Phase::Over | Phase::Encrypted { .. })
    }

    fn message(&mut self, side: Side, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        match (&self.phase, side) {
            (Phase::Commands, Side::Client) => self.client_sends(message, ts_us, out),
            (Phase::Commands, Side::Server) => self.server_sends(message, ts_us, out),
            (Phase::Greeting, Side::Server) => self.greeting(message, ts_us, out),
            (Phase::Answer, Side::Client) => self.answer(message, ts_us, out),
            // It waits no longer for the answer, or does not let the client in.
            (Phase::Answer, Side::Server) => self.refused_early(message, ts_us, out),
            (Phase::Login(_), Side::Server) => self.authenticated(message, ts_us, out),
            (Phase::Login(_), Side::Client) => {}
            _ => self.lose(Cause::Protocol, message.total, ts_us, out),
        }
    }

    fn before_greeting(&mut self, bytes: &[u8], ts_us: i64, out: &mut dyn Output) {
        self.proxy.extend_from_slice(bytes);
        match proxy::read(&self.proxy) {
            Proxied::Incomplete => {}
            Proxied::Header(length, address) => {
                if let Some(address) = address {
                    self.who.ip = address.ip().to_string();
                    self.who.port = address.port();
                }
                let more = self.proxy.len() - length;
                self.proxy = Vec::new();
                if more > 0 {
                    self.give_up(Cause::Protocol, more as u64, ts_us, out);
                }
            }
            Proxied::Nothing => {
                let bytes = std::mem::take(&mut self.proxy).len();
                self.give_up(Cause::Protocol, bytes as u64, ts_us, out);
            }
        }
    }

    fn greeting(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        if message.bytes.first() == Some(&0xff) {
            return self.refused_early(message, ts_us, out);
        }
        match Greeting::read(message.bytes).filter(|_| message.is_whole()) {
            Some(greeting) => {
                self.who.conn = greeting.conn;
                self.server_caps = greeting.caps;
                let release = Release::of(&greeting.version);
                self.release = Some(release);
                let charset = || charset_of_low_byte(release, greeting.collation);
                self.reset_charset = release.resets_to_own_charset().then(charset);
                self.phase = Phase::Answer;
            }
            None => self.give_up(Cause::Protocol, message.total, ts_us, out),
        }
    }

    /// The server refuses the connection before it knows whose it is.
    fn refused_early(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        match message.bytes {
            [0xff, rest @ ..] if message.is_whole() => match Failure::read(rest) {
                Some(failure) => self.refused(failure, Client::default(), ts_us, out),
                None => self.give_up(Cause::Protocol, message.total, ts_us, out),
            },
            _ => self.give_up(Cause::Protocol, message.total, ts_us, out),
        }
    }

    fn answer(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        match Answer::read(message.bytes, self.server_caps) {
            Some(Answer::Tls) => self.begin_tls(ts_us, out),
            Some(Answer::Login(login)) if message.is_whole() => {
                let client = self.take_login(login);
                self.phase = Phase::Login(Box::new(client));
            }
            _ => self.give_up(Cause::Protocol, message.total, ts_us, out),
        }
    }

    /// Whose session it is from now on.
    fn take_login(&mut self, login: Login) -> Client {
        self.caps = Some(login.caps & self.server_caps);
        self.who.charset = client_charset(self.release, login.collation);
        self.login_charset.clone_from(&self.who.charset);
        self.who.user = login.user;
        self.who.os_user.clone_from(&login.client.os_user);
        self.user_is_known();
        self.set_db(login.db);
        login.client
    }

    fn authenticated(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        let Phase::Login(client) = &self.phase else { return };
        let client = client.as_ref().clone();
        match message.bytes {
            [0, rest @ ..] => {
                let Some(ok) = Ok::read(rest, self.caps).filter(|_| message.is_whole()) else {
                    return self.lose(Cause::Protocol, message.total, ts_us, out);
                };
                self.take_ok(ok.db, ok.charset);
                self.has_no_prepared();
                self.phase = Phase::Commands;
                let has = |capability| self.caps.unwrap_or(0) & capability != 0;
                self.packing = match (has(caps::COMPRESS), has(caps::ZSTD)) {
                    // A client that offers both gets zlib.
                    (true, _) => Some(Packing::new(Algorithm::Zlib)),
                    (false, true) => Some(Packing::new(Algorithm::Zstd)),
                    (false, false) => None,
                };
                self.emit(out, ts_us, &Event::Login { failure: None, client });
            }
            [0xff, rest @ ..] => match Failure::read(rest).filter(|_| message.is_whole()) {
                Some(failure) => self.refused(failure, client, ts_us, out),
                None => self.lose(Cause::Protocol, message.total, ts_us, out),
            },
            // More of the exchange follows.
            _ => {}
        }
    }

    fn refused(&mut self, failure: Failure, client: Client, ts_us: i64, out: &mut dyn Output) {
        self.emit(out, ts_us, &Event::Login { failure: Some(failure), client });
        self.phase = Phase::Over;
        self.skip_cause = Cause::Protocol;
        // A connection that the server does not accept at all has no end of its own.
        self.has_records = self.who.conn != 0;
    }

    /// What an OK packet says about the session.
    fn take_ok(&mut self, db: Option<&[u8]>, charset: Option<&[u8]>) {
        if let Some(db) = db {
            self.set_db(name(db));
        }
        if let Some(charset) = charset {
            self.who.charset = name(charset);
        }
    }

    /// The capture stops following it.
    pub fn leave(&mut self, ts_us: i64, out: &mut dyn Output) {
        self.declare_rest(ts_us, out);
        self.phase = Phase::Over;
        self.has_records = false;
        self.forget();
        out.leave(&self.who);
    }

    /// The connection has ended.
    pub fn close(&mut self, ts_us: i64, out: &mut dyn Output) {
        self.declare_rest(ts_us, out);
        if self.has_records {
            self.emit(out, ts_us, &Event::Disconnect);
        } else {
            out.leave(&self.who);
        }
        self.phase = Phase::Over;
        self.has_records = false;
        self.forget();
    }
}

/// The character set of a server by the low byte of its collation, which is what a greeting has;
/// empty: not known, because there are two of which it can be.
fn charset_of_low_byte(release: Release, collation: u8) -> Vec<u8> {
    let charset = client_charset(Some(release), collation.into());
    let other = 256 + u16::from(collation);
    let is_other = charset::of_collation(other).is_some_and(|name| name.as_bytes() != charset)
        && release::knows_collation(Some(release), other);
    if is_other { Vec::new() } else { charset }
}

/// The character set of a client's statements by the number of a collation; empty: not known.
fn client_charset(release: Option<Release>, collation: u16) -> Vec<u8> {
    let is_known = release::knows_collation(release, collation);
    let name = charset::of_collation(collation).filter(|_| is_known);
    name.filter(|name| charset::is_for_clients(name)).unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
