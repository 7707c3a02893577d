//! TCP: from segments to bytes in order.

pub mod half;
