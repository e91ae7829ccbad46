//! The forgetful Bloom filter in front of a shard's operations (“Idempotent Distributed Counters Using a Forgetful Bloom
//! Filter”, Subramanyam, Gupta, Leslie and Wang), and how it follows the load.
//!
//! The paper's adaptation changes the filters that come with the next refresh, and a refresh is minutes away. So when a
//! burst fills the newest filter, a larger one is made at once: it is told all operations that are remembered, the stored
//! ones too, and takes over when it has heard of all of them.

use quipu_crdt::bloom::{Adaptive, BITS_MAX, Bloom, ElementHash, Forgetful, Limits, Settings};
use quipu_storage::Slice;

use crate::{FilterStats, Window, operations::Run};

/// The filter of a shard begins with so many bits.
const BITS_MIN: u64 = 1 << 14;
/// Fewer than the optimum for one in a million: half the work for a fifth more memory.
const HASHES: u8 = 10;
const PAST: usize = 3;
const PAST_MAX: usize = 8;
/// How often the filter's size is reviewed.
const REVIEW_EVERY_MS: u64 = 1_000;
/// A larger filter has room for so many times what made it necessary.
const HEADROOM: u64 = 4;

#[derive(Debug)]
pub(crate) struct Gate {
    window: Window,
    policy: Adaptive,
    reviewed_ms: u64,
    filter: Forgetful,
    /// Runs that the filter has not heard of. While there are any, it cannot say "new".
    cold: Vec<Run>,
    larger: Option<Larger>,
}

/// A filter that will take over.
#[derive(Debug)]
struct Larger {
    filter: Forgetful,
    cold: Vec<Run>,
}

impl Gate {
    /// For operations that nothing is known of, except that they are in these runs.
    pub(crate) fn new(window: Window, runs: Vec<Run>, now_ms: u64) -> Self {
        let operations = runs.iter().map(|run| run.operations).fold(0, u64::saturating_add);
        let period_ms = settings(window, BITS_MIN).period_ms;
        let limits = Limits {
            target: window.error_target,
            past_min: PAST,
            past_max: PAST_MAX,
            period_ms_min: (period_ms / 2).max(1),
            period_ms_max: period_ms,
            period_ms_step: (period_ms / 8).max(1),
            bits_max: BITS_MAX,
        };
        Self {
            window,
            policy: Adaptive::new(limits).expect("a window was checked when it was made"),
            reviewed_ms: now_ms,
            filter: filter(window, bits_for(window, operations), now_ms),
            cold: runs,
            larger: None,
        }
    }

    /// Has it heard of everything that is remembered?
    pub(crate) fn is_warm(&self) -> bool {
        self.cold.is_empty()
    }

    /// May this operation have been counted? As far as the filter has heard.
    pub(crate) fn contains(&self, operation: ElementHash) -> bool {
        self.filter.contains(operation)
    }

    /// An operation was counted.
    pub(crate) fn record(&mut self, operation: ElementHash, now_ms: u64) {
        self.filter.record(operation, now_ms);
        if let Some(larger) = &mut self.larger {
            larger.filter.record(operation, now_ms);
        }
    }

    /// The run that should be told next.
    pub(crate) fn coldest(&self) -> Option<Run> {
        let larger = || self.larger.as_ref().and_then(|larger| larger.cold.last());
        self.cold.last().or_else(larger).copied()
    }

    /// An operation of the run that is told.
    pub(crate) fn warm(&mut self, operation: ElementHash, now_ms: u64) {
        match &mut self.larger {
            Some(larger) if self.cold.is_empty() => larger.filter.record(operation, now_ms),
            _ => self.filter.record(operation, now_ms),
        }
    }

    /// All of this run was told.
    pub(crate) fn warmed(&mut self, run: Run) {
        if !self.cold.is_empty() {
            return self.cold.retain(|cold| *cold != run);
        }
        if let Some(larger) = &mut self.larger {
            larger.cold.retain(|cold| *cold != run);
        }
        self.take_over();
    }

    fn take_over(&mut self) {
        if let Some(larger) = self.larger.take_if(|larger| larger.cold.is_empty()) {
            self.filter = larger.filter;
        }
    }

    /// Tells the time; runs in slices before `floor` have expired.
    pub(crate) fn tick(&mut self, now_ms: u64, floor: Slice) {
        self.filter.tick(now_ms);
        self.cold.retain(|run| run.slice >= floor);
        if let Some(larger) = &mut self.larger {
            larger.filter.tick(now_ms);
            larger.cold.retain(|run| run.slice >= floor);
        }
        self.take_over();
        if now_ms.saturating_sub(self.reviewed_ms) >= REVIEW_EVERY_MS {
            self.reviewed_ms = now_ms;
            self.policy.review(&mut self.filter);
        }
    }

    /// The size of the filter that is needed, if this one is too small.
    pub(crate) fn bits_needed(&self) -> Option<u64> {
        if self.larger.is_some() || !self.is_warm() {
            return None;
        }
        let newest = self.filter.loads().first().copied()?;
        let is_full = newest.bits < bits_for(self.window, newest.elements);
        let bits = bits_for(self.window, newest.elements.saturating_mul(HEADROOM));
        (is_full && bits > newest.bits).then_some(bits)
    }

    /// Begins a filter of this size. `known` are the operations in memory; it is to be told those in `cold`.
    pub(crate) fn grow(
        &mut self,
        bits: u64,
        known: impl Iterator<Item = ElementHash>,
        cold: Vec<Run>,
        now_ms: u64,
    ) {
        let mut filter = filter(self.window, bits, now_ms);
        known.for_each(|operation| filter.record(operation, now_ms));
        self.larger = Some(Larger { filter, cold });
        self.take_over();
    }

    /// The size of the filter, and how often it errs, as far as can be told.
    pub(crate) fn stats(&self) -> FilterStats {
        let bits = |filter: &Forgetful| filter.filters().map(Bloom::bits).sum::<u64>();
        let larger = self.larger.as_ref().map_or(0, |larger| bits(&larger.filter));
        FilterStats { bytes: (bits(&self.filter) + larger) / 8, error_estimate: self.filter.estimate() }
    }
}

fn settings(window: Window, bits: u64) -> Settings {
    // An id from a clock that is ahead is remembered until this clock would refuse it, had it not been set back. And when an
    // id may have been forgotten is not known more exactly than that.
    let window_ms = window.length_ms + window.ahead_ms_max() + window.fading_ms();
    let period_ms = window_ms.div_ceil(PAST as u64).max(1);
    Settings { bits, hashes: HASHES, past: PAST, period_ms, window_ms: window_ms.max(period_ms) }
}

fn filter(window: Window, bits: u64, now_ms: u64) -> Forgetful {
    Forgetful::new(settings(window, bits), now_ms).expect("a window was checked when it was made")
}

/// How large a filter must be that gets so many operations in a period: k·l / −ln(1 − p^(1/k)), and a power of two.
fn bits_for(window: Window, operations: u64) -> u64 {
    // A whole filter errs a few times as often as one of its parts.
    let target = window.error_target / 4.0;
    let hashes = f64::from(HASHES);
    let bits_each = hashes / -(-target.powf(1.0 / hashes)).ln_1p();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let bits_each = bits_each.ceil() as u64;
    operations.saturating_mul(bits_each).clamp(BITS_MIN, BITS_MAX).next_power_of_two().min(BITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(number: u64) -> ElementHash {
        ElementHash::of(&number.to_le_bytes())
    }

    #[test]
    fn a_burst_is_followed_and_nothing_is_forgotten() {
        let mut gate = Gate::new(Window::default(), Vec::new(), 0);
        for number in 0..100_000 {
            gate.record(operation(number), 10);
            if number % 500 == 0 {
                gate.tick(10, Slice(0));
                if let Some(bits) = gate.bits_needed() {
                    gate.grow(bits, (0..=number).map(operation), Vec::new(), 10);
                }
            }
        }
        assert!((0..100_000).all(|number| gate.contains(operation(number))));
        let errors = (100_000..1_100_000).filter(|number| gate.contains(operation(*number))).count();
        assert!(errors < 20, "{errors} errors in a million");
        assert!(gate.bits_needed().is_none());
    }

    #[test]
    fn a_larger_filter_takes_over_when_it_has_heard_of_all() {
        let run = Run::for_tests(Slice(9), 5_000);
        let mut gate = Gate::new(Window::default(), Vec::new(), 0);
        (0..10_000).for_each(|number| gate.record(operation(number), 10));
        let bits = gate.bits_needed().expect("the smallest filter is full");
        gate.grow(bits, (5_000..10_000).map(operation), vec![run], 10);
        gate.record(operation(10_000), 20);
        assert_eq!(gate.coldest(), Some(run));
        assert!((0..=10_000).all(|number| gate.contains(operation(number))), "the old one is still in force");
        (0..5_000).for_each(|number| gate.warm(operation(number), 20));
        gate.warmed(run);
        assert_eq!(gate.coldest(), None);
        assert!((0..=10_000).all(|number| gate.contains(operation(number))));
        assert!(gate.bits_needed().is_none());
    }
}
