//! What the subcommands do.

pub mod account;
pub mod serve;
pub mod token;
