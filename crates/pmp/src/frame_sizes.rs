//! Sizes of frames whose start is in a register with an unknown value.
//!
//! Some functions keep the address of their frame in RBP, and their unwind table refers to it. The
//! RBP of a sleeping thread is unknown. But when such a function calls another one, its frame
//! usually has the same size each time: the size is learnt from threads that were stopped once, and
//! used if the presumed return address confirms it: it must be an address right after a call of
//! this very function.

use std::collections::HashMap;

use crate::memory::{self, Stack};
use crate::task::Tid;

/// `call rel32`: one byte and the displacement.
const CALL_BYTES: u64 = 5;
const CALL: u8 = 0xe8;

/// Sizes by the address of the call.
#[derive(Debug)]
pub struct FrameSizes {
    pid: Tid,
    /// `None`: several sizes were observed.
    sizes: HashMap<u64, Option<u64>>,
    /// By return address: the function that the call before it calls, if the call is direct.
    called: HashMap<u64, Option<u64>>,
}

impl FrameSizes {
    /// For functions in this process.
    pub fn new(pid: Tid) -> Self {
        Self { pid, sizes: HashMap::new(), called: HashMap::new() }
    }

    /// Forgets everything, because the process has mapped other files.
    pub fn forget(&mut self) {
        self.sizes.clear();
        self.called.clear();
    }

    /// Records that the frame at `address` had `size` bytes.
    pub fn learn(&mut self, address: u64, size: u64) {
        let known = self.sizes.entry(address).or_insert(Some(size));
        if *known != Some(size) {
            *known = None;
        }
    }

    /// The address of the frame of the function that starts at `start`, if it is certain.
    pub fn cfa(&mut self, address: u64, start: u64, sp: u64, stack: &mut Stack) -> Option<u64> {
        let size = self.sizes.get(&address).copied().flatten()?;
        let cfa = sp.checked_add(size)?;
        let return_address = stack.word(cfa.checked_sub(8)?)?;
        let pid = self.pid;
        let called = self.called.entry(return_address).or_insert_with(|| {
            let call = return_address.checked_sub(CALL_BYTES)?;
            // No memory there: then it is not a return address.
            call_target(&memory::read(pid, call, CALL_BYTES as usize).ok()?, return_address)
        });
        (*called == Some(start)).then_some(cfa)
    }
}

fn call_target(code: &[u8], behind: u64) -> Option<u64> {
    let [CALL, a, b, c, d] = *code else { return None };
    Some(behind.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_used_if_the_call_is_there() {
        let code = [CALL, 0x10, 0, 0, 0, 0x90];
        let behind = code.as_ptr() as u64 + CALL_BYTES;
        let function = behind + 0x10;
        let mut stack = Stack::of_bytes(0x1000, [[0; 8], behind.to_le_bytes()].concat());
        let mut sizes = FrameSizes::new(std::process::id() as Tid);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), None);
        sizes.learn(7, 16);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), Some(0x1010));
        // Another function; no return address.
        assert_eq!(sizes.cfa(7, function + 1, 0x1000, &mut stack), None);
        assert_eq!(sizes.cfa(7, function, 0xff8, &mut stack), None);
        // A frame of varying size.
        sizes.learn(7, 32);
        sizes.learn(7, 16);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), None);
    }

    #[test]
    fn calls_forwards_and_backwards_are_recognised() {
        assert_eq!(call_target(&[CALL, 0xfb, 0xff, 0xff, 0xff], 100), Some(95));
        assert_eq!(call_target(&[0xff, 0xd0, 0, 0, 0], 100), None);
        assert_eq!(call_target(&[], 100), None);
    }
}
