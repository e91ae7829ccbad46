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
mod handoff;
mod links;
mod nodes;

pub use commands::{COMMAND_NAMES, COMMAND_OUTCOMES, CommandName, CommandOutcome, CommandTally};
pub use handoff::HandoffMetrics;
pub use links::PeerMetrics;
pub use nodes::NodeMetrics;

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
    links: links::Links,
    handoffs: handoff::Handoffs,
    sums: Sums,
    /// About the nodes of this site.
    pub nodes: NodeMetrics,
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
pub struct Sums {
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
}

/// What one worker reports.
#[derive(Debug, Clone)]
pub struct WorkerMetrics {
    /// What it adds to.
    pub sums: Sums,
    /// Its counters in memory.
    pub counters_in_memory: Gauge,
    /// The memory that they take.
    pub memory_bytes: Gauge,
    /// The memory that its filters take.
    pub filter_bytes: Gauge,
    /// How probable it is that a new id is taken for a repeated one, as the worst of its filters tells.
    pub filter_probability: Fraction,
    /// About handoffs.
    pub handoffs: HandoffMetrics,
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
        let sums = Sums {
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
            links: links::Links::default(),
            handoffs: handoff::Handoffs::default(),
            sums,
            nodes: NodeMetrics::default(),
            resp_connections: Gauge::default(),
            http_connections: Gauge::default(),
            connections_refused: Counter::default(),
            bytes_logged: Counter::default(),
            checkpoint_rounds: Counter::default(),
        };
        metrics.register_front_ends(&mut registry);
        metrics.register_workers(&mut registry);
        metrics.links.register(&mut registry);
        metrics.handoffs.register(&mut registry);
        metrics.nodes.register(&mut registry);
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
        let sums = &self.sums;
        registry.register("batches_committed", "Batches made durable", sums.batches.clone());
        registry.register("batch_rows", "Rows in a batch", sums.batch_rows.clone());
        registry.register_with_unit(
            "commit",
            "How long a batch took to be durable",
            Unit::Seconds,
            sums.commit_seconds.clone(),
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
        registry.register("idmp_ids_seen", "Operations with an id", sums.ids_seen.clone());
        registry.register(
            "idmp_repeats_answered",
            "Repeated operations, answered as the first time",
            sums.repeats_answered.clone(),
        );
        registry.register(
            "idmp_filter_false_positives",
            "New operations that the filter took for repeated ones",
            sums.filter_false_positives.clone(),
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
        WorkerMetrics {
            sums: self.sums.clone(),
            counters_in_memory: self.counters_in_memory.get_or_create_owned(&labels),
            memory_bytes: self.memory_bytes.get_or_create_owned(&labels),
            filter_bytes: self.filter_bytes.get_or_create_owned(&labels),
            filter_probability: self.filter_probability.get_or_create_owned(&labels),
            handoffs: self.handoffs.worker(&labels),
            commands: self.commands.clone(),
        }
    }

    /// The handles of one peer, by its number.
    pub fn peer(&self, peer: u16) -> PeerMetrics {
        self.links.peer(peer)
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
mod tests;
