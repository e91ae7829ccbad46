//! What a run has shown: for people, for programs, and as charts.

use super::bars::{Bar, Chart};
use super::compare::{Spread, quantile_ns};
use super::load::End;
use super::round::Measured;
use super::session::{Plan, Results};
use super::verify::Verified;
use serde_json::{Value, json};

/// Names and places of the percentiles that are printed.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

const NS_PER_MS: f64 = 1_000_000.0;

/// What is run, and the heads of the columns.
pub(super) fn head(plan: &Plan) -> String {
    let load = &plan.load;
    let end = match load.end {
        End::Requests(requests) => format!("{requests} commands"),
        End::After(duration) => format!("{} s", duration.as_secs_f64()),
    };
    let ids = match plan.contestants.as_slice() {
        [first, second] if first.with_ids != second.with_ids => "with and without ids",
        [first, ..] if first.with_ids => "with ids",
        _ => "without ids",
    };
    let addresses: Vec<&str> =
        plan.contestants.iter().map(|contestant| contestant.endpoint.name.as_str()).collect();
    let addresses = if addresses.windows(2).all(|pair| pair[0] == pair[1]) {
        addresses[0].to_owned()
    } else {
        addresses.join(" against ")
    };
    let burst = if load.pipeline == 1 {
        "for each command".to_owned()
    } else {
        format!("for each burst of {} commands", load.pipeline)
    };
    let mut text = format!(
        "{addresses}: {} connections, pipeline {}, {} keys ({}), {} % reads, {ids}, rounds of {end}\n",
        load.connections,
        load.pipeline,
        load.keys,
        load.distribution,
        load.reads * 100.0,
    );
    text += &format!("latency in ms, one sample {burst}\n\n");
    text += &format!("{:>5}  {:<22}{:>12}", "round", "", "commands/s");
    for (name, _) in PERCENTILES {
        text += &format!("{name:>10}");
    }
    text + &format!("{:>10}{:>9}\n", "max", "errors")
}

pub(super) fn round_line(plan: &Plan, contestant: usize, round: usize, measured: &Measured) -> String {
    let label = &plan.contestants[contestant].label;
    let mut text = format!("{round:>5}  {label:<22}{:>12.0}", measured.per_second());
    for (_, quantile) in PERCENTILES {
        text += &format!("{:>10.3}", quantile_ns(measured, quantile) / NS_PER_MS);
    }
    let max = measured.latency.max() as f64 / NS_PER_MS;
    text + &format!("{max:>10.3}{:>9}\n", measured.answered.errors)
}

/// Ratios and sums, after the rounds.
pub(super) fn tail(plan: &Plan, results: &Results) -> String {
    let mut text = String::new();
    if let (Some(ratios), [first, second]) = (&results.ratios, plan.contestants.as_slice()) {
        text += &format!(
            "\n{} / {}, median of {} rounds (least to most)\n",
            first.label,
            second.label,
            results.rounds[1].len().min(results.rounds[0].len())
        );
        for (name, Spread { median, least, most }) in
            [("throughput", ratios.throughput), ("p50", ratios.p50), ("p99", ratios.p99)]
        {
            text += &format!("  {name:<12}{median:>7.3}   ({least:.3} to {most:.3})\n");
        }
    }
    for Verified { label, acknowledged, counted } in &results.verified {
        text += &format!("\n{label}: {acknowledged} adds acknowledged, {counted} counted\n");
    }
    for (contestant, rounds) in plan.contestants.iter().zip(&results.rounds) {
        // Where errors are not allowed the command ends with them.
        if let (true, Some(error)) =
            (plan.allow_errors, rounds.iter().find_map(|measured| measured.first_error.as_deref()))
        {
            text += &format!("\n{}: first error: {error}\n", contestant.label);
        }
    }
    text
}

pub(super) fn json(plan: &Plan, results: &Results) -> Value {
    let load = &plan.load;
    let (requests, seconds) = match load.end {
        End::Requests(requests) => (Some(requests), None),
        End::After(duration) => (None, Some(duration.as_secs_f64())),
    };
    let contestants: Vec<Value> = plan
        .contestants
        .iter()
        .zip(&results.rounds)
        .map(|(contestant, rounds)| {
            json!({
                "label": contestant.label, "address": contestant.endpoint.name, "ids": contestant.with_ids,
                "rounds": rounds.iter().map(round_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    let spread = |spread: Spread| json!({ "median": spread.median, "min": spread.least, "max": spread.most });
    let ratios = results.ratios.map(|ratios| {
        json!({
            "throughput": spread(ratios.throughput), "p50": spread(ratios.p50), "p99": spread(ratios.p99),
        })
    });
    let verified: Vec<Value> = results.verified.iter().map(verified_json).collect();
    json!({
        "connections": load.connections, "pipeline": load.pipeline, "keys": load.keys,
        "distribution": load.distribution.to_string(), "reads": load.reads, "seed": load.seed,
        "requests": requests, "seconds": seconds, "contestants": contestants, "ratios": ratios,
        "verified": verified,
    })
}

fn verified_json(verified: &Verified) -> Value {
    json!({
        "label": verified.label, "acknowledged": verified.acknowledged,
        "counted": verified.counted.to_string(), "holds": verified.holds(),
    })
}

fn round_json(measured: &Measured) -> Value {
    let ms = |nanoseconds: f64| nanoseconds / NS_PER_MS;
    let mut latency: serde_json::Map<String, Value> = PERCENTILES
        .iter()
        .map(|(name, quantile)| ((*name).to_owned(), json!(ms(quantile_ns(measured, *quantile)))))
        .collect();
    latency.insert("max".to_owned(), json!(ms(measured.latency.max() as f64)));
    json!({
        "seconds": measured.elapsed.as_secs_f64(), "commands_per_second": measured.per_second(),
        "adds": measured.answered.adds, "reads": measured.answered.reads, "errors": measured.answered.errors,
        "first_error": measured.first_error, "bursts": measured.latency.len(), "latency_ms": latency,
    })
}

/// Throughput above, latency below; a bar is the median of the rounds.
pub(super) fn charts(plan: &Plan, results: &Results) -> Vec<Chart> {
    let bars = |number: &dyn Fn(&Measured) -> f64| -> Vec<Option<Bar>> {
        let of_rounds = |rounds: &Vec<Measured>| Spread::of(rounds.iter().map(number)).map(Bar::from);
        results.rounds.iter().map(of_rounds).collect()
    };
    let series: Vec<String> = plan.contestants.iter().map(|contestant| contestant.label.clone()).collect();
    let latency = |(name, quantile): &(&str, f64)| {
        ((*name).to_owned(), bars(&|measured| quantile_ns(measured, *quantile) / NS_PER_MS))
    };
    vec![
        Chart {
            title: "Throughput".to_owned(),
            label: "commands per second".to_owned(),
            series: series.clone(),
            groups: vec![(String::new(), bars(&Measured::per_second))],
        },
        Chart {
            title: "Latency".to_owned(),
            label: "milliseconds".to_owned(),
            series,
            groups: PERCENTILES.iter().map(latency).collect(),
        },
    ]
}
