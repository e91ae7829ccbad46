//! Resizing a forgetful filter as the load changes.

use super::model::{self, Load};
use super::{BITS_MAX, Forgetful, PAST_MAX, Settings};

/// Scale up when the estimate has come this near to the target.
pub const SCALE_UP_AT: f64 = 0.9;

/// Scale down when the estimate has fallen to this share of the target.
pub const SCALE_DOWN_AT: f64 = 0.1;

/// How far resizing may go, and in which steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The probability of an error that is wanted; between 0 and 1.
    pub target: f64,
    /// The fewest past filters, at least 1.
    pub past_min: usize,
    /// The most past filters, at most [`PAST_MAX`].
    pub past_max: usize,
    /// The shortest refresh period.
    pub period_ms_min: u64,
    /// The longest refresh period.
    pub period_ms_max: u64,
    /// By how much the period changes at a time; the paper's unit.
    pub period_ms_step: u64,
    /// The largest filter. No larger than the filter's own size: sizes stay as they are, as in the paper.
    pub bits_max: u64,
}

/// Limits that make no sense. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LimitsError {
    /// No filter errs never, and always is no target.
    #[error("the target probability must lie between 0 and 1, and not at {target}; nothing was made")]
    Target {
        /// What was asked for.
        target: f64,
    },
    /// There must be at least one and at most [`PAST_MAX`].
    #[error("from {min} to {max} past filters is not a range within 1 to {PAST_MAX}; nothing was made")]
    Past {
        /// The fewest asked for.
        min: usize,
        /// The most asked for.
        max: usize,
    },
    /// A period has at least 1 ms, and so has a step.
    #[error(
        "periods from {min_ms} to {max_ms} ms in steps of {step_ms} ms are not possible; nothing was made"
    )]
    Period {
        /// The shortest asked for.
        min_ms: u64,
        /// The longest asked for.
        max_ms: u64,
        /// The step asked for.
        step_ms: u64,
    },
    /// Filters are not larger than [`BITS_MAX`].
    #[error("filters have at most {BITS_MAX} bits, not {bits}; nothing was made")]
    Bits {
        /// The most asked for.
        bits: u64,
    },
}

/// What a review came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The estimate is as it should be, or will be once the filters of now are forgotten.
    Stay,
    /// More filters, a shorter period.
    Up,
    /// Fewer filters, a longer period.
    Down,
    /// The estimate is too high and all limits are reached.
    Exhausted,
}

/// The policy that holds a forgetful filter's errors to a target: multiplicative increase of the number of
/// filters and additive decrease of the period when they become too many, additive steps back when they have
/// become rare (the paper's Algorithm 3).
///
/// With these differences. It goes by the corrected [model](super::model), not by equation 3. The remembered
/// interval (N + 1)·t never falls below the window. It does not scale up for a burst that has passed. And
/// because two periods may bring more elements than any number of filters of one size can hold, filters to
/// come are made larger for the load that was seen, as far as the limits allow, and only if that is not
/// enough there are more of them.
///
/// More filters by themselves err more, not less: there are more pairs to ask. What helps is the shorter
/// period that they allow.
///
/// ```
/// use quipu_crdt::bloom::{Adaptive, ElementHash, Forgetful, Limits, Settings, Step};
/// let settings = Settings { bits: 1_000, hashes: 5, past: 1, period_ms: 11_000, window_ms: 20_000 };
/// let mut seen = Forgetful::new(settings, 0)?;
/// let policy = Adaptive::new(Limits {
///     target: 0.01,
///     past_min: 1,
///     past_max: 22,
///     period_ms_min: 1_000,
///     period_ms_max: 15_000,
///     period_ms_step: 1_000,
///     bits_max: 1_000,
/// })?;
/// for operation in 0u32..200 {
///     seen.insert(ElementHash::of(&operation.to_le_bytes()), 1_000);
/// }
/// assert_eq!(policy.review(&mut seen), Step::Up);
/// assert_eq!((seen.settings().past, seen.settings().period_ms), (4, 10_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    limits: Limits,
}

impl Adaptive {
    /// The policy with these limits.
    pub fn new(limits: Limits) -> Result<Self, LimitsError> {
        let Limits { target, past_min: min, past_max: max, bits_max: bits, .. } = limits;
        if !(target > 0.0 && target < 1.0) {
            return Err(LimitsError::Target { target });
        }
        if min < 1 || min > max || max > PAST_MAX {
            return Err(LimitsError::Past { min, max });
        }
        let (min_ms, max_ms, step_ms) = (limits.period_ms_min, limits.period_ms_max, limits.period_ms_step);
        if min_ms < 1 || min_ms > max_ms || step_ms < 1 {
            return Err(LimitsError::Period { min_ms, max_ms, step_ms });
        }
        if bits > BITS_MAX {
            return Err(LimitsError::Bits { bits });
        }
        Ok(Adaptive { limits })
    }

    /// Resizes the filter by one step if it errs too often or needlessly rarely. Called about once a second
    /// in the paper.
    pub fn review(&self, filter: &mut Forgetful) -> Step {
        let estimate = filter.estimate();
        let before = *filter.settings();
        let (after, step) = if estimate >= SCALE_UP_AT * self.limits.target && self.must_scale_up(filter) {
            (self.scaled_up(before), Step::Up)
        } else if estimate <= SCALE_DOWN_AT * self.limits.target {
            (self.scaled_down(before), Step::Down)
        } else {
            (before, Step::Stay)
        };
        filter
            .reshape(after.past, after.period_ms, self.doublings_for(filter))
            .expect("the steps keep to the limits and to the window");
        match step {
            Step::Up if after == before => Step::Exhausted,
            Step::Down if after == before => Step::Stay,
            step => step,
        }
    }

    /// Would it go on to err too often? What the filters already hold cannot be helped: more of them would
    /// only remember an old burst for longer, and call for still more.
    fn must_scale_up(&self, filter: &Forgetful) -> bool {
        // A scale-up shows only when its filters are there: do not repeat it before.
        let is_complete = filter.filters().len() >= filter.settings().past + 2;
        let recent = busiest(&filter.loads()[..2]);
        let largest = self.doublings_max(filter);
        is_complete && forecast(filter, recent, largest) >= SCALE_UP_AT * self.limits.target
    }

    /// From N + 2 to 2·(N + 2) filters, and a period shorter by one step.
    fn scaled_up(&self, settings: Settings) -> Settings {
        let past = (2 * settings.past + 2).min(self.limits.past_max).max(settings.past);
        let periods = u64::try_from(past + 1).expect("at most PAST_MAX + 1");
        let period_ms = settings
            .period_ms
            .saturating_sub(self.limits.period_ms_step)
            .max(self.limits.period_ms_min)
            .max(settings.window_ms.div_ceil(periods))
            .min(settings.period_ms);
        Settings { past, period_ms, ..settings }
    }

    /// One filter fewer, if the window allows it, and a period longer by one step.
    fn scaled_down(&self, settings: Settings) -> Settings {
        let period_ms = settings
            .period_ms
            .saturating_add(self.limits.period_ms_step)
            .min(self.limits.period_ms_max)
            .min(settings.window_ms)
            .max(settings.period_ms);
        let longer = Settings { period_ms, ..settings };
        let fewer = Settings { past: settings.past - 1, ..longer };
        let enough = fewer.past >= self.limits.past_min && fewer.interval_ms() >= settings.window_ms;
        if enough { fewer } else { longer }
    }

    /// How often the size must be doubled so that it errs on at most half the target when all periods are
    /// like the busiest one remembered.
    fn doublings_for(&self, filter: &Forgetful) -> u32 {
        let elements = busiest(&filter.loads());
        let largest = self.doublings_max(filter);
        let enough = |&doublings: &u32| forecast(filter, elements, doublings) <= self.limits.target / 2.0;
        (0..largest).find(enough).unwrap_or(largest)
    }

    fn doublings_max(&self, filter: &Forgetful) -> u32 {
        (self.limits.bits_max / filter.settings().bits).checked_ilog2().unwrap_or(0)
    }
}

/// The most elements in one period.
fn busiest(loads: &[Load]) -> u64 {
    loads.iter().map(|load| load.elements).max().unwrap_or(0)
}

/// The probability of an error once all periods have brought this many elements and all filters have this size.
fn forecast(filter: &Forgetful, elements: u64, doublings: u32) -> f64 {
    let Settings { bits, hashes, past, .. } = *filter.settings();
    model::corrected(&vec![Load { bits: bits << doublings, elements }; past + 2], hashes)
}
