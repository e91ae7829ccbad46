//! Several Bloom filters in a row, of which the oldest is dropped and a new one added as time passes.

use super::model::{self, Load};
use super::settings::FILTERS_MAX;
use super::{BITS_MAX, Bloom, ElementHash, Settings, SettingsError, SizeError};
use std::collections::VecDeque;

/// One of the filters, and what the model and the window need to know of it.
#[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub(super) struct Part {
    /// When it became the future filter. Everything inserted from then on until it became a past filter is
    /// in it.
    #[n(0)]
    pub(super) created_ms: u64,
    /// Elements inserted while it was the future filter.
    #[n(1)]
    pub(super) elements: u64,
    #[n(2)]
    pub(super) bloom: Bloom,
}

/// A set that remembers its elements for a while, in a few bits each.
///
/// It consists of a future, a present and N past filters. An element goes into future and present. Every
/// period a refresh moves each filter one place on: future becomes present, present becomes the newest past,
/// and the oldest past is dropped. So an element stands in two neighbouring filters until these are the two
/// oldest, then in the oldest alone, then in none: it is remembered for at least (N + 1)·t and at most
/// (N + 2)·t.
///
/// It may err on an element that was never inserted (see [`estimate`](Self::estimate)), never on one inserted
/// within the window.
///
/// ```
/// use quipu_crdt::bloom::{ElementHash, Forgetful, Settings};
/// let settings = Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 10_000 };
/// let mut seen = Forgetful::new(settings, 0)?;
/// let operation = ElementHash::of(b"client 1, operation 1");
/// assert!(seen.insert(operation, 4_000));
/// assert!(!seen.insert(operation, 14_000), "a retry within the window");
/// assert!(seen.insert(operation, 19_000), "forgotten");
/// # Ok::<(), quipu_crdt::bloom::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgetful {
    /// As made, and `past` and `period_ms` as changed since.
    pub(super) settings: Settings,
    /// New filters have `settings.bits` · 2^`doublings` bits.
    pub(super) doublings: u32,
    /// Newest first: future, present, past. At least three, at most [`FILTERS_MAX`].
    pub(super) parts: VecDeque<Part>,
    /// The latest time that was told.
    pub(super) latest_ms: u64,
}

impl Forgetful {
    /// An empty filter.
    pub fn new(settings: Settings, now_ms: u64) -> Result<Self, SettingsError> {
        settings.check()?;
        let bloom = Bloom::new(settings.bits, settings.hashes)?;
        let part = Part { created_ms: now_ms, elements: 0, bloom };
        // One past filter is enough to begin with; the others come with the first refreshes.
        let parts = VecDeque::from(vec![part; 3]);
        Ok(Forgetful { settings, doublings: 0, parts, latest_ms: now_ms })
    }

    /// Inserts the element if it is not found. Was it new?
    ///
    /// "Not new" may be an error. Whoever finds out by other means and lets the element count must then
    /// [`record`](Self::record) it: what made it look known may be forgotten long before it.
    pub fn insert(&mut self, element: ElementHash, now_ms: u64) -> bool {
        self.tick(now_ms);
        let new = !self.contains(element);
        if new {
            self.put(element);
        }
        new
    }

    /// Inserts the element whether it is found or not: it is remembered from now on.
    pub fn record(&mut self, element: ElementHash, now_ms: u64) {
        self.tick(now_ms);
        self.put(element);
    }

    fn put(&mut self, element: ElementHash) {
        self.parts[0].elements = self.parts[0].elements.saturating_add(1);
        for part in self.parts.range_mut(..2) {
            part.bloom.insert(element);
        }
    }

    /// Was it probably inserted within the window? As of the latest time told, so [`tick`](Self::tick) first.
    ///
    /// An element of the current period is in the future filter (and in the present one, which need not be
    /// asked). An older one is in two neighbours, or in the oldest alone because its elder was dropped.
    /// Anything else is an error and does not count. (The text of the paper's section III-D says so too. Its
    /// Algorithm 2 as printed asks the oldest filter only if that is the only past one.)
    pub fn contains(&self, element: ElementHash) -> bool {
        let has = |index: usize| self.parts[index].bloom.contains(element);
        let oldest = self.parts.len() - 1;
        // Every pair of neighbours between the future and the oldest filter has one member in an even place.
        // Ask that one first: if it does not have the element, two pairs are settled.
        let in_pair = |even: usize| has(even) && (has(even - 1) || has(even + 1));
        has(0) || (2..oldest).step_by(2).any(in_pair) || has(oldest)
    }

    /// Is it in any of the filters? Errs more often than [`contains`](Self::contains); here to be compared.
    pub fn contains_simple(&self, element: ElementHash) -> bool {
        self.filters().any(|filter| filter.contains(element))
    }

    /// Tells the time: does the refreshes that are due. A late call catches up; an earlier time than the
    /// latest one told changes nothing.
    pub fn tick(&mut self, now_ms: u64) {
        if let Some(due_ms) = self.refresh_due_ms().filter(|&due_ms| due_ms <= now_ms) {
            self.catch_up(due_ms, now_ms);
        }
        self.latest_ms = self.latest_ms.max(now_ms);
    }

    /// When the next refresh is due; `None` if that is beyond the end of time.
    pub fn refresh_due_ms(&self) -> Option<u64> {
        let due_ms = self.parts[0].created_ms.checked_add(self.settings.period_ms)?;
        // After the period was shortened that may have passed. But what was inserted since is in the filters
        // as they stand, so the new one must be younger.
        Some(due_ms.max(self.latest_ms.checked_add(1)?))
    }

    fn catch_up(&mut self, first_due_ms: u64, now_ms: u64) {
        let period_ms = self.settings.period_ms;
        let more_due = (now_ms - first_due_ms) / period_ms;
        // After past + 2 refreshes no filter is left of those before; any more make no difference.
        let useful = u64::try_from(self.settings.past + 2).expect("at most PAST_MAX + 2");
        let skipped = more_due.saturating_sub(useful);
        for refresh in skipped..=more_due {
            self.refresh(first_due_ms + refresh * period_ms);
        }
    }

    fn refresh(&mut self, at_ms: u64) {
        let bloom = Bloom::new(self.settings.bits << self.doublings, self.settings.hashes)
            .expect("the size was checked when it was set");
        self.parts.push_front(Part { created_ms: at_ms, elements: 0, bloom });
        self.drop_oldest(at_ms);
    }

    /// Drops filters beyond the wanted number, as long as those that stay go back for the whole window. With
    /// settings that never change that is one at each refresh.
    fn drop_oldest(&mut self, now_ms: u64) {
        while self.parts.len() > self.settings.past + 2 {
            let next_oldest_ms = self.parts[self.parts.len() - 2].created_ms;
            let covered = now_ms.saturating_sub(next_oldest_ms) >= self.settings.window_ms;
            if !covered && self.parts.len() <= FILTERS_MAX {
                break;
            }
            self.parts.pop_back();
        }
    }

    /// Changes the number of past filters and the period from now on, and the size of filters that are still
    /// to come: the `bits` of the settings, doubled so many times.
    ///
    /// Nothing of the window is forgotten by it. More past filters come about as later refreshes drop none;
    /// adding empty ones at the old end, as the paper does, would leave the elements that only the oldest
    /// filter has without the test that finds them. Fewer: the surplus goes once the rest covers the window.
    pub fn reshape(&mut self, past: usize, period_ms: u64, doublings: u32) -> Result<(), SettingsError> {
        let settings = Settings { past, period_ms, ..self.settings };
        settings.check()?;
        check_doublings(settings.bits, doublings)?;
        self.settings = settings;
        self.doublings = doublings;
        self.drop_oldest(self.latest_ms);
        Ok(())
    }

    /// The probability that an element which was not inserted is found, by the [model](model::corrected).
    pub fn estimate(&self) -> f64 {
        model::corrected(&self.loads(), self.settings.hashes)
    }

    /// The same by the paper's equation 3, which is too low; see [`model`].
    pub fn estimate_by_equation_3(&self) -> f64 {
        model::equation_3(&self.loads(), self.settings.hashes)
    }

    /// What the model works on, newest first.
    pub fn loads(&self) -> Vec<Load> {
        let load = |part: &Part| Load { bits: part.bloom.bits(), elements: part.elements };
        self.parts.iter().map(load).collect()
    }

    /// Its filters, newest first: future, present, past.
    pub fn filters(&self) -> impl ExactSizeIterator<Item = &Bloom> {
        self.parts.iter().map(|part| &part.bloom)
    }

    /// Its settings as they are now.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many times the bits of the settings are doubled in filters still to come.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// Everything inserted at this time or later is remembered.
    pub fn remembers_since_ms(&self) -> u64 {
        self.parts[self.parts.len() - 1].created_ms
    }

    /// The latest time that was told.
    pub fn latest_ms(&self) -> u64 {
        self.latest_ms
    }
}

/// Can filters of `bits` bits be doubled so many times?
pub(super) fn check_doublings(bits: u64, doublings: u32) -> Result<(), SettingsError> {
    let bits = bits.saturating_mul(2u64.saturating_pow(doublings));
    if bits <= BITS_MAX { Ok(()) } else { Err(SizeError::Bits { bits }.into()) }
}
