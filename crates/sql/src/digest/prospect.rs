//! Whether it pays to ask what came of a text before.
//!
//! A server that executes few shapes of statements answers nearly every such question; one where
//! each statement has a shape of its own (generated names of tables) answers none, and pays for
//! asking. So after many questions in vain few are asked, until one is answered.

/// Questions in vain, one after the other, before they become few.
const PATIENCE: u32 = 64;
/// Then one in so many texts is asked for: what comes again is found soon, and asking costs little.
const STRIDE: u32 = 16;

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prospect {
    /// Texts since the last that was known.
    vain: u32,
}

impl Prospect {
    /// Whether to ask for the text that comes now.
    #[inline]
    pub(crate) fn is_good(&mut self) -> bool {
        self.vain = self.vain.wrapping_add(1);
        self.vain <= PATIENCE || self.vain.is_multiple_of(STRIDE)
    }

    /// A text was known.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.vain = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_few_until_one_is_answered() {
        let mut prospect = Prospect::default();
        let mut asked = |texts| (0..texts).filter(|_| prospect.is_good()).count();
        assert_eq!(asked(PATIENCE), PATIENCE as usize);
        assert_eq!(asked(10 * STRIDE), 10);
        prospect.found();
        assert!((0..PATIENCE).all(|_| prospect.is_good()));
        // It counts round and round, and goes on asking.
        let mut prospect = Prospect { vain: u32::MAX - 1 };
        assert!((0..=STRIDE).any(|_| prospect.is_good()));
    }
}
