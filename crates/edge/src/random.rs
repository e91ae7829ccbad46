//! Numbers that nobody else draws, from what the operating system gives every process.

use std::{
    hash::{BuildHasher, RandomState},
    time::{SystemTime, UNIX_EPOCH},
};

/// Any number.
pub(crate) fn random() -> u64 {
    // The keys of the hash are random once for each thread and then count up; the time tells threads of one process apart.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    RandomState::new().hash_one((std::process::id(), now))
}

/// Bytes for a name that nobody else has.
pub(crate) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    bytes
}

/// Any fraction from 0 up to and without 1.
pub(crate) fn fraction() -> f64 {
    // As many bits as a fraction can hold.
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}
