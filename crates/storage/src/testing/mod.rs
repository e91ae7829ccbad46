//! What tests of this crate and of others need: the suite for every backend, and a disk that loses writes.

pub mod conformance;
pub mod far;
pub mod sim_disk;

/// A small seeded generator (splitmix64): the same seed gives the same run everywhere.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_u64() % limit as u64).expect("smaller than a usize")
    }
}
