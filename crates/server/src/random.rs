//! Numbers that nobody outside can know, from what the operating system gives every process.

use std::hash::{BuildHasher, RandomState};

/// Any number.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Any fraction from 0 up to and without 1.
pub(crate) fn fraction() -> f64 {
    // As many bits as a fraction can hold.
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_fractions_are_fractions() {
        let numbers: std::collections::BTreeSet<u64> = (0..1000).map(|_| random()).collect();
        assert_eq!(numbers.len(), 1000);
        let fractions: Vec<f64> = (0..1000).map(|_| fraction()).collect();
        assert!(fractions.iter().all(|it| (0.0..1.0).contains(it)));
        assert!(fractions.iter().any(|it| *it < 0.1) && fractions.iter().any(|it| *it > 0.9));
    }
}
