//! What the subcommands do.

pub mod reindex;
pub mod serve;
pub mod sql;
pub mod token;
