//! Choices that a test prints the seed of, so that a failure can be tried again, and how many of them it makes.

use std::time::{SystemTime, UNIX_EPOCH};

/// A sequence of numbers that look random (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `QUIPU_SEED`, else from the clock; printed either way.
    pub(crate) fn announced(test: &str) -> Self {
        let given =
            std::env::var("QUIPU_SEED").ok().map(|seed| seed.parse().expect("QUIPU_SEED is a number"));
        let clock =
            || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos().into();
        let seed = given.unwrap_or_else(clock);
        println!("{test}: QUIPU_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to and without `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// How often a test kills: a part of what `QUIPU_KILLS` says, or as many as fit into a test.
pub(crate) fn kills(usual: u64, part_of_all: u64) -> u64 {
    let all =
        std::env::var("QUIPU_KILLS").ok().map(|kills| kills.parse::<u64>().expect("QUIPU_KILLS is a number"));
    all.map_or(usual, |all| all.div_ceil(part_of_all))
}
