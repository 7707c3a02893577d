//! Zone: outside.
