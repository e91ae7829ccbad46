//! A small seeded generator. Not for secrets.

/// SplitMix64 ("Fast splittable pseudorandom number generators", Steele, Lea and Flood): eight bytes of
/// state, the same numbers on every machine and in every version of this crate.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// A generator of its own for `purpose`, so that drawing more for one purpose does not shift another.
    pub fn stream(seed: u64, purpose: &str) -> Self {
        Random { state: xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), seed) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "there is no number below zero");
        let scaled = (u128::from(self.bits()) * end as u128) >> 64;
        usize::try_from(scaled).expect("less than end")
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of these, which are not none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Puts them in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
