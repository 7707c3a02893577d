//! Where the segments of tests come from.

// Each test file uses only a part of this.
#![allow(dead_code)]

pub mod packet_file;
pub mod wire;
