//! What an operator has to know about shipping.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use tacho_chain::verify::read_checkpoint;
use tacho_ship::protocol::answers::{Contradiction, NewGeneration};
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
        /// The newest checkpoint of the former generation with a good signature, as far as it was
        /// verified.
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

/// Whether what a shipper contradicts is certainly under a signed checkpoint. Then the log on the
/// host was changed; otherwise a power failure of the host may have had the same effect.
#[must_use]
pub fn is_signed(request: &NewGeneration, checkpoint: Option<&str>) -> bool {
    let Some(Ok(checkpoint)) = checkpoint.map(read_checkpoint) else { return false };
    let Some(stem) = request.file.stem() else { return false };
    match stem.as_str().cmp(checkpoint.file.trim_end_matches(".jsonl")) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => {
            // Where in the file it differs is not known, except that it is before the hub's offset.
            let is_lines = matches!(request.file, FileName::Lines(_));
            request.reason == Contradiction::Missing
                || is_lines && request.offset <= checkpoint.offset
        }
    }
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
            Self::Fork { request, generation, checkpoint, .. } => write!(
                f,
                "the log on the host contradicts the copy here ({}: {} at {}), {}; generation \
                 {generation} begins, the former one is kept",
                request.file,
                request.reason,
                request.offset,
                if is_signed(request, checkpoint.as_deref()) {
                    "under a signed checkpoint: it was changed"
                } else {
                    "perhaps behind the newest signed checkpoint: a power failure of the host has the \
                     same effect as a change"
                }
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_contradiction_is_compared_with_the_newest_checkpoint() {
        let stem = |number: u32| format!("audit-20261121T100000Z-{number:06}");
        let bytes = |count: usize| STANDARD.encode(vec![0; count]);
        let origin = "tachograph/0123456789abcdef";
        let checkpoint = format!(
            "{origin}\n7\n{}\ntime 1\nfile {}.jsonl\noffset 100\nreason rotate\n\n\
             \u{2014} {origin} {}\n",
            bytes(32),
            stem(2),
            bytes(68)
        );
        let is = |file: String, reason, offset| {
            let request = NewGeneration { after: 1, reason, file: file.parse().unwrap(), offset };
            assert!(!is_signed(&request, None));
            is_signed(&request, Some(&checkpoint))
        };
        let lines = |number| format!("{}.jsonl", stem(number));
        assert!(is(lines(1), Contradiction::Shorter, 500));
        assert!(is(lines(2), Contradiction::Shorter, 100));
        assert!(!is(lines(2), Contradiction::Shorter, 101));
        assert!(is(lines(2), Contradiction::Missing, 101));
        assert!(!is(lines(3), Contradiction::Missing, 1));
        assert!(!is(format!("{}.chain", stem(2)), Contradiction::Different, 1));
        assert!(is(format!("{}.chain", stem(1)), Contradiction::Different, 1));
        assert!(!is("removed.chain".to_owned(), Contradiction::Shorter, 1));
    }
}
