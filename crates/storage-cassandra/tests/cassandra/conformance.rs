//! The suite that every backend passes.

use std::sync::Arc;

use quipu_storage::{
    ShardId,
    conformance::{self, Backend, SharedBackend},
};
use quipu_storage_cassandra::{Address, Cassandra, CassandraLog, CassandraRegistry, CassandraTable, Fault};

use crate::{server::Server, shifted::Shifted};

/// More than the highest number of a shard in the suite.
const SHARDS: u16 = 512;

struct OnCassandra<'a> {
    server: &'a Server,
    address: Address,
    cassandra: Cassandra,
    fault: Fault,
    by: u16,
}

impl Backend for OnCassandra<'_> {
    type Log = Shifted<CassandraLog>;
    type Table = Shifted<Arc<CassandraTable>>;

    fn log(&mut self) -> Self::Log {
        Shifted { inner: self.cassandra.log(), by: self.by }
    }

    fn table(&mut self) -> Self::Table {
        Shifted { inner: self.cassandra.table(), by: self.by }
    }

    fn reopen(&mut self) {
        self.cassandra = self.server.open(&self.address);
    }

    fn make_unknown(&mut self, shard: ShardId) -> bool {
        self.cassandra.faults().inject(ShardId(shard.0 + self.by), self.fault);
        true
    }

    fn let_settle(&mut self) {
        self.cassandra.faults().heal();
    }
}

impl SharedBackend for OnCassandra<'_> {
    type Registry = Shifted<CassandraRegistry>;

    fn node(&mut self) -> (Self::Log, Self::Registry) {
        let (node, by) = (self.cassandra.as_another_node(), self.by);
        (Shifted { inner: node.log(), by }, Shifted { inner: node.registry(), by })
    }
}

pub(crate) fn run_shared(server: &Server) {
    let address = server.keyspace();
    let (cassandra, fault) = (server.open(&address), Fault::NotSent);
    let mut next = 0;
    conformance::run_shared(|| {
        let by = next;
        next += SHARDS;
        OnCassandra { address: address.clone(), cassandra: cassandra.clone(), server, fault, by }
    });
}

pub(crate) fn run(server: &Server, fault: Fault) {
    let address = server.keyspace();
    let mut next = 0;
    conformance::run(|| {
        let by = next;
        next += SHARDS;
        OnCassandra { address: address.clone(), cassandra: server.open(&address), server, fault, by }
    });
}
