//! What was measured: a table for documents, numbers for programs, and charts. A number stands for the median of its rounds.

use super::args::{Args, Point};
use super::{Ours, Round, Work};
use crate::bench::bars::{self, Bar, Chart, ChartError};
use crate::bench::compare::{Spread, quantile_ns};
use crate::bench::round::Measured;
use serde_json::{Value, json};

const NS_PER_MS: f64 = 1e6;

/// Over the rounds, of which there is at least one.
fn spread(rounds: &[Round], number: impl Fn(&Round) -> f64) -> Spread {
    let none = Spread { median: f64::NAN, least: f64::NAN, most: f64::NAN };
    Spread::of(rounds.iter().map(number)).unwrap_or(none)
}

fn median(rounds: &[Round], number: impl Fn(&Round) -> f64) -> f64 {
    spread(rounds, number).median
}

pub(super) fn load_label(keys: u32, pipeline: usize) -> String {
    let plural = if keys == 1 { "" } else { "s" };
    format!("{keys} key{plural}, pipeline {pipeline}")
}

/// For charts, where there is little room.
fn short_label(work: &Work) -> String {
    load_label(work.keys, work.pipeline).replace("pipeline", "P")
}

fn latency_ms(measured: &Measured, quantile: f64) -> f64 {
    quantile_ns(measured, quantile) / NS_PER_MS
}

fn per_commit(ours: &Ours) -> f64 {
    ours.measured.answered.adds as f64 / ours.commits.max(1) as f64
}

fn place(args: &Args) -> String {
    let plural = |number: u32, word: &str, many: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {many}"),
    };
    let copies = plural(args.replication(), "copy", "copies");
    match (&args.storage, args.nodes()) {
        (Some(address), _) => format!("{address}, {copies}"),
        (None, nodes) => format!("{}, {copies}", plural(nodes.unwrap_or(0), "node", "nodes")),
    }
}

pub(super) fn text(args: &Args, works: &[Work]) -> String {
    let mut text = format!(
        "{}, {} connections, medians of {} rounds of {} s (least to most)\n\n\
         | load | shards | nodes of quipu | adds/s | adds for each commit | p50, p99 ms | Cassandra's counters: adds/s | p50, p99 ms | \
         quipu / Cassandra |\n|---|---|---|---|---|---|---|---|---|\n",
        place(args),
        args.connections,
        args.rounds,
        args.seconds,
    );
    for Work { keys, pipeline, rounds } in works {
        for (server, Point { shards, servers }) in args.points().into_iter().enumerate() {
            let ours = |round: &Round, number: fn(&Ours) -> f64| number(&round.ours[server]);
            let Spread { median: ratio, least, most } = spread(rounds, |round| round.ratio(server));
            text += &format!(
                "| {} | {shards} | {servers} | {:.0} | {:.1} | {:.1}, {:.1} | {:.0} | {:.1}, {:.1} | {ratio:.1} ({least:.1} to {most:.1}) |\n",
                load_label(*keys, *pipeline),
                median(rounds, |round| ours(round, |ours| ours.measured.per_second())),
                median(rounds, |round| ours(round, per_commit)),
                median(rounds, |round| ours(round, |ours| latency_ms(&ours.measured, 0.5))),
                median(rounds, |round| ours(round, |ours| latency_ms(&ours.measured, 0.99))),
                median(rounds, |round| round.theirs.per_second()),
                median(rounds, |round| latency_ms(&round.theirs, 0.5)),
                median(rounds, |round| latency_ms(&round.theirs, 0.99)),
            );
        }
    }
    text + &errors(works)
}

/// What the database has not acknowledged.
fn errors(works: &[Work]) -> String {
    let rounds = || works.iter().flat_map(|work| &work.rounds);
    let errors: u64 = rounds().map(|round| round.theirs.answered.errors).sum();
    match rounds().find_map(|round| round.theirs.first_error.as_ref()) {
        Some(first) => format!("\nCassandra's counters: {errors} adds ended in an error, first: {first}\n"),
        None => String::new(),
    }
}

pub(super) fn json(args: &Args, works: &[Work]) -> Value {
    let work = |work: &Work| {
        let ratio = |(server, point): (usize, Point)| {
            let Spread { median, least, most } = spread(&work.rounds, |round| round.ratio(server));
            json!({ "shards": point.shards, "servers": point.servers, "median": median, "min": least, "max": most })
        };
        json!({
            "keys": work.keys, "pipeline": work.pipeline,
            "rounds": work.rounds.iter().map(|round| round_json(args, round)).collect::<Vec<_>>(),
            "ratios": args.points().into_iter().enumerate().map(ratio).collect::<Vec<_>>(),
        })
    };
    json!({
        "storage": args.storage.as_ref().map(ToString::to_string), "nodes": args.nodes(),
        "replication": args.replication(), "connections": args.connections, "seconds": args.seconds,
        "loads": works.iter().map(work).collect::<Vec<_>>(),
    })
}

fn round_json(args: &Args, round: &Round) -> Value {
    let ours = |(ours, point): (&Ours, Point)| {
        let measured = measured_json(&ours.measured);
        json!({ "shards": point.shards, "servers": point.servers, "commits": ours.commits, "measured": measured })
    };
    json!({
        "quipu": round.ours.iter().zip(args.points()).map(ours).collect::<Vec<_>>(),
        "cassandra": measured_json(&round.theirs),
    })
}

fn measured_json(measured: &Measured) -> Value {
    json!({
        "seconds": measured.elapsed.as_secs_f64(), "adds": measured.answered.adds,
        "errors": measured.answered.errors, "first_error": measured.first_error,
        "adds_per_second": measured.per_second(),
        "p50_ms": latency_ms(measured, 0.5), "p99_ms": latency_ms(measured, 0.99),
    })
}

pub(super) fn svg(args: &Args, works: &[Work]) -> Result<String, ChartError> {
    let points = args.points();
    let name = |point: &Point| {
        let shards =
            if point.shards == 1 { "1 shard".to_owned() } else { format!("{} shards", point.shards) };
        if point.servers == 1 { shards } else { format!("{shards}, {} nodes", point.servers) }
    };
    let servers = || points.iter().map(name);
    let chart = |title: &str, label: &str, series, bars: &dyn Fn(&Work) -> Vec<Option<Bar>>| Chart {
        title: format!("{title}: {}", place(args)),
        label: label.to_owned(),
        series,
        groups: works.iter().map(|work| (short_label(work), bars(work))).collect(),
    };
    let bar = |work: &Work, number: &dyn Fn(&Round) -> f64| Some(Bar::from(spread(&work.rounds, number)));
    let rates = |work: &Work| {
        let ours =
            (0..points.len()).map(|server| bar(work, &|round| round.ours[server].measured.per_second()));
        ours.chain([bar(work, &|round| round.theirs.per_second())]).collect()
    };
    let ratios =
        |work: &Work| (0..points.len()).map(|server| bar(work, &|round| round.ratio(server))).collect();
    let with_theirs = servers().chain(["its counters".to_owned()]).collect();
    bars::svg(&[
        chart("Quipu and Cassandra's counters", "adds per second", with_theirs, &rates),
        chart("Quipu / Cassandra's counters", "times", servers().collect(), &ratios),
    ])
}
