//! `quipu sim fbf-vs-rbf`: figure 16.

use super::watched;
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::recyclable::{Params, run as measure, table};

/// A forgetful Bloom filter against a single one of the same memory that is cleared when it is full
///
/// Operations are counted, and some of them retried. Prints the share that is counted wrongly: missed, because
/// the filter took it for a retry, or twice, because the filter had forgotten it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-vs-rbf                               as in figure 16 of the paper
  quipu sim fbf-vs-rbf --arrival-ms 100              too many operations for so small a filter")]
pub(crate) struct Args {
    /// Shares of the operations that are retried, one line for each
    #[arg(long, value_delimiter = ',', value_name = "P,...", default_values_t = Params::default().retry_percents)]
    retry_percents: Vec<f64>,
    /// Operations
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    operations: u64,
    /// The time between two operations
    #[arg(long, default_value_t = 250, value_name = "MS")]
    arrival_ms: u64,
    /// The share of errors at which the recyclable filter is cleared
    #[arg(long, default_value_t = 0.01, value_name = "P")]
    target: f64,
    /// Bits of each filter of the forgetful one; the recyclable one has those of all of them
    #[arg(long, default_value_t = 500, value_name = "N")]
    bits: u64,
    /// Hash functions
    #[arg(long, default_value_t = 3, value_name = "N")]
    hashes: u8,
    /// Past filters
    #[arg(long, default_value_t = 1, value_name = "N")]
    past: usize,
    /// The refresh period
    #[arg(long, default_value_t = 5_000, value_name = "MS")]
    period_ms: u64,
    /// Retries come within this time
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    window_ms: u64,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { target, operations, arrival_ms, bits, hashes, past, period_ms, window_ms, .. } = *args;
    let params = Params {
        settings: Settings { bits, hashes, past, period_ms, window_ms },
        target,
        operations,
        arrival_ms,
        retry_percents: args.retry_percents.clone(),
        seed: args.output.seed,
    };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-vs-rbf", &table(&rows))
}
