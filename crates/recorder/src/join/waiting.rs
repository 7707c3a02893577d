//! Records that wait for others of their connection.

use crate::drain::{Head, Ref};

/// A record whose turn has not come.
#[derive(Debug)]
pub(super) struct Stashed {
    pub(super) head: Head,
    pub(super) at: Ref,
    pub(super) pass: u64,
}

/// What is kept of all connections together: mostly nothing, and then nobody has to search.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stashed: usize,
    pub(super) loose: usize,
    pub(super) partials: usize,
}
