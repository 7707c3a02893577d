//! Runs the built command on log directories that the tests make.

mod follow;
mod support;
mod tail;
