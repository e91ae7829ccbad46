//! `quipu sim retries`: figure 14.

use super::watched;
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::retries::{Params, run as measure, table};

/// What a counter is worth when acknowledgements are lost and clients try again
///
/// The same increments go into a counter with a forgetful Bloom filter, into one without, and into one that
/// keeps all ids.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim retries                                  as in figure 14 of the paper
  quipu sim retries --ack-loss-percent 50            a very bad network
  quipu sim retries --arrival-ms 5                   more operations than the filter is made for: it misses some")]
pub(crate) struct Args {
    /// Increments by one
    #[arg(long, default_value_t = 6_000, value_name = "N")]
    operations: u64,
    /// The time between two of them
    #[arg(long, default_value_t = 100, value_name = "MS")]
    arrival_ms: u64,
    /// Acknowledgements that are lost
    #[arg(long, default_value_t = 6.0, value_name = "P")]
    ack_loss_percent: f64,
    /// A client tries again after so long without an acknowledgement
    #[arg(long, default_value_t = 2_000, value_name = "MS")]
    retry_after_ms: u64,
    /// Bits of each filter
    #[arg(long, default_value_t = 6_250, value_name = "N")]
    bits: u64,
    /// Hash functions
    #[arg(long, default_value_t = 5, value_name = "N")]
    hashes: u8,
    /// Past filters
    #[arg(long, default_value_t = 1, value_name = "N")]
    past: usize,
    /// The refresh period
    #[arg(long, default_value_t = 5_000, value_name = "MS")]
    period_ms: u64,
    /// After so long a client gives up; until then the filter remembers
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    window_ms: u64,
    /// The time between two lines
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    stats_ms: u64,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { operations, arrival_ms, ack_loss_percent, retry_after_ms, stats_ms, .. } = *args;
    let Args { bits, hashes, past, period_ms, window_ms, .. } = *args;
    let params = Params {
        settings: Settings { bits, hashes, past, period_ms, window_ms },
        operations,
        arrival_ms,
        ack_loss_percent,
        retry_after_ms,
        stats_ms,
        seed: args.output.seed,
    };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("retries", &table(&rows))
}
