//! What the subcommands do.

pub mod account;
pub mod alert;
pub mod backup;
pub mod convert;
pub mod export;
pub mod reindex;
pub mod retention;
pub mod serve;
pub mod sql;
pub mod token;
