//! The file of a bundle: a tar archive (POSIX ustar) with **one spelling**.
//!
//! Every tar can list and unpack it. A reader accepts only what [`header`] makes: regular files
//! with fixed owner, mode and time, nothing compressed, no extension of the format, zeros between
//! the members, and an end without anything behind it. So no byte is unchecked, and two programs
//! cannot see different things in one bundle.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};
use tacho_chain::hash::Hash;

use crate::names::Name;

const BLOCK: usize = 512;
const BLOCK_BYTES: u64 = BLOCK as u64;
/// Most bytes of a member: eleven octal digits.
pub const MEMBER_BYTES_MAX: u64 = (1 << 33) - 1;
/// Most members: each log file has two.
pub const MEMBERS_MAX: usize = 200_000;

/// Where the fields of a header are that are not always zero.
const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const PREFIX: std::ops::Range<usize> = 345..500;
const FIXED: [(usize, &[u8]); 6] = [
    (100, b"0000444\0"),
    (108, b"0000000\0"),
    (116, b"0000000\0"),
    (136, b"00000000000\0"),
    (156, b"0"),
    (257, b"ustar\x0000"),
];

/// The header of a member. `None`: the name or the size does not fit.
fn header(name: &str, size: u64) -> Option<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let (prefix, base) = match name.rsplit_once('/') {
        Some((prefix, base)) if name.len() > NAME.len() => (prefix, base),
        _ => ("", name),
    };
    if base.len() > NAME.len() || prefix.len() > PREFIX.len() || size > MEMBER_BYTES_MAX {
        return None;
    }
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(NAME.start, base.as_bytes());
    put(PREFIX.start, prefix.as_bytes());
    put(SIZE.start, format!("{size:011o}\0").as_bytes());
    FIXED.iter().for_each(|(at, text)| put(*at, text));
    put(CHECKSUM.start, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(block)
}

/// Bytes behind a member up to the next block.
fn padding(size: u64) -> usize {
    (size.next_multiple_of(BLOCK_BYTES) - size) as usize
}

/// Why a bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It would be larger than it may be.
    #[error("the bundle would be larger than {0} bytes")]
    TooLarge(u64),
    /// It was cancelled.
    #[error("the export was cancelled")]
    Cancelled,
    /// The file cannot be written.
    #[error("cannot write the bundle: {0}")]
    Io(#[from] io::Error),
}

/// Writes the members of a bundle one after the other. The size of each is written into its header
/// when it is complete.
pub struct Writer<'a> {
    file: &'a File,
    end: u64,
    bytes_max: u64,
    /// Gets the bytes of the bundle so far; `false` cancels.
    progress: &'a mut dyn FnMut(u64) -> bool,
    member: Option<Open>,
}

struct Open {
    name: String,
    start: u64,
    hasher: Sha256,
    buffer: Vec<u8>,
}

/// A member that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Their hash.
    pub sha256: Hash,
}

const BUFFER_BYTES: usize = 256 << 10;

impl<'a> Writer<'a> {
    /// Writes into an empty file, at most so many bytes.
    pub fn new(file: &'a File, bytes_max: u64, progress: &'a mut dyn FnMut(u64) -> bool) -> Self {
        Self { file, end: 0, bytes_max, progress, member: None }
    }

    /// Begins a member.
    ///
    /// # Errors
    /// The bundle is full.
    pub fn begin(&mut self, name: &Name) -> Result<(), WriteError> {
        debug_assert!(self.member.is_none(), "one member at a time");
        let start = self.end + BLOCK_BYTES;
        self.check(start)?;
        let (name, buffer) = (name.to_string(), Vec::with_capacity(BUFFER_BYTES));
        self.member = Some(Open { name, start, hasher: Sha256::new(), buffer });
        self.end = start;
        Ok(())
    }

    /// Appends bytes to the member.
    ///
    /// # Errors
    /// The bundle is full, or cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let Some(member) = &mut self.member else {
            return Err(io::Error::other("no member was begun").into());
        };
        member.hasher.update(bytes);
        member.buffer.extend_from_slice(bytes);
        if member.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the member.
    ///
    /// # Errors
    /// The bundle is full, or cannot be written.
    pub fn finish(&mut self) -> Result<Written, WriteError> {
        self.flush()?;
        let Some(Open { name, start, hasher, .. }) = self.member.take() else {
            return Err(io::Error::other("no member was begun").into());
        };
        let bytes = self.end - start;
        let head = header(&name, bytes).ok_or(WriteError::TooLarge(MEMBER_BYTES_MAX))?;
        self.file.write_all_at(&head, start - BLOCK_BYTES)?;
        let zeros = [0; BLOCK];
        self.file.write_all_at(&zeros[..padding(bytes)], self.end)?;
        self.end += padding(bytes) as u64;
        Ok(Written { name, bytes, sha256: Hash(hasher.finalize().into()) })
    }

    /// A member that is in memory.
    ///
    /// # Errors
    /// As the others.
    pub fn member(&mut self, name: &Name, bytes: &[u8]) -> Result<Written, WriteError> {
        self.begin(name)?;
        self.write(bytes)?;
        self.finish()
    }

    /// Ends the bundle, and puts it on the disk. Returns its size in bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn close(self) -> Result<u64, WriteError> {
        self.file.write_all_at(&[0; 2 * BLOCK], self.end)?;
        self.file.sync_all()?;
        Ok(self.end + 2 * BLOCK_BYTES)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let Some(member) = &mut self.member else { return Ok(()) };
        let buffer = std::mem::take(&mut member.buffer);
        let end = self.end + buffer.len() as u64;
        self.check(end)?;
        self.file.write_all_at(&buffer, self.end)?;
        self.end = end;
        if let Some(member) = &mut self.member {
            member.buffer = buffer;
            member.buffer.clear();
        }
        Ok(())
    }

    /// Reports the progress, and whether the bundle may have so many bytes.
    ///
    /// # Errors
    /// It may not, or it was cancelled.
    fn check(&mut self, end: u64) -> Result<(), WriteError> {
        if !(self.progress)(end) {
            return Err(WriteError::Cancelled);
        }
        if end > self.bytes_max { Err(WriteError::TooLarge(self.bytes_max)) } else { Ok(()) }
    }

    /// Reports progress without bytes.
    ///
    /// # Errors
    /// It was cancelled.
    pub fn tick(&mut self) -> Result<(), WriteError> {
        if (self.progress)(self.end) { Ok(()) } else { Err(WriteError::Cancelled) }
    }
}

/// A file that is not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What is wrong, and where.
    #[error("byte {at}: {text}")]
    Malformed {
        /// Offset in the file.
        at: u64,
        /// The fault.
        text: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A member of a bundle that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Name,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
}

/// Lists the members of a bundle. Reads their headers only.
///
/// # Errors
/// The file is not a bundle, or cannot be read.
pub fn list(file: &File) -> Result<Vec<Member>, ReadError> {
    let length = file.metadata()?.len();
    let mut members: Vec<Member> = Vec::new();
    let mut at = 0;
    loop {
        let malformed = |text: &str| ReadError::Malformed { at, text: text.to_owned() };
        let mut block = [0; BLOCK];
        if length.saturating_sub(at) < BLOCK_BYTES {
            return Err(malformed("it ends without the end of an archive"));
        }
        file.read_exact_at(&mut block, at)?;
        if block == [0; BLOCK] {
            if length - at != 2 * BLOCK_BYTES {
                return Err(malformed("the archive does not end with its last member"));
            }
            file.read_exact_at(&mut block, at + BLOCK_BYTES)?;
            return if block == [0; BLOCK] {
                Ok(members)
            } else {
                Err(malformed("the end of the archive is not one"))
            };
        }
        let (name, bytes) = read_header(&block).map_err(|text| malformed(&text))?;
        let offset = at + BLOCK_BYTES;
        if length - offset < bytes {
            return Err(malformed("the member is longer than the file"));
        }
        if members.len() >= MEMBERS_MAX {
            return Err(malformed("it has too many members"));
        }
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..padding(bytes)];
        if length - offset - bytes < rest.len() as u64 {
            return Err(malformed("it ends without the end of an archive"));
        }
        file.read_exact_at(rest, offset + bytes)?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(malformed("there is something behind the member"));
        }
        members.push(Member { name, offset, bytes });
        at = offset + bytes + rest.len() as u64;
    }
}

fn read_header(block: &[u8; BLOCK]) -> Result<(Name, u64), String> {
    let text = |range: std::ops::Range<usize>| {
        let field = &block[range];
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        std::str::from_utf8(&field[..end]).unwrap_or_default()
    };
    let (prefix, base) = (text(PREFIX), text(NAME));
    let name = if prefix.is_empty() { base.to_owned() } else { format!("{prefix}/{base}") };
    let size = u64::from_str_radix(text(SIZE), 8).unwrap_or(u64::MAX);
    // One spelling: whatever the fields are, this must be the header of that member.
    if header(&name, size).as_ref() != Some(block) {
        return Err("this is not the header of a member".to_owned());
    }
    let name = name.parse::<Name>().map_err(|error| error.to_string())?;
    Ok((name, size))
}

/// A part of a file.
#[derive(Debug)]
pub struct Section<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> Section<'a> {
    /// So many bytes from an offset on.
    #[must_use]
    pub fn new(file: &'a File, offset: u64, bytes: u64) -> Self {
        Self { file, at: offset, end: offset.saturating_add(bytes) }
    }

    /// The bytes of a member.
    #[must_use]
    pub fn of(file: &'a File, member: &Member) -> Self {
        Self::new(file, member.offset, member.bytes)
    }
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let count = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The hash of all bytes of a source. `each` gets the number of bytes.
///
/// # Errors
/// It cannot be read.
pub fn hash_of(mut source: impl Read, each: &mut dyn FnMut(u64)) -> io::Result<Hash> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(Hash(hasher.finalize().into())),
            Ok(count) => {
                hasher.write_all(&buffer[..count])?;
                each(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
