//! Figures 8 to 10: how often a filter errs.

use super::super::{
    Cell, Comparison, Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict,
};
use super::{MODEL_SERIES, PAPER, axis, comparison, no_references, short, worst_factor};
use crate::filters::{Effort, membership, model};
use crate::run::{RunError, Watch};

const PROBABILITY: &str = "probability of an error";

/// A quick run leaves out the points at which errors are too rare for it.
const QUICK: Effort = Effort { found_enough: 100, probes_max: 10_000_000, threads: 1 };

pub(super) const MEMBERSHIP: Experiment = Experiment {
    name: "fbf-membership",
    title: "Asking pairs of filters against asking any filter",
    paper: PAPER,
    figure: "Figure 8",
    setting: "A filter of three times 6,250 bits with 5 hash functions and a period of 5 s. Elements are inserted \
              evenly over two periods (the paper does not say how), then others are looked up until 100 are found.",
    command: "quipu sim fbf-membership",
    run: run_membership,
    x: axis("elements", "elements inserted", Spread::Linear),
    panels: &[Panel {
        label: PROBABILITY,
        spread: Spread::Log,
        series: &[
            Series { column: "simple", label: "simple check: any filter", mark: Mark::Line, colour: 1 },
            Series { column: "optimised", label: "optimised check: pairs", mark: Mark::Line, colour: 0 },
        ],
    }],
    references: |table| {
        let Some(simple) = table.at("elements", 300.0, "simple") else { return Vec::new() };
        let across = Place::Across(simple / 10.0);
        vec![
            Reference { panel: 0, place: across, label: "paper: 90 % below simple …".to_owned() },
            Reference { panel: 0, place: Place::Down(300.0), label: "… at 300 elements".to_owned() },
        ]
    },
    compare: |table| {
        let less = table.at("elements", 300.0, "percent_less");
        let ours = less.map_or("not measured".to_owned(), |less| format!("{less:.1} %"));
        let verdict = Verdict::agrees_if(less.is_some_and(|less| less >= 80.0));
        vec![comparison("errors saved by the optimised check at 300 elements", "90 %", ours, verdict)]
    },
    remarks: "The optimised check asks the present filter only together with the past one. With elements spread \
              over two periods the present filter holds twice as many as the others and makes nearly all errors of \
              the simple check, so more is saved than with all elements in one period.",
};

fn run_membership(scale: Scale, seed: u64, watch: &mut Watch<'_>) -> Result<Table, RunError> {
    let full = membership::Params { seed, effort: Effort::one_thread(), ..membership::Params::default() };
    let params = match scale {
        Scale::Full => full,
        Scale::Quick => membership::Params { elements: vec![250, 300, 400, 500, 600], effort: QUICK, ..full },
    };
    Ok(membership::table(&membership::run(&params, watch)?))
}

pub(super) const FIGURE_9: Experiment = Experiment {
    name: "fbf-model-elements",
    title: "Equation and measurement, by elements",
    paper: PAPER,
    figure: "Figure 9",
    setting: "A filter of three times 6,250 bits with 5 hash functions and a period of 5 s; elements inserted evenly \
              over two periods.",
    command: "quipu sim fbf-model",
    run: |scale, seed, watch| {
        let full = model::Params::figure_9();
        let quick = model::Params { elements: vec![250, 300, 400, 600, 800, 1_000], ..full.clone() };
        run_model(if scale == Scale::Full { full } else { quick }, scale, seed, watch)
    },
    x: axis("elements", "elements inserted", Spread::Linear),
    panels: &[Panel { label: PROBABILITY, spread: Spread::Log, series: &MODEL_SERIES }],
    references: no_references,
    compare: |table| compare_model(table, true),
    remarks: "In a filter of three there is only one pair of neighbours, and the oldest filter is asked alone \
              anyway, so nothing depends on what neighbours share: equation 3 and the corrected one are nearly \
              equal, and both are right.",
};

pub(super) const FIGURE_10: Experiment = Experiment {
    name: "fbf-model-bits",
    title: "Equation and measurement, by size",
    paper: PAPER,
    figure: "Figure 10",
    setting: "300 elements, inserted evenly over two periods of 5 s, in filters of three times 5,000 to 30,000 bits \
              with 5 hash functions.",
    command: "quipu sim fbf-model --figure 10",
    run: |scale, seed, watch| {
        let full = model::Params::figure_10();
        let quick = model::Params { bits: vec![4_000, 5_000, 6_250, 7_500, 10_000], ..full.clone() };
        run_model(if scale == Scale::Full { full } else { quick }, scale, seed, watch)
    },
    x: axis("bits", "bits of each filter", Spread::Linear),
    panels: &[Panel { label: PROBABILITY, spread: Spread::Log, series: &MODEL_SERIES }],
    references: no_references,
    compare: |table| compare_model(table, true),
    remarks: "The paper looked up 200,000 elements for each point. Filters of 10,000 bits and more err less than \
              once in that many, so its right half cannot have been measured; here up to 4,000,000,000 are looked \
              up.",
};

pub(super) const ALL_IN_USE: Experiment = Experiment {
    name: "fbf-model-in-use",
    title: "Equation and measurement, all of eight filters in use",
    paper: PAPER,
    figure: "beyond the paper",
    setting: "Eight filters of 6,250 bits with 5 hash functions; elements inserted evenly over nine periods, so that \
              the oldest filter has been forgotten once.",
    command: "quipu sim fbf-model --past 6 --periods 9 --elements 900,1800,2700,3600,5400",
    run: |scale, seed, watch| run_model(model::Params::all_in_use(), scale, seed, watch),
    x: axis("elements", "elements inserted, over nine periods", Spread::Linear),
    panels: &[Panel { label: PROBABILITY, spread: Spread::Log, series: &MODEL_SERIES }],
    references: no_references,
    compare: |table| compare_model(table, false),
    remarks: "Equation 3 takes neighbours for independent. But every element is put into two of them, so a pair errs \
              far more often than the product of its two probabilities. The more pairs there are the more it \
              matters; after a burst or a scale-up it matters most.",
};

fn run_model(
    params: model::Params,
    scale: Scale,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<Table, RunError> {
    let effort = match scale {
        Scale::Full => Effort { threads: 1, ..params.effort },
        Scale::Quick => QUICK,
    };
    Ok(model::table(&model::run(&model::Params { seed, effort, ..params }, watch)?))
}

/// Fewer errors than this tell a rate too roughly to be compared.
const FOUND_MIN: f64 = 20.0;

fn compare_model(table: &Table, in_paper: bool) -> Vec<Comparison> {
    let found: Vec<f64> = table.column("found").filter_map(Cell::value).collect();
    let enough = |row: usize| found.get(row).is_some_and(|found| *found >= FOUND_MIN);
    let paper = worst_factor(table, "measured", "equation_3", enough);
    let corrected = worst_factor(table, "measured", "corrected", enough);
    let says = if in_paper { "“reasonably matches”" } else { "" };
    let verdict =
        if in_paper { Verdict::agrees_if(paper.is_some_and(|factor| factor <= 1.5)) } else { Verdict::Ours };
    vec![
        comparison("measured against equation 3, largest factor", says, short(paper), verdict),
        comparison(
            "measured against the corrected equation, largest factor",
            "",
            short(corrected),
            Verdict::Ours,
        ),
    ]
}
