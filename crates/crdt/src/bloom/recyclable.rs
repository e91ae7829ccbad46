//! The baseline: one Bloom filter that forgets everything at once.

use super::{Bloom, ElementHash, SizeError, model};

/// Such a filter cannot be. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RecyclableError {
    /// The filter is too small or too large.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// It would be cleared always or never.
    #[error("the target probability must lie between 0 and 1, and not at {target}; nothing was made")]
    Target {
        /// What was asked for.
        target: f64,
    },
}

/// A Bloom filter that is cleared whenever its probability of an error has passed a target ("Idempotent
/// Distributed Counters Using a Forgetful Bloom Filter", section VI-E). An element inserted just before is
/// forgotten with the rest, which is why [`Forgetful`](super::Forgetful) exists.
///
/// ```
/// use quipu_crdt::bloom::{ElementHash, RecyclableBloom};
/// let mut seen = RecyclableBloom::new(1_500, 3, 0.01)?;
/// let operation = ElementHash::of(b"client 1, operation 1");
/// assert!(seen.insert(operation));
/// assert!(!seen.insert(operation), "a retry");
/// # Ok::<(), quipu_crdt::bloom::RecyclableError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecyclableBloom {
    bloom: Bloom,
    elements: u64,
    target: f64,
}

impl RecyclableBloom {
    /// An empty filter that is cleared when it errs with more than this probability.
    pub fn new(bits: u64, hashes: u8, target: f64) -> Result<Self, RecyclableError> {
        if !(target > 0.0 && target < 1.0) {
            return Err(RecyclableError::Target { target });
        }
        Ok(RecyclableBloom { bloom: Bloom::new(bits, hashes)?, elements: 0, target })
    }

    /// Inserts the element if it is not found. Was it new?
    pub fn insert(&mut self, element: ElementHash) -> bool {
        if self.contains(element) {
            return false;
        }
        if self.estimate() > self.target {
            self.bloom.clear();
            self.elements = 0;
        }
        self.bloom.insert(element);
        self.elements = self.elements.saturating_add(1);
        true
    }

    /// Was it probably inserted since the last clearing?
    pub fn contains(&self, element: ElementHash) -> bool {
        self.bloom.contains(element)
    }

    /// The probability that an element which was not inserted is found.
    pub fn estimate(&self) -> f64 {
        model::single(self.elements, self.bloom.bits(), self.bloom.hashes())
    }
}
