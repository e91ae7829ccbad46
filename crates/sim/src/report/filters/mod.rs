//! The experiments with the forgetful Bloom filter, as the report shows them.

mod adapt;
mod counters;
mod rates;
mod rising;

use super::{Axis, Cell, Comparison, Experiment, Mark, Reference, Series, Spread, Table, Verdict};

const PAPER: &str = "Idempotent Distributed Counters Using a Forgetful Bloom Filter";

/// In the order of the paper's figures.
pub(super) static EXPERIMENTS: [Experiment; 11] = [
    rates::MEMBERSHIP,
    rates::FIGURE_9,
    rates::FIGURE_10,
    rates::ALL_IN_USE,
    rising::REFRESH,
    rising::FRESH,
    rising::STEADY,
    adapt::GROWING,
    adapt::FIXED,
    counters::RETRIES,
    counters::RECYCLABLE,
];

/// The three curves wherever the model is compared: what is calculated as lines, what is measured as dots.
const MODEL_SERIES: [Series; 3] = [
    Series { column: "corrected", label: "corrected equation", mark: Mark::Line, colour: 0 },
    Series { column: "equation_3", label: "the paper’s equation 3", mark: Mark::Dashes, colour: 1 },
    Series { column: "measured", label: "measured", mark: Mark::Dots, colour: 6 },
];

pub(super) const fn axis(column: &'static str, label: &'static str, spread: Spread) -> Axis {
    Axis { column, label, spread }
}

pub(super) fn no_references(_: &Table) -> Vec<Reference> {
    Vec::new()
}

pub(super) fn comparison(what: &str, paper: &str, ours: String, verdict: Verdict) -> Comparison {
    Comparison { what: what.to_owned(), paper: paper.to_owned(), ours, verdict }
}

/// A number with three digits, or that there is none.
pub(super) fn short(number: Option<f64>) -> String {
    match number {
        None => "not measured".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(number) if !(0.01..100_000.0).contains(&number.abs()) => format!("{number:.2e}"),
        Some(number) if number.abs() >= 100.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
    }
}

/// The largest factor, either way, between two columns, over the rows that have both.
fn worst_factor(table: &Table, one: &str, other: &str, include: impl Fn(usize) -> bool) -> Option<f64> {
    let factor = |(one, other): (Cell, Cell)| {
        let factor = one.value()? / other.value()?;
        Some(factor.max(1.0 / factor))
    };
    let pairs = table.column(one).zip(table.column(other)).enumerate();
    pairs.filter(|(row, _)| include(*row)).filter_map(|(_, pair)| factor(pair)).reduce(f64::max)
}
