//! Zone: outside. From a log directory to receivers.
//!
//! | module | what it owns |
//! |---|---|
//! | [`protocol`] | what shipper and hub say to each other: `docs/specs/ship.md` as types |

pub mod protocol;
