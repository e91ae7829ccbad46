//! The flags of `quipu bench edges`.

use crate::bench::args::check_writable;
use crate::failure::Failure;
use clap::ValueEnum as _;
use clap::builder::RangedU64ValueParser;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tempfile::TempDir;

const EDGES_MAX: u64 = 100_000_000;
const KEYS_MAX: u64 = 1_000_000;
const CLIENTS_MAX: u64 = 1_000;
const TOUCHED_MAX: u64 = 10_000;
const POINTS_MAX: usize = 20;
const ADDS_MAX: u64 = 100_000;
const IDLE_MAX: u64 = 5_000;
const ROUNDS_MAX: u64 = 1_000;
const SECONDS_MAX: f64 = 3_600.0;
/// So many of the edges come before the first look.
const WARM_SHARE: u64 = 20;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Part {
    /// Very many edges that each count once, hand over and are gone
    Handoffs,
    /// What goes over the wire for each count that is handed over
    Bytes,
    /// What edges cost that have nothing to say
    Idle,
    /// How often in a second an edge counts and reads, without a server
    Counting,
}

/// Measures edges: what they cost a server, what they send, and how fast they count by themselves
///
/// Starts servers of its own on free ports of this machine, and stops them in the end. What is printed are tables for a
/// document, in Markdown.
///
/// Handoffs: how many a server takes in a second, beside plain adds over HTTP by as many clients, and what is left of an
/// edge: of those that have handed over nothing, of those that vanish (`--vanish`) a slot, and a bit when it is folded.
///
/// Bytes: edges that have counted many times on some counters hand over once to a server that they know. Without HTTP's
/// own words, and with them.
///
/// Idle: edges with threads and connections of their own that have handed over everything: memory of the server, and
/// requests.
///
/// Counting: adds and reads at an edge, in a file and in memory, beside a bare write and flush of a small record to the
/// same disk, in turn with them.
///
/// The exit code is 1 if anything was miscounted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu bench edges                                            all four, in about three minutes
  quipu bench edges --part handoffs --edges 1000000            a million edges that hand over
  quipu bench edges --part handoffs --edges 1000000 --vanish   a million that get a slot and are never seen again
  quipu bench edges --part counting --data /mnt/disk           what counting costs on another disk
  quipu bench edges --json run.json --plot run.svg             for programs, and for people")]
pub(crate) struct Args {
    /// What is measured; all of it otherwise
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,...")]
    part: Vec<Part>,
    /// Handoffs: how many edges there are
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=EDGES_MAX))]
    pub(super) edges: u64,
    /// Handoffs: so many counters, one of which each edge counts on
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub(super) keys: u64,
    /// Handoffs: so many edges at a time
    #[arg(long, default_value_t = 32, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CLIENTS_MAX))]
    pub(super) clients: usize,
    /// Handoffs: they vanish when they have got a slot
    #[arg(long)]
    pub(super) vanish: bool,
    /// Bytes: how many counters an edge has counted on
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 10, 100],
          value_parser = clap::value_parser!(u64).range(1..=TOUCHED_MAX))]
    pub(super) touched: Vec<u64>,
    /// Bytes: how often on each
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=ADDS_MAX))]
    pub(super) adds: u64,
    /// Idle: how many edges
    #[arg(long, default_value_t = 500, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=IDLE_MAX))]
    pub(super) idle: usize,
    /// Idle: for how long
    #[arg(long, default_value_t = 30.0, value_name = "S", allow_negative_numbers = true)]
    pub(super) idle_seconds: f64,
    /// Bytes and counting: rounds; what is compared takes turns in them
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=ROUNDS_MAX))]
    pub(super) rounds: usize,
    /// Counting: how long a round lasts, for each way of counting
    #[arg(long, default_value_t = 1.0, value_name = "S", allow_negative_numbers = true)]
    pub(super) seconds: f64,
    /// The folder in which all data is while this runs; a temporary one otherwise
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write all numbers to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw bar charts into this file as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// The same seed makes the same edges
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
}

impl Args {
    /// How many edges come before the first look.
    pub(super) fn warm(&self) -> u64 {
        (self.edges / WARM_SHARE).max(1)
    }

    /// What is measured, in this order.
    pub(super) fn parts(&self) -> BTreeSet<Part> {
        match self.part.is_empty() {
            true => Part::value_variants().iter().copied().collect(),
            false => self.part.iter().copied().collect(),
        }
    }

    /// Refuses what cannot be before anything is started, and makes the folder, which goes when this is dropped.
    pub(super) fn check(&self) -> Result<TempDir, Failure> {
        let refuse = |flag, problem| Err(Failure::Usage { flag, problem });
        for (flag, seconds) in [("--seconds", self.seconds), ("--idle-seconds", self.idle_seconds)] {
            if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
                return refuse(flag, format!("{seconds} is not above 0 and at most {SECONDS_MAX}"));
            }
        }
        if self.touched.len() > POINTS_MAX {
            return refuse("--touched", format!("{} values; give at most {POINTS_MAX}", self.touched.len()));
        }
        check_writable("--json", self.json.as_deref())?;
        check_writable("--plot", self.plot.as_deref())?;
        let mut folder = tempfile::Builder::new();
        folder.prefix("quipu-bench-");
        let made = self.data.as_ref().map_or_else(|| folder.tempdir(), |parent| folder.tempdir_in(parent));
        made.map_err(|error| Failure::Usage {
            flag: "--data",
            problem: format!("no folder can be made there: {error}; name one that can be written"),
        })
    }
}
