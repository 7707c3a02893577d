//! Loom models of the lock-free parts.
