//! Counts what a filter would do with the lines of one thread.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use tacho_logdir::read::reader::Placed;
use tacho_logdir::read::{Sink, Window};
use tacho_record::line::members::MemberReader;
use tacho_record::{Field, Line};

use super::facts::{Fate, Judge};
use crate::line_limit;
use crate::parallel::{Message, Reader, Scanned};
use crate::report::cut;
use crate::tail::TailError;
use crate::view::{NotTables, Partial, View};

/// Most kinds of skipped lines that a thread distinguishes for the examples.
const KINDS_MAX: usize = 4_096;

/// Between two values of a key: no byte of UTF-8.
const SEPARATOR: u8 = 0xFF;

/// A number of lines, and their bytes in the plain form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Lines.
    pub lines: u64,
    /// Bytes, with line ends.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.bytes += other.bytes;
    }
}

/// Skipped lines of the same rule, user and command, with one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// All of them.
    pub amount: Amount,
    /// Index of the rule; `None`: the default.
    pub rule: Option<usize>,
    /// Number of the first one.
    pub seq: u64,
    /// User.
    pub user: String,
    /// Class of the statement, or client command.
    pub command: String,
    /// Text of the first one.
    pub sql: String,
}

/// What was counted.
#[derive(Debug)]
pub struct Counts {
    /// All lines of the time range.
    pub all: Amount,
    /// Those that would be skipped.
    pub skipped: Amount,
    /// Those that are recorded whatever the filter says.
    pub always: Amount,
    /// Those about which the line does not say enough: recorded.
    pub undecided: Amount,
    /// Those that each rule decides.
    pub rules: Vec<Amount>,
    /// Those that no rule decides.
    pub default: Amount,
    /// First and last moment, µs since 1970-01-01 UTC.
    pub range_us: Option<(i64, i64)>,
    examples: HashMap<Box<[u8]>, Example>,
}

impl Counts {
    /// Nothing, of a filter with so many rules.
    pub fn new(rule_count: usize) -> Self {
        Self {
            all: Amount::default(),
            skipped: Amount::default(),
            always: Amount::default(),
            undecided: Amount::default(),
            rules: vec![Amount::default(); rule_count],
            default: Amount::default(),
            range_us: None,
            examples: HashMap::new(),
        }
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in [
            (&mut self.all, other.all),
            (&mut self.skipped, other.skipped),
            (&mut self.always, other.always),
            (&mut self.undecided, other.undecided),
            (&mut self.default, other.default),
        ] {
            mine.add(theirs);
        }
        self.rules.iter_mut().zip(other.rules).for_each(|(mine, theirs)| mine.add(theirs));
        if let Some((first, last)) = other.range_us {
            self.saw(first);
            self.saw(last);
        }
        for (key, theirs) in other.examples {
            match self.examples.get_mut(&key) {
                Some(mine) => {
                    let amount = &mut mine.amount;
                    amount.add(theirs.amount);
                    if theirs.seq < mine.seq {
                        *mine = Example { amount: *amount, ..theirs };
                    }
                }
                None => {
                    self.examples.insert(key, theirs);
                }
            }
        }
    }

    fn saw(&mut self, us: i64) {
        let (first, last) = self.range_us.unwrap_or((us, us));
        self.range_us = Some((first.min(us), last.max(us)));
    }

    /// Examples of the largest kinds of skipped lines.
    pub fn examples(&self, max: usize) -> Vec<&Example> {
        let mut examples: Vec<&Example> = self.examples.values().collect();
        examples.sort_by_key(|it| (std::cmp::Reverse(it.amount.lines), it.seq));
        examples.truncate(max);
        examples
    }
}

/// Counts lines.
pub struct Tally<'a> {
    judge: &'a Judge<'a>,
    window: Window,
    messages: Sender<Message>,
    reader: Option<MemberReader>,
    scanned: Scanned<'a>,
    counts: Counts,
    key: Vec<u8>,
}

impl<'a> Tally<'a> {
    /// Nothing is counted yet.
    pub fn new(
        judge: &'a Judge<'a>,
        rule_count: usize,
        window: Window,
        scanned_bytes: &'a AtomicU64,
        messages: Sender<Message>,
    ) -> Self {
        let mut fields = judge.fields();
        fields.extend([Field::seq]);
        Self {
            judge,
            window,
            messages,
            reader: Some(MemberReader::new(fields)),
            scanned: Scanned::new(scanned_bytes),
            counts: Counts::new(rule_count),
            key: Vec::new(),
        }
    }

    fn say(&self, message: Message) {
        // The receiver outlives all readers.
        let _ = self.messages.send(message);
    }

    fn take(&mut self, placed: Placed<'_>) -> Result<(), String> {
        if placed.is_too_long {
            return Err(line_limit::too_long());
        }
        // Taken out, because what it reads is borrowed from it.
        let mut reader = self.reader.take().expect("it is put back below");
        let bytes = placed.bytes.len() as u64 + 1;
        let counted = match reader.read(placed.bytes).and_then(Partial::of) {
            Some(line) => self.count(&line, bytes),
            None => Err(NotTables),
        };
        // The whole line is parsed if it does not have the usual form, or its tables do not: that
        // accepts it, or has the reason.
        let done = counted.or_else(|NotTables| {
            let line = Line::parse(placed.bytes)?;
            self.count(&line, bytes).map_err(|NotTables| "`tables` cannot be read".to_owned())
        });
        self.reader = Some(reader);
        done
    }

    fn count(&mut self, line: &impl View, bytes: u64) -> Result<(), NotTables> {
        if !self.window.contains(line.ts()) {
            return Ok(());
        }
        let fate = self.judge.fate(line)?;
        let one = Amount { lines: 1, bytes };
        let counts = &mut self.counts;
        counts.all.add(one);
        counts.saw(line.ts().as_microsecond());
        match fate {
            Fate::Always => counts.always.add(one),
            Fate::Undecided => counts.undecided.add(one),
            Fate::Decided { rule, is_skipped } => {
                match rule.and_then(|rule| counts.rules.get_mut(rule)) {
                    Some(of_rule) => of_rule.add(one),
                    None => counts.default.add(one),
                }
                if is_skipped {
                    counts.skipped.add(one);
                    self.keep_example(rule, line, one);
                }
            }
        }
        Ok(())
    }

    fn keep_example(&mut self, rule: Option<usize>, line: &impl View, one: Amount) {
        let user = line.text(Field::user);
        let sql_command = line.text(Field::sql_command);
        let command = if sql_command.is_empty() { line.text(Field::command) } else { sql_command };
        let key = &mut self.key;
        key.clear();
        key.extend_from_slice(&rule.map_or(u64::MAX, |rule| rule as u64).to_le_bytes());
        key.extend_from_slice(user.as_bytes());
        key.push(SEPARATOR);
        key.extend_from_slice(command.as_bytes());
        let examples = &mut self.counts.examples;
        if let Some(example) = examples.get_mut(&key[..]) {
            return example.amount.add(one);
        }
        if examples.len() >= KINDS_MAX {
            return;
        }
        let sql = line.text(Field::sql);
        let example = Example {
            amount: one,
            rule,
            seq: line.number(Field::seq).unwrap_or(0),
            sql: cut(&sql).to_owned(),
            user: user.into_owned(),
            command: command.into_owned(),
        };
        examples.insert(key.clone().into(), example);
    }
}

impl Reader for Tally<'_> {
    type Found = Counts;

    fn finish(self) -> Counts {
        self.counts
    }
}

impl Sink for Tally<'_> {
    type Error = TailError;

    /// Counts the line at once; none is wanted afterwards.
    fn wants(&mut self, path: &Path, line: Placed<'_>) -> bool {
        let offset = line.offset;
        if let Err(reason) = self.take(line) {
            let reason = format!("broken line: {reason}");
            self.say(Message::Problem(path.to_owned(), Some(offset), reason));
        }
        false
    }

    fn show(&mut self, _: &[u8]) -> Result<(), TailError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TailError> {
        Ok(())
    }

    fn problem(&mut self, path: &Path, reason: &str) {
        self.say(Message::Problem(path.to_owned(), None, reason.to_owned()));
    }

    fn note(&mut self, text: &str) {
        self.say(Message::Note(text.to_owned()));
    }

    fn out_of_room(&mut self, _: &Path, _: usize) {}

    fn scanned(&mut self, bytes: u64) -> Result<bool, TailError> {
        self.scanned.add(bytes);
        Ok(true)
    }

    /// Ctrl-C ends the program.
    fn stopped(&self) -> bool {
        false
    }
}
