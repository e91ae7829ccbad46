//! Figure 13: resizing.

use super::super::{
    Comparison, Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict,
};
use super::{PAPER, axis, comparison, short};
use crate::filters::{Effort, adapt};
use crate::run::{RunError, Watch};
use quipu_crdt::bloom::Limits;

const TARGET: f64 = 0.01;

const TIME: super::Axis = axis("time_s", "time in s", Spread::Linear);

const OURS: Panel = Panel {
    label: "probability of an error",
    spread: Spread::Log,
    series: &[
        Series { column: "corrected", label: "ours, corrected equation", mark: Mark::Line, colour: 0 },
        Series { column: "measured", label: "ours, measured", mark: Mark::Dots, colour: 6 },
        Series {
            column: "equation_3", label: "ours, the paper’s equation 3", mark: Mark::Dashes, colour: 1
        },
    ],
};

const PRINTED: Panel = Panel {
    label: "probability of an error",
    spread: Spread::Log,
    series: &[
        Series {
            column: "printed_equation_3",
            label: "as printed, equation 3",
            mark: Mark::Dashes,
            colour: 1,
        },
        Series { column: "printed_measured", label: "as printed, measured", mark: Mark::Dots, colour: 6 },
    ],
};

const KNOBS: Panel = Panel {
    label: "filters, and period in s",
    spread: Spread::Linear,
    series: &[
        Series { column: "filters", label: "ours, filters", mark: Mark::Line, colour: 0 },
        Series { column: "period_s", label: "ours, period", mark: Mark::Dashes, colour: 0 },
        Series { column: "printed_filters", label: "as printed, filters", mark: Mark::Line, colour: 1 },
        Series { column: "printed_period_s", label: "as printed, period", mark: Mark::Dashes, colour: 1 },
    ],
};

const LOAD: Panel = Panel {
    label: "elements per second; %",
    spread: Spread::Linear,
    series: &[
        Series { column: "rate", label: "load", mark: Mark::Line, colour: 2 },
        Series {
            column: "printed_forgotten_percent",
            label: "as printed, % of the window forgotten",
            mark: Mark::Dots,
            colour: 1,
        },
    ],
};

pub(super) const GROWING: Experiment = Experiment {
    name: "fbf-adapt",
    title: "Resizing holds the target while the load rises",
    paper: PAPER,
    figure: "Figure 13",
    setting: "Three filters of 6,250 bits, 5 hash functions, a period of 11 s, a review every second. The load rises \
              evenly from 10 to 60 per second in ten minutes and falls back in one; the target is 1 %, the window \
              20 s, filters grow to at most 50,000 bits, periods to at most 13 s (the paper gives none of these).",
    command: "quipu sim fbf-adapt",
    run: |scale, seed, watch| run(50_000, scale, seed, watch),
    x: TIME,
    panels: &[OURS, PRINTED, KNOBS, LOAD],
    references,
    compare: |table| {
        let mut rows = vec![held(table)];
        rows.extend(printed(table));
        rows
    },
    remarks: "Two things differ. Ours goes by the corrected equation and also makes filters larger, ahead of the \
              load; the number of filters then need not change. The resizing as printed adds empty filters at the \
              old end: from then on the filter that was the oldest is not asked alone any more, so its elements are \
              forgotten though they are within the window, and equation 3 drops at once while errors do not. Its \
              estimate stays below the target for most of the time; the errors do not. A rise from 10 to 60 per \
              second within one minute is too steep for ours too (--load 0:10,60000:60 --end-ms 60000: 2.6 times the \
              target): what filters already hold cannot be helped.",
};

pub(super) const FIXED: Experiment = Experiment {
    name: "fbf-adapt-fixed",
    title: "Resizing by number and period alone does not",
    paper: PAPER,
    figure: "Figure 13, sizes fixed",
    setting: "The same load, but filters stay at 6,250 bits, as in the paper.",
    command: "quipu sim fbf-adapt --bits-max 6250",
    run: |scale, seed, watch| run(6_250, scale, seed, watch),
    x: TIME,
    panels: &[OURS, KNOBS],
    references,
    compare: |table| vec![held(table)],
    remarks: "The resizing of the paper with its two knobs, but without its mistakes: nothing of the window is \
              forgotten and the corrected equation decides. When it acts, the filters that are about to become the \
              oldest are already too full, and more filters by themselves err more. A target is held only if filters \
              can become larger.",
};

fn run(bits_max: u64, scale: Scale, seed: u64, watch: &mut Watch<'_>) -> Result<Table, RunError> {
    let full = adapt::Params::default();
    let (stats_ms, probes_max) = match scale {
        Scale::Full => (full.stats_ms, full.effort.probes_max),
        Scale::Quick => (10_000, 1_000_000),
    };
    let limits = Limits { bits_max, ..full.limits };
    let effort = Effort { threads: 1, probes_max, ..full.effort };
    Ok(adapt::table(&adapt::run(&adapt::Params { limits, stats_ms, effort, seed, ..full }, watch)?))
}

fn references(_: &Table) -> Vec<Reference> {
    let label = "the target, 1 %".to_owned();
    vec![
        Reference { panel: 0, place: Place::Across(TARGET), label: label.clone() },
        Reference { panel: 1, place: Place::Across(TARGET), label },
    ]
}

fn held(table: &Table) -> Comparison {
    let most = table.max("measured");
    let verdict = Verdict::agrees_if(most.is_some_and(|most| most < TARGET));
    comparison("ours: highest measured rate (target 0.01)", "below the target", short(most), verdict)
}

fn printed(table: &Table) -> Vec<Comparison> {
    let most = table.max("printed_measured");
    let forgotten = table.max("printed_forgotten_percent");
    let ours = table.max("forgotten_percent");
    let percent =
        |share: Option<f64>| share.map_or("not measured".to_owned(), |share| format!("{share:.1} %"));
    vec![
        comparison(
            "as printed: highest measured rate (target 0.01)",
            "below the target",
            short(most),
            Verdict::agrees_if(most.is_some_and(|most| most < TARGET)),
        ),
        comparison(
            "as printed: most of the window forgotten",
            "nothing",
            percent(forgotten),
            Verdict::agrees_if(forgotten == Some(0.0)),
        ),
        comparison(
            "ours: most of the window forgotten",
            "nothing",
            percent(ours),
            Verdict::agrees_if(ours == Some(0.0)),
        ),
    ]
}
