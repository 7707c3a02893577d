//! Producer and consumer against each other, over an arena in ordinary memory.
//!
//! | module | question |
//! |---|---|
//! | [`round_trip`] | does every event come out as it went in, whatever its size? |
//! | [`stress`] | many threads, a small arena: is every record accepted or counted as lost? |
//! | [`death`] | what does a thread that dies in the middle of a record take with it? |
//! | [`errors`] | is an error stored without a wait? |
//! | [`hostile`] | does untrusted memory harm the reader? |

mod damage;
mod death;
mod errors;
mod heap;
mod hostile;
mod reader;
mod round_trip;
mod stress;
