//! The flags of `quipu bench`, and the plan that they make.

use super::endpoint::Endpoint;
use super::keys::Distribution;
use super::load::{Contestant, End, Load};
use super::session::Plan;
use crate::failure::Failure;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use quipu_crdt::testing::Random;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CONNECTIONS_MAX: u64 = 10_000;
const PIPELINE_MAX: u64 = 10_000;
const KEYS_MAX: i64 = 100_000_000;
const REQUESTS_MAX: u64 = 1_000_000_000_000;
const ROUNDS_MAX: u64 = 1_000;
const SECONDS_MAX: f64 = 86_400.0;
/// A round lasts so long if nothing else is said.
const SECONDS: f64 = 5.0;
/// Rounds where two are compared; one is enough where there is nothing to compare.
const ROUNDS_COMPARED: u64 = 5;

/// Puts load on a server that speaks the Redis protocol, and measures throughput and latency
///
/// Adds (INCRBY key 1) and reads (GET key) go over many connections from one thread. It is a closed loop: a
/// connection sends its next commands when those before are answered. Keys are key:000000000000 and so on; what they
/// counted before stays in them.
///
/// Latency has one sample for each burst, that is --pipeline commands that are sent together: from when they are sent
/// to when the last of their replies is read.
///
/// The exit code is 1 if the server answers with an error, closes a connection, falls silent, or has miscounted
/// (--verify).
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  quipu bench                                        our server on its usual port
  quipu bench --pipeline 16 --keys 1                 one counter, 16 commands at a time
  quipu bench --against 127.0.0.1:6379               beside Redis, in alternating rounds, and the ratio
  quipu bench --ids both                             what operation ids cost
  quipu bench --reads 0.9 --distribution zipf:1.1    mostly reads, some keys much more often than others
  quipu bench --requests 1000000 --verify            then add up all counters: was every add counted once?
  quipu bench retries --out retries                  lose acknowledgements on purpose, and look at the counters
  quipu bench sites                                  what replication costs: bytes, time and work
  quipu bench cassandra                              a server on a Cassandra beside Cassandra's own counters
  quipu bench --json run.json --plot run.svg         for programs, and for people"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<super::Command>,
    /// The server
    #[arg(long, default_value = "127.0.0.1:7379", value_name = "HOST:PORT")]
    target: String,
    /// Another server to compare with, in alternating rounds
    #[arg(long, value_name = "HOST:PORT")]
    against: Option<String>,
    /// Connections at a time; 1 to 10000
    #[arg(long, short = 'c', default_value_t = 50, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CONNECTIONS_MAX))]
    connections: usize,
    /// Commands that a connection sends together; 1 to 10000
    #[arg(long, short = 'P', default_value_t = 1, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=PIPELINE_MAX))]
    pipeline: usize,
    /// Keys; 1 to 100000000
    #[arg(long, default_value_t = 100_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=KEYS_MAX))]
    keys: u32,
    /// How commands spread over the keys: uniform, zipf (that is zipf:0.99), zipf:THETA, or hot (one key)
    #[arg(long, default_value = "uniform", value_name = "NAME")]
    distribution: Distribution,
    /// The share of reads; 0 to 1
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", allow_negative_numbers = true)]
    reads: f64,
    /// Send adds with operation ids (IDMP producer id): a producer for each connection, and rising ids
    #[arg(long, value_enum, default_value = "off", default_missing_value = "on", num_args = 0..=1, value_name = "WHEN")]
    ids: IdsArg,
    /// Commands in a round, instead of a time
    #[arg(long, short = 'n', conflicts_with = "seconds", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    requests: Option<u64>,
    /// How long a round lasts [default: 5]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seconds: Option<f64>,
    /// Rounds [default: 1, or 5 where two are compared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=ROUNDS_MAX))]
    rounds: Option<u64>,
    /// Log in with this password
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// For connecting, and for every answer, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "S", allow_negative_numbers = true)]
    timeout: f64,
    /// Count on keys of this run's own, add them up in the end, and compare with what was acknowledged
    #[arg(long)]
    verify: bool,
    /// Go on and end well although the server answers with errors; they are counted
    #[arg(long)]
    allow_errors: bool,
    /// Write all numbers to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw a bar chart into this file as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The same seed gives the same keys in the same order
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IdsArg {
    /// Without ids
    Off,
    /// With ids
    On,
    /// Compare without and with ids, in alternating rounds
    Both,
}

impl Args {
    /// Refuses what cannot be before anything is sent.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let problem = |flag, problem: String| Failure::Usage { flag, problem };
        if !(0.0..=1.0).contains(&self.reads) {
            return Err(problem("--reads", format!("{} is not in 0..=1; 0.9 is nine of ten", self.reads)));
        }
        let seconds = self.seconds.unwrap_or(SECONDS);
        for (flag, value) in [("--seconds", seconds), ("--timeout", self.timeout)] {
            if !(value > 0.0 && value <= SECONDS_MAX) {
                return Err(problem(flag, format!("{value} is not above 0 and at most {SECONDS_MAX}")));
            }
        }
        check_writable("--json", self.json.as_deref())?;
        check_writable("--plot", self.plot.as_deref())?;
        let run = name_of_run(self.seed);
        let contestants = self.contestants(&run)?;
        let rounds = self.rounds.unwrap_or(if contestants.len() > 1 { ROUNDS_COMPARED } else { 1 });
        Ok(Plan {
            contestants,
            load: Load {
                connections: self.connections,
                pipeline: self.pipeline,
                keys: self.keys,
                distribution: self.distribution,
                reads: self.reads,
                run,
                seed: self.seed,
                end: self.requests.map_or(End::After(Duration::from_secs_f64(seconds)), End::Requests),
                wave_every: None,
            },
            rounds: usize::try_from(rounds).expect("at most a thousand"),
            verify: self.verify,
            allow_errors: self.allow_errors,
            json: self.json.clone(),
            plot: self.plot.clone(),
        })
    }

    /// One or two; the first is measured in units of the second.
    fn contestants(&self, run: &str) -> Result<Vec<Contestant>, Failure> {
        let timeout = Duration::from_secs_f64(self.timeout);
        let resolve = |flag, name: &str| Endpoint::resolve(flag, name, self.password.as_deref(), timeout);
        let target = resolve("--target", &self.target)?;
        // Where sums are compared, each has keys of its own: both may be the same server.
        let contestant = |place: u8, endpoint: &Endpoint, label: &str, with_ids| Contestant {
            label: label.to_owned(),
            endpoint: endpoint.clone(),
            with_ids,
            prefix: if self.verify { format!("bench:{run}:{place}:") } else { "key:".to_owned() },
        };
        match (&self.against, self.ids) {
            (Some(_), IdsArg::Both) => Err(Failure::Usage {
                flag: "--ids",
                problem: "both compares one server with itself; leave --against out, or say on or off"
                    .to_owned(),
            }),
            (Some(other), ids) => {
                let against = resolve("--against", other)?;
                let with_ids = ids == IdsArg::On;
                Ok(vec![
                    contestant(1, &target, &self.target, with_ids),
                    contestant(2, &against, other, with_ids),
                ])
            }
            (None, IdsArg::Both) => {
                Ok(vec![contestant(1, &target, "with ids", true), contestant(2, &target, "without", false)])
            }
            (None, ids) => Ok(vec![contestant(1, &target, &self.target, ids == IdsArg::On)]),
        }
    }
}

/// Known before anything runs. What a file holds stays until there is something to write.
pub(super) fn check_writable(flag: &'static str, file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| Failure::Usage {
        flag,
        problem: format!("{}: {error}; name a file that can be written", file.display()),
    })
}

/// Eight letters and digits that no other run has.
pub(super) fn name_of_run(seed: u64) -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = Random::stream(seed, &format!("{} {}", time.as_nanos(), std::process::id()));
    format!("{:08x}", random.bits() >> 32)
}
