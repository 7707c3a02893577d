//! Why a request was refused.

use std::io;

use tacho_ship::protocol::{Code, ErrorBody};

use crate::api::ApiError;
use crate::say::say;

/// Why a request was refused. What was acknowledged before is not affected.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Another generation is the current one.
    #[error("the current generation is {generation}")]
    Generation {
        /// The current one.
        generation: u64,
    },
    /// The bytes before are missing.
    #[error("the file ends at {offset}")]
    Offset {
        /// The durable offset.
        offset: u64,
        /// The current generation.
        generation: u64,
    },
    /// Other bytes are stored.
    #[error("other bytes are stored; the file ends at {offset}")]
    Contradiction {
        /// The durable offset.
        offset: u64,
        /// The current generation.
        generation: u64,
    },
    /// Another shipper is alive.
    #[error("another shipper ({other}) sends to this origin; give one of the logs another name")]
    Busy {
        /// The current generation.
        generation: u64,
        /// The other one.
        other: String,
    },
    /// Not a request of the protocol.
    #[error("{0}")]
    BadRequest(String),
    /// The body was damaged.
    #[error("Content-Digest is not that of the body")]
    Digest,
    /// The body cannot be decompressed.
    #[error("the body is not one zstd frame: {0}")]
    BadBody(String),
    /// The body is too large.
    #[error("the body has more than {} bytes", tacho_ship::protocol::BODY_BYTES_MAX)]
    TooLarge,
    /// Too many requests.
    #[error("too many requests for this origin")]
    TooMany,
    /// Too many generations.
    #[error("too many generations began; another one may begin in {wait_s} s")]
    TooManyGenerations {
        /// Time until another one may begin, s.
        wait_s: u32,
    },
    /// The hub does not know yet which shippers are alive.
    #[error("the hub has just started: it begins generations in {wait_s} s")]
    Started {
        /// Time until then, s.
        wait_s: u32,
    },
    /// There is no memory for more bodies now.
    #[error("the hub has too many bodies to store")]
    Overload,
    /// The disk is full, up to the reserve.
    #[error("the hub's disk is full")]
    DiskFull,
    /// The disk failed.
    #[error("the hub cannot store the body")]
    Io(io::Error),
    /// The thread ended by a panic.
    #[error("the hub failed")]
    Aborted,
}

/// Pause before another try, s.
const SOON_S: u32 = 1;
const DISK_S: u32 = 30;

impl Refusal {
    /// Whether something is wrong: not an offset or a generation that a shipper simply asks for.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Offset { .. } | Self::Generation { .. })
    }

    fn code(&self) -> Code {
        match self {
            Self::Generation { .. } => Code::Generation,
            Self::Offset { .. } => Code::Offset,
            Self::Contradiction { .. } => Code::Contradiction,
            Self::Busy { .. } => Code::Busy,
            Self::BadRequest(_) => Code::BadRequest,
            Self::Digest => Code::Digest,
            Self::BadBody(_) => Code::BadBody,
            Self::TooLarge => Code::TooLarge,
            Self::TooMany | Self::TooManyGenerations { .. } => Code::TooMany,
            Self::Overload | Self::Started { .. } => Code::Unavailable,
            Self::DiskFull => Code::DiskFull,
            Self::Io(_) | Self::Aborted => Code::Internal,
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => Self::DiskFull,
            _ => Self::Io(error),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Io(error) = &refusal {
            // The cause can have paths of the hub in it: it is for the hub's operator.
            say(&format!("cannot store: {error}"));
        }
        let mut body = ErrorBody::new(refusal.code(), refusal.to_string());
        match &refusal {
            Refusal::Generation { generation } | Refusal::Busy { generation, .. } => {
                body.generation = Some(*generation);
            }
            Refusal::Offset { offset, generation }
            | Refusal::Contradiction { offset, generation } => {
                body.offset = Some(*offset);
                body.generation = Some(*generation);
            }
            _ => {}
        }
        let error = Self::from(body);
        match refusal {
            Refusal::TooManyGenerations { wait_s } | Refusal::Started { wait_s } => {
                error.retry_after(wait_s)
            }
            Refusal::TooMany | Refusal::Overload => error.retry_after(SOON_S),
            Refusal::DiskFull => error.retry_after(DISK_S),
            _ => error,
        }
    }
}
