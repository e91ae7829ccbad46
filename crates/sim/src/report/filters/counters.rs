//! Figures 14 and 16: what counters are worth.

use super::super::{Experiment, Mark, Panel, Place, Reference, Scale, Series, Spread, Table, Verdict};
use super::{PAPER, axis, comparison, no_references, short};
use crate::filters::{recyclable, retries};

pub(super) const RETRIES: Experiment = Experiment {
    name: "retries",
    title: "A counter under lost acknowledgements",
    paper: PAPER,
    figure: "Figure 14",
    setting: "6,000 increments, one every 100 ms. 6 % of the acknowledgements are lost, also those of retries; a \
              client tries again after 2 s and gives up after 10 s. Three filters of 6,250 bits, 5 hash functions, a \
              period of 5 s. (The paper gives only the error in the end.)",
    command: "quipu sim retries",
    run: |scale, seed, watch| {
        let full = retries::Params { seed, ..retries::Params::default() };
        let quick = retries::Params { operations: 2_000, ..full.clone() };
        let params = if scale == Scale::Full { full } else { quick };
        Ok(retries::table(&retries::run(&params, watch)?))
    },
    x: axis("time_ms", "time in ms", Spread::Linear),
    panels: &[Panel {
        label: "value of the counter",
        spread: Spread::Linear,
        series: &[
            Series { column: "without", label: "without a filter", mark: Mark::Line, colour: 1 },
            Series { column: "with_ids", label: "with all ids", mark: Mark::Line, colour: 2 },
            Series { column: "issued", label: "increments issued", mark: Mark::Dashes, colour: 6 },
            Series { column: "with_filter", label: "with the filter", mark: Mark::Dots, colour: 0 },
        ],
    }],
    references: |table| {
        let Some(issued) = table.last("issued") else { return Vec::new() };
        let label = "paper, in the end: 6 % too high".to_owned();
        vec![Reference { panel: 0, place: Place::Across(1.06 * issued), label }]
    },
    compare: |table| {
        let error = |column: &str| Some(100.0 * (table.last(column)? / table.last("issued")? - 1.0));
        let percent =
            |error: Option<f64>| error.map_or("not measured".to_owned(), |error| format!("{error:.2} %"));
        let (without, filter, ids) = (error("without"), error("with_filter"), error("with_ids"));
        let near = without.is_some_and(|error| (4.0..8.0).contains(&error));
        vec![
            comparison("error without a filter", "6 %", percent(without), Verdict::agrees_if(near)),
            comparison(
                "error with the filter",
                "0 %",
                percent(filter),
                Verdict::agrees_if(filter == Some(0.0)),
            ),
            comparison("error with all ids", "", percent(ids), Verdict::Ours),
        ]
    },
    remarks: "At this rate the filter errs on three operations in a million, so 6,000 are counted exactly. It does \
              miss some where there are more than it was made for (--arrival-ms 5). Keeping all ids never does, and \
              needs memory for each; the filter needs 2.3 kB for good.",
};

pub(super) const RECYCLABLE: Experiment = Experiment {
    name: "fbf-vs-rbf",
    title: "A forgetful filter against one that is cleared",
    paper: PAPER,
    figure: "Figure 16",
    setting: "Three filters of 500 bits against one of 1,500, 3 hash functions. 100,000 operations, one every 250 ms, \
              of which some are retried at a random time within 10 s; periods of 5 s; the single filter is cleared at \
              a rate of errors of 1 %. (The paper gives only the sizes.)",
    command: "quipu sim fbf-vs-rbf",
    run: |scale, seed, watch| {
        let full = recyclable::Params { seed, ..recyclable::Params::default() };
        let quick = recyclable::Params { operations: 10_000, ..full.clone() };
        let params = if scale == Scale::Full { full } else { quick };
        Ok(recyclable::table(&recyclable::run(&params, watch)?))
    },
    x: axis("retry_percent", "operations that are retried, in %", Spread::Linear),
    panels: &[Panel {
        label: "operations counted wrongly, in %",
        spread: Spread::Log,
        series: &[
            Series {
                column: "forgetful_error_percent",
                label: "forgetful filter",
                mark: Mark::Line,
                colour: 0,
            },
            Series {
                column: "recyclable_error_percent",
                label: "recyclable filter",
                mark: Mark::Line,
                colour: 1,
            },
        ],
    }],
    references: no_references,
    compare: |table| {
        let at = |percent, column| table.at("retry_percent", percent, column);
        let (forgetful, recyclable) =
            (at(100.0, "forgetful_error_percent"), at(100.0, "recyclable_error_percent"));
        let steady = table.max("forgetful_error_percent").is_some_and(|most| most < 2.0);
        let twice = table.max("forgetful_twice");
        let growth = grows_by_equal_parts(table);
        vec![
            comparison(
                "forgetful filter, error in % with every operation retried",
                "steady, low",
                short(forgetful),
                Verdict::agrees_if(steady),
            ),
            comparison(
                "recyclable filter, error in % with every operation retried",
                "much higher",
                short(recyclable),
                Verdict::agrees_if(recyclable > forgetful),
            ),
            comparison(
                "how the recyclable filter’s error grows with retries",
                "“exponentially”",
                growth.to_owned(),
                Verdict::agrees_if(growth != "in proportion"),
            ),
            comparison("operations that the forgetful filter counts twice", "", short(twice), Verdict::Ours),
        ]
    },
    remarks: "Each retry is counted twice if the filter was cleared since, whatever the other operations do, so the \
              error of the recyclable filter grows in proportion to the retries. The forgetful filter counts nothing \
              twice; what it takes for a retry by mistake it may still count at the retry, so its errors even become \
              fewer. With hardly any retries the single filter is the better one.",
};

/// Is the error at 80 % retries about twice that at 40 %?
fn grows_by_equal_parts(table: &Table) -> &'static str {
    let at = |percent| table.at("retry_percent", percent, "recyclable_error_percent");
    let factor = at(80.0).zip(at(40.0)).map(|(more, less)| more / less);
    match factor {
        Some(factor) if (1.6..2.5).contains(&factor) => "in proportion",
        _ => "not in proportion",
    }
}
