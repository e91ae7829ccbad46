//! The Cassandra that the tests run on: one node, which they harm one after the other.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use quipu_storage_cassandra::local::{Nodes, Program, Setup};

use crate::harness::Site;

/// Every commit of these tests is a conditional write on one small machine: few shards.
pub(crate) const FLAGS: &str = "--shards 4";

/// A running node.
#[derive(Debug)]
pub(crate) struct Database {
    nodes: Nodes,
}

/// A node for one test at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found(&'static Mutex<Database>);

/// Starts it, if that is possible here.
pub(crate) fn find() -> Result<Found, String> {
    static DATABASE: OnceLock<Result<Mutex<Database>, String>> = OnceLock::new();
    let start =
        || Nodes::start(&Program::find()?, Setup::default()).map(|nodes| Mutex::new(Database { nodes }));
    DATABASE.get_or_init(start).as_ref().map(Found).map_err(Clone::clone)
}

impl Found {
    /// The node, running.
    pub(crate) fn get(self) -> MutexGuard<'static, Database> {
        let mut database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A test that failed may have left it otherwise.
        database.resume();
        database.start_again();
        database
    }
}

impl Database {
    /// A site that keeps everything here.
    pub(crate) fn site(&self, flags: &str) -> Site {
        Site::in_database(&self.address(), &format!("{FLAGS} --workers 2 {flags}"))
    }

    /// `cassandra://HOST`.
    pub(crate) fn address(&self) -> String {
        let address = self.nodes.address("any").to_string();
        address.rsplit_once('/').expect("a keyspace").0.to_owned()
    }

    /// From now on it answers nothing, and closes nothing either.
    pub(crate) fn pause(&self) {
        self.nodes.pause(0).expect("it runs");
    }

    pub(crate) fn resume(&self) {
        self.nodes.resume(0).expect("it runs");
    }

    /// SIGKILL. Its data stays.
    pub(crate) fn kill(&mut self) {
        self.nodes.kill(0).expect("it runs");
    }

    /// Starts it if it does not run, and waits until it takes writes.
    pub(crate) fn start_again(&mut self) {
        self.nodes.restart(0).expect("it starts");
        self.nodes.wait_until_ready().expect("it is ready");
    }
}
