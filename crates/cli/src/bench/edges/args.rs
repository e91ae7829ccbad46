//! The flags of `quipu bench edges`.

use crate::failure::Failure;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;
use tempfile::TempDir;

const EDGES_MAX: u64 = 100_000_000;
const KEYS_MAX: u64 = 1_000_000;
const CLIENTS_MAX: u64 = 1_000;
/// So many of the edges come before the first look.
const WARM_SHARE: u64 = 20;

/// Measures edges: very many that each count once, hand over and are gone, or vanish in the middle of it
///
/// Starts a server of its own on free ports of this machine, and stops it in the end. Shows how many handoffs it takes in a
/// second, and what is left of an edge: of those that have handed over nothing, of those that vanish a slot, and a bit when
/// the slot is folded.
///
/// The exit code is 1 if anything was miscounted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu bench edges                            a hundred thousand edges that hand over
  quipu bench edges --edges 1000000            a million
  quipu bench edges --edges 1000000 --vanish   a million that get a slot and are never seen again")]
pub(crate) struct Args {
    /// How many there are
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=EDGES_MAX))]
    pub(super) edges: u64,
    /// So many counters, one of which each edge counts on
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    pub(super) keys: u64,
    /// So many edges at a time
    #[arg(long, default_value_t = 32, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CLIENTS_MAX))]
    pub(super) clients: usize,
    /// They vanish when they have got a slot
    #[arg(long)]
    pub(super) vanish: bool,
    /// The folder in which the server's data is while this runs; a temporary one otherwise
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The same seed makes the same edges
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
}

impl Args {
    /// How many edges come before the first look.
    pub(super) fn warm(&self) -> u64 {
        (self.edges / WARM_SHARE).max(1)
    }

    /// Makes the folder, which goes when this is dropped.
    pub(super) fn folder(&self) -> Result<TempDir, Failure> {
        let mut folder = tempfile::Builder::new();
        folder.prefix("quipu-bench-");
        let made = self.data.as_ref().map_or_else(|| folder.tempdir(), |parent| folder.tempdir_in(parent));
        made.map_err(|error| Failure::Usage {
            flag: "--data",
            problem: format!("no folder can be made there: {error}; name one that can be written"),
        })
    }
}
