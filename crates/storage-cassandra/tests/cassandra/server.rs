//! One node for all tests that do it no harm.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};
use std::time::{Duration, Instant};

use quipu_storage_cassandra::{
    Access, Address, Cassandra, Options, Schema, Timing, Warning,
    local::{Nodes, Program, Setup},
};

/// A running node.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) nodes: Nodes,
    keyspaces: AtomicU32,
}

impl Server {
    pub(crate) fn start(setup: Setup) -> Result<Self, String> {
        let nodes = Nodes::start(&Program::find()?, setup)?;
        Ok(Self { nodes, keyspaces: AtomicU32::new(0) })
    }

    /// A keyspace that nobody has used yet.
    pub(crate) fn keyspace(&self) -> Address {
        let number = self.keyspaces.fetch_add(1, Ordering::Relaxed);
        let address = self.nodes.address(&format!("test{number}"));
        let schema = Schema { replication: 1, ..Schema::default() };
        let start = Instant::now();
        Cassandra::init(&address, &Access::default(), &schema).expect("a keyspace is made");
        eprintln!("init took {:?}", start.elapsed());
        address
    }
}

/// Times that make a test short.
pub(crate) fn quick() -> Timing {
    Timing {
        commit: Duration::from_millis(300),
        settle: Duration::from_secs(5),
        backoff_max: Duration::from_millis(50),
        ..Timing::default()
    }
}

pub(crate) fn open(address: &Address, timing: Timing) -> Cassandra {
    let options = Options { timing, ..Options::default() };
    let (cassandra, warnings) = Cassandra::open(address, &Access::default(), options).expect("it opens");
    assert!(matches!(warnings[..], [Warning::FewCopies { copies: 1, .. }]), "{warnings:?}");
    cassandra
}

/// The node that all share.
pub(crate) fn shared() -> Result<&'static Server, String> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(Setup::default())).as_ref().map_err(Clone::clone)
}
