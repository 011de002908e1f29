//! Numbers that look random, from a seed that the owner draws: the same seed, the same numbers.

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and good enough to shake a protocol or to set
/// a trap in one. Not for keys.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of numbers that `seed` stands for.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one part of a simulation, so that parts do not disturb each other.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, so it is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero when `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number in 0.0..1.0.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in this share of cases.
    pub fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.share() < share
    }

    /// Exponentially distributed around `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }
}
