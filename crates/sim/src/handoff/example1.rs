//! The deployment of the paper's Example 1: a few data centers with two sites each, relays in front of them, and a very
//! large number of edges that count at the same time. What does each of them have to keep?
//!
//! Sites are the nodes of tier 0, relays those of tier 1, edges those of tier 2. Each relay hands over to one of the two
//! sites of its data center, each edge to one relay, and all count all the time.

use super::audit::Accounts;
use super::fleet::Fleet;
use super::run::settle;
use super::setup::{
    Activity, CLIENTS_MAX, Pattern, Placement, SERVERS_MAX, Setup, TIER0_MAX, TIME_MS_MAX, in_range,
};
use super::{Error, Replica};
use crate::core::{Faults, Millis};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on};
use quipu_crdt::codec::encode;

/// How often progress is told.
const PROGRESS_MS: Millis = 100;

/// What may be chosen. The default is the paper's example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Data centers.
    pub datacenters: u32,
    /// Sites of each, of tier 0.
    pub sites: u32,
    /// Relays of each, of tier 1.
    pub relays: u32,
    /// Edges of each relay, of tier 2.
    pub edges_per_relay: u32,
    /// How long the edges count.
    pub end_ms: Millis,
    /// A row every so often.
    pub stats_ms: Millis,
    /// The same seed gives the same run.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            datacenters: 5,
            sites: 2,
            relays: 50,
            edges_per_relay: 1_000,
            end_ms: 10_000,
            stats_ms: 1_000,
            seed: 1,
        }
    }
}

/// What the nodes of one tier keep.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Kept {
    /// Entries of the version vector, on average. Only those of sites are permanent; others have their own count alone.
    pub entries: f64,
    /// Slots open for nodes of the next tier, on average.
    pub slots: f64,
    /// The most slots of one node.
    pub slots_max: u64,
    /// Tokens, own ones and those kept for others, on average.
    pub tokens: f64,
    /// The size of the whole replica as it is stored, on average.
    pub bytes: f64,
    /// The size of the largest.
    pub bytes_max: u64,
}

/// What all keep at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// When, in virtual milliseconds.
    pub time_ms: Millis,
    /// Tier 0.
    pub sites: Kept,
    /// Tier 1.
    pub relays: Kept,
    /// Tier 2.
    pub edges: Kept,
    /// The entries that a naive version vector would have at a relay, on average.
    pub ids: f64,
}

/// What a run gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// While edges count; the last one is from after the end, when everything has been handed over.
    pub rows: Vec<Row>,
    /// What was counted. In the end exactly this is what every site reports.
    pub issued: u64,
    /// Messages sent until the end.
    pub messages: u64,
}

/// Runs it. Checked while it runs: at every message what a replica reports, at every row that nothing is lost or doubled,
/// in the end that every site reports exactly what was counted.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Outcome, RunError> {
    let mut fleet = Fleet::new(params.setup()?);
    let mut rows = Vec::new();
    let mut next_row_ms = params.stats_ms;
    fleet.start().map_err(|what| violation(&fleet, what))?;
    while fleet.queue.now() < params.end_ms {
        go_on(watch, fleet.queue.now() as f64 / params.end_ms as f64)?;
        let until = (fleet.queue.now() + PROGRESS_MS).min(next_row_ms).min(params.end_ms);
        fleet.run_until(until).map_err(|what| violation(&fleet, what))?;
        if until == next_row_ms {
            next_row_ms += params.stats_ms;
            Accounts::of(&fleet).balance(fleet.issued).map_err(|what| violation(&fleet, what))?;
            rows.push(row_of(&fleet));
        }
    }
    let messages = fleet.network.sent();
    settle(&mut fleet).map_err(|what| violation(&fleet, what))?;
    rows.push(row_of(&fleet));
    Ok(Outcome { rows, issued: fleet.issued, messages })
}

fn violation(fleet: &Fleet, what: String) -> RunError {
    let violation = Error::Violation { seed: fleet.setup.seed, time_ms: fleet.queue.now(), what };
    RunError::Failed(violation.to_string())
}

fn row_of(fleet: &Fleet) -> Row {
    let relays = fleet.servers();
    Row {
        time_ms: fleet.queue.now(),
        sites: kept_by(fleet.roots().iter().map(|site| &site.replica)),
        relays: kept_by(relays.iter().map(|relay| &relay.replica)),
        edges: kept_by(fleet.clients.iter().flatten().map(|edge| &edge.replica)),
        ids: fleet.ids_at_servers() as f64 / relays.len() as f64,
    }
}

fn kept_by<'a>(replicas: impl Iterator<Item = &'a Replica>) -> Kept {
    let mut sum = Kept::default();
    let mut nodes = 0.0;
    for replica in replicas {
        let handshake = replica.handshake();
        let slots = handshake.desk().slots().len() as u64;
        let bytes = encode(replica).len() as u64;
        nodes += 1.0;
        sum.entries += 1.0 + replica.others().count() as f64;
        sum.slots += slots as f64;
        sum.slots_max = sum.slots_max.max(slots);
        sum.tokens += (handshake.tokens().len() + handshake.cached().count()) as f64;
        sum.bytes += bytes as f64;
        sum.bytes_max = sum.bytes_max.max(bytes);
    }
    Kept {
        entries: sum.entries / nodes,
        slots: sum.slots / nodes,
        tokens: sum.tokens / nodes,
        bytes: sum.bytes / nodes,
        ..sum
    }
}

/// A line for each row. What is always the same at edges is left out.
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "time_s",
        "site_entries",
        "site_slots",
        "site_bytes",
        "site_bytes_max",
        "relay_entries",
        "relay_slots",
        "relay_slots_max",
        "relay_tokens",
        "relay_bytes",
        "relay_bytes_max",
        "edge_entries",
        "edge_tokens",
        "edge_bytes",
        "edge_bytes_max",
        "ids",
    ]);
    for Row { time_ms, sites, relays, edges, ids } in rows {
        table.push(vec![
            Cell::Number(*time_ms as f64 / 1_000.0),
            Cell::Number(sites.entries),
            Cell::Number(sites.slots),
            Cell::Number(sites.bytes),
            Cell::Count(sites.bytes_max),
            Cell::Number(relays.entries),
            Cell::Number(relays.slots),
            Cell::Count(relays.slots_max),
            Cell::Number(relays.tokens),
            Cell::Number(relays.bytes),
            Cell::Count(relays.bytes_max),
            Cell::Number(edges.entries),
            Cell::Number(edges.tokens),
            Cell::Number(edges.bytes),
            Cell::Count(edges.bytes_max),
            Cell::Number(*ids),
        ]);
    }
    table
}

impl Params {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        self.setup().map(drop)
    }

    fn setup(&self) -> Result<Setup, Refused> {
        in_range("--datacenters", self.datacenters.into(), 1, TIER0_MAX.into())?;
        in_range("--sites", self.sites.into(), 1, (TIER0_MAX / self.datacenters).into())?;
        in_range("--relays", self.relays.into(), 1, (SERVERS_MAX / self.datacenters).into())?;
        let relays = self.relays * self.datacenters;
        in_range("--edges-per-relay", self.edges_per_relay.into(), 1, (CLIENTS_MAX / relays).into())?;
        in_range("--end-ms", self.end_ms, 1, TIME_MS_MAX)?;
        let setup = Setup {
            tier0: self.sites * self.datacenters,
            servers: relays,
            clients_at_start: self.edges_per_relay * relays,
            arrivals: 0,
            arrival_ms: 0,
            activity: Activity::ALWAYS,
            goes_offline: false,
            pattern: Pattern::Answers,
            placement: Placement::Even { datacenters: self.datacenters },
            retirement: None,
            end_ms: self.end_ms,
            stats_ms: self.stats_ms,
            seed: self.seed,
            faults: Faults::NONE,
            merge: Replica::merge,
        };
        setup.check()?;
        Ok(setup)
    }
}
