//! Where everything is in a file:
//!
//! ```text
//! magic | frame | frame | … | dictionary, compressed | bytes of each frame | footer
//! ```

use twox_hash::XxHash3_64;

/// Content of a frame, bytes. The last frame has less.
pub const CONTENT_BYTES: usize = 1 << 20;
/// Frames of a file. It bounds the memory for their lengths, whatever the file says.
pub(crate) const FRAMES_MAX: u64 = 1 << 20;
/// Content of a file, bytes.
pub const LENGTH_MAX: u64 = FRAMES_MAX * CONTENT_BYTES as u64;

/// Begins a file.
pub(crate) const MAGIC: [u8; 8] = *b"\xF1tcol\0\0\x01";
/// Ends a file.
pub(crate) const END_MAGIC: [u8; 8] = *b"\x01\0\0tcol\xF1";
/// Bytes of the length of a frame in the table.
pub(crate) const ENTRY_BYTES: u64 = 4;
pub(crate) const FOOTER_BYTES: usize = 44;
/// A frame begins with its checksum and its form.
pub(crate) const FRAME_HEAD_BYTES: usize = 9;
/// A frame is never longer: content that would be is stored as it is.
pub(crate) const FRAME_BYTES_MAX: usize = FRAME_HEAD_BYTES + 1 + CONTENT_BYTES;

/// Forms of a frame.
pub(crate) const COLUMNS: u8 = 0;
pub(crate) const WHOLE: u8 = 1;

/// The numbers at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Bytes of the dictionary in the file.
    pub(crate) dictionary_stored: u32,
    /// Bytes of the dictionary.
    pub(crate) dictionary_bytes: u32,
    pub(crate) dictionary_checksum: u64,
    pub(crate) frames: u32,
    /// Bytes of the content.
    pub(crate) length: u64,
}

impl Footer {
    /// Its bytes, with a checksum of the table and of the numbers.
    pub(crate) fn to_bytes(self, table: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(table.len() + FOOTER_BYTES);
        out.extend_from_slice(table);
        out.extend_from_slice(&self.dictionary_stored.to_le_bytes());
        out.extend_from_slice(&self.dictionary_bytes.to_le_bytes());
        out.extend_from_slice(&self.dictionary_checksum.to_le_bytes());
        out.extend_from_slice(&self.frames.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
        out
    }

    /// None: it is not a footer.
    pub(crate) fn parse(bytes: &[u8; FOOTER_BYTES]) -> Option<Self> {
        if bytes[FOOTER_BYTES - END_MAGIC.len()..] != END_MAGIC {
            return None;
        }
        Some(Self {
            dictionary_stored: u32::try_from(number(&bytes[..4])).ok()?,
            dictionary_bytes: u32::try_from(number(&bytes[4..8])).ok()?,
            dictionary_checksum: number(&bytes[8..16]),
            frames: u32::try_from(number(&bytes[16..20])).ok()?,
            length: number(&bytes[20..28]),
        })
    }
}

/// The checksum of the content of a frame. It has the number of the frame in it, so that a frame in
/// the place of another one is noticed.
pub(crate) fn checksum(frame: usize, content: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(frame as u64, content)
}

/// A number of at most eight bytes, the lowest first.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_is_read_back() {
        let footer = Footer {
            dictionary_stored: 1,
            dictionary_bytes: 2,
            dictionary_checksum: 3 << 60,
            frames: 4,
            length: 5 << 40,
        };
        let bytes = footer.to_bytes(b"");
        assert_eq!(Footer::parse(bytes[..].try_into().unwrap()), Some(footer));
        assert_eq!(Footer::parse(&[0; FOOTER_BYTES]), None);
    }
}
