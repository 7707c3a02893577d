//! What an operator has to know about shipping.

use std::fmt;
use std::sync::Arc;

use tacho_ship::protocol::answers::NewGeneration;
use tacho_ship::protocol::{FileName, Origin};

/// Called for every incident, from any thread. Must not block.
pub type OnIncident = Arc<dyn Fn(Incident) + Send + Sync>;

/// Something that an operator has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A shipper has sent other bytes than those that are stored.
    Contradiction {
        /// The origin.
        origin: Origin,
        /// The generation.
        generation: u64,
        /// The file.
        file: FileName,
        /// The end of what is stored.
        offset: u64,
    },
    /// A log directory contradicts its replica, and another generation has begun.
    Fork {
        /// The origin.
        origin: Origin,
        /// What the shipper has found.
        request: NewGeneration,
        /// The new generation.
        generation: u64,
        /// The newest checkpoint of the former generation.
        checkpoint: Option<String>,
    },
    /// Two shippers send to one origin.
    TwoShippers {
        /// The origin.
        origin: Origin,
        /// The other shipper: host, or instance.
        other: String,
    },
    /// A file of the replica is shorter than what was acknowledged.
    ReplicaCut {
        /// The origin.
        origin: Origin,
        /// The file.
        file: FileName,
        /// What was acknowledged.
        offset: u64,
        /// What is there.
        length: u64,
    },
}

impl Incident {
    /// The origin.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Contradiction { origin, .. }
            | Self::Fork { origin, .. }
            | Self::TwoShippers { origin, .. }
            | Self::ReplicaCut { origin, .. } => origin,
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin())?;
        match self {
            Self::Contradiction { file, offset, .. } => {
                write!(f, "the shipper sends other bytes of {file} than the {offset} stored ones")
            }
            Self::Fork { request, generation, .. } => write!(
                f,
                "the log on the host contradicts the copy here ({}: {} at {}); generation \
                 {generation} begins, the former one is kept",
                request.file, request.reason, request.offset
            ),
            Self::TwoShippers { other, .. } => write!(
                f,
                "two shippers with different logs send to this server; the other one is {other}"
            ),
            Self::ReplicaCut { file, offset, length, .. } => write!(
                f,
                "the replica of {file} has {length} bytes, {offset} were acknowledged: it was cut; \
                 the shipper sends the rest again"
            ),
        }
    }
}
