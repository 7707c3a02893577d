//! Zone: outside. From a log directory to receivers.
//!
//! | module | feature | what it owns |
//! |---|---|---|
//! | [`hub`] | `hub` | the client of a hub |
//! | [`protocol`] | | what shipper and hub say to each other: `docs/specs/ship.md` as types |
//! | [`position`] | `syslog` | how far a log was handed on, and where the next run continues |
//! | [`syslog`] | `syslog` | messages to a syslog server |
//! | [`source`] | `source` | the bytes of a log directory that can be shipped |
//! | [`tls`] | `hub`, `syslog` | certificates of receivers |
//! | [`report`], [`words`], [`small_file`] | | helpers of the others and of the command |

#[cfg(feature = "hub")]
pub mod hub;
#[cfg(feature = "syslog")]
pub mod position;
pub mod protocol;
pub mod report;
pub mod small_file;
#[cfg(feature = "source")]
pub mod source;
#[cfg(feature = "syslog")]
pub mod syslog;
#[cfg(any(feature = "hub", feature = "syslog"))]
pub mod tls;
pub mod words;
