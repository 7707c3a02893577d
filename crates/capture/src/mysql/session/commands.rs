//! Commands, and the answers to them.

use std::collections::VecDeque;

use super::{Command, Phase, Session};
use crate::mysql::Failure;
use crate::mysql::command::{
    self, Answers, BULK_EXECUTE, CHANGE_USER, CLOSE, EXECUTE, INIT_DB, Kind, LONG_DATA, PREPARE,
    QUERY, RESET, RESET_CONNECTION,
};
use crate::mysql::frame::{HEAD_BYTES, Keep, Kept, Message};
use crate::mysql::login;
use crate::mysql::params::Args;
use crate::mysql::read::Reader;
use crate::mysql::response::{Outcome, Response, Step};
use crate::mysql::text::Text;
use crate::mysql::track;
use crate::mysql::{AnswerBytes, Cause, CommandEnd, Event, Output, Remarks, Side};

/// The first byte of a replica's acknowledgement (`kPacketMagicNum`): no command.
const SEMI_SYNC_ACK: u8 = 0xef;
/// Commands whose memory an empty queue keeps.
const QUEUE_KEPT: usize = 16;

impl Session {
    /// Whether the client's next message belongs to the answer of the first command.
    fn is_client_asked(&self) -> bool {
        self.is_login() || self.response.as_ref().is_some_and(Response::is_file)
    }

    /// Whether the first command is answered by an exchange as in a login.
    fn is_login(&self) -> bool {
        self.queue.front().is_some_and(|it| it.kind.answers == Answers::Login)
    }

    /// Whether the server sends a stream of events.
    fn is_streaming(&self) -> bool {
        self.queue.front().is_some_and(|it| it.kind.answers == Answers::Stream)
    }

    pub(super) fn keep_of_command(&self) -> Keep<'_> {
        // A file, or an authentication response.
        if self.is_client_asked() {
            return Keep::First(0);
        }
        Keep::Command {
            memory_bytes: self.limits.statement_bytes,
            spool: self.limits.spool.as_ref(),
            room: self.limits.file_bytes.saturating_sub(self.file_bytes),
        }
    }

    // Not inlined into `message`: each row would save and restore the registers that this needs.
    #[inline(never)]
    pub(super) fn client_sends(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        // A login continues the numbers. A packet that begins new ones is a command, which the
        // server executes if it does not ask: it must not pass as authentication data.
        if self.is_login() && message.seq == 0 && self.packing.is_none() {
            return self.lose(Cause::Protocol, message.total, ts_us, out);
        }
        if self.is_client_asked() {
            self.next_seq = message.next_seq;
            if message.total == 0
                && let Some(response) = self.response.as_mut().filter(|it| it.is_file())
            {
                response.end_file();
            }
            return;
        }
        if self.is_streaming() && message.bytes.first() == Some(&SEMI_SYNC_ACK) {
            // A replica has an event. The command behind it in the queue would wait for ever.
            return;
        }
        let Some((&code, rest)) = message.bytes.split_first().filter(|_| message.seq == 0) else {
            return self.lose(Cause::Protocol, message.total, ts_us, out);
        };
        let command = self.command(Kind::of(code), rest, message, ts_us, out);
        self.queue_bytes += command.held_bytes();
        self.file_bytes += command.file_bytes();
        self.queue.push_back(command);
        if self.queue.len() > self.limits.commands || self.queue_bytes > self.limits.command_bytes {
            return self.lose(Cause::Memory, 0, ts_us, out);
        }
        if self.queue.len() == 1 {
            self.begin(ts_us, out);
        }
    }

    fn command(
        &mut self,
        kind: Kind,
        rest: &[u8],
        message: &Message<'_>,
        ts_us: i64,
        out: &mut dyn Output,
    ) -> Command {
        let mut command = Command {
            kind,
            ts_us,
            text: None,
            statement: None,
            login: None,
            args: None,
            sent_bytes: message.total + HEAD_BYTES as u64,
            answer_seq: message.next_seq,
        };
        // Of a damaged text, nothing behind the gap was kept.
        let is_in_file = matches!(message.kept, Kept::InFile(_));
        let is_long = message.total > self.limits.statement_bytes as u64 && !is_in_file;
        let is_whole = message.is_whole() && !is_long;
        match kind.code {
            QUERY => {
                let text = command::query_text(rest, self.caps).filter(|_| is_whole);
                command.text = text.map(|text| Text::of(trimmed(text), message));
            }
            PREPARE => command.text = is_whole.then(|| Text::of(trimmed(rest), message)),
            INIT_DB => command.text = is_whole.then(|| Text::of(rest, message)),
            EXECUTE | BULK_EXECUTE | CLOSE | LONG_DATA | RESET => {
                command.statement = Reader::new(rest).u32();
                let params_bytes = self.limits.params_bytes;
                command.args = Args::of(kind.code, rest, message, params_bytes);
            }
            CHANGE_USER if is_whole => {
                let login = login::change_user(rest, self.caps.unwrap_or(!0));
                command.login = login.map(Box::new);
            }
            _ => {}
        }
        if command::is_text(kind.code) && command.text.is_none() && !message.is_damaged {
            let bytes = message.total;
            let cause = match message.kept {
                Kept::NotInFile(cause) => cause,
                _ if is_long => Cause::TooLarge,
                _ => Cause::Protocol,
            };
            self.emit(out, ts_us, &Event::Lost { cause, bytes, since_us: ts_us });
        }
        command
    }

    /// The first command of the queue is executed now.
    fn begin(&mut self, now_us: i64, out: &mut dyn Output) {
        while let Some(command) = self.queue.front() {
            if command.kind.answers != Answers::Never {
                self.next_seq = command.answer_seq;
                self.response = Some(Response::new(command.kind, self.caps));
                self.answer_bytes = 0;
                self.answered_us = None;
                self.may_have_eof = false;
                if !self.is_trial {
                    self.start(out);
                }
                return;
            }
            let Some(command) = self.pop() else { return };
            match (command.kind.code, command.statement) {
                (CLOSE, Some(id)) => self.close_prepared(id),
                (LONG_DATA, id) => self.take_long_data(id, command.args.as_ref()),
                _ => {}
            }
            // Without an answer, a trial cannot be decided.
            if self.is_trial {
                self.skip_since(command.sent_bytes, command.ts_us);
                self.forget_user();
            } else {
                let end = CommandEnd { command: command.kind.name, ..CommandEnd::default() };
                self.emit(out, command.ts_us.max(now_us), &Event::Point(end));
            }
        }
        if self.is_trial {
            self.phase = Phase::Lost { is_armed: false };
            self.is_trial = false;
        }
    }

    /// Records the commands that were sent and have no answer: texts as statements, which have no
    /// end. Returns what no record shows.
    pub(super) fn record_queue(&mut self, ts_us: i64, out: &mut dyn Output) -> Unrecorded {
        let mut rest = Unrecorded { bytes: 0, since_us: ts_us };
        let mut is_started = self.response.is_some();
        while let Some(command) = self.queue.front() {
            let (kind, sent_us) = (command.kind, command.ts_us);
            // Its answer has begun, and would end only with the connection.
            let is_stream = kind.answers == Answers::Stream && self.next_seq != command.answer_seq;
            if has_start(kind) {
                if !is_started {
                    self.start(out);
                }
            } else if kind.answers == Answers::Never || is_started && is_stream {
                let end = CommandEnd { command: kind.name, ..CommandEnd::default() };
                self.emit(out, sent_us, &Event::Point(end));
            } else {
                rest.bytes = rest.bytes.saturating_add(command.sent_bytes);
                rest.since_us = rest.since_us.min(sent_us);
            }
            is_started = false;
            if let Some(command) = self.pop() {
                self.doubt(&command);
            }
        }
        rest
    }

    /// What a command without an answer may have changed is not known for those behind it.
    fn doubt(&mut self, command: &Command) {
        let text = self.text_of(command);
        let may_change = match command.kind.code {
            QUERY | EXECUTE | BULK_EXECUTE => {
                text.is_none_or(|text| track::change(text) != track::Change::default())
            }
            code => matches!(code, INIT_DB | CHANGE_USER | RESET_CONNECTION),
        };
        if may_change {
            self.forget_db();
            self.who.charset.clear();
        }
        match command.kind.code {
            PREPARE => self.prepared.last = None,
            CLOSE => command.statement.into_iter().for_each(|id| self.close_prepared(id)),
            // Whether there are some is not known: it may have failed.
            RESET_CONNECTION => self.forget_all_prepared(),
            CHANGE_USER => {
                self.forget_all_prepared();
                self.forget_user();
            }
            _ => {}
        }
    }

    pub(super) fn pop(&mut self) -> Option<Command> {
        let command = self.queue.pop_front()?;
        self.queue_bytes -= command.held_bytes();
        self.file_bytes -= command.file_bytes();
        // What a burst has needed would stay with each connection for ever.
        if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
        Some(command)
    }

    /// The start of the first command of the queue.
    fn start(&mut self, out: &mut dyn Output) {
        let Some(command) = self.queue.front() else { return };
        if !has_start(command.kind) {
            return;
        }
        let text = self.text_of(command);
        let kind = command.kind;
        let misses_text = text.is_none();
        let turn = command.text.as_ref().and_then(Text::turn);
        out.emit(&self.who, command.ts_us, &Event::Start { command: kind.name, text });
        drop(turn);
        self.has_records = true;
        if matches!(kind.code, EXECUTE | BULK_EXECUTE) {
            self.executes(misses_text);
            self.emit_params(out);
        } else if self.file_bytes > 0 {
            self.release_file();
        }
    }

    /// The text of the first command was recorded: a file is not kept until the answer, unless the
    /// text is needed then.
    fn release_file(&mut self) {
        let Some(command) = self.queue.front_mut() else { return };
        let (is_query, file_bytes) = (command.kind.code == QUERY, command.file_bytes());
        if let Some(text @ Text::InFile { .. }) = &mut command.text
            && is_query
            && track::change(text) == track::Change::default()
        {
            // One that changes nothing either.
            *text = Text::InMemory(Vec::new());
            self.file_bytes -= file_bytes;
        }
    }

    pub(super) fn server_sends(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        let Some(response) = self.response.as_mut() else {
            return self.unasked(message, ts_us, out);
        };
        let answers = response.answers();
        // Acknowledgements of a replica make some servers begin anew with their numbers.
        let is_next =
            message.seq == self.next_seq || self.packing.is_some() || answers == Answers::Stream;
        if !is_next {
            if self.may_have_eof && message.total == 5 {
                self.may_have_eof = false;
                return;
            }
            return self.lose(Cause::Protocol, message.total, ts_us, out);
        }
        self.next_seq = message.next_seq;
        if self.packing.is_none() {
            self.answer_bytes += message.sent_bytes();
        }
        if self.answered_us.is_none() {
            self.answered_us = self.begun_us[Side::Server as usize].or(Some(ts_us));
        }
        // A packet whose first byte is missing may be the last one.
        let goes_on = answers == Answers::Login
            && message.bytes.first().is_some_and(|it| !matches!(it, 0 | 0xff));
        let step = if goes_on { Step::More } else { response.step(message) };
        if step == Step::Wrong {
            return self.lose(Cause::Protocol, message.total, ts_us, out);
        }
        if self.is_trial {
            self.is_trial = false;
            self.report_skipped(ts_us, out);
            self.start(out);
        }
        if step == Step::Done {
            self.end(ts_us, out);
        }
    }

    /// The server says something that no command has asked for.
    #[cold]
    fn unasked(&mut self, message: &Message<'_>, ts_us: i64, out: &mut dyn Output) {
        let is_eof = message.total == 5 && message.bytes.first() == Some(&0xfe);
        if self.may_have_eof && is_eof {
            self.may_have_eof = false;
            return;
        }
        // It says goodbye: a session was killed, or idle for too long.
        if message.bytes.first() != Some(&0xff) {
            self.lose(Cause::Protocol, message.total, ts_us, out);
        }
    }

    /// The answer of the first command of the queue has ended.
    // Not inlined, for the same reason as `client_sends`.
    #[inline(never)]
    fn end(&mut self, ts_us: i64, out: &mut dyn Output) {
        let Some(response) = self.response.take() else { return };
        self.may_have_eof = response.may_have_eof();
        let outcome = response.outcome();
        let Some(command) = self.pop() else { return };
        let is_text = has_start(command.kind) && command.kind.code != INIT_DB;
        // Of a command that was sent before the last answer, it may be earlier.
        let since_us = |us: i64| u64::try_from(us.saturating_sub(command.ts_us)).unwrap_or(0);
        let Outcome { last_insert_id, warnings, .. } = outcome;
        let remarks = Remarks { last_insert_id, warnings, info: outcome.info.clone() };
        let end = CommandEnd {
            command: command.kind.name,
            failure: outcome.failure.clone(),
            rows_sent: is_text.then_some(outcome.rows_sent),
            rows_affected: outcome
                .rows_affected
                .filter(|_| is_text && command.kind.code != PREPARE),
            query_time_us: since_us(ts_us),
            answer: AnswerBytes {
                bytes_sent: std::mem::take(&mut self.answer_bytes),
                first_byte_us: since_us(self.answered_us.unwrap_or(ts_us)),
            },
            remarks: if has_start(command.kind) { remarks } else { Remarks::default() },
            is_one: outcome.results == 1,
        };
        if command.kind.code == CHANGE_USER {
            self.change_user(&command, outcome.failure.clone(), ts_us, out);
        } else if has_start(command.kind) {
            self.emit(out, ts_us, &Event::End(end));
        } else {
            self.emit(out, ts_us, &Event::Point(end));
        }
        if command.kind.code == PREPARE {
            // If it failed, the server has no last one. Whether its text is known does not matter.
            self.prepared.last = outcome.prepared.map(|it| it.id);
        }
        // Of several statements in one packet, those before the one that failed were executed.
        if outcome.failure.is_none() || outcome.results > 0 {
            self.follow(command, &outcome);
        }
        // A command that was sent before this answer begins now.
        let began_us = ts_us;
        if let Some(next) = self.queue.front_mut() {
            next.ts_us = next.ts_us.max(began_us);
        }
        self.begin(ts_us, out);
    }

    fn change_user(
        &mut self,
        command: &Command,
        failure: Option<Failure>,
        ts_us: i64,
        out: &mut dyn Output,
    ) {
        let before = (self.caps, self.who.clone(), self.login_charset.clone(), self.known);
        if let Some(login) = command.login.clone() {
            self.take_login(*login);
            self.caps = before.0;
        } else {
            // The packet was not captured as a whole.
            self.forget_user();
            self.forget_db();
            self.who.charset.clear();
        }
        let is_refused = failure.is_some();
        // The record has the user that was asked for.
        self.emit(out, ts_us, &Event::ChangeUser { failure });
        if is_refused {
            (self.caps, self.who, self.login_charset, self.known) = before;
        }
    }
}

/// Commands of which there is no record.
pub(super) struct Unrecorded {
    /// Their bytes.
    pub(super) bytes: u64,
    /// When the first of them was sent, µs.
    pub(super) since_us: i64,
}

/// Commands that have a record of their beginning. Of the others there is only one of their end.
fn has_start(kind: Kind) -> bool {
    matches!(kind.code, QUERY | PREPARE | EXECUTE | BULK_EXECUTE | INIT_DB)
}

/// The text as the server executes it: without blanks around it, and semicolons behind it.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_blank(byte) && *byte != 0).unwrap_or(text.len());
    let text = &text[start..];
    let end = text.iter().rposition(|byte| !is_blank(byte) && *byte != b';');
    &text[..end.map_or(0, |end| end + 1)]
}
