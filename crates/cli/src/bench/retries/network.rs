//! Figure 17: the value of a counter after some operations under losses, and delays beyond the clients' time-out.

use super::Bench;
use super::args::Args;
use super::proxy::Faults;
use super::report::{Figure, comparison, counted, exact_with_ids, wrong};
use super::trial::{Conditions, Sample, Until};
use crate::bench::bars::{self, Bar, Chart};
use crate::failure::Failure;
use quipu_sim::report::{Cell, Table, Verdict};
use std::time::Duration;

/// Each delay is tried with these losses.
const LOSSES: [f64; 2] = [0.0, 0.05];

/// A condition of the network and what became of the counters.
struct Row {
    loss: f64,
    delay_ms: u64,
    end: Sample,
    retries: u64,
}

impl Row {
    fn condition(&self) -> String {
        format!("{:.0} %, {} ms", 100.0 * self.loss, self.delay_ms)
    }
}

pub(super) fn steps(args: &Args) -> usize {
    LOSSES.len() * args.delay_ms.len()
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Option<Figure>, Failure> {
    let args = bench.args;
    let mut rows = Vec::new();
    for loss in LOSSES {
        for &delay_ms in &args.delay_ms {
            let conditions = Conditions {
                faults: Faults { loss, delay_mean: Duration::from_millis(delay_ms), batch: 1 },
                timeout: args.timeout(),
                clients: args.clients,
                rate: args.rate,
                until: Until::Operations(args.operations),
                samples: 0,
            };
            let outcome = bench.trial(&format!("fig17-{}", rows.len()), &conditions)?;
            rows.push(Row { loss, delay_ms, end: outcome.end, retries: outcome.retries });
        }
    }
    figure(args, &rows).map(Some)
}

fn figure(args: &Args, rows: &[Row]) -> Result<Figure, Failure> {
    let mut table = Table::new([
        "loss_percent",
        "delay_ms",
        "delay_per_timeout",
        "issued",
        "without_ids",
        "with_ids",
        "error_without_percent",
        "error_with_ids_percent",
        "retries",
    ]);
    for Row { loss, delay_ms, end, retries } in rows {
        table.push(vec![
            Cell::Number(100.0 * loss),
            Cell::Count(*delay_ms),
            Cell::Number(*delay_ms as f64 / args.timeout_ms as f64),
            Cell::Count(end.issued),
            counted(end.without),
            end.with_ids.map_or(Cell::Missing, counted),
            Cell::Number(end.error_without()),
            end.error_with().map_or(Cell::Missing, Cell::Number),
            Cell::Count(*retries),
        ]);
    }
    let average = rows.iter().map(|row| row.end.error_without()).sum::<f64>() / rows.len().max(1) as f64;
    let errors_with: Vec<Option<f64>> = rows.iter().map(|row| row.end.error_with()).collect();
    Ok(Figure {
        name: "fig17",
        title: "A counter under loss and delay",
        figure: "figure 17",
        setting: format!(
            "{} adds at {} per second for each condition; delays are exponential with the given mean, and clients try \
             again after {} ms (2 s in the paper, which does not give its losses and delays).",
            args.operations, args.rate, args.timeout_ms
        ),
        table,
        svg: bars::svg(&charts(rows)).map_err(Failure::failed)?,
        compare: vec![
            comparison(
                "error without ids, average over the conditions",
                "5 %",
                format!("{average:.2} %"),
                Verdict::agrees_if((2.5..=10.0).contains(&average)),
            ),
            exact_with_ids(&errors_with),
        ],
        wrong: rows
            .iter()
            .flat_map(|row| wrong("figure 17", &format!("loss and delay {}", row.condition()), &row.end))
            .collect(),
    })
}

/// The counters above, as in the paper, and below how far they are off.
fn charts(rows: &[Row]) -> Vec<Chart> {
    let groups = |bars: &dyn Fn(&Sample) -> Vec<Option<Bar>>| {
        rows.iter().map(|row| (row.condition(), bars(&row.end))).collect()
    };
    let series = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    vec![
        Chart {
            title: "The counter in the end, by loss and mean delay".to_owned(),
            label: "value of the counter".to_owned(),
            series: series(&["with ids", "without ids", "adds issued"]),
            groups: groups(&|end| {
                vec![
                    end.with_ids.map(|value| Bar::exactly(value as f64)),
                    Some(Bar::exactly(end.without as f64)),
                    Some(Bar::exactly(end.issued as f64)),
                ]
            }),
        },
        Chart {
            title: "Counted too often".to_owned(),
            label: "%".to_owned(),
            series: series(&["with ids", "without ids"]),
            groups: groups(&|end| {
                vec![end.error_with().map(Bar::exactly), Some(Bar::exactly(end.error_without()))]
            }),
        },
    ]
}
