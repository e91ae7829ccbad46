//! Nodes: their settings, when they are ready, and what can be done to them.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    statement::{Consistency, Statement},
};

use super::{Program, process::Process};
use crate::Address;

const PORT: u16 = 9042;
/// How long nodes may take until they answer.
const READY_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOGBACK: &str = include_str!("logback.xml");
/// The user that every Cassandra begins with, and its password.
const FIRST_USER: &str = "cassandra";

/// What nodes are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// How many.
    pub nodes: u32,
    /// Whether a user and a password are wanted. The first user is `cassandra`, and so is its password.
    pub authentication: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { nodes: 1, authentication: false }
    }
}

/// Running nodes, counted from 0. They end when this is dropped.
#[derive(Debug)]
pub struct Nodes {
    program: Program,
    setup: Setup,
    addresses: Vec<IpAddr>,
    folders: Vec<PathBuf>,
    processes: Vec<Option<Process>>,
}

impl Nodes {
    /// Starts nodes and waits until all of them take writes. The error is what they said.
    pub fn start(program: &Program, setup: Setup) -> Result<Self, String> {
        let count = usize::try_from(setup.nodes.max(1)).unwrap_or(1);
        let addresses = addresses(count);
        let mut nodes = Self {
            program: program.clone(),
            setup,
            folders: Vec::with_capacity(count),
            processes: (0..count).map(|_| None).collect(),
            addresses,
        };
        for node in 0..count {
            let folder = tempfile::Builder::new().prefix("quipu-cassandra-").tempdir();
            // The node's keeper removes it, even if this process is killed.
            let folder = folder.map_err(|error| format!("a folder for Cassandra: {error}"))?.keep();
            nodes.folders.push(folder);
            nodes.configure(node).map_err(|error| format!("settings for Cassandra: {error}"))?;
            nodes.spawn(node)?;
        }
        nodes.wait_until_ready()?;
        Ok(nodes)
    }

    fn configure(&self, node: usize) -> io::Result<()> {
        let folder = &self.folders[node];
        fs::write(folder.join("logback.xml"), LOGBACK)?;
        fs::write(folder.join("cassandra.yaml"), self.settings(node, folder))
    }

    fn settings(&self, node: usize, folder: &Path) -> String {
        let seeds = self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let address = self.addresses[node];
        let folder = folder.display();
        let token = token(node, self.addresses.len());
        let authenticator =
            if self.setup.authentication { "PasswordAuthenticator" } else { "AllowAllAuthenticator" };
        format!(
            "cluster_name: quipu\n\
             num_tokens: 1\n\
             initial_token: {token}\n\
             auto_bootstrap: false\n\
             partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             endpoint_snitch: SimpleSnitch\n\
             seed_provider:\n\
             - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n  \
               parameters:\n  \
               - seeds: \"{seeds}\"\n\
             listen_address: {address}\n\
             rpc_address: {address}\n\
             authenticator: {authenticator}\n\
             commitlog_sync: batch\n\
             paxos_variant: v2\n\
             auto_snapshot: false\n\
             data_file_directories: [\"{folder}/data\"]\n\
             commitlog_directory: \"{folder}/commitlog\"\n\
             hints_directory: \"{folder}/hints\"\n\
             saved_caches_directory: \"{folder}/caches\"\n\
             cdc_raw_directory: \"{folder}/cdc\"\n"
        )
    }

    fn spawn(&mut self, node: usize) -> Result<(), String> {
        let folder = &self.folders[node];
        let started = Process::start(folder, &self.program.arguments(folder));
        self.processes[node] = Some(started.map_err(|error| format!("starting Cassandra: {error}"))?);
        Ok(())
    }

    /// The address of a keyspace on these nodes.
    pub fn address(&self, keyspace: &str) -> Address {
        let hosts: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        format!("cassandra://{}/{keyspace}", hosts.join(",")).parse().expect("the keyspace has a plain name")
    }

    /// Where a node listens.
    pub fn socket(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.addresses[node], PORT)
    }

    /// The process of a node, while it runs.
    pub fn process_id(&self, node: usize) -> Option<i32> {
        self.processes[node].as_ref().map(Process::id)
    }

    /// Kills a node, at once. Its data stays.
    pub fn kill(&mut self, node: usize) -> io::Result<()> {
        self.processes[node].take().map_or(Ok(()), Process::kill)
    }

    /// Starts a node that was killed. It may take some seconds until it answers: see [`Nodes::wait_until_ready`].
    pub fn restart(&mut self, node: usize) -> Result<(), String> {
        if self.processes[node].is_some() { Ok(()) } else { self.spawn(node) }
    }

    /// Stops a node where it is, as if the machine had no time for it.
    pub fn pause(&self, node: usize) -> io::Result<()> {
        self.processes[node].as_ref().map_or(Ok(()), |process| process.signal(Signal::STOP))
    }

    /// Lets a node go on that was paused.
    pub fn resume(&self, node: usize) -> io::Result<()> {
        self.processes[node].as_ref().map_or(Ok(()), |process| process.signal(Signal::CONT))
    }

    /// Waits until every node has taken a write.
    pub fn wait_until_ready(&self) -> Result<(), String> {
        let until = Instant::now() + READY_WITHIN;
        for node in 0..self.addresses.len() {
            while TcpStream::connect_timeout(&self.socket(node), LOOK_EVERY).is_err() {
                self.look(node, until, "does not listen")?;
                thread::sleep(LOOK_EVERY);
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("a runtime to ask Cassandra: {error}"))?;
        loop {
            match runtime.block_on(self.write_to_all()) {
                Ok(()) => return Ok(()),
                Err(why) => self.look(0, until, &why)?,
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Gives up when time is over.
    fn look(&self, node: usize, until: Instant, why: &str) -> Result<(), String> {
        if Instant::now() < until {
            return Ok(());
        }
        let said = self.processes[node].as_ref().map(Process::said).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(20).collect();
        Err(format!(
            "Cassandra is not ready: {why}. It said last:\n{}",
            last.into_iter().rev().collect::<String>()
        ))
    }

    async fn write_to_all(&self) -> Result<(), String> {
        let mut builder = SessionBuilder::new().known_nodes(self.addresses.iter().map(ToString::to_string));
        if self.setup.authentication {
            builder = builder.user(FIRST_USER, FIRST_USER);
        }
        let session = builder.build().await.map_err(|error| error.to_string())?;
        let seen = session.get_cluster_state().get_nodes_info().len();
        if seen != self.addresses.len() {
            return Err(format!("{seen} of {} nodes know each other", self.addresses.len()));
        }
        self.write(&session).await.map_err(|error| error.to_string())
    }

    async fn write(&self, session: &Session) -> Result<(), scylla::errors::ExecutionError> {
        let copies = self.addresses.len();
        let keyspace = format!(
            "CREATE KEYSPACE IF NOT EXISTS ready WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {copies}}}"
        );
        session.query_unpaged(keyspace, ()).await?;
        session.query_unpaged("CREATE TABLE IF NOT EXISTS ready.ready (id int PRIMARY KEY)", ()).await?;
        let mut insert = Statement::new("INSERT INTO ready.ready (id) VALUES (1)");
        insert.set_consistency(Consistency::All);
        session.query_unpaged(insert, ()).await.map(drop)
    }
}

/// Drops a keyspace, of a database that lets everybody in. Each has tables of its own, and a small node has room for few.
pub fn drop_keyspace(address: &Address) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("a runtime to ask Cassandra: {error}"))?;
    runtime.block_on(async {
        let session = SessionBuilder::new().known_nodes(address.hosts()).build().await;
        let session = session.map_err(|error| error.to_string())?;
        let statement = format!("DROP KEYSPACE IF EXISTS {}", address.keyspace());
        session.query_unpaged(statement, ()).await.map(drop).map_err(|error| error.to_string())
    })
}

/// Addresses of the loopback network that hardly anybody else uses at this time. The ports are the usual ones: drivers
/// take those of the other nodes to be the same.
fn addresses(count: usize) -> Vec<IpAddr> {
    let random = RandomState::new().hash_one(0).to_le_bytes();
    let (second, third) = (random[0].clamp(1, 254), random[1]);
    (1..=u8::try_from(count).unwrap_or(u8::MAX))
        .map(|last| IpAddr::V4(Ipv4Addr::new(127, second, third, last)))
        .collect()
}

/// The nodes share the ring evenly.
fn token(node: usize, nodes: usize) -> i64 {
    let step = (1_i128 << 64) / i128::try_from(nodes).unwrap_or(1);
    let token = i128::from(i64::MIN) + step * i128::try_from(node).unwrap_or(0);
    i64::try_from(token).unwrap_or(i64::MIN).max(i64::MIN + 1)
}
