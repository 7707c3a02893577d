//! Ships a log directory to a hub: `docs/specs/ship.md`.
//!
//! The client blocks, and has one thread and one connection. It keeps nothing: after a start it
//! asks the hub where to continue.
//!
//! | module | what it owns |
//! |---|---|
//! | [`address`] | where the hub is |
//! | [`client`] | requests and answers |
//! | [`pace`] | pauses: back-off, `Retry-After`, most bytes per second |
//! | `outage` | messages about a hub that accepts no data |
//! | `copy` | the state of the hub's copy, and the search for contradictions |
//! | `settle` | differences between the log directory and the hub's copy |
//! | `beat` | heartbeats |
//! | `cache` | the file of `--state` |
//! | `shipped` | the line in `.shipped`, for which retention on this machine waits |
//! | [`shipper`] | the loop |

pub mod address;
mod beat;
mod cache;
pub mod client;
mod copy;
mod outage;
pub mod pace;
mod settle;
mod shipped;
pub mod shipper;

pub use address::Address;
pub use client::{Client, ClientError, Options as ClientOptions};
pub use shipper::{Check, LatestActivity, Options, Shipper, Verdict};
