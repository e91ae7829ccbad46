//! Figure 14: what a counter is worth when acknowledgements are lost and clients try again.

use super::{ELEMENTS_MAX, check_settings};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on, within};
use quipu_crdt::bloom::{ElementHash, Forgetful, Settings};
use quipu_crdt::classic::GCounter;
use quipu_crdt::testing::Random;
use std::collections::BTreeSet;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The filter. Clients give up when the window has passed. The paper does not say which filter; these are
    /// the values of its first experiments.
    pub settings: Settings,
    /// Increments by one. Not in the paper.
    pub operations: u64,
    /// The time between two increments. Not in the paper.
    pub arrival_ms: u64,
    /// So many of hundred acknowledgements are lost. Not in the paper, whose counter is 6 % too high in the end.
    pub ack_loss_percent: f64,
    /// After so long without an acknowledgement a client tries again: the paper's write timeout, from its
    /// experiment with Cassandra.
    pub retry_after_ms: u64,
    /// The time between two rows.
    pub stats_ms: u64,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            settings: Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 5_000, window_ms: 10_000 },
            operations: 6_000,
            arrival_ms: 100,
            ack_loss_percent: 6.0,
            retry_after_ms: 2_000,
            stats_ms: 10_000,
            seed: 1,
        }
    }
}

/// What the counters report at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When.
    pub time_ms: u64,
    /// Increments issued, each of which should count once.
    pub issued: u64,
    /// Counted when the filter finds them new.
    pub with_filter: u64,
    /// Counted always.
    pub without: u64,
    /// Counted when their id is not among all ids so far.
    pub with_ids: u64,
    /// Messages that were retries.
    pub retries: u64,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    check_settings(&params.settings)?;
    within("--operations", &params.operations, &(1..=ELEMENTS_MAX))?;
    within("--arrival-ms", &params.arrival_ms, &(1..=super::PERIOD_MS_MAX))?;
    within("--ack-loss-percent", &params.ack_loss_percent, &(0.0..=100.0))?;
    within("--retry-after-ms", &params.retry_after_ms, &(1..=super::PERIOD_MS_MAX))?;
    within("--stats-ms", &params.stats_ms, &(1..=super::PERIOD_MS_MAX))
}

/// Runs the clients against the three counters at once.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let mut server = Server::new(params);
    let mut lost = Random::stream(params.seed, "lost acknowledgements");
    // Retries to come, the earliest first.
    let mut retries: BTreeSet<Message> = BTreeSet::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut due_ms = params.stats_ms;
    let mut first_tries = (0..params.operations).map(|operation| Message::new(operation, params)).peekable();
    loop {
        let is_retry = match (first_tries.peek(), retries.first()) {
            (None, None) => break,
            (first_try, retry) => retry.is_some_and(|retry| first_try.is_none_or(|other| retry < other)),
        };
        let next = if is_retry { retries.pop_first() } else { first_tries.next() };
        let Some(message) = next else { break };
        while due_ms < message.at_ms {
            go_on(watch, message.operation as f64 / params.operations as f64)?;
            rows.push(server.row(due_ms));
            due_ms += params.stats_ms;
        }
        server.receive(&message);
        let retry_ms = message.at_ms + params.retry_after_ms;
        let gives_up = retry_ms - message.first_ms > params.settings.window_ms;
        if lost.chance(params.ack_loss_percent / 100.0) && !gives_up {
            retries.insert(Message { at_ms: retry_ms, ..message });
        }
    }
    rows.push(server.row(server.latest_ms));
    Ok(rows)
}

/// An increment by one, for the first time or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    at_ms: u64,
    operation: u64,
    first_ms: u64,
}

impl Message {
    fn new(operation: u64, params: &Params) -> Self {
        let at_ms = operation * params.arrival_ms;
        Message { at_ms, operation, first_ms: at_ms }
    }
}

/// The same counter three times.
struct Server {
    filter: Forgetful,
    ids: BTreeSet<u64>,
    with_filter: GCounter<u8>,
    without: GCounter<u8>,
    with_ids: GCounter<u8>,
    seed: u64,
    retries: u64,
    latest_ms: u64,
}

impl Server {
    fn new(params: &Params) -> Self {
        Server {
            filter: Forgetful::new(params.settings, 0).expect("the settings were checked"),
            ids: BTreeSet::new(),
            with_filter: GCounter::new(0),
            without: GCounter::new(0),
            with_ids: GCounter::new(0),
            seed: params.seed,
            retries: 0,
            latest_ms: 0,
        }
    }

    fn receive(&mut self, message: &Message) {
        let id = [self.seed, message.operation].map(u64::to_le_bytes).concat();
        let new_by_filter = self.filter.insert(ElementHash::of(&id), message.at_ms);
        let new = self.ids.insert(message.operation);
        let counted =
            [(new_by_filter, &mut self.with_filter), (true, &mut self.without), (new, &mut self.with_ids)];
        for (counts, counter) in counted {
            counter.inc(u64::from(counts)).expect("far from 64 bits");
        }
        self.retries += u64::from(!new);
        self.latest_ms = message.at_ms;
    }

    fn row(&self, time_ms: u64) -> Row {
        let value = |counter: &GCounter<u8>| u64::try_from(counter.value()).expect("far from 64 bits");
        Row {
            time_ms,
            issued: u64::try_from(self.ids.len()).expect("64 bits"),
            with_filter: value(&self.with_filter),
            without: value(&self.without),
            with_ids: value(&self.with_ids),
            retries: self.retries,
        }
    }
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(["time_ms", "issued", "with_filter", "without", "with_ids", "retries"]);
    for Row { time_ms, issued, with_filter, without, with_ids, retries } in rows {
        table
            .push([*time_ms, *issued, *with_filter, *without, *with_ids, *retries].map(Cell::Count).to_vec());
    }
    table
}
