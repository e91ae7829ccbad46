//! Figure 14: the value of a counter over the time while acknowledgements are lost, and its error against the loss.

use super::Bench;
use super::args::Args;
use super::proxy::Faults;
use super::report::{Figure, comparison, counted, exact_with_ids, wrong};
use super::trial::{Conditions, Outcome, Sample, Until};
use crate::failure::Failure;
use quipu_sim::report::{
    Axis, Cell, Figure as Drawing, Mark, Panel, Place, Reference, Series, Spread, Table, Verdict, draw_figure,
};
use std::time::Duration;

/// With this loss a counter is about as wrong in the end as the paper's.
const PAPER_LOSS: f64 = 0.06;
/// Rows over the time.
const SAMPLES: u32 = 20;
/// Nothing is delayed here: a client that waits for so long is in front of a server that is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

const VALUE: Panel = Panel {
    label: "value of the counter",
    spread: Spread::Linear,
    series: &[
        Series { column: "without_ids", label: "without ids", mark: Mark::Line, colour: 1 },
        Series { column: "issued", label: "adds issued", mark: Mark::Dashes, colour: 6 },
        Series { column: "with_ids", label: "with ids", mark: Mark::Dots, colour: 0 },
    ],
};

const ERROR: Panel = Panel {
    label: "counted too often, in %",
    spread: Spread::Linear,
    series: &[
        Series { column: "without_percent", label: "without ids", mark: Mark::Line, colour: 1 },
        Series { column: "batch_without_percent", label: "without, in batches", mark: Mark::Line, colour: 5 },
        Series {
            column: "expected_percent",
            label: "expected without: p / (1 - p)",
            mark: Mark::Dashes,
            colour: 6,
        },
        Series { column: "with_ids_percent", label: "with ids", mark: Mark::Line, colour: 0 },
        Series {
            column: "batch_with_ids_percent",
            label: "with ids, in batches",
            mark: Mark::Dashes,
            colour: 2,
        },
    ],
};

pub(super) fn steps(args: &Args) -> usize {
    1 + 2 * args.loss.len()
}

fn conditions(args: &Args, loss: f64, batch: usize, samples: u32) -> Conditions {
    Conditions {
        faults: Faults { loss, delay_mean: Duration::ZERO, batch },
        timeout: PATIENCE,
        clients: args.clients,
        rate: args.rate,
        until: Until::Elapsed(Duration::from_secs_f64(args.seconds)),
        samples,
    }
}

/// As in the paper: both counters and what they should be, over the time.
pub(super) fn over_time(bench: &Bench<'_>) -> Result<Option<Figure>, Failure> {
    let args = bench.args;
    let Outcome { samples, end, lost, retries } =
        bench.trial("fig14", &conditions(args, PAPER_LOSS, 1, SAMPLES))?;
    let mut table = Table::new(["time_s", "issued", "without_ids", "with_ids"]);
    for Sample { seconds, issued, without, with_ids } in samples {
        let with_ids = with_ids.map_or(Cell::Missing, counted);
        table.push(vec![Cell::Number(seconds), Cell::Count(issued), counted(without), with_ids]);
    }
    let title = "A counter under lost acknowledgements";
    let references = [Reference {
        panel: 0,
        place: Place::Across(1.06 * end.issued as f64),
        label: "paper, in the end: 6 % too high".to_owned(),
    }];
    let x = Axis { column: "time_s", label: "time in s", spread: Spread::Linear };
    let drawing = Drawing { title, x: &x, panels: &[VALUE], references: &references };
    let error = end.error_without();
    Ok(Some(Figure {
        name: "fig14",
        title,
        figure: "figure 14",
        setting: format!(
            "{} adds at {} per second; of the acknowledgements {:.0} % are lost, also those of retries ({lost} lost, \
             {retries} retries on both counters). The paper gives only the error in the end.",
            end.issued,
            args.rate,
            100.0 * PAPER_LOSS
        ),
        svg: draw_figure(&drawing, &table).map_err(Failure::failed)?,
        table,
        compare: vec![
            comparison(
                "error without ids",
                "6 %",
                format!("{error:.2} %"),
                Verdict::agrees_if((3.0..=12.0).contains(&error)),
            ),
            exact_with_ids(&[end.error_with()]),
        ],
        wrong: wrong("figure 14", "in the end", &end),
    }))
}

/// The error against the loss, one add at a time and in batches.
pub(super) fn over_loss(bench: &Bench<'_>) -> Result<Option<Figure>, Failure> {
    let args = bench.args;
    let batch = args.batch_max();
    let mut table = Table::new([
        "loss_percent",
        "expected_percent",
        "without_percent",
        "with_ids_percent",
        "batch_without_percent",
        "batch_with_ids_percent",
        "issued",
        "batch_issued",
    ]);
    let (mut errors_with, mut bad) = (Vec::new(), Vec::new());
    for (index, &loss) in args.loss.iter().enumerate() {
        let one = bench.trial(&format!("loss{index}"), &conditions(args, loss, 1, 0))?.end;
        let many = bench.trial(&format!("loss{index}b"), &conditions(args, loss, batch, 0))?.end;
        let percent = |error: Option<f64>| error.map_or(Cell::Missing, Cell::Number);
        table.push(vec![
            Cell::Number(100.0 * loss),
            Cell::Number(100.0 * loss / (1.0 - loss)),
            Cell::Number(one.error_without()),
            percent(one.error_with()),
            Cell::Number(many.error_without()),
            percent(many.error_with()),
            Cell::Count(one.issued),
            Cell::Count(many.issued),
        ]);
        errors_with.extend([one.error_with(), many.error_with()]);
        let condition = format!("loss {loss}");
        bad.extend(wrong("figure 14", &condition, &one));
        bad.extend(wrong("figure 14", &format!("{condition}, batches of {batch}"), &many));
    }
    let title = "The error against the loss";
    let x = Axis { column: "loss_percent", label: "acknowledgements lost, in %", spread: Spread::Linear };
    let drawing = Drawing { title, x: &x, panels: &[ERROR], references: &[] };
    let most = table.max("without_percent").unwrap_or(0.0);
    let expected = table.max("expected_percent").unwrap_or(0.0);
    let grows = format!("{most:.2} % (p / (1 - p) is {expected:.2} %)");
    Ok(Some(Figure {
        name: "fig14-loss",
        title,
        figure: "figure 14, for more losses",
        setting: format!(
            "As before, for {} s at each loss; one add at a time, and in batches of {batch}, whose acknowledgements \
             are lost as a whole. An operation is counted once more for each acknowledgement that it loses: p / (1 - p) \
             times on average.",
            args.seconds
        ),
        svg: draw_figure(&drawing, &table).map_err(Failure::failed)?,
        table,
        compare: vec![
            comparison("error without ids at the highest loss", "", grows, Verdict::Ours),
            exact_with_ids(&errors_with),
        ],
        wrong: bad,
    }))
}
