//! Copies of another process's memory.

use std::io::{self, IoSliceMut};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::task::Tid;

/// The unit in which the kernel reports how much it copied.
const PAGE_BYTES: usize = 4096;

/// The kernel's limit (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// How much of a stack is copied at a time when it is read on demand.
const PIECE_BYTES: usize = 8 * 1024;

/// Longest part of a stack that is read.
pub const STACK_BYTES_MAX: usize = 4 << 20;

/// Below the stack pointer a function without calls may keep 128 bytes (System V ABI, x86-64).
const RED_ZONE_BYTES: u64 = 128;

/// Copies `bytes` from `address` on; less if the memory ends before that.
///
/// # Errors
/// Permission is denied, or there is no memory at `address`.
pub fn read(pid: Tid, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut copy = vec![0; bytes.min(PIECES_MAX * PAGE_BYTES - PAGE_BYTES)];
    let end = address.saturating_add(copy.len() as u64);
    let mut pieces = Vec::with_capacity(copy.len() / PAGE_BYTES + 2);
    let mut at = address;
    while at < end {
        // To the next page boundary: a piece is copied completely or not at all.
        let next = (at / PAGE_BYTES as u64 + 1).saturating_mul(PAGE_BYTES as u64).min(end);
        pieces.push(RemoteIoVec { base: at as usize, len: (next - at) as usize });
        at = next;
    }
    let pid = Pid::from_raw(pid);
    let length = process_vm_readv(pid, &mut [IoSliceMut::new(&mut copy)], &pieces)?;
    copy.truncate(length);
    Ok(copy)
}

/// The known parts of a thread's stack.
#[derive(Debug)]
pub struct Stack {
    /// Copied pieces: start address and bytes.
    pieces: Vec<(u64, Vec<u8>)>,
    /// Where to read more, if the thread is known not to run meanwhile.
    source: Option<Tid>,
    bytes_left: usize,
}

impl Stack {
    /// Copied while the thread was stopped; nothing is read later.
    ///
    /// # Errors
    /// As [`read`].
    pub fn copied(pid: Tid, sp: u64, bytes: usize) -> io::Result<Self> {
        let start = sp.saturating_sub(RED_ZONE_BYTES);
        let piece = read(pid, start, bytes)?;
        Ok(Self { pieces: vec![(start, piece)], source: None, bytes_left: 0 })
    }

    /// Copied piece by piece on demand. The caller must check afterwards that the thread did not
    /// run.
    pub fn as_needed(pid: Tid) -> Self {
        Self { pieces: Vec::new(), source: Some(pid), bytes_left: STACK_BYTES_MAX }
    }

    #[cfg(test)]
    pub(crate) fn of_bytes(start: u64, bytes: Vec<u8>) -> Self {
        Self { pieces: vec![(start, bytes)], source: None, bytes_left: 0 }
    }

    /// The word at `address`, if it is known or can be read.
    pub fn word(&mut self, address: u64) -> Option<u64> {
        if let Some(word) = self.pieces.iter().rev().find_map(|piece| word_in(piece, address)) {
            return Some(word);
        }
        let pid = self.source?;
        let bytes = PIECE_BYTES.min(self.bytes_left);
        self.bytes_left -= bytes;
        // Without memory there is no word.
        let piece = (address, read(pid, address, bytes).ok()?);
        let word = word_in(&piece, address);
        self.pieces.push(piece);
        word
    }
}

fn word_in((start, bytes): &(u64, Vec<u8>), address: u64) -> Option<u64> {
    let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
    let word = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_up_to_the_end_of_the_memory() {
        let pid = std::process::id() as Tid;
        let text = b"somewhere in our own memory".to_vec();
        let copy = read(pid, text.as_ptr() as u64, text.len()).expect("a copy");
        assert_eq!(copy, text);
        assert!(read(pid, 8, 8).is_err());
    }

    #[test]
    fn words_are_found_in_pieces_only() {
        let mut stack = Stack::of_bytes(0x1000, vec![1; 16]);
        assert_eq!(stack.word(0x1008), Some(0x0101_0101_0101_0101));
        assert_eq!(stack.word(0x1009), None);
        assert_eq!(stack.word(0xfff), None);
        assert_eq!(stack.word(u64::MAX), None);
    }
}
