//! What was measured: for people, for programs, and as charts. A number stands for the median of its rounds.

use super::Results;
use super::args::Args;
use super::bytes::{self, Traffic};
use super::sight::{self, Sight};
use super::work::{Pair, Round, Work, Works};
use crate::bench::bars::{self, Bar, Chart, ChartError};
use crate::bench::compare::Spread;
use serde_json::{Value, json};

/// Shares of the samples.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Over the rounds, of which there is at least one.
fn spread<R>(rounds: &[R], number: impl Fn(&R) -> f64) -> Spread {
    let none = Spread { median: f64::NAN, least: f64::NAN, most: f64::NAN };
    Spread::of(rounds.iter().map(number)).unwrap_or(none)
}

fn median<R>(rounds: &[R], number: impl Fn(&R) -> f64) -> f64 {
    spread(rounds, number).median
}

pub(super) fn text(args: &Args, results: &Results) -> String {
    let rounds = if args.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", args.rounds) };
    format!(
        "medians of {rounds} (least to most)\n\n{}\n{}\n{}",
        bytes_text(args, &results.traffic),
        sight_text(&results.sights),
        work_text(args, &results.works)
    )
}

fn bytes_text(args: &Args, traffic: &Traffic) -> String {
    let full = traffic.full_bytes;
    let mut text = format!(
        "Bytes from site 1 to each of two peers: {} counters, {} of them change in a round\n\
         a full state has {full} bytes, {:.1} for each counter\n\n{:<16}{:>10}{:>10}{:>16}{:>14}   full state / sent\n",
        args.counters,
        args.changed(),
        full as f64 / f64::from(args.counters),
        "adds",
        "a round",
        "an add",
        "acknowledged",
        "full / add",
    );
    for way in &traffic.ways {
        let Spread { median: times, least, most } = spread(&way.rounds, |round| round.times_less(full));
        text += &format!(
            "{:<16}{:>10.0}{:>10.1}{:>16.1}{:>14.1}   {times:.1} ({least:.1} to {most:.1})\n",
            way.label,
            median(&way.rounds, |round| round.sent_bytes as f64 / round.peers as f64),
            median(&way.rounds, bytes::Round::sent_per_add),
            median(&way.rounds, bytes::Round::received_per_add),
            median(&way.rounds, |round| full as f64 / round.adds as f64),
        );
    }
    text
}

fn sight_text(sights: &[Sight]) -> String {
    let mut text = "Milliseconds from an add at site 1 to its sight at site 2\n\
                    expected: one link delay, two commits, and a client's question and answer\n\n"
        .to_owned();
    text += &format!("{:<16}{:>8}{:>8}{:>8}{:>10}", "link", "delay", "commit", "client", "expected");
    for (name, _) in PERCENTILES {
        text += &format!("{name:>8}");
    }
    text += &format!("{:>14}   p50 / expected\n", "acknowledged");
    for Sight { delay_ms, rounds } in sights {
        let p50 = |samples: fn(&sight::Round) -> &sight::Samples| {
            median(rounds, |round| samples(round).quantile(0.5))
        };
        text += &format!(
            "{:<16}{:>8.3}{:>8.3}{:>8.3}{:>10.3}",
            format!("+{delay_ms} ms"),
            p50(|round| &round.link),
            median(rounds, sight::Round::commit_ms),
            p50(|round| &round.ask),
            median(rounds, sight::Round::expected_ms),
        );
        for (_, share) in PERCENTILES {
            text += &format!("{:>8.3}", median(rounds, |round| round.seen.quantile(share)));
        }
        let Spread { median: ratio, least, most } = spread(rounds, ratio);
        text +=
            &format!("{:>14.3}   {ratio:.2} ({least:.2} to {most:.2})\n", p50(|round| &round.acknowledged));
    }
    text
}

fn ratio(round: &sight::Round) -> f64 {
    round.seen.quantile(0.5) / round.expected_ms()
}

fn work_text(args: &Args, works: &Works) -> String {
    let place = if works.has_core { "on a core of its own" } else { "among all others" };
    let mut text = format!(
        "CPU time of a server for each add, in microseconds: {} connections, rounds of {} s, the same load for both, {place}\n\n\
         {:<26}{:>15}{:>10}{:>15}{:>10}   with peers / alone\n",
        args.connections, args.seconds, "load", "with two peers", "alone", "adds/s", "alone"
    );
    for Work { keys, pipeline, rounds } in &works.loads {
        let Spread { median: ratio, least, most } = spread(rounds, Pair::ratio);
        text += &format!(
            "{:<26}{:>15.2}{:>10.2}{:>15.0}{:>10.0}   {ratio:.2} ({least:.2} to {most:.2})\n",
            load_label(*keys, *pipeline),
            median(rounds, |pair| pair.with_peers.us_per_add()),
            median(rounds, |pair| pair.alone.us_per_add()),
            median(rounds, |pair| pair.with_peers.per_second),
            median(rounds, |pair| pair.alone.per_second),
        );
    }
    text
}

fn load_label(keys: u32, pipeline: usize) -> String {
    let plural = if keys == 1 { "" } else { "s" };
    format!("{keys} key{plural}, pipeline {pipeline}")
}

pub(super) fn json(args: &Args, results: &Results) -> Value {
    let Traffic { full_bytes, ways } = &results.traffic;
    let way = |way: &bytes::Way| {
        let round = |round: &bytes::Round| {
            json!({
                "adds": round.adds, "peers": round.peers, "sent_bytes": round.sent_bytes,
                "received_bytes": round.received_bytes,
            })
        };
        json!({
            "adds": way.label, "rounds": way.rounds.iter().map(round).collect::<Vec<_>>(),
            "full_over_sent": spread_json(spread(&way.rounds, |round| round.times_less(*full_bytes))),
        })
    };
    let work = |work: &Work| {
        let pair = |pair: &Pair| json!({ "with_peers": round_json(&pair.with_peers), "alone": round_json(&pair.alone) });
        json!({
            "keys": work.keys, "pipeline": work.pipeline,
            "rounds": work.rounds.iter().map(pair).collect::<Vec<_>>(),
            "ratio": spread_json(spread(&work.rounds, Pair::ratio)),
        })
    };
    json!({
        "bytes": {
            "counters": args.counters, "changing": args.changed(), "full_bytes": full_bytes,
            "ways": ways.iter().map(way).collect::<Vec<_>>(),
        },
        "time": results.sights.iter().map(sight_json).collect::<Vec<_>>(),
        "work": {
            "connections": args.connections, "seconds": args.seconds,
            "on_a_core_of_its_own": results.works.has_core,
            "loads": results.works.loads.iter().map(work).collect::<Vec<_>>(),
        },
    })
}

fn sight_json(sight: &Sight) -> Value {
    let times = |samples: &sight::Samples| {
        let mut times: serde_json::Map<String, Value> = PERCENTILES
            .iter()
            .map(|(name, share)| ((*name).to_owned(), json!(samples.quantile(*share))))
            .collect();
        times.insert("samples".to_owned(), json!(samples.len()));
        Value::Object(times)
    };
    let round = |round: &sight::Round| {
        json!({
            "link_ms": times(&round.link), "client_ms": times(&round.ask), "alone_ms": times(&round.alone),
            "acknowledged_ms": times(&round.acknowledged), "seen_ms": times(&round.seen),
            "commit_ms": round.commit_ms(), "expected_ms": round.expected_ms(),
        })
    };
    json!({
        "delay_ms": sight.delay_ms, "rounds": sight.rounds.iter().map(round).collect::<Vec<_>>(),
        "ratio": spread_json(spread(&sight.rounds, ratio)),
    })
}

fn round_json(round: &Round) -> Value {
    json!({
        "adds": round.adds, "adds_per_second": round.per_second, "cpu_seconds": round.cpu_seconds,
        "cpu_us_per_add": round.us_per_add(),
    })
}

fn spread_json(Spread { median, least, most }: Spread) -> Value {
    json!({ "median": median, "min": least, "max": most })
}

pub(super) fn svg(results: &Results) -> Result<String, ChartError> {
    bars::svg(&[
        bytes_chart(&results.traffic),
        sight_chart(&results.sights),
        work_chart(&results.works.loads),
    ])
}

fn bytes_chart(Traffic { full_bytes, ways }: &Traffic) -> Chart {
    let group = |way: &bytes::Way| {
        let full = spread(&way.rounds, |round| *full_bytes as f64 / round.adds as f64);
        let sent = spread(&way.rounds, bytes::Round::sent_per_add);
        (way.label.to_owned(), vec![Some(Bar::from(sent)), Some(Bar::from(full))])
    };
    Chart {
        title: "Bytes to a peer".to_owned(),
        label: "bytes for each add".to_owned(),
        series: vec!["what is sent".to_owned(), "full state".to_owned()],
        groups: ways.iter().map(group).collect(),
    }
}

fn sight_chart(sights: &[Sight]) -> Chart {
    let group = |Sight { delay_ms, rounds }: &Sight| {
        let expected = spread(rounds, sight::Round::expected_ms);
        let seen = PERCENTILES.map(|(_, share)| spread(rounds, |round| round.seen.quantile(share)));
        let bars = [expected].into_iter().chain(seen).map(|spread| Some(Bar::from(spread)));
        (format!("link +{delay_ms} ms"), bars.collect())
    };
    let percentiles = PERCENTILES.map(|(name, _)| name.to_owned());
    Chart {
        title: "From an add to its sight at another site".to_owned(),
        label: "milliseconds".to_owned(),
        series: ["delay, two commits".to_owned()].into_iter().chain(percentiles).collect(),
        groups: sights.iter().map(group).collect(),
    }
}

fn work_chart(works: &[Work]) -> Chart {
    let group = |Work { keys, pipeline, rounds }: &Work| {
        let with_peers = spread(rounds, |pair| pair.with_peers.us_per_add());
        let alone = spread(rounds, |pair| pair.alone.us_per_add());
        (load_label(*keys, *pipeline), vec![Some(Bar::from(with_peers)), Some(Bar::from(alone))])
    };
    Chart {
        title: "CPU time of a server".to_owned(),
        label: "microseconds for each add".to_owned(),
        series: vec!["with two peers".to_owned(), "alone".to_owned()],
        groups: works.iter().map(group).collect(),
    }
}
