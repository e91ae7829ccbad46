//! The paper's resizing to the letter, to compare.

use quipu_crdt::bloom::model::{Load, equation_3};
use quipu_crdt::bloom::{Bloom, ElementHash, Limits, SCALE_DOWN_AT, SCALE_UP_AT, Settings};
use std::collections::VecDeque;

/// A forgetful filter that is resized as the paper's section III-E says: more filters are added empty at the
/// old end, one fewer is the oldest dropped, and equation 3 decides.
///
/// Wrong, and kept only to show by how much. Once there are empty filters behind it, a filter that was the
/// oldest is not asked alone any more, and the elements that only it has are not found. That is why the rate of
/// errors drops so quickly in the paper's figure 13.
#[derive(Debug, Clone)]
pub(super) struct Printed {
    hashes: u8,
    bits: u64,
    period_ms: u64,
    refreshed_ms: u64,
    /// Newest first, with the elements that each got while it was the future filter.
    parts: VecDeque<(Bloom, u64)>,
}

impl Printed {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { bits, hashes, past, period_ms, .. } = *settings;
        let mut filter = Printed { hashes, bits, period_ms, refreshed_ms: 0, parts: VecDeque::new() };
        filter.parts = (0..past + 2).map(|_| filter.empty()).collect();
        filter
    }

    fn empty(&self) -> (Bloom, u64) {
        (Bloom::new(self.bits, self.hashes).expect("the size was checked"), 0)
    }

    pub(super) fn record(&mut self, element: ElementHash) {
        self.parts[0].1 += 1;
        self.parts.range_mut(..2).for_each(|(bloom, _)| bloom.insert(element));
    }

    pub(super) fn contains(&self, element: ElementHash) -> bool {
        let has = |index: usize| self.parts[index].0.contains(element);
        let oldest = self.parts.len() - 1;
        has(0) || (1..oldest).any(|newer| has(newer) && has(newer + 1)) || has(oldest)
    }

    pub(super) fn tick(&mut self, now_ms: u64) {
        while now_ms >= self.refreshed_ms + self.period_ms {
            self.refreshed_ms += self.period_ms;
            let empty = self.empty();
            self.parts.push_front(empty);
            self.parts.pop_back();
        }
    }

    pub(super) fn estimate(&self) -> f64 {
        let load = |(bloom, elements): &(Bloom, u64)| Load { bits: bloom.bits(), elements: *elements };
        equation_3(&self.parts.iter().map(load).collect::<Vec<_>>(), self.hashes)
    }

    /// Algorithm 3, as far as the limits allow.
    pub(super) fn review(&mut self, limits: &Limits) {
        let estimate = self.estimate();
        if estimate >= SCALE_UP_AT * limits.target {
            let wanted = (2 * self.parts.len()).min(limits.past_max + 2);
            let empty = self.empty();
            self.parts.resize(wanted.max(self.parts.len()), empty);
            self.period_ms = self.period_ms.saturating_sub(limits.period_ms_step).max(limits.period_ms_min);
        } else if estimate <= SCALE_DOWN_AT * limits.target {
            if self.parts.len() > limits.past_min + 2 {
                self.parts.pop_back();
            }
            self.period_ms = (self.period_ms + limits.period_ms_step).min(limits.period_ms_max);
        }
    }

    pub(super) fn filters(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn period_ms(&self) -> u64 {
        self.period_ms
    }
}
