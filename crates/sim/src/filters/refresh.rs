//! Figure 11: what a shorter period gains.

use super::probe::Effort;
use super::rising::{self, Moment};
use super::{ELEMENTS_MAX, RATE_MAX, check_settings};
use crate::report::Table;
use crate::run::{Refused, RunError, Watch, all_within, within};
use quipu_crdt::bloom::Settings;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter; in the paper a basic one with 25,000 bits and 5 hash functions. Its period and window are
    /// replaced by each period below.
    pub settings: Settings,
    /// The periods to compare; the paper's are 5, 3, 2 and 1 s.
    pub periods_ms: Vec<u64>,
    /// Elements inserted during the rise; 5,000 in the paper.
    pub elements: u64,
    /// Where the rise begins, in elements per second. Not in the paper.
    pub rate_from: f64,
    /// Where it ends. Not in the paper, which speaks of 100 per second as one rate among others.
    pub rate_to: f64,
    /// How long to look for errors.
    pub effort: Effort,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            settings: Settings { bits: 25_000, hashes: 5, past: 1, period_ms: 5_000, window_ms: 5_000 },
            periods_ms: vec![5_000, 3_000, 2_000, 1_000],
            elements: 5_000,
            rate_from: 1.0,
            rate_to: 200.0,
            effort: Effort::default(),
            seed: 1,
        }
    }
}

/// The fewest elements per second that a rise can begin with.
pub const RATE_MIN: f64 = 0.001;

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    let Params { settings, elements, rate_from, rate_to, .. } = params;
    all_within("--periods-ms", &params.periods_ms, &(1..=super::PERIOD_MS_MAX))?;
    check_settings(settings)?;
    within("--elements", elements, &(1..=ELEMENTS_MAX))?;
    within("--rate-from", rate_from, &(RATE_MIN..=RATE_MAX))?;
    within("--rate-to", rate_to, &(*rate_from..=RATE_MAX))?;
    params.effort.check()
}

/// Five rates in every power of ten, and the last. At a twentieth of it errors are too rare to measure.
fn rates(from: f64, to: f64) -> Vec<f64> {
    let fifths = (-15..=30).map(|fifth| 10f64.powf(f64::from(fifth) / 5.0));
    fifths.filter(|rate| (from.max(to / 20.0)..to).contains(rate)).chain([to]).collect()
}

/// Lets the rate rise exponentially, so that `elements` arrive in all, and measures at several rates.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Moment>, RunError> {
    check(params)?;
    let Params { elements, rate_from, rate_to, .. } = *params;
    // The number of elements is the integral of the rate: (to − from) / growth.
    let growth_per_ms = (rate_to - rate_from) / elements as f64 / 1_000.0;
    let rate_at = |time_ms: u64| rate_from * (growth_per_ms * time_ms as f64).exp();
    let of_period = |&period_ms| Settings { period_ms, window_ms: period_ms, ..params.settings };
    let kinds: Vec<Settings> = params.periods_ms.iter().map(of_period).collect();
    rising::rise(&kinds, rate_at, &rates(rate_from, rate_to), &params.effort, params.seed, watch)
}

/// The readings as a table.
pub fn table(params: &Params, moments: &[Moment]) -> Table {
    let kinds: Vec<String> = params.periods_ms.iter().map(|period_ms| format!("{period_ms}ms")).collect();
    rising::table(&kinds, moments)
}
