//! `running` lines and the lines that complete them, as one record.
//!
//! A statement that ran long has a `running` line with its text and a later line with its outcome
//! (`docs/specs/record.md`, "The life of a statement"). Other formats have one record per
//! statement, so the first line is held until the second arrives. The held memory is bounded: if
//! there is too much, the oldest statement is emitted as running, and its completing line later
//! without a text. The same happens to statements that have not ended when a recorder stops or
//! another one starts: no later line will complete them.

use std::collections::BTreeMap;

use tacho_record::{EventKind, Field, Length, Outcome, OwnedRecord};

/// Most memory for statements whose end was not read yet, bytes. If statements that run for over
/// ten seconds have more text than this, some of them are emitted in two records.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Whether a line may be one of several about its statement, or ends the wait for such lines. Any
/// other line is all there is about its event, and need not be joined.
pub fn is_part(event: &str, outcome: &str, running_seq: Option<u64>) -> bool {
    match event {
        "statement" => running_seq.is_some() || outcome == Outcome::Running.name(),
        "start" | "stop" => true,
        _ => false,
    }
}

/// Joins the records of one log, in the order of its lines.
#[derive(Debug)]
pub struct Joiner {
    /// By `seq` of the first `running` line, so the oldest comes first.
    open: BTreeMap<u64, OwnedRecord>,
    bytes: usize,
    bytes_max: usize,
}

impl Joiner {
    /// `bytes_max`: how much memory the held records may take, bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { open: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Takes a record, and passes completed ones to `emit`.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn push<E>(
        &mut self,
        record: OwnedRecord,
        mut emit: impl FnMut(&OwnedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        match record.event {
            Some(EventKind::Statement) => {}
            Some(EventKind::Start | EventKind::Stop) => {
                self.finish(&mut emit)?;
                return emit(&record);
            }
            _ => return emit(&record),
        }
        match (record.outcome, record.running_seq) {
            (Some(Outcome::Running), None) => {
                self.bytes += size(&record);
                if let Some(same) = self.open.insert(record.seq, record) {
                    // A log with the same lines twice: nothing in it may be lost.
                    self.bytes -= size(&same);
                    emit(&same)?;
                }
                self.shrink(emit)
            }
            (Some(Outcome::Running), Some(seq)) => match self.open.get_mut(&seq) {
                Some(held) => {
                    self.bytes -= size(held);
                    add(held, record);
                    self.bytes += size(held);
                    self.shrink(emit)
                }
                None => emit(&record),
            },
            (_, Some(seq)) => match self.open.remove(&seq) {
                Some(held) => {
                    self.bytes -= size(&held);
                    emit(&complete(held, record))
                }
                None => emit(&record),
            },
            (_, None) => emit(&record),
        }
    }

    fn shrink<E>(&mut self, mut emit: impl FnMut(&OwnedRecord) -> Result<(), E>) -> Result<(), E> {
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.open.pop_first()
        {
            self.bytes -= size(&oldest);
            emit(&oldest)?;
        }
        Ok(())
    }

    /// The held records, oldest first.
    pub fn held(&self) -> impl Iterator<Item = &OwnedRecord> {
        self.open.values()
    }

    /// Passes to `emit` what is still running at the end of the log.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn finish<E>(
        &mut self,
        mut emit: impl FnMut(&OwnedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bytes = 0;
        while let Some((_, record)) = self.open.pop_first() {
            emit(&record)?;
        }
        Ok(())
    }
}

/// Approximate size of a record, bytes.
fn size(record: &OwnedRecord) -> usize {
    // The names are short: one constant covers them.
    const NAMES_BYTES: usize = 512;
    let tables = record.tables.iter().map(|used| {
        let names = [&used.db, &used.table, &used.new_db, &used.new_table];
        size_of_val(used) + names.iter().map(|name| name.len()).sum::<usize>()
    });
    let mut texts = 0;
    record.with(|record| {
        record.each_text(|length, text| {
            if length != Length::Name {
                texts += text.len();
            }
        });
    });
    size_of::<OwnedRecord>() + NAMES_BYTES + texts + tables.sum::<usize>()
}

/// How a field is merged when lines of one statement are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    /// A later `running` line has it if it is new; the completing line may omit it.
    Later,
    /// The first `running` line has it; the completing line may omit it.
    First,
    /// Only the line that completes the statement has it.
    Last,
    /// By its own rule: see [`add`] and [`complete`].
    Ruled,
}

const fn joined(field: Field) -> Joined {
    match field {
        Field::blocked_by | Field::rewrite_rule | Field::rewritten_query => Joined::Later,
        Field::query_id
        | Field::user
        | Field::priv_user
        | Field::proxy_user
        | Field::os_user
        | Field::host
        | Field::ip
        | Field::port
        | Field::db
        | Field::command
        | Field::source
        | Field::server_addr
        | Field::session
        | Field::sql_command
        | Field::sql
        | Field::sql_bytes
        | Field::sql_redacted
        | Field::sql_charset
        | Field::params
        | Field::params_bytes
        | Field::digest => Joined::First,
        Field::errno | Field::sqlstate | Field::error | Field::tables | Field::running_seq => {
            Joined::Ruled
        }
        Field::seq
        | Field::ts
        | Field::event
        | Field::outcome
        | Field::run
        | Field::conn
        | Field::conn_seq
        | Field::rows_sent
        | Field::rows_examined
        | Field::rows_affected
        | Field::query_time_us
        | Field::lock_time_us
        | Field::first_byte_us
        | Field::bytes_sent
        | Field::warnings
        | Field::last_insert_id
        | Field::info
        | Field::start_ts
        | Field::count
        | Field::cause
        | Field::lost_bytes
        | Field::lost_packets
        | Field::server
        | Field::signing_key
        | Field::program
        | Field::tls
        | Field::client_version
        | Field::variable
        | Field::old_value
        | Field::new_value
        | Field::class
        | Field::action
        | Field::object
        | Field::producer
        | Field::detail
        | Field::detail_bytes
        | Field::attributes => Joined::Last,
    }
}

/// Adds the content of a further `running` line to the first one.
fn add(held: &mut OwnedRecord, mut further: OwnedRecord) {
    held.tables.append(&mut further.tables);
    if further.errno != 0 {
        held.errno = further.errno;
        held.sqlstate = std::mem::take(&mut further.sqlstate);
    }
    if !further.error.is_empty() {
        held.error = std::mem::take(&mut further.error);
    }
    held.replace(further, |field| joined(field) == Joined::Later);
}

/// Adds to the completing line what only the `running` line has.
fn complete(mut held: OwnedRecord, mut end: OwnedRecord) -> OwnedRecord {
    held.tables.append(&mut end.tables);
    end.tables = std::mem::take(&mut held.tables);
    // An error that did not end the statement belongs to it only if the statement ended with one.
    if end.errno == 0 && end.outcome == Some(Outcome::Error) {
        end.errno = held.errno;
        end.sqlstate = std::mem::take(&mut held.sqlstate);
    }
    if end.errno != 0 && end.error.is_empty() {
        end.error = std::mem::take(&mut held.error);
    }
    end.running_seq = None;
    end.fill(held, |field| matches!(joined(field), Joined::First | Joined::Later));
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn statement(seq: u64, outcome: Outcome) -> OwnedRecord {
        OwnedRecord {
            seq,
            event: Some(EventKind::Statement),
            outcome: Some(outcome),
            ..OwnedRecord::default()
        }
    }

    fn running(seq: u64, sql: &[u8]) -> OwnedRecord {
        OwnedRecord {
            sql: Some(sql.to_vec()),
            sql_charset: b"utf8mb4".to_vec(),
            digest: b"1:00ff".to_vec(),
            user: b"app".to_vec(),
            ..statement(seq, Outcome::Running)
        }
    }

    fn end(seq: u64, of: u64) -> OwnedRecord {
        OwnedRecord { running_seq: Some(of), query_time_us: Some(5), ..statement(seq, Outcome::Ok) }
    }

    fn all(bytes_max: usize, records: Vec<OwnedRecord>) -> Vec<OwnedRecord> {
        let mut joiner = Joiner::new(bytes_max);
        let mut out = Vec::new();
        let mut emit = |record: &OwnedRecord| {
            out.push(record.clone());
            Ok::<_, Infallible>(())
        };
        for record in records {
            let Ok(()) = joiner.push(record, &mut emit);
        }
        let Ok(()) = joiner.finish(&mut emit);
        assert_eq!(joiner.bytes, 0);
        out
    }

    #[test]
    fn a_statement_becomes_one_record() {
        let further = OwnedRecord {
            running_seq: Some(1),
            errno: 1062,
            error: b"dup".to_vec(),
            ..statement(2, Outcome::Running)
        };
        let failed = OwnedRecord { outcome: Some(Outcome::Error), ..end(4, 1) };
        let other = statement(3, Outcome::Ok);
        let joined = all(1 << 20, vec![running(1, b"x"), further, other.clone(), failed]);
        assert_eq!(joined.len(), 2);
        assert_eq!(joined[0], other);
        let whole = &joined[1];
        assert_eq!((whole.seq, whole.running_seq, whole.errno), (4, None, 1062));
        assert_eq!((whole.sql.as_deref(), &*whole.user), (Some(&b"x"[..]), &b"app"[..]));
        assert_eq!(whole.digest, b"1:00ff");
        assert_eq!((whole.query_time_us, &*whole.error), (Some(5), &b"dup"[..]));
    }

    #[test]
    fn statements_without_an_end_are_emitted_as_running() {
        let left = all(1 << 20, vec![running(2, b"b"), running(1, b"a")]);
        assert_eq!(left.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2]);
        assert!(left.iter().all(|record| record.outcome == Some(Outcome::Running)));
    }

    #[test]
    fn a_recorder_that_stops_or_starts_ends_the_wait() {
        for event in [EventKind::Stop, EventKind::Start] {
            let border = OwnedRecord { seq: 2, event: Some(event), ..OwnedRecord::default() };
            let out = all(1 << 20, vec![running(1, b"a"), border, end(3, 1)]);
            assert_eq!(out.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3]);
            assert_eq!(out[0].outcome, Some(Outcome::Running));
        }
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let text = vec![b'x'; 10_000];
        let starts = (1..=100).map(|seq| running(seq, &text));
        let ends = (1..=100).map(|seq| end(seq + 100, seq));
        let out = all(50_000, starts.chain(ends).collect());
        // Each text once, each outcome once.
        assert_eq!(out.iter().filter(|record| record.sql.is_some()).count(), 100);
        let ended = out.iter().filter(|record| record.outcome == Some(Outcome::Ok));
        assert_eq!(ended.count(), 100);
        let whole =
            out.iter().filter(|record| record.sql.is_some() && record.query_time_us.is_some());
        assert_eq!(whole.count(), 4);
    }
}
