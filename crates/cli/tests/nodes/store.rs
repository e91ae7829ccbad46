//! The databases: one node for the tests that do it no harm, and three for one that does.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use quipu_storage_cassandra::{
    Access, Cassandra, Schema,
    local::{Nodes, Program, Setup},
};

/// A running database.
pub(crate) struct Store {
    pub(crate) nodes: Nodes,
    copies: u32,
    keyspaces: AtomicU32,
}

impl Store {
    fn start(nodes: u32) -> Result<Self, String> {
        let nodes_started = Nodes::start(&Program::find()?, Setup { nodes, ..Setup::default() })?;
        Ok(Self { nodes: nodes_started, copies: nodes, keyspaces: AtomicU32::new(0) })
    }

    /// A keyspace that nobody has used yet.
    pub(crate) fn keyspace(&self) -> String {
        let number = self.keyspaces.fetch_add(1, Ordering::Relaxed);
        let address = self.nodes.address(&format!("nodes{number}"));
        let schema = Schema { replication: self.copies, ..Schema::default() };
        Cassandra::init(&address, &Access::default(), &schema).expect("a keyspace is made");
        address.to_string()
    }
}

pub(crate) fn of_one() -> Result<&'static Store, String> {
    static STORE: OnceLock<Result<Store, String>> = OnceLock::new();
    STORE.get_or_init(|| Store::start(1)).as_ref().map_err(Clone::clone)
}

pub(crate) fn of_three() -> Result<Store, String> {
    Store::start(3)
}
