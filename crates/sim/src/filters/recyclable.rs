//! Figure 16: a forgetful filter against a single one of the same memory that is cleared when it is full.

use super::{ELEMENTS_MAX, Elements, check_settings};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, all_within, go_on, within};
use quipu_crdt::bloom::{BITS_MAX, ElementHash, Forgetful, RecyclableBloom, Settings};
use quipu_crdt::testing::Random;
use std::collections::BTreeSet;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The forgetful filter; the paper's has 500 bits, 3 hash functions and 3 filters in all. The recyclable
    /// one has the bits of all of them together. The period and the window are not in the paper.
    pub settings: Settings,
    /// The rate of errors at which the recyclable filter is cleared. Not in the paper.
    pub target: f64,
    /// Operations, one after the other. Not in the paper.
    pub operations: u64,
    /// The time between two operations. Not in the paper; with this the forgetful filter errs on about one in a
    /// hundred.
    pub arrival_ms: u64,
    /// Shares of the operations that are retried once, at a random time within the window. "Increasing
    /// frequency" in the paper.
    pub retry_percents: Vec<f64>,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            settings: Settings { bits: 500, hashes: 3, past: 1, period_ms: 5_000, window_ms: 10_000 },
            target: 0.01,
            operations: 100_000,
            arrival_ms: 250,
            retry_percents: vec![0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0],
            seed: 1,
        }
    }
}

/// How operations were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// All of them.
    pub operations: u64,
    /// Not at all: taken for retries.
    pub missed: u64,
    /// Twice: the retry was taken for a new one.
    pub twice: u64,
}

impl Count {
    /// The share of operations that were counted wrongly. That one was missed does not make up for another
    /// that was counted twice.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.missed + self.twice) as f64 / self.operations as f64
    }
}

/// One share of retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// So many of hundred operations are retried.
    pub retry_percent: f64,
    /// By the forgetful filter.
    pub forgetful: Count,
    /// By the recyclable filter.
    pub recyclable: Count,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    check_settings(&params.settings)?;
    within("--bits", &params.settings.bits, &(1..=BITS_MAX / filters(&params.settings)))?;
    if !(params.target > 0.0 && params.target < 1.0) {
        return Err(Refused {
            flag: "--target",
            problem: format!("{} is not between 0 and 1", params.target),
        });
    }
    within("--operations", &params.operations, &(1..=ELEMENTS_MAX))?;
    within("--arrival-ms", &params.arrival_ms, &(1..=super::PERIOD_MS_MAX))?;
    all_within("--retry-percents", &params.retry_percents, &(0.0..=100.0))
}

fn filters(settings: &Settings) -> u64 {
    u64::try_from(settings.past + 2).expect("few")
}

/// Counts the same operations and retries by both filters, for each share of retries.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let Params { settings, target, .. } = params;
    let all = params.retry_percents.len() as f64;
    let mut rows = Vec::new();
    for &retry_percent in &params.retry_percents {
        go_on(watch, rows.len() as f64 / all)?;
        let mut forgetful = Forgetful::new(*settings, 0).expect("the settings were checked");
        let bits = settings.bits * filters(settings);
        let mut recyclable =
            RecyclableBloom::new(bits, settings.hashes, *target).expect("the size was checked");
        rows.push(Row {
            retry_percent,
            forgetful: count(params, retry_percent, |element, now_ms| forgetful.insert(element, now_ms)),
            recyclable: count(params, retry_percent, |element, _| recyclable.insert(element)),
        });
    }
    Ok(rows)
}

/// An operation that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Retry {
    at_ms: u64,
    element: ElementHash,
    /// Was it counted the first time?
    counted: bool,
}

fn count(params: &Params, retry_percent: f64, mut insert: impl FnMut(ElementHash, u64) -> bool) -> Count {
    let mut elements = Elements::new(params.seed, 0);
    let mut random = Random::stream(params.seed, "retries");
    // In order of time.
    let mut retries: BTreeSet<Retry> = BTreeSet::new();
    let mut result = Count { operations: params.operations, ..Count::default() };
    for operation in 0..params.operations {
        let now_ms = operation * params.arrival_ms;
        while retries.first().is_some_and(|retry| retry.at_ms <= now_ms) {
            let Some(retry) = retries.pop_first() else { break };
            result.settle(retry.counted, insert(retry.element, retry.at_ms));
        }
        let element = elements.next();
        let counted = insert(element, now_ms);
        if random.chance(retry_percent / 100.0) {
            let at_ms = now_ms + random.bits() % (params.settings.window_ms + 1);
            retries.insert(Retry { at_ms, element, counted });
        } else {
            result.missed += u64::from(!counted);
        }
    }
    for retry in retries {
        result.settle(retry.counted, insert(retry.element, retry.at_ms));
    }
    result
}

impl Count {
    /// An operation and its retry: one of them should count.
    fn settle(&mut self, first: bool, retry: bool) {
        self.twice += u64::from(first && retry);
        self.missed += u64::from(!first && !retry);
    }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "retry_percent",
        "forgetful_error_percent",
        "recyclable_error_percent",
        "forgetful_missed",
        "forgetful_twice",
        "recyclable_missed",
        "recyclable_twice",
    ]);
    for Row { retry_percent, forgetful, recyclable } in rows {
        table.push(vec![
            Cell::Number(*retry_percent),
            Cell::Number(forgetful.error_percent()),
            Cell::Number(recyclable.error_percent()),
            Cell::Count(forgetful.missed),
            Cell::Count(forgetful.twice),
            Cell::Count(recyclable.missed),
            Cell::Count(recyclable.twice),
        ]);
    }
    table
}
