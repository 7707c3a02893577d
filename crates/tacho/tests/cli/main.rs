//! Runs the built command on log directories and arenas that the tests create.

mod arena;
mod bounds;
mod capture;
mod capture_check;
mod capture_kernel;
mod capture_live;
mod capture_threads;
mod convert;
mod digest;
mod follow;
mod messages;
mod options;
mod planted;
mod pmp;
mod recorder;
mod recover;
mod report;
mod report_views;
mod server;
mod ship;
mod status;
mod support;
mod syslog;
mod tail;
mod verify;
