//! Figures 9 and 10: what the equations say against what is measured.

use super::membership::{check_filling, filled};
use super::probe::{Effort, Measured, measure};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, all_within};
use quipu_crdt::bloom::{BITS_MAX, Forgetful, Settings};

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter. Its `bits` are replaced by each of those below.
    pub settings: Settings,
    /// Sizes of filters.
    pub bits: Vec<u64>,
    /// Elements inserted; every number into filters of every size.
    pub elements: Vec<u64>,
    /// Over so many periods they are inserted evenly.
    pub periods: u64,
    /// How long to look for errors.
    pub effort: Effort,
    /// Same seed, same result.
    pub seed: u64,
}

impl Params {
    /// Figure 9: basic filters of 6,250 bits with ever more elements.
    pub fn figure_9() -> Self {
        Params {
            settings: Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 5_000 },
            bits: vec![6_250],
            elements: vec![100, 150, 200, 300, 400, 500, 600, 800, 1_000],
            periods: 2,
            effort: Effort::default(),
            seed: 1,
        }
    }

    /// Figure 10: 300 elements in filters of 5 to 30 thousand bits. The largest err so rarely (twice in a
    /// hundred million) that a billion elements find only 18 errors, too few to judge by: look longer.
    pub fn figure_10() -> Self {
        Params {
            bits: (1..=6).map(|size| 5_000 * size).collect(),
            elements: vec![300],
            effort: Effort { probes_max: 4_000_000_000, ..Effort::default() },
            ..Params::figure_9()
        }
    }

    /// Not in the paper: more past filters, all of them in use, where it matters that neighbours share
    /// elements.
    pub fn all_in_use() -> Self {
        let Params { settings, .. } = Params::figure_9();
        let settings = Settings { past: 6, ..settings };
        Params { settings, elements: vec![900, 1_800, 2_700, 3_600, 5_400], periods: 9, ..Params::figure_9() }
    }
}

/// One size and one number of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The size.
    pub bits: u64,
    /// Elements inserted.
    pub elements: u64,
    /// By the paper's equation 3.
    pub equation_3: f64,
    /// By the corrected model.
    pub corrected: f64,
    /// As it is.
    pub measured: Measured,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    check_filling(&params.settings, &params.elements, params.periods)?;
    all_within("--bits", &params.bits, &(1..=BITS_MAX))?;
    params.effort.check()
}

/// Calculates and measures for every size and number of elements.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let Params { effort, seed, .. } = params;
    let all = (params.bits.len() * params.elements.len()) as f64;
    let mut rows = Vec::new();
    for &bits in &params.bits {
        for &elements in &params.elements {
            let settings = Settings { bits, ..params.settings };
            let filters = filled(settings, elements, params.periods, *seed);
            let done = rows.len() as f64;
            let mut watch = |part| watch((done + part) / all);
            let measured = measure(&filters, *seed, effort, Forgetful::contains, &mut watch)?;
            let (equation_3, corrected) = (filters[0].estimate_by_equation_3(), filters[0].estimate());
            rows.push(Row { bits, elements, equation_3, corrected, measured });
        }
    }
    Ok(rows)
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "bits",
        "elements",
        "equation_3",
        "corrected",
        "measured",
        "measured_by_equation_3",
        "measured_by_corrected",
        "probes",
        "found",
    ]);
    for row in rows {
        table.push(vec![
            Cell::Count(row.bits),
            Cell::Count(row.elements),
            Cell::Rate(row.equation_3),
            Cell::Rate(row.corrected),
            Cell::Rate(row.measured.rate()),
            Cell::Number(row.measured.rate() / row.equation_3),
            Cell::Number(row.measured.rate() / row.corrected),
            Cell::Count(row.measured.probes),
            Cell::Count(row.measured.found),
        ]);
    }
    table
}
