//! Nodes that tests share: one that nobody harms, and one that is killed, paused and locked.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use quipu_storage_cassandra::{
    Access, Address, Cassandra, Options, Schema, Timing, Warning,
    local::{Nodes, Program, Setup},
};

/// A running node.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) nodes: Nodes,
    pub(crate) access: Access,
    keyspaces: AtomicU32,
}

impl Server {
    fn start(setup: Setup) -> Result<Self, String> {
        let nodes = Nodes::start(&Program::find()?, setup)?;
        let user = || ("cassandra".to_owned(), "cassandra".to_owned());
        let access = Access { user: setup.authentication.then(user), ..Access::default() };
        Ok(Self { nodes, access, keyspaces: AtomicU32::new(0) })
    }

    /// The name of a keyspace that does not exist yet.
    pub(crate) fn name(&self) -> Address {
        let number = self.keyspaces.fetch_add(1, Ordering::Relaxed);
        self.nodes.address(&format!("test{number}"))
    }

    /// A keyspace that nobody has used yet.
    pub(crate) fn keyspace(&self) -> Address {
        let address = self.name();
        Cassandra::init(&address, &self.access, &one_copy()).expect("a keyspace is made");
        address
    }

    /// Opens a keyspace.
    pub(crate) fn open(&self, address: &Address) -> Cassandra {
        self.open_with(address, quick())
    }

    pub(crate) fn open_with(&self, address: &Address, timing: Timing) -> Cassandra {
        let options = Options { timing, ..Options::default() };
        let (cassandra, warnings) = Cassandra::open(address, &self.access, options).expect("it opens");
        assert!(matches!(warnings[..], [Warning::FewCopies { copies: 1, .. }]), "{warnings:?}");
        cassandra
    }

    /// Asks the database itself.
    pub(crate) fn ask(&self, statement: &str) -> usize {
        let hosts = self.nodes.socket(0).to_string();
        let mut builder = scylla::client::session_builder::SessionBuilder::new().known_node(hosts);
        if let Some((name, password)) = &self.access.user {
            builder = builder.user(name, password);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let session = builder.build().await.expect("a session");
            let answer = session.query_unpaged(statement, ()).await.expect("it is asked");
            answer.into_rows_result().map_or(0, |rows| rows.rows_num())
        })
    }
}

pub(crate) fn one_copy() -> Schema {
    Schema { replication: 1, ..Schema::default() }
}

/// Times that make a test short.
pub(crate) fn quick() -> Timing {
    Timing {
        commit: Duration::from_millis(500),
        settle: Duration::from_secs(5),
        backoff_max: Duration::from_millis(50),
        ..Timing::default()
    }
}

/// The node that all share.
pub(crate) fn shared() -> Result<&'static Server, String> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(Setup::default())).as_ref().map_err(Clone::clone)
}

/// A node for one test at a time, which wants a password.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own(&'static Mutex<Server>);

impl Own {
    pub(crate) fn get(self) -> MutexGuard<'static, Server> {
        // A test that failed leaves a node that others can use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn own() -> Result<Own, String> {
    static SERVER: OnceLock<Result<Mutex<Server>, String>> = OnceLock::new();
    let start = || Server::start(Setup { authentication: true, ..Setup::default() }).map(Mutex::new);
    SERVER.get_or_init(start).as_ref().map(Own).map_err(Clone::clone)
}
