//! What was measured: tables for documents, numbers for programs, and charts. A number stands for the median of its rounds.

use serde_json::{Map, Value, json};

use super::Results;
use super::args::Args;
use super::bytes::{Handoff, Round};
use super::counting::Way;
use super::crowd::{Crowd, End};
use super::idle::Idle;
use super::server::Standing;
use crate::bench::bars::{self, Bar, Chart, ChartError};
use crate::bench::compare::Spread;

const MIB: f64 = (1 << 20) as f64;

/// Over the rounds, of which there is at least one.
fn spread(numbers: impl IntoIterator<Item = f64>) -> Spread {
    Spread::of(numbers).unwrap_or(Spread { median: f64::NAN, least: f64::NAN, most: f64::NAN })
}

pub(super) fn text(args: &Args, results: &Results) -> String {
    let crowd = results.crowd.as_ref().map(|crowd| crowd_text(args, crowd));
    let bytes = results.bytes.as_deref().map(bytes_text);
    let idle = results.idle.as_ref().map(idle_text);
    let counting = results.counting.as_deref().map(counting_text);
    let parts: Vec<String> = [crowd, bytes, idle, counting].into_iter().flatten().collect();
    parts.join("\n")
}

fn row(name: &str, value: impl std::fmt::Display) -> String {
    format!("| {name} | {value} |\n")
}

fn crowd_text(args: &Args, Crowd { done, seconds, before, after, end }: &Crowd) -> String {
    let edges = args.edges as f64;
    let what = match end {
        End::HandedOver { .. } => "edges that handed over and were gone",
        End::Vanished { .. } => "edges that got a slot and vanished",
    };
    let mut text = row(&format!("{} {what}, {} at a time", args.edges, args.clients), "");
    text += "|---|---|\n";
    text += &row("edges per second", format_args!("{:.0}", edges / seconds));
    if let End::HandedOver { plain_per_second } = end {
        text += &row("plain adds over HTTP per second", format_args!("{plain_per_second:.0}"));
        text +=
            &row("handoffs for each plain add", format_args!("{:.2}", edges / seconds / plain_per_second));
    }
    text += &row("requests for each", format_args!("{:.2}", done.requests as f64 / edges));
    text += &row("bytes sent for each", format_args!("{:.0}", done.sent_bytes as f64 / edges));
    text += &row("bytes received for each", format_args!("{:.0}", done.received_bytes as f64 / edges));
    let mib = |standing: &Standing| format!("{:.1} MiB", standing.resident_bytes as f64 / MIB);
    let each = grown(before, after) / edges;
    text += &row("memory of the server before", mib(before));
    text += &row("memory of the server after", format_args!("{} ({each:+.1} bytes for each)", mib(after)));
    let Standing { slots, folded, tokens, .. } = after;
    text += &row("slots, folded slots, tokens after", format_args!("{slots}, {folded}, {tokens}"));
    if let End::Vanished { folded } = end {
        let bytes = folded.folded_bytes as f64 / (*slots).max(1) as f64;
        text += &row("memory of an open slot", format_args!("{each:.1} bytes"));
        text += &row("memory of a folded slot", format_args!("{bytes:.3} bytes"));
    }
    text
}

fn grown(before: &Standing, after: &Standing) -> f64 {
    after.resident_bytes as f64 - before.resident_bytes as f64
}

fn bytes_text(handoffs: &[Handoff]) -> String {
    let mut text = "| counters | adds to each | requests | bytes sent | received | with HTTP | for each counter | for each \
                    add |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for Handoff { keys, adds, rounds } in handoffs {
        let median =
            |number: fn(&Round) -> u64| spread(rounds.iter().map(|round| number(round) as f64)).median;
        let (sent, received) =
            (median(|round| round.done.sent_bytes), median(|round| round.done.received_bytes));
        text += &format!(
            "| {keys} | {adds} | {:.0} | {sent:.0} | {received:.0} | {:.0} | {:.1} | {:.2} |\n",
            median(|round| round.done.requests),
            median(|round| round.wire_bytes),
            (sent + received) / *keys as f64,
            (sent + received) / (keys * adds) as f64,
        );
    }
    text
}

fn idle_text(idle: &Idle) -> String {
    let Idle { edges, seconds, before, after, .. } = idle;
    let mut text = row(&format!("{edges} idle edges, each with a connection, for {seconds} s"), "");
    text += "|---|---|\n";
    let each = grown(before, after) / *edges as f64;
    text += &row("memory of the server for each", format_args!("{each:.0} bytes"));
    text += &row("slots, tokens", format_args!("{}, {}", after.slots, after.tokens));
    text += &row("requests per minute of each", format_args!("{:.2}", per_minute(idle, idle.requests)));
    let watching = per_minute(idle, idle.watching_requests);
    text += &row("the same while it watches a counter", format_args!("{watching:.1}"));
    text
}

fn per_minute(idle: &Idle, requests: u64) -> f64 {
    requests as f64 / idle.edges as f64 / (idle.seconds / 60.0)
}

fn counting_text(ways: &[Way]) -> String {
    let mut text =
        "| at the edge | per second (least to most) | for each bare flush |\n|---|---|---|\n".to_owned();
    for way in ways {
        let Spread { median, least, most } = spread(way.per_second.iter().copied());
        let ratio = match way.is_durable() {
            true => shown(over_bare(ways, way)),
            // Nobody waits for the disk.
            false => String::new(),
        };
        text += &format!("| {} | {median:.0} ({least:.0} to {most:.0}) | {ratio} |\n", way.label);
    }
    text
}

fn shown(Spread { median, least, most }: Spread) -> String {
    format!("{median:.2} ({least:.2} to {most:.2})")
}

/// In units of the bare flushes of the same round, which come first.
fn over_bare(ways: &[Way], way: &Way) -> Spread {
    let bare = ways.first().map_or(&[][..], |bare| &bare.per_second);
    spread(way.per_second.iter().zip(bare).map(|(rate, bare)| rate / bare))
}

pub(super) fn json(args: &Args, results: &Results) -> Value {
    let mut all = Map::new();
    if let Some(crowd) = &results.crowd {
        all.insert("handoffs".to_owned(), crowd_json(args, crowd));
    }
    if let Some(handoffs) = &results.bytes {
        all.insert("bytes".to_owned(), handoffs.iter().map(handoff_json).collect());
    }
    if let Some(idle) = &results.idle {
        all.insert("idle".to_owned(), idle_json(idle));
    }
    if let Some(ways) = &results.counting {
        let way = |way: &Way| {
            let Spread { median, least, most } = over_bare(ways, way);
            let over_bare = json!({ "median": median, "min": least, "max": most });
            json!({ "what": way.label, "per_second": way.per_second, "over_bare": over_bare })
        };
        all.insert("counting".to_owned(), ways.iter().map(way).collect());
    }
    Value::Object(all)
}

fn standing_json(standing: &Standing) -> Value {
    let Standing { resident_bytes, slots, folded, folded_bytes, tokens } = standing;
    json!({
        "resident_bytes": resident_bytes, "slots": slots, "folded": folded, "folded_bytes": folded_bytes,
        "tokens": tokens,
    })
}

fn crowd_json(args: &Args, Crowd { done, seconds, before, after, end }: &Crowd) -> Value {
    let end = match end {
        End::HandedOver { plain_per_second } => json!({ "plain_adds_per_second": plain_per_second }),
        End::Vanished { folded } => json!({ "folded": standing_json(folded) }),
    };
    json!({
        "edges": args.edges, "at_a_time": args.clients, "vanish": args.vanish, "seconds": seconds,
        "requests": done.requests, "sent_bytes": done.sent_bytes, "received_bytes": done.received_bytes,
        "before": standing_json(before), "after": standing_json(after), "end": end,
    })
}

fn handoff_json(handoff: &Handoff) -> Value {
    let round = |Round { done, wire_bytes }: &Round| {
        json!({
            "requests": done.requests, "sent_bytes": done.sent_bytes, "received_bytes": done.received_bytes,
            "wire_bytes": wire_bytes,
        })
    };
    let rounds: Vec<Value> = handoff.rounds.iter().map(round).collect();
    json!({ "counters": handoff.keys, "adds_to_each": handoff.adds, "rounds": rounds })
}

fn idle_json(idle: &Idle) -> Value {
    json!({
        "edges": idle.edges, "seconds": idle.seconds, "before": standing_json(&idle.before),
        "after": standing_json(&idle.after), "requests": idle.requests,
        "requests_while_watching": idle.watching_requests,
    })
}

pub(super) fn svg(results: &Results) -> Result<String, ChartError> {
    let bytes = results.bytes.as_deref().map(bytes_chart);
    let counting = results.counting.as_deref().map(counting_chart);
    bars::svg(&[bytes, counting].into_iter().flatten().collect::<Vec<_>>())
}

fn bytes_chart(handoffs: &[Handoff]) -> Chart {
    let group = |handoff: &Handoff| {
        let each = |number: fn(&Round) -> u64| {
            Some(Bar::from(spread(
                handoff.rounds.iter().map(|round| number(round) as f64 / handoff.keys as f64),
            )))
        };
        let bars = vec![
            each(|round| round.done.sent_bytes),
            each(|round| round.done.received_bytes),
            each(|round| round.wire_bytes),
        ];
        (format!("{} counters", handoff.keys), bars)
    };
    Chart {
        title: "Bytes of a handoff".to_owned(),
        label: "bytes for each counter".to_owned(),
        series: vec!["sent".to_owned(), "received".to_owned(), "both, with HTTP".to_owned()],
        groups: handoffs.iter().map(group).collect(),
    }
}

/// What is durable, beside the bare flush.
fn counting_chart(ways: &[Way]) -> Chart {
    let durable = ways.iter().filter(|way| way.is_durable());
    Chart {
        title: "Counting in a file".to_owned(),
        label: "for each bare flush".to_owned(),
        series: vec!["times".to_owned()],
        groups: durable
            .map(|way| (way.label.to_owned(), vec![Some(Bar::from(over_bare(ways, way)))]))
            .collect(),
    }
}
