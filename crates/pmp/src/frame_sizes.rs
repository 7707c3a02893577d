//! How large frames are whose start only a register tells that is not known.
//!
//! Some functions keep the address of their frame in RBP, and their unwind table refers to it. Of
//! a sleeping thread RBP is not known. But where such a function calls another one, its frame
//! mostly has the same size each time: it is learnt from threads that were stopped once, and
//! believed if what then lies at the place of the return address proves it: it must be an address
//! right behind a call of this very function.

use std::collections::HashMap;

use crate::memory::{self, Stack};
use crate::task::Tid;

/// `call rel32`: one byte and the distance.
const CALL_BYTES: u64 = 5;
const CALL: u8 = 0xe8;

/// Sizes by the address where the function calls another.
#[derive(Debug)]
pub struct FrameSizes {
    pid: Tid,
    /// Without a value: it was seen with several.
    sizes: HashMap<u64, Option<u64>>,
    /// By return address: the function that the call before it calls, if it says which.
    called: HashMap<u64, Option<u64>>,
}

impl FrameSizes {
    /// Of functions in this process.
    pub fn new(pid: Tid) -> Self {
        Self { pid, sizes: HashMap::new(), called: HashMap::new() }
    }

    /// Forgets everything: the process has mapped other files.
    pub fn forget(&mut self) {
        self.sizes.clear();
        self.called.clear();
    }

    /// At `address`, the frame was of `size` bytes.
    pub fn learn(&mut self, address: u64, size: u64) {
        let known = self.sizes.entry(address).or_insert(Some(size));
        if *known != Some(size) {
            *known = None;
        }
    }

    /// The address of the frame of the function that starts at `start`, if that is certain.
    pub fn cfa(&mut self, address: u64, start: u64, sp: u64, stack: &mut Stack) -> Option<u64> {
        let size = self.sizes.get(&address).copied().flatten()?;
        let cfa = sp.checked_add(size)?;
        let return_address = stack.word(cfa.checked_sub(8)?)?;
        let pid = self.pid;
        let called = self.called.entry(return_address).or_insert_with(|| {
            let call = return_address.checked_sub(CALL_BYTES)?;
            // No memory there: then it is no return address.
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
    fn a_size_is_believed_if_the_call_is_there() {
        let code = [CALL, 0x10, 0, 0, 0, 0x90];
        let behind = code.as_ptr() as u64 + CALL_BYTES;
        let function = behind + 0x10;
        let mut stack = Stack::of_bytes(0x1000, [[0; 8], behind.to_le_bytes()].concat());
        let mut sizes = FrameSizes::new(std::process::id() as Tid);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), None);
        sizes.learn(7, 16);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), Some(0x1010));
        // Another function; no return address there.
        assert_eq!(sizes.cfa(7, function + 1, 0x1000, &mut stack), None);
        assert_eq!(sizes.cfa(7, function, 0xff8, &mut stack), None);
        // A frame of changing size.
        sizes.learn(7, 32);
        sizes.learn(7, 16);
        assert_eq!(sizes.cfa(7, function, 0x1000, &mut stack), None);
    }

    #[test]
    fn calls_go_forwards_and_backwards() {
        assert_eq!(call_target(&[CALL, 0xfb, 0xff, 0xff, 0xff], 100), Some(95));
        assert_eq!(call_target(&[0xff, 0xd0, 0, 0, 0], 100), None);
        assert_eq!(call_target(&[], 100), None);
    }
}
