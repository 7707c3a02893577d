//! Records that wait for others of their connection.

use crate::drain::{Head, Ref};

/// A record that is not due yet.
#[derive(Debug)]
pub(super) struct Stashed {
    pub(super) head: Head,
    pub(super) at: Ref,
    pub(super) pass: u64,
}

/// Counts over all connections: usually zero, and then no search is needed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stashed: usize,
    pub(super) loose: usize,
    pub(super) partials: usize,
}
