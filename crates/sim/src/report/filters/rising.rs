//! Figures 11 and 12: what a shorter period and what more filters gain.

use super::super::{
    Comparison, Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict,
};
use super::{PAPER, axis, comparison, short, worst_factor};
use crate::filters::{Effort, number, refresh};
use crate::run::{RunError, Watch};

const RATE: &str = "elements per second";
const PROBABILITY: &str = "probability of an error";
const QUICK: Effort = Effort { found_enough: 100, probes_max: 5_000_000, threads: 1 };

pub(super) const REFRESH: Experiment = Experiment {
    name: "fbf-refresh",
    title: "Shorter periods err less",
    paper: PAPER,
    figure: "Figure 11",
    setting: "Filters of three times 25,000 bits with 5 hash functions; 5,000 elements while the load rises \
              exponentially from 1 to 200 per second (the paper does not say from what to what). Each point is the \
              average over 16 filters whose refreshes are spread over the period.",
    command: "quipu sim fbf-refresh",
    run: |scale, seed, watch| {
        let effort = if scale == Scale::Full { Effort::one_thread() } else { QUICK };
        let params = refresh::Params { seed, effort, ..refresh::Params::default() };
        Ok(refresh::table(&params, &refresh::run(&params, watch)?))
    },
    x: axis("rate", RATE, Spread::Linear),
    panels: &[Panel {
        label: PROBABILITY,
        spread: Spread::Log,
        series: &[
            Series {
                column: "corrected_5000ms",
                label: "5 s, corrected equation",
                mark: Mark::Line,
                colour: 0,
            },
            Series { column: "measured_5000ms", label: "5 s, measured", mark: Mark::Dots, colour: 0 },
            Series {
                column: "corrected_3000ms",
                label: "3 s, corrected equation",
                mark: Mark::Line,
                colour: 1,
            },
            Series { column: "measured_3000ms", label: "3 s, measured", mark: Mark::Dots, colour: 1 },
            Series {
                column: "corrected_2000ms",
                label: "2 s, corrected equation",
                mark: Mark::Line,
                colour: 2,
            },
            Series { column: "measured_2000ms", label: "2 s, measured", mark: Mark::Dots, colour: 2 },
            Series {
                column: "corrected_1000ms",
                label: "1 s, corrected equation",
                mark: Mark::Line,
                colour: 3,
            },
            Series { column: "measured_1000ms", label: "1 s, measured", mark: Mark::Dots, colour: 3 },
        ],
    }],
    references: |table| at_100(table, "corrected_1000ms", 1_000.0, "paper: 1000 times the 1 s filter …"),
    compare: |table| {
        let [by_model, measured] = ["corrected", "measured"].map(|by| ratio(table, by, "5000ms", "1000ms"));
        let near = by_model.is_some_and(|ratio| (500.0..2_000.0).contains(&ratio));
        vec![
            comparison(
                "5 s against 1 s at 100 per second, by the equation",
                "1000",
                short(by_model),
                Verdict::agrees_if(near),
            ),
            comparison("the same, measured", "", short(measured), Verdict::Ours),
        ]
    },
    remarks: "The factor depends on the rise, which the paper does not give. Under a steady load it is at most 5 to \
              the power of 5 hash functions, 3125; the steeper the rise, the less there is in the old filters of a \
              long period, and the smaller the factor. Equation and measurement lie on each other.",
};

const NUMBER_SERIES: [Series; 8] = [
    Series { column: "corrected_24", label: "24 filters, corrected equation", mark: Mark::Line, colour: 0 },
    Series { column: "measured_24", label: "24 filters, measured", mark: Mark::Dots, colour: 0 },
    Series { column: "corrected_12", label: "12 filters, corrected equation", mark: Mark::Line, colour: 1 },
    Series { column: "measured_12", label: "12 filters, measured", mark: Mark::Dots, colour: 1 },
    Series { column: "corrected_6", label: "6 filters, corrected equation", mark: Mark::Line, colour: 2 },
    Series { column: "measured_6", label: "6 filters, measured", mark: Mark::Dots, colour: 2 },
    Series { column: "corrected_3", label: "3 filters, corrected equation", mark: Mark::Line, colour: 3 },
    Series { column: "measured_3", label: "3 filters, measured", mark: Mark::Dots, colour: 3 },
];

pub(super) const FRESH: Experiment = Experiment {
    name: "fbf-filters",
    title: "More filters err less, as long as they are empty",
    paper: PAPER,
    figure: "Figure 12",
    setting: "New filters of 6,250 bits with 5 hash functions and a period of 5 s; 3,000 elements while the load \
              rises evenly from 0 to 150 per second (the paper does not say how far). Each point is the average over \
              16 filters whose refreshes are spread over the period.",
    command: "quipu sim fbf-filters",
    run: |scale, seed, watch| run_number(number::Start::Fresh, scale, seed, watch),
    x: axis("rate", RATE, Spread::Linear),
    panels: &[Panel { label: PROBABILITY, spread: Spread::Log, series: &NUMBER_SERIES }],
    references: |table| at_100(table, "corrected_24", 5.5, "paper: 5.5 times 24 filters …"),
    compare: |table| {
        let [by_paper, by_model, measured] =
            ["equation_3", "corrected", "measured"].map(|by| ratio(table, by, "3", "24"));
        let near = measured.is_some_and(|ratio| (2.75..11.0).contains(&ratio));
        let mut rows = vec![
            comparison(
                "3 filters against 24 at 100 per second, measured",
                "5.5",
                short(measured),
                Verdict::agrees_if(near),
            ),
            comparison("the same by the corrected equation", "", short(by_model), Verdict::Ours),
            comparison("the same by equation 3", "", short(by_paper), Verdict::Ours),
        ];
        rows.extend(factors(table));
        rows
    },
    remarks: "The order is the paper’s, but not its reason. The oldest filter is asked alone and makes most of the \
              errors; with 24 filters and 5 s it stays empty for two minutes, and the run is over by then. So filters \
              are spared errors only for as long as they have forgotten nothing. The next experiment shows the same \
              filters once they are all in use.",
};

pub(super) const STEADY: Experiment = Experiment {
    name: "fbf-filters-steady",
    title: "More filters err more, once they are in use",
    paper: PAPER,
    figure: "Figure 12, in the steady state",
    setting: "The same filters; each rate has lasted for as long as it takes to use all of them.",
    command: "quipu sim fbf-filters --start steady",
    run: |scale, seed, watch| run_number(number::Start::Steady, scale, seed, watch),
    x: axis("rate", RATE, Spread::Linear),
    panels: &[Panel { label: PROBABILITY, spread: Spread::Log, series: &NUMBER_SERIES }],
    references: |table| at_100(table, "corrected_24", 5.5, "paper: 5.5 times 24 filters …"),
    compare: |table| {
        let measured = ratio(table, "measured", "3", "24");
        let less = measured.is_some_and(|ratio| ratio > 1.0);
        let mut rows = vec![comparison(
            "3 filters against 24 at 100 per second, measured",
            "5.5",
            short(measured),
            Verdict::agrees_if(less),
        )];
        rows.extend(factors(table));
        rows
    },
    remarks: "With the period as it is, the oldest filter holds as much however many there are, and every further \
              filter adds a pair that may err. More filters help only if the period is made shorter with them, as \
              the resizing does.",
};

fn run_number(
    start: number::Start,
    scale: Scale,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<Table, RunError> {
    let effort = if scale == Scale::Full { Effort::one_thread() } else { QUICK };
    let params = number::Params { start, seed, effort, ..number::Params::default() };
    Ok(number::table(&params, &number::run(&params, watch)?))
}

/// A line across at so many times the value at 100 per second.
fn at_100(table: &Table, column: &str, times: f64, label: &str) -> Vec<Reference> {
    let Some(value) = table.at("rate", 100.0, column) else { return Vec::new() };
    vec![
        Reference { panel: 0, place: Place::Across(times * value), label: label.to_owned() },
        Reference { panel: 0, place: Place::Down(100.0), label: "… at 100 per second".to_owned() },
    ]
}

fn ratio(table: &Table, by: &str, one: &str, other: &str) -> Option<f64> {
    let value = |kind: &str| table.at("rate", 100.0, &format!("{by}_{kind}"));
    Some(value(one)? / value(other)?)
}

fn factors(table: &Table) -> Vec<Comparison> {
    let worst = |by: &str| {
        let of_kind =
            |kind| worst_factor(table, &format!("measured_{kind}"), &format!("{by}_{kind}"), |_| true);
        [3, 6, 12, 24].into_iter().filter_map(of_kind).reduce(f64::max)
    };
    vec![
        comparison(
            "measured against equation 3, largest factor",
            "",
            short(worst("equation_3")),
            Verdict::Ours,
        ),
        comparison(
            "measured against the corrected equation, largest factor",
            "",
            short(worst("corrected")),
            Verdict::Ours,
        ),
    ]
}
