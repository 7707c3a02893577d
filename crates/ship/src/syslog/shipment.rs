//! Lines of the log in, messages to the receiver out.
//!
//! A line is a message at once, also that of a statement that is still running: if it were held
//! back until the statement ends, an attacker who owns the server by then could suppress it.

use std::path::Path;

use tacho_format::Formatter;
use tacho_logdir::read::reader::Placed;
use tacho_record::Line;
use tacho_record::OwnedRecord;
use tacho_record::time::TimeFormatter;

use super::Sender;
use crate::position::order::{Mark, Meeting, Order};
use crate::position::state::StateError;
use crate::words::counted;

/// Sends the lines of a log.
pub struct Shipment {
    formatter: Formatter,
    clock: TimeFormatter,
    sender: Sender,
    /// `None`: the lines are from several places, whose numbers say nothing about each other.
    order: Option<Order>,
    /// A line is sent as soon as it is wanted; its record waits here.
    waiting: Option<(OwnedRecord, Option<Mark>)>,
}

/// What happens to a line.
pub enum Look {
    /// It may be sent.
    New,
    /// It was sent before.
    Known,
    /// It may be sent, but its number is reported.
    Odd(String),
    /// It is the first of another log.
    AnotherLog(u64),
}

impl Shipment {
    /// Sends lines in the form of `formatter`; `order` checks their numbers.
    pub fn new(
        formatter: Formatter,
        clock: TimeFormatter,
        sender: Sender,
        order: Option<Order>,
    ) -> Self {
        Self { formatter, clock, sender, order, waiting: None }
    }

    /// Whether the line was sent before and need not be read.
    pub fn skips(&self, path: &Path, line: Placed) -> bool {
        self.order.as_ref().is_some_and(|order| order.skips(path, line.offset, line.bytes))
    }

    /// Looks at a line, which may be sent next.
    ///
    /// # Errors
    /// When the line is broken.
    pub fn look_at(&mut self, path: &Path, offset: u64, line: &Line) -> Result<Look, String> {
        let record = OwnedRecord::of_line(line).map_err(|error| error.to_string())?;
        let Some(order) = &mut self.order else {
            self.waiting = Some((record, None));
            return Ok(Look::New);
        };
        let meeting = order.meet(path, offset, record.seq, line.ts);
        let mark = Mark { file: order.file().clone(), seq: record.seq, ts: line.ts };
        let (look, mark) = match meeting {
            Meeting::Next => (Look::New, Some(mark)),
            Meeting::Known => return Ok(Look::Known),
            Meeting::AnotherLog => return Ok(Look::AnotherLog(record.seq)),
            Meeting::Gap(first, last) => {
                let count = counted(last - first + 1, "line");
                let report = format!("{count} missing before this one, seq {first} to {last}");
                (Look::Odd(report), Some(mark))
            }
            // Where it is says nothing about how far the log was sent.
            Meeting::OutOfOrder => {
                (Look::Odd(format!("seq {} is out of order; sent as well", record.seq)), None)
            }
        };
        self.waiting = Some((record, mark));
        Ok(look)
    }

    /// Sends the line that was checked.
    pub fn send(&mut self) {
        let Some((record, mark)) = self.waiting.take() else { return };
        let mut text = Vec::new();
        let Self { formatter, clock, .. } = self;
        record.with(|record| formatter.write(&mut text, record, clock));
        if text.pop_if(|byte| *byte == b'\n').is_some() || !text.is_empty() {
            self.sender.send(text, mark);
        }
    }

    /// To be called several times a second.
    pub fn look(&mut self) {
        self.sender.look();
    }

    /// As [`Sender::has_given_up`].
    pub fn has_given_up(&self) -> bool {
        self.sender.has_given_up()
    }

    /// As [`Sender::finish`].
    ///
    /// # Errors
    /// As [`Sender::finish`].
    pub fn finish(&mut self) -> Result<u64, StateError> {
        self.sender.finish()
    }
}
