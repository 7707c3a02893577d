//! How far a log was handed on, and where the next run continues.
//!
//! | module | what it owns |
//! |---|---|
//! | [`order`] | numbers of lines: known, missing, of another log |
//! | [`resume`] | the line that was handed on last, found again in the log |
//! | [`state`] | the file that stores the position |

pub mod order;
pub mod resume;
pub mod state;
