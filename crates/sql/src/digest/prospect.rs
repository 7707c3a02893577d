//! Whether a lookup in the cache is worthwhile.
//!
//! On a server that executes few shapes of statements, nearly every lookup succeeds; if each
//! statement has its own shape (generated names of tables), none does, and each costs time. So
//! after many failed lookups only a few are made, until one succeeds.

/// Failed lookups in a row before they become few.
const PATIENCE: u32 = 64;
/// Then one in so many texts is looked up: repeated texts are soon found, and lookups cost little.
const STRIDE: u32 = 16;

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prospect {
    /// Texts since the last known one.
    vain: u32,
}

impl Prospect {
    /// Whether to look up the current text.
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
    fn lookups_become_few_until_one_succeeds() {
        let mut prospect = Prospect::default();
        let mut asked = |texts| (0..texts).filter(|_| prospect.is_good()).count();
        assert_eq!(asked(PATIENCE), PATIENCE as usize);
        assert_eq!(asked(10 * STRIDE), 10);
        prospect.found();
        assert!((0..PATIENCE).all(|_| prospect.is_good()));
        // The counter wraps, and lookups continue.
        let mut prospect = Prospect { vain: u32::MAX - 1 };
        assert!((0..=STRIDE).any(|_| prospect.is_good()));
    }
}
