//! Figure 15: what ids cost where nothing is lost, one add at a time and in batches.

use super::Bench;
use super::args::Args;
use super::report::{Figure, comparison};
use crate::bench::bars::{self, Bar, Chart};
use crate::bench::compare::{Spread, quantile_ns, ratios};
use crate::bench::keys::Distribution;
use crate::bench::load::{Contestant, End, Load};
use crate::bench::round::{self, Measured};
use crate::failure::Failure;
use quipu_sim::report::{Cell, Table, Verdict};
use std::time::Duration;

/// Counters that are counted on: few enough to be at hand in any server.
const KEYS: u32 = 1_000;
/// The paper's batch.
const PAPER_BATCH: usize = 50;
/// Twice what the paper pays for ids still counts as agreeing.
const RATIO_MAX: f64 = 1.2;

const NS_PER_MS: f64 = 1_000_000.0;

pub(super) fn steps(args: &Args) -> usize {
    if args.with_ids() { args.batch.len() * connections(args).len() * args.rounds * 2 } else { 0 }
}

/// One client, as in the paper, and many.
fn connections(args: &Args) -> Vec<usize> {
    if args.clients == 1 { vec![1] } else { vec![1, args.clients] }
}

/// One size of batches over so many connections, without and with ids.
struct Pair {
    batch: usize,
    connections: usize,
    with_ids: Vec<Measured>,
    without: Vec<Measured>,
}

/// Nothing where ids are not tried: there is nothing to compare.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Option<Figure>, Failure> {
    if !bench.args.with_ids() {
        return Ok(None);
    }
    let mut pairs = Vec::new();
    for &batch in &bench.args.batch {
        for connections in connections(bench.args) {
            pairs.push(pair(bench, batch, connections)?);
        }
    }
    figure(bench.args, &pairs).map(Some)
}

fn pair(bench: &Bench<'_>, batch: usize, connections: usize) -> Result<Pair, Failure> {
    let args = bench.args;
    bench.bar.set_prefix(format!("batches of {batch}"));
    let load = Load {
        connections,
        pipeline: batch,
        keys: KEYS,
        distribution: Distribution::Uniform,
        reads: 0.0,
        run: format!("{}-{batch}-{connections}", bench.run),
        seed: args.seed,
        end: End::After(Duration::from_secs_f64(args.seconds)),
        wave_every: None,
    };
    let contestant = |with_ids| Contestant {
        label: String::new(),
        endpoint: bench.target.clone(),
        with_ids,
        prefix: format!("bench:{}:cost:", bench.run),
    };
    let mut pair = Pair { batch, connections, with_ids: Vec::new(), without: Vec::new() };
    for round in 1..=args.rounds {
        for turn in [false, true] {
            let with_ids = turn ^ round.is_multiple_of(2);
            let measured = round::run(&contestant(with_ids), &load, round, &mut |_| bench.go_on());
            let measured = measured.map_err(Failure::failed)?;
            if measured.stopped {
                return Err(Failure::Interrupted);
            }
            if let Some(error) = &measured.first_error {
                return Err(Failure::failed(format!(
                    "{} answered with an error: {error}",
                    bench.target.name
                )));
            }
            if with_ids { &mut pair.with_ids } else { &mut pair.without }.push(measured);
            bench.step();
        }
    }
    Ok(pair)
}

/// The mean latency of a batch, over rounds.
fn latency_ms(rounds: &[Measured]) -> Option<Spread> {
    Spread::of(rounds.iter().map(|measured| measured.latency.mean() / NS_PER_MS))
}

fn figure(args: &Args, pairs: &[Pair]) -> Result<Figure, Failure> {
    let mut table = Table::new([
        "batch",
        "connections",
        "without_ms",
        "with_ids_ms",
        "without_p99_ms",
        "with_ids_p99_ms",
        "without_per_s",
        "with_ids_per_s",
        "throughput_ratio",
        "latency_ratio",
    ]);
    let median = |rounds: &[Measured], number: fn(&Measured) -> f64| {
        Spread::of(rounds.iter().map(number)).map_or(Cell::Missing, |spread| Cell::Number(spread.median))
    };
    let p99 = |measured: &Measured| quantile_ns(measured, 0.99) / NS_PER_MS;
    let mut compare = Vec::new();
    for Pair { batch, connections, with_ids, without } in pairs {
        let number =
            |spread: Option<Spread>| spread.map_or(Cell::Missing, |spread| Cell::Number(spread.median));
        let throughput = ratios(with_ids, without).map(|ratios| ratios.throughput);
        let latency = Spread::of(
            with_ids.iter().zip(without).map(|(with, without)| with.latency.mean() / without.latency.mean()),
        );
        table.push(vec![
            Cell::Count(*batch as u64),
            Cell::Count(*connections as u64),
            number(latency_ms(without)),
            number(latency_ms(with_ids)),
            median(without, p99),
            median(with_ids, p99),
            median(without, Measured::per_second),
            median(with_ids, Measured::per_second),
            number(throughput),
            number(latency),
        ]);
        let (Some(latency), Some(throughput)) = (latency, throughput) else { continue };
        let is_papers = *batch == PAPER_BATCH && *connections == 1;
        let verdict = if is_papers { Verdict::agrees_if(latency.median <= RATIO_MAX) } else { Verdict::Ours };
        compare.push(comparison(
            &format!("ids, batches of {batch}, {connections} connections"),
            if is_papers { "latency +10 % (about 2 ms)" } else { "" },
            format!(
                "latency {:+.1} %, throughput {:+.1} %",
                100.0 * (latency.median - 1.0),
                100.0 * (throughput.median - 1.0)
            ),
            verdict,
        ));
    }
    Ok(Figure {
        name: "fig15",
        title: "Write latency of batches",
        figure: "figure 15",
        setting: format!(
            "Nothing is lost or delayed. Batches on {KEYS} counters over 1 and {} connections, straight to the server; \
             {} rounds of {} s each without and with ids, in turn. Latency is the mean of a batch; ratios are medians \
             over the rounds.",
            args.clients, args.rounds, args.seconds
        ),
        table,
        svg: bars::svg(&charts(pairs)).map_err(Failure::failed)?,
        compare,
        wrong: Vec::new(),
    })
}

/// A chart for each size of batches: their latencies are too far apart for one.
fn charts(pairs: &[Pair]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for pair in pairs {
        let title = format!("Write latency of batches of {}", pair.batch);
        if charts.last().is_none_or(|chart| chart.title != title) {
            charts.push(Chart {
                title,
                label: "milliseconds for a batch".to_owned(),
                series: vec!["with ids".to_owned(), "without ids".to_owned()],
                groups: Vec::new(),
            });
        }
        let bars = [&pair.with_ids, &pair.without].map(|rounds| latency_ms(rounds).map(Bar::from)).to_vec();
        let connections = if pair.connections == 1 { "connection" } else { "connections" };
        let label = format!("{} {connections}", pair.connections);
        charts.last_mut().expect("just put there").groups.push((label, bars));
    }
    charts
}
