//! Figure 12: what more filters gain.
//!
//! With the period as it is, they gain something only as long as they are empty. The oldest filter is asked
//! alone; while it has nothing in it, it does not err. As soon as it has, more filters err more, because there
//! are more pairs to ask. So there are two ways to measure: [`Start::Fresh`], as in the paper, with new filters
//! and a load that ends before many filters have been used, and [`Start::Steady`].

use super::load::Arrivals;
use super::probe::Effort;
use super::rising::{self, Group, LOOK_UP_MS, Moment};
use super::{ELEMENTS_MAX, RATE_MAX, check_settings};
use crate::report::Table;
use crate::run::{Refused, RunError, Watch, all_within, go_on, within};
use quipu_crdt::bloom::{FILTERS_MAX, Settings};

/// In which state filters are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// New ones at the beginning of the rise.
    Fresh,
    /// At each rate new ones, which have had that rate for long enough to use all their filters.
    Steady,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter; the paper's has 6,250 bits, 5 hash functions and a period of 5 s. The number of past filters
    /// follows from each number below.
    pub settings: Settings,
    /// Numbers of filters to compare: two more than past ones. The paper's are 24, 12, 6 and 3.
    pub filters: Vec<usize>,
    /// Elements inserted during the rise; 3,000 in the paper.
    pub elements: u64,
    /// Elements per second at the end of the rise, which begins with none. Not in the paper, which speaks of
    /// 100 per second and of more.
    pub rate_to: f64,
    /// In which state.
    pub start: Start,
    /// How long to look for errors.
    pub effort: Effort,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            settings: Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 5_000 },
            filters: vec![24, 12, 6, 3],
            elements: 3_000,
            rate_to: 150.0,
            start: Start::Fresh,
            effort: Effort::default(),
            seed: 1,
        }
    }
}

/// It is measured at fifteenths of the last rate. At the first two errors are too rare.
const FIFTEENTHS: std::ops::RangeInclusive<u32> = 3..=15;

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    all_within("--filters", &params.filters, &(3..=FILTERS_MAX))?;
    check_settings(&params.settings)?;
    within("--elements", &params.elements, &(1..=ELEMENTS_MAX))?;
    within("--rate-to", &params.rate_to, &(1.0..=RATE_MAX))?;
    params.effort.check()
}

/// Lets the rate rise evenly from nothing, so that `elements` arrive in all, and measures at several rates.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Moment>, RunError> {
    check(params)?;
    let of_number = |&filters| Settings { past: filters - 2, ..params.settings };
    let kinds: Vec<Settings> = params.filters.iter().map(of_number).collect();
    let rates: Vec<f64> = FIFTEENTHS.map(|part| params.rate_to * f64::from(part) / 15.0).collect();
    match params.start {
        Start::Fresh => {
            // The number of elements is the area of a triangle: to · time / 2.
            let end_ms = 2_000.0 * params.elements as f64 / params.rate_to;
            let rate_at = |time_ms: u64| params.rate_to * time_ms as f64 / end_ms;
            rising::rise(&kinds, rate_at, &rates, &params.effort, params.seed, watch)
        }
        Start::Steady => steady(params, &kinds, &rates, watch),
    }
}

fn steady(
    params: &Params,
    kinds: &[Settings],
    rates: &[f64],
    watch: &mut Watch<'_>,
) -> Result<Vec<Moment>, RunError> {
    let all = (rates.len() * kinds.len()) as f64;
    let mut moments = Vec::new();
    for &rate in rates {
        let mut readings = Vec::new();
        for settings in kinds {
            let done = (moments.len() * kinds.len() + readings.len()) as f64;
            let mut watch = |part| watch((done + part) / all);
            let mut group = Group::new(*settings, params.seed);
            let mut arrivals = Arrivals::default();
            for now_ms in 0..steady_after_ms(settings) {
                group.insert(arrivals.in_one_ms(rate), now_ms);
                if now_ms.is_multiple_of(LOOK_UP_MS) {
                    go_on(&mut watch, 0.0)?;
                }
            }
            readings.push(group.read(params.seed, &params.effort, &mut watch)?);
        }
        moments.push(Moment { time_ms: 0, rate, readings });
    }
    Ok(moments)
}

/// By then every filter has had two periods of elements.
fn steady_after_ms(settings: &Settings) -> u64 {
    settings.interval_ms() + 2 * settings.period_ms
}

/// The readings as a table.
pub fn table(params: &Params, moments: &[Moment]) -> Table {
    let kinds: Vec<String> = params.filters.iter().map(usize::to_string).collect();
    rising::table(&kinds, moments)
}
