//! Syslog messages to a receiver: UDP (RFC 5426), TCP or TLS (RFC 5425) with octet counting
//! (RFC 6587, 3.4.1), or a datagram socket such as /dev/log.
//!
//! The sender retries until the receiver is reachable, and reads no further in the log meanwhile.
//! These protocols do not acknowledge messages. For a stream, the sender knows what the receiver's
//! *kernel* has accepted, and whether the receiver had read all of it when it closed the
//! connection. So messages are kept:
//!
//! ```text
//!   queue:  | taken, the last AGAIN_BYTES of them | sent | not sent |
//!             sent again after a broken connection  ^ always sent again
//! ```
//!
//! If the receiver closed the connection in order, it has read what its kernel had accepted, and
//! the rest is sent again. If the connection broke (reset, silence, a TLS alert), all of the queue
//! is sent again. The position in [`StateFile`] is the last accepted message; it goes back when
//! accepted messages are sent again.

mod destination;
pub mod link;
mod shipment;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::position::order::Mark;
use crate::position::state::{StateError, StateFile};
use crate::report::Report;
use crate::tls::{self, Tls};
use crate::words::counted;
pub use destination::{Destination, host_of};
use link::{End, Link};
pub use shipment::{Look, Shipment};

/// First and longest wait between two attempts to reach the receiver.
const WAIT_FIRST: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Time between two checks for Ctrl-C while waiting.
const WAIT_STEP: Duration = Duration::from_millis(50);
/// Time between two checks of the connection while messages are sent.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two messages about a receiver that is not reachable.
const TELL_INTERVAL: Duration = Duration::from_secs(600);
/// A connection that lasts this long is stable.
const GOOD_AFTER: Duration = Duration::from_secs(1);
/// How long the receiver's kernel may take to accept the last messages after Ctrl-C.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// How much of the accepted messages is kept, bytes: more than a receiver has unread in its kernel
/// (6 MiB at most by Linux's defaults).
const AGAIN_BYTES: usize = 8 << 20;

/// A message and the line it was made of.
struct Message {
    text: Vec<u8>,
    mark: Option<Mark>,
    /// Where it ends in what was written to the connection.
    end: u64,
}

/// A time in which the receiver is not reachable.
struct Outage {
    since: Instant,
    reported: Instant,
}

/// Sends messages, in order.
pub struct Sender {
    to: Destination,
    tls: Option<Tls>,
    state: Option<StateFile>,
    link: Option<(Link, Instant)>,
    queue: VecDeque<Message>,
    /// How many at the front of the queue the receiver's kernel has taken.
    taken: usize,
    /// How many at the front of the queue were written to the connection.
    sent: usize,
    /// Bytes of those that were taken.
    taken_bytes: usize,
    /// The line before the queue.
    before: Option<Mark>,
    wait: Duration,
    outage: Option<Outage>,
    /// The first and last line of those that were sent again, until they are reported.
    again: Option<(u64, u64)>,
    next_look: Instant,
    /// Set by Ctrl-C.
    stop: Arc<AtomicBool>,
    /// How long the receiver may be unreachable.
    give_up_after: Option<Duration>,
    has_given_up: bool,
    report: Report,
    /// Messages that no datagram can hold.
    too_large: Arc<AtomicU64>,
}

impl Sender {
    /// Connects with the first message. `too_large` counts messages that could not be sent.
    pub fn new(
        to: Destination,
        tls: Option<Tls>,
        state: Option<StateFile>,
        stop: Arc<AtomicBool>,
        too_large: Arc<AtomicU64>,
        report: Report,
    ) -> Self {
        let before = state.as_ref().and_then(StateFile::saved).cloned();
        Self {
            to,
            tls,
            state,
            link: None,
            queue: VecDeque::new(),
            taken: 0,
            sent: 0,
            taken_bytes: 0,
            before,
            wait: WAIT_FIRST,
            outage: None,
            again: None,
            next_look: Instant::now(),
            stop,
            give_up_after: None,
            has_given_up: false,
            report,
            too_large,
        }
    }

    /// Stops as by Ctrl-C if the receiver is not reachable for this long.
    pub fn give_up_after(mut self, time: Option<Duration>) -> Self {
        self.give_up_after = time;
        self
    }

    /// Whether the receiver was unreachable for too long.
    pub fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Sends a message, made of the line `mark`. Returns when the system has accepted it, however
    /// long that takes, or on Ctrl-C: then it is not sent, and none after it.
    pub fn send(&mut self, text: Vec<u8>, mark: Option<Mark>) {
        self.queue.push_back(Message { text, mark, end: 0 });
        self.pump();
        if Instant::now() >= self.next_look {
            self.look();
        }
    }

    /// Checks the connection and what the receiver has accepted, and writes the state. Call it
    /// several times a second.
    pub fn look(&mut self) {
        self.next_look = Instant::now() + LOOK_INTERVAL;
        self.ask();
        self.tell_reached(GOOD_AFTER);
        let place = self.place().cloned();
        if let Some(state) = &mut self.state {
            state.save_in_time(place.as_ref());
        }
        // What a connection that ended while it was idle had not delivered.
        self.pump();
    }

    /// The last line that is known to be with the receiver's kernel.
    fn place(&self) -> Option<&Mark> {
        let mut taken = self.queue.iter().take(self.taken).rev();
        taken.find_map(|message| message.mark.as_ref()).or(self.before.as_ref())
    }

    /// Sends the rest, and writes the state. Returns the number of messages that may not have
    /// arrived, because Ctrl-C ended the run.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn finish(&mut self) -> Result<u64, StateError> {
        let mut leave = None;
        let mut goodbyes = 0;
        loop {
            self.pump();
            self.ask();
            let stopped = self.stop.load(Ordering::Relaxed);
            let deadline = *leave.get_or_insert_with(|| Instant::now() + LEAVE_MAX);
            if self.taken == self.queue.len() {
                match self.say_goodbye() {
                    Ok(()) => break,
                    // A receiver that always resets at the end has no better answer.
                    Err(_) if goodbyes > 0 => break,
                    Err(end) => self.lose(end),
                }
                goodbyes += 1;
            }
            if !stopped {
                leave = None;
            } else if Instant::now() >= deadline || self.link.is_none() {
                break;
            }
            std::thread::sleep(WAIT_STEP.min(Duration::from_millis(5)));
        }
        self.tell_reached(Duration::ZERO);
        let place = self.place().cloned();
        if let Some(state) = &mut self.state {
            state.save(place.as_ref())?;
        }
        Ok((self.queue.len() - self.taken) as u64)
    }

    /// Sends what was not sent yet.
    fn pump(&mut self) {
        while self.sent < self.queue.len() {
            if self.link.is_none() && !self.connect() {
                return;
            }
            // A write after the receiver has closed resets the connection: what it had read is
            // unknown then.
            self.ask();
            if let Err(end) = self.send_next() {
                self.lose(end);
            }
        }
    }

    fn send_next(&mut self) -> Result<(), End> {
        let Some((link, _)) = &mut self.link else { return Ok(()) };
        let Some(message) = self.queue.get_mut(self.sent) else { return Ok(()) };
        match link.send(&message.text, &self.stop) {
            Err(End::Broken(error)) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                self.too_large.fetch_add(1, Ordering::Relaxed);
                let bytes = message.text.len();
                (self.report)(&format!(
                    "{}: a message of {bytes} bytes is too large for a datagram and was not sent; \
                     send to tcp:// or tls://",
                    self.to
                ));
            }
            answer => answer?,
        }
        match link {
            Link::Stream(stream) => {
                message.end = stream.written();
                self.sent += 1;
            }
            // A datagram cannot be sent again.
            Link::Udp(_) | Link::Unix(_) => {
                let message = self.queue.pop_front();
                self.before = message.and_then(|message| message.mark).or(self.before.take());
            }
        }
        Ok(())
    }

    /// Checks what was accepted, and whether the connection is still open.
    fn ask(&mut self) {
        let Some((Link::Stream(stream), _)) = &mut self.link else { return };
        // Before the check for the end: a closed connection accepts nothing more.
        let taken = stream.taken();
        let end = stream.check();
        match taken {
            Ok(taken) => self.settle(taken),
            Err(error) => return self.lose(End::Broken(error)),
        }
        if let Err(end) = end {
            self.lose(end);
        }
    }

    /// Counts what was accepted, and forgets what need not be sent again.
    fn settle(&mut self, taken_bytes: u64) {
        while self.taken < self.sent && self.queue[self.taken].end <= taken_bytes {
            self.taken_bytes += self.queue[self.taken].text.len();
            self.taken += 1;
        }
        while self.taken > 0 && self.taken_bytes > AGAIN_BYTES {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(message) = self.queue.pop_front() {
            self.taken -= 1;
            self.sent -= 1;
            self.taken_bytes -= message.text.len();
            self.before = message.mark.or(self.before.take());
        }
    }

    /// Handles the end of a connection: what may not have arrived is sent again.
    fn lose(&mut self, end: End) {
        let opened = self.link.take().map(|(_, opened)| opened);
        if opened.is_some_and(|opened| opened.elapsed() > WAIT_MAX) {
            self.wait = WAIT_FIRST;
        }
        let reason = match &end {
            End::Closed => {
                while self.taken > 0 {
                    self.forget_first();
                }
                "the receiver closed the connection".to_owned()
            }
            End::Broken(error) => tls::explain(error),
        };
        let seq = |message: &Message| message.mark.as_ref().map(|mark| mark.seq);
        let mut seqs = self.queue.iter().take(self.sent).filter_map(seq);
        if let Some(first) = seqs.next() {
            let last = seqs.next_back().unwrap_or(first);
            let (low, high) = self.again.unwrap_or((first, last));
            self.again = Some((low.min(first), high.max(last)));
        }
        self.sent = 0;
        self.taken = 0;
        self.taken_bytes = 0;
        let place = self.before.clone();
        if let Some(state) = &mut self.state {
            // Before it is sent again: if this program is killed, the state must not say that it
            // was delivered.
            if let Err(error) = state.save(place.as_ref()) {
                self.say(error.to_string());
            }
        }
        // The orderly end of an idle connection is not reported.
        if !self.queue.is_empty() || matches!(end, End::Broken(_)) {
            self.complain(&reason);
        }
    }

    /// Connects: true, or false on Ctrl-C.
    fn connect(&mut self) -> bool {
        if self.outage.is_some() && !self.pause() {
            return false;
        }
        loop {
            // The first attempt is made even after Ctrl-C: the present line is finished.
            match Link::open(&self.to, self.tls.as_ref()) {
                Ok(link) => {
                    self.link = Some((link, Instant::now()));
                    return true;
                }
                Err(error) => self.complain(&tls::explain(&error)),
            }
            if !self.pause() {
                return false;
            }
        }
    }

    /// Waits before the next attempt.
    fn pause(&mut self) -> bool {
        let until = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        loop {
            self.look_at_outage();
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(WAIT_STEP));
        }
    }

    fn look_at_outage(&mut self) {
        let (Some(after), Some(outage)) = (self.give_up_after, &self.outage) else { return };
        if outage.since.elapsed() >= after && !std::mem::replace(&mut self.has_given_up, true) {
            self.say(format!(
                "{}: not reachable for {}; giving up (--give-up-after)",
                self.to,
                counted(after.as_secs(), "second")
            ));
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn complain(&mut self, reason: &str) {
        let now = Instant::now();
        match &mut self.outage {
            None => {
                self.outage = Some(Outage { since: now, reported: now });
                self.say(format!("{}: {reason}; retrying", self.to));
            }
            Some(outage) if now - outage.reported >= TELL_INTERVAL => {
                outage.reported = now;
                let minutes = counted((now - outage.since).as_secs() / 60, "minute");
                let place = match self.queue.front().and_then(|message| message.mark.as_ref()) {
                    Some(mark) => format!("; the next line is seq {} in {}", mark.seq, mark.file),
                    None => String::new(),
                };
                self.say(format!("{}: {reason}, for {minutes}{place}; retrying", self.to));
            }
            Some(_) => {}
        }
    }

    /// Reports that the receiver is reachable again, once the connection is stable.
    fn tell_reached(&mut self, after: Duration) {
        let is_good = self.link.as_ref().is_none_or(|(_, opened)| opened.elapsed() >= after);
        if !is_good || self.sent < self.queue.len() {
            return;
        }
        let Some(outage) = self.outage.take() else { return };
        self.wait = WAIT_FIRST;
        let again = match self.again.take() {
            Some((first, last)) => {
                format!("; messages of seq {first} to {last} were sent again and may be duplicates")
            }
            None => String::new(),
        };
        let seconds = outage.since.elapsed().as_secs();
        self.say(format!("{}: reachable again after {seconds} s{again}", self.to));
    }

    fn say(&self, text: String) {
        (self.report)(&text);
    }

    fn say_goodbye(&mut self) -> Result<(), End> {
        if let Some((Link::Stream(stream), _)) = &mut self.link {
            stream.say_goodbye()?;
        }
        self.link = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
