//! Throughput against latency.

use super::{FACTOR, PAPER, comparison, near, no_references, of_each, short};
use crate::bounded::load;
use crate::report::{Cell, Comparison, Experiment, Mark, Panel, Scale, Series, Spread, Table, Verdict};
use crate::run::{RunError, Watch};

const MEANS: [Series; 4] = of_each(["weak_ms", "strong_ms", "ours_ms", "unbatched_ms"], Mark::Line);
const PANELS: &[Panel] = &[Panel { label: "mean latency in ms", spread: Spread::Log, series: &MEANS }];

pub(super) const ONE: Experiment = Experiment {
    name: "bounded-load",
    title: "A counter with a limit: more and more clients",
    paper: PAPER,
    figure: "Figure 4",
    setting: "Three sites and one counter, far from its limit; from 3 to 10,000 clients that add one (20 %) or subtract \
              one (80 %), 100 ms after the last answer, for two minutes each. A commit takes 1 ms and a command \
              50 µs in all configurations. Each curve begins with few clients.",
    command: "quipu sim bounded-load",
    run: |scale, seed, watch| measure(1, scale, seed, watch),
    x: super::axis("per_s", "operations per second", Spread::Log),
    panels: PANELS,
    references: no_references,
    compare: |table| {
        let mut rows = vec![
            near("weak, most operations per second", 3_000.0, highest(table, "weak_ms"), FACTOR),
            keeps_up("weak", "weak_ms", table),
        ];
        let (most, last) = (highest(table, "strong_ms"), last(table, "strong_ms"));
        rows.push(comparison(
            "strong, operations per second: the most, and with the most clients",
            "degrades quickly",
            format!("{}, {}", short(most), short(last)),
            Verdict::agrees_if(most.zip(last).is_some_and(|(most, last)| last < 0.5 * most)),
        ));
        rows.extend(compare_batching(table));
        let (alone, weak) = (highest(table, "unbatched_ms"), highest(table, "weak_ms"));
        rows.push(comparison(
            "ours with a commit for each command against weak, most operations per second",
            "much lower",
            format!("{} against {}", short(alone), short(weak)),
            Verdict::agrees_if(alone.zip(weak).is_some_and(|(alone, weak)| alone < 0.75 * weak)),
        ));
        rows
    },
    remarks: "The cost of a commit is chosen so that the plain counter gets as far as in the paper; everything else \
              follows. A conditional write that comes too late is tried again at once, and costs the server two \
              commands: hundreds of clients keep it busy with that. Without batching ours gets a little further than \
              the plain counter, not less far as in the paper, because it is no layer above a database and need not \
              read before it writes.",
};

pub(super) const HUNDRED: Experiment = Experiment {
    name: "bounded-load-100",
    title: "A hundred counters with limits: more and more clients",
    paper: PAPER,
    figure: "Figure 7",
    setting: "As before with a hundred counters, of which each operation takes one at random. They belong to the three \
              workers of each site.",
    command: "quipu sim bounded-load --counters 100",
    run: |scale, seed, watch| measure(100, scale, seed, watch),
    x: super::axis("per_s", "operations per second", Spread::Log),
    panels: PANELS,
    references: no_references,
    compare: |table| {
        let mut rows = vec![
            near("weak, most operations per second", 9_000.0, highest(table, "weak_ms"), FACTOR),
            keeps_up("strong", "strong_ms", table),
        ];
        let (ours, weak) = (highest(table, "ours_ms"), highest(table, "weak_ms"));
        rows.push(comparison(
            "ours against weak, most operations per second",
            "surpasses it",
            format!("{} against {}", short(ours), short(weak)),
            Verdict::agrees_if(ours.zip(weak).is_some_and(|(ours, weak)| ours > weak)),
        ));
        rows.extend(compare_batching(table).into_iter().map(|row| Comparison {
            verdict: Verdict::Ours,
            paper: String::new(),
            ..row
        }));
        rows
    },
    remarks: "The paper writes each counter by itself, so that its batches become small here. Ours commits all counters \
              of a worker together, and a hundred counters cost it no more than one. The plain counter does not get \
              three times as far as before although three workers have a part: what other sites have counted in a \
              hundred counters comes in many more messages than in one. Conditional writes do not hold their \
              throughput with thousands of clients as in the paper: tries that come too late and are repeated at once \
              fill the queues, so that the next ones come too late as well.",
};

fn measure(counters: usize, scale: Scale, seed: u64, watch: &mut Watch<'_>) -> Result<Table, RunError> {
    let full = load::Params { counters, seed, ..load::Params::default() };
    let params = match scale {
        Scale::Full => full,
        Scale::Quick => load::Params { clients: vec![3, 100, 600, 6_000], seconds: 4, ..full },
    };
    Ok(load::table(&load::run(&params, watch)?))
}

/// Throughputs of the configuration that has its latencies in this column, from few clients to many.
fn throughputs(table: &Table, latency: &str) -> Vec<f64> {
    let rows = table.column("per_s").zip(table.column(latency));
    rows.filter(|(_, latency)| *latency != Cell::Missing).filter_map(|(per_s, _)| per_s.value()).collect()
}

fn highest(table: &Table, latency: &str) -> Option<f64> {
    throughputs(table, latency).into_iter().reduce(f64::max)
}

fn last(table: &Table, latency: &str) -> Option<f64> {
    throughputs(table, latency).last().copied()
}

fn keeps_up(name: &str, latency: &str, table: &Table) -> Comparison {
    let (most, last) = (highest(table, latency), last(table, latency));
    comparison(
        &format!("{name}, operations per second: the most, and with the most clients"),
        "does not degrade",
        format!("{}, {}", short(most), short(last)),
        Verdict::agrees_if(most.zip(last).is_some_and(|(most, last)| last > 0.8 * most)),
    )
}

fn compare_batching(table: &Table) -> Option<Comparison> {
    let (batched, alone) = (highest(table, "ours_ms")?, highest(table, "unbatched_ms")?);
    Some(comparison(
        "ours, most operations per second, against a commit for each command",
        "“orders of magnitude”",
        format!("{} against {}", short(Some(batched)), short(Some(alone))),
        Verdict::agrees_if(batched >= 10.0 * alone),
    ))
}
