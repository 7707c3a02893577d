//! Zone: outside. The hub: keeps, verifies and searches the logs of many servers.
//!
//! | module | what it owns |
//! |---|---|
//! | [`api`] | the HTTP API: router, errors, who a request is from |
//! | [`cli`] | the command line of `tacho-hub` |
//! | [`commands`] | what the subcommands do |
//! | [`connections`] | accepts connections, with limits |
//! | [`data`] | the data directory: names, lock, permissions |
//! | [`database`] | `hub.sqlite` and its migrations |
//! | [`landing`] | receives logs into the replica |
//! | [`roles`] | who may do what |
//! | [`say`] | messages on stderr |
//! | [`state`] | what all requests share |
//! | [`tokens`] | API tokens |
//! | [`verification`] | verifies logs while they arrive |
//! | [`ui`] | the files of the web UI |
//! | [`clock`] | the time of day |

pub mod api;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod connections;
pub mod data;
pub mod database;
pub mod landing;
pub mod roles;
pub mod say;
pub mod state;
pub mod tokens;
pub mod ui;
pub mod verification;
