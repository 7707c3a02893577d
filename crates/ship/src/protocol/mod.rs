//! The protocol of shipping, as types: `docs/specs/ship.md` is the normative text.
//!
//! Shipper and hub both use this module, so it depends on nothing that only one of them needs: no
//! HTTP library, no TLS, no runtime.
//!
//! | module | what it owns |
//! |---|---|
//! | [`names`] | names of origins and of files, and the paths of requests |
//! | [`digest`] | the fields `Content-Digest` and `Tacho-Before` |
//! | [`activity`] | what a database server is doing |
//! | [`answers`] | JSON of requests and answers |
//! | [`errors`] | codes of errors, their status, and what a shipper does then |

pub mod activity;
pub mod answers;
pub mod digest;
pub mod errors;
pub mod names;

pub use activity::{Activity, Process};
pub use answers::{
    FileState, Heartbeat, HeartbeatAnswer, Hints, NewGeneration, OriginState, Problem, Stored,
};
pub use digest::{Before, ContentDigest};
pub use errors::{Code, ErrorBody};
pub use names::{FileName, Origin, Stem};

/// Version of the protocol, as in [`OriginState::protocol`].
pub const VERSION: u32 = 1;

/// Random name of a shipper's process: [`names::is_instance`].
pub const INSTANCE_HEADER: &str = "tacho-instance";
/// Digest of the bytes before the offset: [`Before`].
pub const BEFORE_HEADER: &str = "tacho-before";
/// Digest of the body as it is sent: [`ContentDigest`].
pub const DIGEST_HEADER: &str = "content-digest";
/// The only content coding.
pub const ENCODING: &str = "zstd";
/// Type of the body of a `PUT`.
pub const CONTENT_TYPE: &str = "application/octet-stream";

/// Largest body of a `PUT`, bytes, as it is sent and also decompressed.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Largest window of a compressed body, as a power of two: 8 MiB.
pub const WINDOW_LOG_MAX: u32 = 23;
/// Largest JSON that a shipper sends, bytes.
pub const REQUEST_JSON_BYTES_MAX: usize = 64 << 10;
/// Largest JSON that a hub sends, bytes. A file has at most 120.
pub const ANSWER_JSON_BYTES_MAX: usize = 64 << 20;
/// Most bytes that [`Before`] covers.
pub const BEFORE_BYTES: u64 = 4096;
/// Most problems in a [`Heartbeat`].
pub const PROBLEMS_MAX: usize = 20;

/// Default of [`Hints::batch_bytes`].
pub const BATCH_BYTES: u32 = 1 << 20;
/// Default of [`Hints::batch_ms`].
pub const BATCH_MS: u32 = 200;
/// Default of [`Hints::heartbeat_s`].
pub const HEARTBEAT_S: u32 = 10;
/// A shipper that was not heard of for so many heartbeats is gone.
pub const HEARTBEATS_MISSED: u32 = 3;
