//! The flags of `quipu bench sites`.

use crate::bench::args::check_writable;
use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;
use tempfile::TempDir;

const COUNTERS_MAX: i64 = 10_000_000;
const KEYS_MAX: i64 = 100_000_000;
const SAMPLES_MAX: u64 = 1_000_000;
const DELAY_MS_MAX: u64 = 10_000;
const CONNECTIONS_MAX: u64 = 10_000;
const PIPELINE_MAX: u64 = 10_000;
const ROUNDS_MAX: u64 = 1_000;
const SECONDS_MAX: f64 = 3_600.0;
const POINTS_MAX: usize = 20;

/// Measures what replication costs: bytes between sites, time until another site has a count, and work for each add
///
/// Starts servers of its own on free ports of this machine, and stops them in the end.
///
/// Bytes: all counters are made at site 1; what it then sends to a site that is new is one full state. In each round a
/// share of the counters is changed, all in one go and then one at a time, and what site 1 sends to each of two peers
/// stands beside the full state that it would gossip instead.
///
/// Time: single adds at one site, seen by whoever watches the counter at another one, beside one link delay and two
/// commits, which are measured in turn with them.
///
/// Work: the CPU time of a server with two peers for each add, until these have it, beside that of one that is alone, under the same
/// load: all connections send at once, 70 % of what the slower one can take. Where there are two cores or more, the server has the
/// first, and everything else the others.
///
/// The exit code is 1 if anything was miscounted at any site.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu bench sites                                  all three, in about three minutes
  quipu bench sites --data /mnt/disk                 with the sites' data on another disk
  quipu bench sites --delay-ms 0,50 --samples 1000   time only matters: a longer link, more samples
  quipu bench sites --json run.json --plot run.svg   for programs, and for people")]
pub(crate) struct Args {
    /// Rounds of each measurement; what is compared takes turns in them
    #[arg(long, default_value_t = 3, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=ROUNDS_MAX))]
    pub(super) rounds: usize,
    /// Bytes: how many counters there are
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=COUNTERS_MAX))]
    pub(super) counters: u32,
    /// Bytes: the share of them that changes in a round; above 0, up to 1
    #[arg(long, default_value_t = 0.01, value_name = "SHARE", allow_negative_numbers = true)]
    pub(super) changing: f64,
    /// Time: single adds in a round
    #[arg(long, default_value_t = 200, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=SAMPLES_MAX))]
    pub(super) samples: u64,
    /// Time: delays of the link between the two sites
    #[arg(long, value_delimiter = ',', value_name = "MS,...", default_values_t = [0, 10],
          value_parser = clap::value_parser!(u64).range(0..=DELAY_MS_MAX))]
    pub(super) delay_ms: Vec<u64>,
    /// Work: how many keys are counted on
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 100_000],
          value_parser = clap::value_parser!(u32).range(1..=KEYS_MAX))]
    pub(super) keys: Vec<u32>,
    /// Work: commands that a connection sends together
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 16],
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=PIPELINE_MAX))]
    pub(super) pipeline: Vec<usize>,
    /// Work: connections at a time
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CONNECTIONS_MAX))]
    pub(super) connections: usize,
    /// Work: how long a round lasts
    #[arg(long, default_value_t = 3.0, value_name = "S", allow_negative_numbers = true)]
    pub(super) seconds: f64,
    /// The folder in which the sites' data is while this runs; a temporary one otherwise
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write all numbers to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Draw bar charts into this file as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// The same seed changes the same counters
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
}

impl Args {
    /// How many counters change in a round.
    pub(super) fn changed(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number")]
        let changed = (f64::from(self.counters) * self.changing).round() as usize;
        changed.max(1)
    }

    /// Refuses what cannot be before anything is started, and makes the folder, which goes when this is dropped.
    pub(super) fn check(&self) -> Result<TempDir, Failure> {
        let refuse = |flag, problem| Err(Failure::Usage { flag, problem });
        if !(self.changing > 0.0 && self.changing <= 1.0) {
            let problem = format!("{} is not above 0 and at most 1; 0.01 is one of a hundred", self.changing);
            return refuse("--changing", problem);
        }
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            let problem = format!("{} is not above 0 and at most {SECONDS_MAX}", self.seconds);
            return refuse("--seconds", problem);
        }
        for (flag, points) in [
            ("--delay-ms", self.delay_ms.len()),
            ("--keys", self.keys.len()),
            ("--pipeline", self.pipeline.len()),
        ] {
            if points > POINTS_MAX {
                return refuse(flag, format!("{points} values; give at most {POINTS_MAX}"));
            }
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
