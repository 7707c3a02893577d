//! Packet files: pcap and pcapng, as tcpdump and Wireshark write them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapHeader, create_reader};

use crate::link::Link;

/// Why a packet file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is not a packet file, or is damaged.
    #[error("cannot read {}: {what}; a file of tcpdump (pcap or pcapng) is needed", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// A frame of a file.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'f> {
    /// How to read it. `None`: the link type is not supported.
    pub link: Option<Link>,
    /// When it was captured, µs since 1970-01-01 UTC.
    pub ts_us: i64,
    /// Its captured bytes.
    pub bytes: &'f [u8],
    /// How many bytes it had.
    pub frame_bytes: usize,
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a whole packet.
    Whole,
    /// Within a packet: its writer was stopped.
    Torn,
}

/// The largest block of a file, bytes; frames have at most 256 KiB.
const BUFFER_BYTES: usize = 4 << 20;

/// The interface of a pcapng file.
#[derive(Clone, Copy)]
struct Interface {
    link: Option<Link>,
    /// Ticks in a second.
    resolution: u64,
    offset_s: i64,
}

/// What the file has said so far.
#[derive(Default)]
struct Context {
    pcap: Option<PcapHeader>,
    interfaces: Vec<Interface>,
}

impl Context {
    fn frame<'f>(&mut self, block: &'f PcapBlockOwned<'f>) -> Option<Frame<'f>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.pcap = Some(header.clone());
                None
            }
            PcapBlockOwned::Legacy(block) => {
                let header = self.pcap.as_ref()?;
                let fraction = i64::from(block.ts_usec);
                let is_nano = header.is_nanosecond_precision();
                let us = if is_nano { fraction / 1_000 } else { fraction };
                Some(Frame {
                    link: u32::try_from(header.network.0).ok().and_then(Link::of_number),
                    ts_us: i64::from(block.ts_sec) * 1_000_000 + us,
                    bytes: block.data,
                    frame_bytes: block.origlen as usize,
                })
            }
            PcapBlockOwned::NG(block) => self.frame_of_ng(block),
        }
    }

    fn frame_of_ng<'f>(&mut self, block: &'f Block<'f>) -> Option<Frame<'f>> {
        match block {
            // Each section has interfaces of its own.
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(description) => self.interfaces.push(Interface {
                link: u32::try_from(description.linktype.0).ok().and_then(Link::of_number),
                resolution: description.ts_resolution().unwrap_or(1_000_000).max(1),
                offset_s: description.ts_offset(),
            }),
            Block::EnhancedPacket(packet) => {
                let interface = *self.interfaces.get(packet.if_id as usize)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return Some(Frame {
                    link: interface.link,
                    ts_us: time_us(ticks, interface),
                    bytes: packet.data.get(..packet.caplen as usize).unwrap_or(packet.data),
                    frame_bytes: packet.origlen as usize,
                });
            }
            // Packets without a time cannot become records.
            _ => {}
        }
        None
    }
}

fn time_us(ticks: u64, interface: Interface) -> i64 {
    let us = u128::from(ticks) * 1_000_000 / u128::from(interface.resolution);
    let us = i64::try_from(us).unwrap_or(i64::MAX);
    us.saturating_add(interface.offset_s.saturating_mul(1_000_000))
}

/// Passes each frame of a file to `each`, in the order of the file, until that returns an error.
///
/// # Errors
/// The file cannot be read (`-` is stdin), or an error of `each`.
pub fn read<E: From<FileError>>(
    path: &Path,
    mut each: impl FnMut(Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    let io = |error| FileError::Io { path: path.to_owned(), error };
    let format = |what: String| FileError::Format { path: path.to_owned(), what };
    let input: Box<dyn Read + Send> = match path.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(path).map_err(io)?),
    };
    let mut reader = create_reader(BUFFER_BYTES, input).map_err(|error| match error {
        PcapError::Eof => format("the file is empty".to_owned()),
        PcapError::ReadError => io(io::Error::other("reading failed")),
        _ => format("it is neither pcap nor pcapng".to_owned()),
    })?;
    frames(&mut *reader, &format, &mut each)
}

fn frames<E: From<FileError>>(
    reader: &mut dyn PcapReaderIterator,
    format: &dyn Fn(String) -> FileError,
    each: &mut dyn FnMut(Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    let mut context = Context::default();
    loop {
        match reader.next() {
            Ok((bytes, block)) => {
                if let Some(frame) = context.frame(&block) {
                    each(frame)?;
                }
                // `refill` moves the rest; `consume` would also move half of the buffer each time.
                reader.consume_noshift(bytes);
            }
            Err(PcapError::Eof) => return Ok(End::Whole),
            Err(PcapError::UnexpectedEof) => return Ok(End::Torn),
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() {
                    return Ok(End::Torn);
                }
                reader.refill().map_err(|error| format(format!("{error:?}")))?;
            }
            Err(error) => {
                let what = match error {
                    PcapError::BufferTooSmall => "a block is too large".to_owned(),
                    PcapError::NomError(_, kind) | PcapError::OwnedNomError(_, kind) => {
                        format!("damaged block ({kind:?})")
                    }
                    other => format!("{other:?}"),
                };
                return Err(format(what).into());
            }
        }
    }
}
