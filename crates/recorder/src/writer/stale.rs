//! Parts that must look at the files again.

/// Parts that must look at the files again soon, because another part has changed them.
#[derive(Clone, Copy, Default)]
pub(super) struct Stale {
    pub(super) packing: bool,
    pub(super) retention: bool,
    pub(super) inventory: bool,
}
