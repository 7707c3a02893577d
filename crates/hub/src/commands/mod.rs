//! What the subcommands do.

pub mod serve;
pub mod token;
