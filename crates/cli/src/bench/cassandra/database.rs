//! The database that is measured: nodes of our own, or one that is there, with keyspaces that come and go.

use super::args::Args;
use crate::bench::args::name_of_run;
use crate::commands::cluster::site;
use crate::failure::Failure;
use quipu_storage_cassandra::local::{Nodes, Program, Setup};
use quipu_storage_cassandra::{Access, Address, Cassandra, Schema};
use scylla::client::session::Session;
use std::ffi::OsString;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Longer than a node takes to give up by itself, so that it is the node that says so.
const REQUEST_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Database {
    /// Those that were started here end with this.
    nodes: Option<Nodes>,
    /// Its keyspace is what the names of ours begin with.
    address: Address,
    access: Access,
    variables: Vec<(String, OsString)>,
    schema: Schema,
    made: Vec<Address>,
}

impl Database {
    pub(super) fn open(args: &Args) -> Result<Self, Failure> {
        let nodes = match args.nodes() {
            None => None,
            Some(nodes) => {
                let setup = Setup { nodes, ..Setup::default() };
                let started = Program::find().and_then(|program| Nodes::start(&program, setup));
                Some(started.map_err(Failure::failed)?)
            }
        };
        let own = nodes.as_ref().map(|nodes| nodes.address("bench"));
        let address = own.or_else(|| args.storage.clone());
        let address = address.ok_or_else(|| Failure::failed("there is no database to measure"))?;
        let keyspace = format!("{}_{}", address.keyspace(), name_of_run(args.seed).to_ascii_lowercase());
        let is_own = nodes.is_some();
        Ok(Self {
            nodes,
            address: with_keyspace(&address, &keyspace)?,
            access: if is_own { Access::default() } else { args.door.access() },
            variables: if is_own { Vec::new() } else { args.door.variables() },
            schema: Schema { replication: args.replication(), ..Schema::default() },
            made: Vec::new(),
        })
    }

    /// Makes a keyspace for one of those that are measured.
    pub(super) fn make(&mut self, name: &str) -> Result<Address, Failure> {
        let address = with_keyspace(&self.address, &format!("{}_{name}", self.address.keyspace()))?;
        self.made.push(address.clone());
        Cassandra::init(&address, &self.access, &self.schema).map_err(Failure::failed)?;
        Ok(address)
    }

    /// The same, for a server.
    pub(super) fn make_for_server(&mut self, name: &str) -> Result<site::Database, Failure> {
        let address = self.make(name)?.to_string();
        Ok(site::Database { address, variables: self.variables.clone() })
    }

    /// A session in which others than servers ask.
    pub(super) async fn session(&self, address: &Address) -> Result<Session, Failure> {
        Cassandra::session(address, &self.access, REQUEST_WITHIN).await.map_err(Failure::failed)
    }

    /// Drops what was made, where somebody else would find it.
    pub(super) fn close(self) -> Result<(), Failure> {
        let Some(first) = self.made.first().filter(|_| self.nodes.is_none()) else { return Ok(()) };
        runtime()?.block_on(async {
            let session = self.session(first).await?;
            for address in &self.made {
                let drop = format!("DROP KEYSPACE IF EXISTS {}", address.keyspace());
                session.query_unpaged(drop.clone(), ()).await.map_err(|error| {
                    Failure::failed(format!("a keyspace is left behind: {error}; do it yourself: {drop}"))
                })?;
            }
            Ok(())
        })
    }
}

fn with_keyspace(address: &Address, keyspace: &str) -> Result<Address, Failure> {
    let text = format!("cassandra://{}/{keyspace}", address.hosts().join(","));
    text.parse().map_err(|error| Failure::Usage {
        flag: "--storage",
        problem: format!("{error}; names of keyspaces are made from this one's, so that it must be short"),
    })
}

/// Threads for the driver.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("no threads for the driver: {error}")))
}
