//! What a node tells about itself, for Prometheus.
//!
//! Handles are made once and shared; on the way of a command they are an atomic addition each. A worker adds up what a
//! batch has done in a [`CommandTally`] and reports it with the batch, so that cores do not fight for the numbers.

use std::sync::{Arc, atomic::AtomicU64};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

mod commands;

pub use commands::{COMMAND_NAMES, COMMAND_OUTCOMES, CommandName, CommandOutcome, CommandTally};

/// From 50 µs, a fast disk's flush, to about 13 s.
const COMMIT_SECONDS_BUCKETS: (f64, f64, u16) = (50e-6, 2.0, 19);
/// From one row to 65,536 in a batch.
const BATCH_ROWS_BUCKETS: (f64, f64, u16) = (1.0, 4.0, 9);

/// A number that may have a fraction.
pub type Fraction = Gauge<f64, AtomicU64>;

/// Everything that is measured. Clones share the numbers.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    commands: commands::Counters,
    http_requests: Family<HttpLabels, Counter>,
    counters_in_memory: Family<WorkerLabels, Gauge>,
    memory_bytes: Family<WorkerLabels, Gauge>,
    filter_bytes: Family<WorkerLabels, Gauge>,
    filter_probability: Family<WorkerLabels, Fraction>,
    shared: Shared,
    /// Redis clients that are connected.
    pub resp_connections: Gauge,
    /// HTTP clients that are connected.
    pub http_connections: Gauge,
    /// Clients that were turned away because there were too many.
    pub connections_refused: Counter,
    /// Bytes written to the log.
    pub bytes_logged: Counter,
    /// Rounds of checkpoints: the table was brought up to date.
    pub checkpoint_rounds: Counter,
}

/// Numbers to which all workers add.
#[derive(Debug, Clone)]
struct Shared {
    batches: Counter,
    batch_rows: Histogram,
    commit_seconds: Histogram,
    ids_seen: Counter,
    repeats_answered: Counter,
    filter_false_positives: Counter,
}

/// What one worker reports.
#[derive(Debug, Clone)]
pub struct WorkerMetrics {
    /// Batches made durable.
    pub batches: Counter,
    /// Rows in each.
    pub batch_rows: Histogram,
    /// How long each took, in seconds.
    pub commit_seconds: Histogram,
    /// Operations that came with an id.
    pub ids_seen: Counter,
    /// Those that had been counted before, and got the first answer.
    pub repeats_answered: Counter,
    /// New operations that the filter took for repeated ones; in exact mode a look-up each, no error.
    pub filter_false_positives: Counter,
    /// This worker's counters in memory.
    pub counters_in_memory: Gauge,
    /// The memory that they take.
    pub memory_bytes: Gauge,
    /// The memory that this worker's filters take.
    pub filter_bytes: Gauge,
    /// How probable it is that a new id is taken for a repeated one, as the worst of this worker's filters tells.
    pub filter_probability: Fraction,
    commands: commands::Counters,
}

impl WorkerMetrics {
    /// Adds what a batch has done, and empties the tally.
    pub fn report(&self, tally: &mut CommandTally) {
        self.commands.report(tally);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HttpLabels {
    method: &'static str,
    route: String,
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn buckets((start, factor, length): (f64, f64, u16)) -> Histogram {
    Histogram::new(exponential_buckets(start, factor, length))
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("quipu");
        let shared = Shared {
            batches: Counter::default(),
            batch_rows: buckets(BATCH_ROWS_BUCKETS),
            commit_seconds: buckets(COMMIT_SECONDS_BUCKETS),
            ids_seen: Counter::default(),
            repeats_answered: Counter::default(),
            filter_false_positives: Counter::default(),
        };
        let mut metrics = Self {
            registry: Arc::default(),
            commands: commands::Counters::new(&mut registry),
            http_requests: Family::default(),
            counters_in_memory: Family::default(),
            memory_bytes: Family::default(),
            filter_bytes: Family::default(),
            filter_probability: Family::default(),
            shared,
            resp_connections: Gauge::default(),
            http_connections: Gauge::default(),
            connections_refused: Counter::default(),
            bytes_logged: Counter::default(),
            checkpoint_rounds: Counter::default(),
        };
        metrics.register_front_ends(&mut registry);
        metrics.register_workers(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register_front_ends(&self, registry: &mut Registry) {
        registry.register(
            "http_requests",
            "Requests over HTTP that were answered",
            self.http_requests.clone(),
        );
        registry.register("resp_connections", "Connected Redis clients", self.resp_connections.clone());
        registry.register("http_connections", "Connected HTTP clients", self.http_connections.clone());
        registry.register(
            "connections_refused",
            "Clients turned away because too many were connected",
            self.connections_refused.clone(),
        );
    }

    fn register_workers(&self, registry: &mut Registry) {
        let Shared {
            batches,
            batch_rows,
            commit_seconds,
            ids_seen,
            repeats_answered,
            filter_false_positives,
        } = self.shared.clone();
        registry.register("batches_committed", "Batches made durable", batches);
        registry.register("batch_rows", "Rows in a batch", batch_rows);
        registry.register_with_unit(
            "commit",
            "How long a batch took to be durable",
            Unit::Seconds,
            commit_seconds,
        );
        registry.register_with_unit("logged", "Written to the log", Unit::Bytes, self.bytes_logged.clone());
        registry.register(
            "checkpoint_rounds",
            "How often the table was brought up to date",
            self.checkpoint_rounds.clone(),
        );
        registry.register("counters_in_memory", "Counters in memory", self.counters_in_memory.clone());
        registry.register_with_unit(
            "counters_memory",
            "Memory that counters take",
            Unit::Bytes,
            self.memory_bytes.clone(),
        );
        registry.register("idmp_ids_seen", "Operations with an id", ids_seen);
        registry.register(
            "idmp_repeats_answered",
            "Repeated operations, answered as the first time",
            repeats_answered,
        );
        registry.register(
            "idmp_filter_false_positives",
            "New operations that the filter took for repeated ones",
            filter_false_positives,
        );
        registry.register_with_unit(
            "idmp_filter",
            "Memory of the filters",
            Unit::Bytes,
            self.filter_bytes.clone(),
        );
        registry.register(
            "idmp_filter_estimated_probability",
            "How probable it is that the filter takes a new id for a repeated one",
            self.filter_probability.clone(),
        );
    }

    /// The handles of one worker. Sums are shared by all; what a worker sets is its own.
    pub fn worker(&self, worker: u32) -> WorkerMetrics {
        let labels = WorkerLabels { worker };
        let Shared {
            batches,
            batch_rows,
            commit_seconds,
            ids_seen,
            repeats_answered,
            filter_false_positives,
        } = self.shared.clone();
        WorkerMetrics {
            batches,
            batch_rows,
            commit_seconds,
            ids_seen,
            repeats_answered,
            filter_false_positives,
            counters_in_memory: self.counters_in_memory.get_or_create_owned(&labels),
            memory_bytes: self.memory_bytes.get_or_create_owned(&labels),
            filter_bytes: self.filter_bytes.get_or_create_owned(&labels),
            filter_probability: self.filter_probability.get_or_create_owned(&labels),
            commands: self.commands.clone(),
        }
    }

    /// Counts an answered request. `route` is a pattern such as `/v1/counters/{key}`, never a path: paths have no end.
    pub fn http_request(&self, method: &'static str, route: &str, status: u16) {
        let labels = HttpLabels { method, route: route.to_owned(), status };
        self.http_requests.get_or_create(&labels).inc();
    }

    /// All numbers in the text form of OpenMetrics, which Prometheus reads.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail, and our labels have no values that could not be written.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_engine::{Action, Added, Refusal, Reply};

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
        assert_eq!(
            value(&text, "quipu_idmp_filter_estimated_probability{worker=\"0\"}").as_deref(),
            Some("0.0")
        );
    }

    #[test]
    fn a_tally_is_reported_once() {
        let metrics = Metrics::new();
        let mut tally = CommandTally::default();
        let added = Reply::Added(Added { value: 1, applied: 1, repeated: false });
        let repeated = Reply::Added(Added { value: 1, applied: 1, repeated: true });
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
        for (command, outcome) in [
            ("add", "done"),
            ("add", "repeated"),
            ("get", "done"),
            ("create", "refused"),
            ("reset", "failed"),
        ] {
            let series = format!("quipu_commands_total{{command=\"{command}\",outcome=\"{outcome}\"}}");
            assert_eq!(value(&text, &series).as_deref(), Some("1"), "{series} in\n{text}");
        }
    }

    #[test]
    fn workers_set_their_own_and_add_to_the_same() {
        let metrics = Metrics::new();
        for number in 0..2 {
            let worker = metrics.worker(number);
            worker.batches.inc();
            worker.batch_rows.observe(3.0);
            worker.commit_seconds.observe(0.000_2);
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
            ("quipu_idmp_filter_estimated_probability{worker=\"0\"}", "1e-6"),
            ("quipu_http_requests_total{method=\"GET\",route=\"/v1/counters/{key}\",status=\"200\"}", "1"),
        ] {
            assert_eq!(value(&text, series).as_deref(), Some(expected), "{series} in\n{text}");
        }
    }
}
