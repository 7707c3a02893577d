//! Zone: outside (and the embedded writer thread).
//!
//! From the arena to files that can be trusted.
//!
//! | module | what it owns |
//! |---|---|
//! | [`files`] | the log directory: append, rotate, survive faults, repair after a crash |

pub mod files;
