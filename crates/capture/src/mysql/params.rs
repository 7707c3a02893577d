//! The values of a prepared statement's parameters, from `COM_STMT_EXECUTE`,
//! `COM_STMT_SEND_LONG_DATA` and MariaDB's `COM_STMT_BULK_EXECUTE`.
//!
//! A packet says what its values are only if the number of parameters, their types and the data
//! that was sent before are known. If anything of that is missing, or the packet has more or less
//! than they say, nothing of it is shown.

mod value;

use tacho_ring::params::Param;

use super::caps;
use super::command::{BULK_EXECUTE, EXECUTE, LONG_DATA};
use super::frame::Message;
use super::read::Reader;
use value::Kind;

/// Bytes of an execution that are kept: its values are read when the server executes it.
const EXECUTION_BYTES_MAX: usize = 256 << 10;
/// Flag of an execution: the number of parameters follows, which includes query attributes.
const HAS_COUNT: u8 = 0x08;
/// Flag of a bulk execution: types follow.
const HAS_TYPES: u16 = 128;

/// What a command says about parameters.
#[derive(Debug)]
pub enum Args {
    /// The values of an execution.
    Execution {
        /// It is one of MariaDB's `COM_STMT_BULK_EXECUTE`.
        is_bulk: bool,
        /// Its first bytes, behind that of the command.
        bytes: Vec<u8>,
        /// How many it has.
        total: u64,
    },
    /// A part of one value.
    LongData {
        /// Number of the parameter.
        param: u16,
        /// Its first bytes.
        head: Vec<u8>,
        /// How many it has.
        total: u64,
    },
}

impl Args {
    /// Of a command, whose payload is given after its first byte. `None`: it has none, or not all
    /// of it was captured. `limit`: bytes of values that are recorded.
    pub fn of(code: u8, rest: &[u8], message: &Message<'_>, limit: usize) -> Option<Args> {
        if limit == 0 || message.is_damaged {
            return None;
        }
        // Without the byte of the command.
        let total = message.total.saturating_sub(1);
        let head = |bytes: &[u8], limit: usize| bytes[..bytes.len().min(limit)].to_vec();
        match code {
            EXECUTE | BULK_EXECUTE => {
                let bytes = head(rest, EXECUTION_BYTES_MAX);
                Some(Args::Execution { is_bulk: code == BULK_EXECUTE, bytes, total })
            }
            LONG_DATA => {
                let mut reader = Reader::new(rest);
                reader.u32()?;
                let param = reader.u16()?;
                let total = total.saturating_sub((rest.len() - reader.rest().len()) as u64);
                Some(Args::LongData { param, head: head(reader.rest(), limit), total })
            }
            _ => None,
        }
    }

    /// Memory that it holds outside of itself, bytes.
    pub fn held_bytes(&self) -> usize {
        let (Args::Execution { bytes, .. } | Args::LongData { head: bytes, .. }) = self;
        bytes.capacity()
    }
}

/// Values, up to a limit.
#[derive(Debug)]
pub struct Values {
    /// As a record in the arena has them.
    pub text: Vec<u8>,
    /// Bytes that may still be added.
    left: usize,
    /// Bytes of all of them as they were sent.
    total: u64,
    /// A value is cut or missing, and with it all behind it.
    is_cut: bool,
}

impl Values {
    fn new(limit: usize) -> Values {
        Values { text: Vec::new(), left: limit, total: 0, is_cut: false }
    }

    /// Whether there was no value at all.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.is_cut
    }

    /// The length of all of them, if not all are there; otherwise 0.
    pub fn whole_bytes(&self) -> u64 {
        if self.is_cut { self.total.max(1) } else { 0 }
    }

    /// Adds a value; `sent_bytes`: its length in the packet.
    fn push(&mut self, param: Param<'_>, sent_bytes: u64) {
        self.total = self.total.saturating_add(sent_bytes);
        let (_, value) = param.parts();
        let kept = value.len().min(self.left);
        let can_be_cut = matches!(param, Param::Text(_) | Param::Bytes(_));
        self.is_cut |= self.left == 0 || (kept < value.len() && !can_be_cut);
        if self.is_cut {
            return;
        }
        let param = match param {
            Param::Text(text) => Param::Text(&text[..kept]),
            Param::Bytes(bytes) => Param::Bytes(&bytes[..kept]),
            other => other,
        };
        let (head, count) = param.head();
        self.text.reserve(count + param.parts().1.len());
        self.text.extend_from_slice(&head[..count]);
        self.text.extend_from_slice(param.parts().1);
        // NULL takes space in a record, too.
        self.left -= kept.max(1);
        self.is_cut = can_be_cut && (kept as u64) < sent_bytes;
    }
}

/// Data that was sent before the execution.
#[derive(Debug)]
struct Long {
    param: u16,
    head: Vec<u8>,
    total: u64,
}

/// What is known of the parameters of a prepared statement.
#[derive(Debug, Default)]
pub struct Bound {
    /// Their number. `None`: it is not known what the next execution has.
    count: Option<u16>,
    /// The types of the last execution that had some.
    types: Option<Vec<u16>>,
    long: Vec<Long>,
}

impl Bound {
    /// Of a statement with so many parameters.
    pub fn new(count: u16) -> Bound {
        Bound { count: Some(count), ..Bound::default() }
    }

    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        let types = self.types.as_ref().map_or(0, |types| types.capacity() * size_of::<u16>());
        let long = self.long.iter().map(|it| size_of::<Long>() + it.head.capacity());
        types + long.sum::<usize>()
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        *self = Bound::default();
    }

    /// `COM_STMT_RESET`.
    pub fn reset(&mut self) {
        self.long = Vec::new();
    }

    /// A part of a value; `None`: it was not captured.
    pub fn take_long_data(&mut self, args: Option<&Args>, limit: usize) {
        let Some(Args::LongData { param, head, total }) = args else { return self.forget() };
        if let Some(long) = self.long.iter_mut().find(|long| long.param == *param) {
            let room = limit.saturating_sub(long.head.len());
            // What is behind a cut does not follow what is before it.
            if long.head.len() as u64 == long.total {
                long.head.extend_from_slice(&head[..head.len().min(room)]);
            }
            long.total = long.total.saturating_add(*total);
        } else {
            self.long.push(Long { param: *param, head: head.clone(), total: *total });
        }
    }

    /// The values of an execution. `None`: they are not known.
    pub fn execute(
        &mut self,
        args: Option<&Args>,
        session_caps: Option<u64>,
        limit: usize,
    ) -> Option<Values> {
        let long = std::mem::take(&mut self.long);
        let types = self.types.take();
        let Some(Args::Execution { is_bulk, bytes, total }) = args else { return None };
        let count = self.count.filter(|count| *count > 0)?;
        let is_whole = bytes.len() as u64 == *total;
        let mut execution = Execution {
            reader: Reader::new(bytes),
            count: count.into(),
            types,
            is_whole,
            values: Values::new(limit),
        };
        let read = if *is_bulk { execution.rows() } else { execution.values(session_caps?, &long) };
        let Execution { types, mut values, .. } = execution;
        if is_whole && read.is_none() {
            return None;
        }
        self.types = types;
        if !is_whole {
            values.is_cut = true;
            values.total = values.total.saturating_add(*total - bytes.len() as u64);
        }
        Some(values)
    }
}

/// An execution that is read.
struct Execution<'e> {
    reader: Reader<'e>,
    count: usize,
    types: Option<Vec<u16>>,
    /// All of the packet is there.
    is_whole: bool,
    values: Values,
}

impl Execution<'_> {
    fn read_types(&mut self, count: usize, has_names: bool) -> Option<()> {
        let mut types = Vec::new();
        for _ in 0..count {
            types.push(self.reader.u16()?);
            if has_names {
                self.reader.lenenc_bytes()?;
            }
        }
        self.types = Some(types);
        Some(())
    }

    fn kind(&self, index: usize) -> Option<Kind> {
        self.types.as_ref()?.get(index).map(|number| Kind::of(*number))
    }

    /// `COM_STMT_EXECUTE`. `None`: it is not what is known of the statement.
    fn values(&mut self, session_caps: u64, long: &[Long]) -> Option<()> {
        self.reader.u32()?;
        let flags = self.reader.u8()?;
        self.reader.u32()?;
        let has_names = session_caps & caps::QUERY_ATTRIBUTES != 0;
        let mut count = self.count;
        if has_names && flags & HAS_COUNT != 0 {
            count = usize::try_from(self.reader.lenenc()?).ok()?;
        }
        if count < self.count || count > u16::MAX.into() {
            return None;
        }
        let nulls = self.reader.take(count.div_ceil(8))?;
        if self.reader.u8()? != 0 {
            self.read_types(count, has_names)?;
        }
        // Query attributes: they follow the parameters.
        let mut attributes = Values::new(0);
        for index in 0..count {
            let kind = self.kind(index)?;
            let Execution { reader, values, is_whole, .. } = self;
            let values = if index < self.count { values } else { &mut attributes };
            if let Some(long) = long.iter().find(|it| usize::from(it.param) == index) {
                values.push(kind.of_long_data(&long.head), long.total);
            } else if nulls[index / 8] & 1 << (index % 8) != 0 {
                values.push(Param::Null, 0);
            } else {
                kind.read(reader, *is_whole, values)?;
            }
        }
        self.reader.is_empty().then_some(())
    }

    /// `COM_STMT_BULK_EXECUTE`: row after row. `None`: as above.
    fn rows(&mut self) -> Option<()> {
        self.reader.u32()?;
        if self.reader.u16()? & HAS_TYPES != 0 {
            self.read_types(self.count, false)?;
        }
        while !self.reader.is_empty() {
            for index in 0..self.count {
                let kind = self.kind(index)?;
                match self.reader.u8()? {
                    0 => kind.read(&mut self.reader, self.is_whole, &mut self.values)?,
                    1 => self.values.push(Param::Null, 0),
                    2 => self.values.push(Param::Mark(b"default"), 0),
                    3 => self.values.push(Param::Mark(b"ignore"), 0),
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
