//! The flags of `quipu bench cassandra`.

use crate::bench::args::check_writable;
use crate::commands::storage::Door;
use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use quipu_storage_cassandra::Address;
use std::path::PathBuf;
use tempfile::TempDir;

const NODES_MAX: i64 = 9;
const KEYS_MAX: i64 = 10_000_000;
const CONNECTIONS_MAX: u64 = 10_000;
const PIPELINE_MAX: u64 = 10_000;
const ROUNDS_MAX: u64 = 1_000;
const SECONDS_MAX: f64 = 3_600.0;
const POINTS_MAX: usize = 20;
/// Copies in a database that is there already, unless said otherwise.
const COPIES: u32 = 3;

/// Measures adds on a Cassandra beside that Cassandra's own counters (UPDATE ... SET v = v + 1)
///
/// Starts a Cassandra of its own on this machine (Java 17 is needed, and Maven to fetch it the first time), or uses one
/// that is there (`--storage`), and `quipu serve` on it, one for each number of shards. INCRBY over the Redis protocol and
/// prepared UPDATEs at LOCAL_QUORUM take turns in each round, with as many in flight: --connections times --pipeline.
/// After each round all counters are added up.
///
/// What is printed is a table for a document, in Markdown. The exit code is 1 if anything was miscounted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu bench cassandra                                one node, one copy, in about two minutes
  quipu bench cassandra --nodes 3                      three nodes on this machine, three copies
  quipu bench cassandra --shards 1,4,16,64 --keys 100000 --pipeline 1     how many shards?
  quipu bench cassandra --servers 1,3 --shards 4       how much do more nodes of quipu help?
  quipu bench cassandra --storage cassandra://10.0.0.7,10.0.0.8/bench     keyspaces bench_... come and go there
  quipu bench cassandra --json run.json --plot run.svg for programs, and for people")]
pub(crate) struct Args {
    /// So many nodes are started, each with a copy of everything; 1 to 9
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,
    /// A database that is there already. Keyspaces are made in it whose names begin with this one's, and dropped in the end
    #[arg(long, value_name = "URL", conflicts_with = "nodes")]
    pub(super) storage: Option<Address>,
    /// Copies of everything [default: as many as there are nodes, or 3 with --storage]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    replication: Option<u32>,
    #[command(flatten)]
    pub(super) door: Door,
    /// How many shards a server has; several are measured side by side
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [4])]
    shards: Vec<u16>,
    /// How many nodes of quipu share the load; several are measured side by side, each with each number of shards
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1],
          value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    servers: Vec<u16>,
    /// How many keys are counted on
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 100_000],
          value_parser = clap::value_parser!(u32).range(1..=KEYS_MAX))]
    pub(super) keys: Vec<u32>,
    /// Commands that a connection sends together
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 16],
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=PIPELINE_MAX))]
    pub(super) pipeline: Vec<usize>,
    /// Connections at a time
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CONNECTIONS_MAX))]
    pub(super) connections: usize,
    /// Rounds under each load
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=ROUNDS_MAX))]
    pub(super) rounds: usize,
    /// How long a round lasts, for each of those that take turns
    #[arg(long, default_value_t = 3.0, value_name = "S", allow_negative_numbers = true)]
    pub(super) seconds: f64,
    /// Write all numbers to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw bar charts into this file as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// The same seed gives the same keys in the same order
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
}

/// What is measured beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) shards: u16,
    /// Nodes of quipu that share the load.
    pub(super) servers: u16,
}

impl Args {
    /// Everything of ours that is measured.
    pub(super) fn points(&self) -> Vec<Point> {
        let point = |servers: u16| self.shards.iter().map(move |&shards| Point { shards, servers });
        self.servers.iter().copied().flat_map(point).collect()
    }

    /// How many nodes are to be started, if any.
    pub(super) fn nodes(&self) -> Option<u32> {
        self.storage.is_none().then_some(self.nodes)
    }

    pub(super) fn replication(&self) -> u32 {
        self.replication.unwrap_or(self.nodes().unwrap_or(COPIES))
    }

    /// Refuses what cannot be before anything is started, and makes the folder for the servers' logs, which goes when this
    /// is dropped.
    pub(super) fn check(&self) -> Result<TempDir, Failure> {
        let refuse = |flag, problem| Err(Failure::Usage { flag, problem });
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            let problem = format!("{} is not above 0 and at most {SECONDS_MAX}", self.seconds);
            return refuse("--seconds", problem);
        }
        if let Some(shards) = self.shards.iter().find(|shards| !shards.is_power_of_two()) {
            return refuse("--shards", format!("{shards} is not a power of two; 1, 4 and 16 are"));
        }
        if let Some(servers) = self.servers.iter().find(|servers| usize::from(**servers) > self.connections) {
            let problem =
                format!("{servers} cannot share {} connections; give more --connections", self.connections);
            return refuse("--servers", problem);
        }
        for (flag, points) in [
            ("--shards", self.shards.len() * self.servers.len()),
            ("--keys", self.keys.len()),
            ("--pipeline", self.pipeline.len()),
        ] {
            if points > POINTS_MAX {
                return refuse(flag, format!("{points} values; give at most {POINTS_MAX}"));
            }
        }
        check_writable("--json", self.json.as_deref())?;
        check_writable("--plot", self.plot.as_deref())?;
        tempfile::Builder::new().prefix("quipu-bench-").tempdir().map_err(|error| {
            Failure::failed(format!(
                "no folder can be made for logs: {error}; set TMPDIR to one that can be written"
            ))
        })
    }
}
