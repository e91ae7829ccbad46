//! The database's own counters under the same load: `UPDATE ... SET v = v + 1`, prepared, so many in flight.

use super::database::{Database, runtime};
use super::must_be;
use crate::bench::keys::Keys;
use crate::bench::load::{End, Load, Tally};
use crate::bench::round::{Measured, latencies};
use crate::failure::Failure;
use crate::interrupt::go_on;
use futures_util::TryStreamExt as _;
use quipu_crdt::testing::Random;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::Counter;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const NAME: &str = "Cassandra";

pub(super) struct Counters {
    runtime: Runtime,
    session: Arc<Session>,
    keyspace: String,
    /// By the number of keys.
    tables: BTreeMap<u32, Table>,
}

/// Counters for one number of keys.
struct Table {
    add: PreparedStatement,
    read: PreparedStatement,
    added: Tally,
}

/// What one of those in flight has seen.
#[derive(Default)]
struct Seen {
    tally: Tally,
    waited_ns: Vec<u64>,
    first_error: Option<String>,
}

impl Counters {
    pub(super) fn open(database: &mut Database) -> Result<Self, Failure> {
        let address = database.make("own")?;
        let runtime = runtime()?;
        let session = Arc::new(runtime.block_on(database.session(&address))?);
        Ok(Self { runtime, session, keyspace: address.keyspace().to_owned(), tables: BTreeMap::new() })
    }

    /// A round, and whether all of it was counted.
    pub(super) fn round(&mut self, load: &Load, number: usize) -> Result<Measured, Failure> {
        if !self.tables.contains_key(&load.keys) {
            let table = self.runtime.block_on(Table::make(&self.session, &self.keyspace, load.keys))?;
            self.tables.insert(load.keys, table);
        }
        let table = self.tables.get_mut(&load.keys).ok_or_else(|| failed("a table is missing"))?;
        let measured = self.runtime.block_on(put_load(&self.session, &table.add, load, number))?;
        table.added.include(measured.answered);
        let counted = self.runtime.block_on(table.sum(&self.session))?;
        must_be(NAME, table.added.adds, table.added.errors, counted)?;
        Ok(measured)
    }
}

impl Table {
    async fn make(session: &Session, keyspace: &str, keys: u32) -> Result<Self, Failure> {
        let name = format!("{keyspace}.counters_{keys}");
        let make = format!("CREATE TABLE IF NOT EXISTS {name} (key text PRIMARY KEY, v counter)");
        session.query_unpaged(make, ()).await.map_err(failed)?;
        let add =
            session.prepare(format!("UPDATE {name} SET v = v + 1 WHERE key = ?")).await.map_err(failed)?;
        let read = session.prepare(format!("SELECT v FROM {name}")).await.map_err(failed)?;
        Ok(Self { add, read, added: Tally::default() })
    }

    async fn sum(&self, session: &Session) -> Result<i128, Failure> {
        let pages = session.execute_iter(self.read.clone(), ()).await.map_err(failed)?;
        let rows = pages.rows_stream::<(Counter,)>().map_err(failed)?;
        rows.try_fold(0, async |sum, (Counter(value),)| Ok(sum + i128::from(value))).await.map_err(failed)
    }
}

fn failed(error: impl Display) -> Failure {
    Failure::failed(format!("{NAME}'s own counters: {error}"))
}

/// Each of those in flight goes on by itself: it does not wait for the others of its burst.
async fn put_load(
    session: &Arc<Session>,
    add: &PreparedStatement,
    load: &Load,
    number: usize,
) -> Result<Measured, Failure> {
    let End::After(length) = load.end else { return Err(failed("a round of theirs ends after a time")) };
    let started = Instant::now();
    let mut in_flight = JoinSet::new();
    for place in 0..load.connections * load.pipeline {
        let (session, add) = (Arc::clone(session), add.clone());
        let keys = Keys::new(load.distribution, load.keys);
        let random = Random::stream(load.seed, &format!("round {number} in flight {place}"));
        in_flight.spawn(count(session, add, keys, random, started + length));
    }
    let mut measured = Measured {
        elapsed: Duration::ZERO,
        answered: Tally::default(),
        latency: latencies(),
        first_error: None,
        stopped: false,
    };
    while let Some(seen) = in_flight.join_next().await {
        let Seen { tally, waited_ns, first_error } = seen.map_err(failed)?;
        measured.answered.include(tally);
        waited_ns.into_iter().for_each(|waited| measured.latency.saturating_record(waited));
        measured.first_error = measured.first_error.or(first_error);
    }
    measured.elapsed = started.elapsed();
    match measured.answered.adds {
        0 => Err(failed(measured.first_error.unwrap_or_else(|| "nothing was answered in time".to_owned()))),
        _ => Ok(measured),
    }
}

/// One add after the other until then.
async fn count(
    session: Arc<Session>,
    add: PreparedStatement,
    keys: Keys,
    mut random: Random,
    until: Instant,
) -> Seen {
    let mut seen = Seen::default();
    let mut sent = Instant::now();
    while sent < until && go_on().is_ok() {
        let key = format!("key:{:012}", keys.draw(&mut random));
        match session.execute_unpaged(&add, (key,)).await {
            Ok(_) => seen.tally.adds += 1,
            Err(error) => {
                seen.tally.errors += 1;
                seen.first_error.get_or_insert(error.to_string());
            }
        }
        let now = Instant::now();
        seen.waited_ns.push(u64::try_from((now - sent).as_nanos()).unwrap_or(u64::MAX));
        sent = now;
    }
    seen
}
