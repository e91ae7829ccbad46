//! Figure 8: the optimised membership check against the simple one.

use super::probe::{Effort, Measured, measure};
use super::{ELEMENTS_MAX, Elements, FILTERS, check_settings};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, all_within, within};
use quipu_crdt::bloom::{Forgetful, Settings};

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter; the paper's basic one has 6,250 bits, 5 hash functions and a period of 5 s. The window is
    /// one period, so that from the first refresh on there are just as many filters as in the paper.
    pub settings: Settings,
    /// Elements inserted, one measurement for each number. From fewer than 100 errors are too rare to measure.
    pub elements: Vec<u64>,
    /// Over so many periods they are inserted evenly. Not in the paper.
    pub periods: u64,
    /// How long to look for errors.
    pub effort: Effort,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            settings: Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 5_000 },
            elements: (2..=12).map(|fifties| 50 * fifties).collect(),
            periods: 2,
            effort: Effort::default(),
            seed: 1,
        }
    }
}

/// The rates for one number of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Elements inserted.
    pub elements: u64,
    /// Errors when an element counts as seen if any filter has it.
    pub simple: Measured,
    /// Errors when it must be where an inserted element would be.
    pub optimised: Measured,
}

impl Row {
    /// By how many percent the optimised check errs less.
    pub fn percent_less(&self) -> f64 {
        100.0 * (1.0 - self.optimised.rate() / self.simple.rate())
    }
}

/// The most periods over which elements are inserted.
pub const PERIODS_MAX: u64 = 1_000;

pub(super) fn check_filling(settings: &Settings, elements: &[u64], periods: u64) -> Result<(), Refused> {
    check_settings(settings)?;
    all_within("--elements", elements, &(1..=ELEMENTS_MAX))?;
    within("--periods", &periods, &(1..=PERIODS_MAX))
}

/// Filters into which so many elements were inserted evenly over the periods, as they are just before the
/// refresh that ends the last.
pub(super) fn filled(settings: Settings, elements: u64, periods: u64, seed: u64) -> Vec<Forgetful> {
    let span_ms = settings.period_ms * periods;
    let one = |stream| {
        let mut source = Elements::new(seed, stream);
        let mut filter = Forgetful::new(settings, 0).expect("the settings were checked");
        for number in 0..elements {
            // Errors among the elements themselves must not make them fewer.
            filter.record(source.next(), span_ms * number / elements);
        }
        filter.tick(span_ms - 1);
        filter
    };
    (0..FILTERS).map(one).collect()
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    check_filling(&params.settings, &params.elements, params.periods)?;
    params.effort.check()
}

/// Measures both checks for each number of elements.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let Params { settings, periods, effort, seed, .. } = params;
    let halves = 2.0 * params.elements.len() as f64;
    let mut rows = Vec::new();
    for &elements in &params.elements {
        let filters = filled(*settings, elements, *periods, *seed);
        let done = 2.0 * rows.len() as f64;
        let mut first = |part| watch((done + part) / halves);
        let simple = measure(&filters, *seed, effort, Forgetful::contains_simple, &mut first)?;
        let mut second = |part| watch((done + 1.0 + part) / halves);
        let optimised = measure(&filters, *seed, effort, Forgetful::contains, &mut second)?;
        rows.push(Row { elements, simple, optimised });
    }
    Ok(rows)
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["elements", "simple", "optimised", "percent_less", "probes", "found"]);
    for row in rows {
        table.push(vec![
            Cell::Count(row.elements),
            Cell::Rate(row.simple.rate()),
            Cell::Rate(row.optimised.rate()),
            Cell::Number(row.percent_less()),
            Cell::Count(row.optimised.probes),
            Cell::Count(row.optimised.found),
        ]);
    }
    table
}
