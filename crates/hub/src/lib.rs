//! Zone: outside. The hub: keeps, verifies and searches the logs of many servers.
//!
//! | module | what it owns |
//! |---|---|
//! | [`accounts`] | accounts of people, sessions, the first sign-in |
//! | [`alerts`] | alerts of the hub itself |
//! | [`api`] | the HTTP API: router, errors, who a request is from |
//! | [`audit`] | the hub's own log: what people do with the hub |
//! | [`backup`] | copies of the data directory of a running hub |
//! | [`cli`] | the command line of `tacho-hub` |
//! | [`commands`] | what the subcommands do |
//! | [`compression`] | compresses log files of the replica that are complete |
//! | [`convert`] | a log as one Parquet file or SQLite database |
//! | [`data`] | the data directory: names, lock, permissions |
//! | [`database`] | `hub.sqlite` and its migrations |
//! | [`export`] | evidence bundles of what a search finds |
//! | [`hub_key`] | the hub's own key |
//! | [`index`] | the index of records, and queries over it |
//! | [`landing`] | receives logs into the replica |
//! | [`listener`] | connections: TLS, limits |
//! | [`local`] | log directories of this machine |
//! | [`new_file`] | a file that a command makes |
//! | [`retention`] | removes old log files, and their rows from the index |
//! | [`roles`] | who may do what |
//! | [`say`] | messages on stderr |
//! | [`state`] | what all requests share |
//! | [`tokens`] | API tokens |
//! | [`verification`] | verifies logs while they arrive |
//! | [`ui`] | the files of the web UI |
//! | [`worker`] | threads that work until they are dropped |
//! | [`clock`] | the time of day |

pub mod accounts;
pub mod alerts;
pub mod api;
pub mod audit;
pub mod backup;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod compression;
pub mod convert;
pub mod data;
pub mod database;
pub mod export;
pub mod hub_key;
pub mod index;
pub mod landing;
pub mod listener;
pub mod local;
pub mod manual;
pub mod new_file;
pub mod retention;
pub mod roles;
pub mod say;
pub mod state;
pub mod tokens;
pub mod ui;
pub mod verification;
pub mod worker;
