//! The names and numbers that Prometheus reads.

use super::*;
use quipu_engine::{Action, Added, Refusal, Reply, SiteId};

fn value(text: &str, series: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned))
}

#[test]
fn everything_has_a_series_from_the_start() {
    let metrics = Metrics::new();
    let _worker = metrics.worker(0);
    let text = metrics.encode();
    for series in [
        "quipu_commands_total{command=\"add\",outcome=\"done\"}",
        "quipu_resp_connections",
        "quipu_http_connections",
        "quipu_connections_refused_total",
        "quipu_commands_redirected_total",
        "quipu_commands_passed_on_total",
        "quipu_batches_committed_total",
        "quipu_batch_rows_count",
        "quipu_commit_seconds_count",
        "quipu_logged_bytes_total",
        "quipu_checkpoint_rounds_total",
        "quipu_counters_in_memory{worker=\"0\"}",
        "quipu_counters_memory_bytes{worker=\"0\"}",
        "quipu_idmp_ids_seen_total",
        "quipu_idmp_repeats_answered_total",
        "quipu_idmp_filter_false_positives_total",
        "quipu_idmp_filter_bytes{worker=\"0\"}",
    ] {
        assert_eq!(value(&text, series).as_deref(), Some("0"), "{series} in\n{text}");
    }
    assert_eq!(value(&text, "quipu_idmp_filter_estimated_probability{worker=\"0\"}").as_deref(), Some("0.0"));
}

#[test]
fn a_tally_is_reported_once() {
    let metrics = Metrics::new();
    let mut tally = CommandTally::default();
    let added = Reply::Added(Added { value: 1, applied: 1, repeated: false, site: SiteId::FIRST });
    let repeated = Reply::Added(Added { value: 1, applied: 1, repeated: true, site: SiteId::FIRST });
    tally.count(CommandName::Add, CommandOutcome::of(&added));
    tally.count(CommandName::Add, CommandOutcome::of(&repeated));
    tally.count(CommandName::of(&Action::Get), CommandOutcome::of(&Reply::Value(None)));
    let refused = CommandOutcome::of(&Reply::Refused(Refusal::Exists));
    tally.count(CommandName::Create, refused);
    let failed = CommandOutcome::of(&Reply::Refused(Refusal::NotStored(String::new())));
    tally.count(CommandName::Reset, failed);
    metrics.worker(0).report(&mut tally);
    metrics.worker(1).report(&mut tally);
    let text = metrics.encode();
    for (command, outcome) in
        [("add", "done"), ("add", "repeated"), ("get", "done"), ("create", "refused"), ("reset", "failed")]
    {
        let series = format!("quipu_commands_total{{command=\"{command}\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &series).as_deref(), Some("1"), "{series} in\n{text}");
    }
}

#[test]
fn workers_set_their_own_and_add_to_the_same() {
    let metrics = Metrics::new();
    for number in 0..2 {
        let worker = metrics.worker(number);
        worker.sums.batches.inc();
        worker.sums.batch_rows.observe(3.0);
        worker.sums.commit_seconds.observe(0.000_2);
        worker.counters_in_memory.set(i64::from(number) + 5);
        worker.filter_probability.set(1e-6);
    }
    metrics.http_request("GET", "/v1/counters/{key}", 200);
    let text = metrics.encode();
    for (series, expected) in [
        ("quipu_batches_committed_total", "2"),
        ("quipu_batch_rows_sum", "6.0"),
        ("quipu_commit_seconds_count", "2"),
        ("quipu_counters_in_memory{worker=\"1\"}", "6"),
        ("quipu_idmp_filter_estimated_probability{worker=\"0\"}", "0.000001"),
        ("quipu_http_requests_total{method=\"GET\",route=\"/v1/counters/{key}\",status=\"200\"}", "1"),
    ] {
        assert_eq!(value(&text, series).as_deref(), Some(expected), "{series} in\n{text}");
    }
}
