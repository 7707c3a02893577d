//! Zone: outside. Private database servers, connections to any server, and loads.
//!
//! The benchmark, the tests and `make run` use it. Database servers do not load this crate, and it
//! is not installed on their hosts, except [`client`], with which the `tacho` command reaches a
//! server.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | a private MariaDB or MySQL in its own directory, with its own socket and port, which can be killed and restarted |
//! | [`installation`] | the programs and libraries of one server release |
//! | [`dialect`] | where MariaDB and MySQL differ: statements and names |
//! | [`plugin`] | finds the libraries that a server loads: plugins and components |
//! | [`client`] | a connection, its variables and status variables |
//! | [`sysbench`] | the load, and what it reports |
//!
//! Errors are `anyhow` errors: their only reader is the user of the command.

pub mod client;
pub mod dialect;
pub mod installation;
pub mod plugin;
pub mod server;
mod stacks;
pub mod sysbench;
mod template;
