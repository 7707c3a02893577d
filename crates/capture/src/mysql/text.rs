//! The text of a command, in memory or in a file.

use std::ops::Deref;
use std::sync::{Arc, MutexGuard};

use super::frame::{Kept, Message};
use crate::spool::Spooled;

/// A text.
#[derive(Debug)]
pub enum Text {
    /// In memory.
    InMemory(Vec<u8>),
    /// A part of a command in a file.
    InFile {
        /// The command.
        file: Arc<Spooled>,
        /// Where the text begins.
        start: usize,
        /// Where it ends.
        end: usize,
    },
}

impl Text {
    /// A part of the bytes of a message.
    pub fn of(text: &[u8], message: &Message<'_>) -> Text {
        let Kept::InFile(file) = message.kept else { return Text::InMemory(text.to_vec()) };
        let start = text.as_ptr().addr().wrapping_sub(message.bytes.as_ptr().addr());
        Text::InFile { file: Arc::clone(file), start, end: start.wrapping_add(text.len()) }
    }

    /// Memory that it holds, bytes.
    pub fn held_bytes(&self) -> usize {
        if let Text::InMemory(bytes) = self { bytes.len() } else { 0 }
    }

    /// Bytes of the file that it holds.
    pub fn file_bytes(&self) -> u64 {
        if let Text::InFile { file, .. } = self { file.len() as u64 } else { 0 }
    }

    /// Of a file: the turn to pass it on ([`Spooled::turn`]).
    pub fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        if let Text::InFile { file, .. } = self { Some(file.turn()) } else { None }
    }

    /// In memory in any case.
    pub fn into_memory(self) -> Vec<u8> {
        if let Text::InMemory(bytes) = self { bytes } else { self.to_vec() }
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::InMemory(bytes) => bytes,
            Text::InFile { file, start, end } => file.get(*start..*end).unwrap_or_default(),
        }
    }
}
