//! Random numbers (xorshift64*): the same for every run.

/// A source of them.
pub struct Random(u64);

impl Random {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Self {
        // Similar seeds begin with similar numbers.
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below `count`, which is not 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// From `low` to `high`; small ones are more frequent.
    pub fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        let part = self.unit();
        low + ((high - low) as f64 * part * part).round() as u64
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// How often something happens that is expected `mean` times.
    pub fn times(&mut self, mean: f64) -> u64 {
        // Poisson: arrivals until the time is over.
        let (limit, mut product, mut count) = ((-mean).exp(), self.unit(), 0);
        while product > limit {
            product *= self.unit();
            count += 1;
        }
        count
    }

    /// A duration around `usual`; a few are much longer.
    pub fn duration_us(&mut self, usual: u64) -> u64 {
        let spread = 0.5 + self.unit() + self.unit() * self.unit();
        let tail = if self.below(400) == 0 { 8.0 + 30.0 * self.unit() } else { 1.0 };
        (usual as f64 * spread * tail) as u64
    }
}
