//! `quipu sim bounded-exhaust`: figure 5.

use super::{CostArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_sim::bounded::exhaust::{Params, run as measure, table};

/// How long operations take while a counter is spent down to its limit
///
/// Figure 5 of “Extending eventually consistent cloud databases for enforcing numeric invariants” (Balegas and others).
/// Clients subtract until nothing is left, and go on. A line for each half second: the slowest operation, how many were
/// counted and how many refused, in each configuration; for these see `quipu sim bounded-latency --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim bounded-exhaust                          as in figure 5 of the paper
  quipu sim bounded-exhaust --stats-ms 20            about a line for each operation")]
pub(crate) struct Args {
    /// Clients of all sites; 1 to 1000000
    #[arg(long, default_value_t = Params::default().clients, value_name = "N")]
    clients: usize,
    /// The value that is spent
    #[arg(long, default_value_t = Params::default().initial, value_name = "N")]
    initial: i64,
    /// How long each run lasts, in virtual seconds
    #[arg(long, default_value_t = Params::default().seconds, value_name = "S")]
    seconds: u64,
    /// The time between two lines, in virtual milliseconds
    #[arg(long, default_value_t = Params::default().stats_ms, value_name = "MS")]
    stats_ms: u64,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { clients, initial, seconds, stats_ms, .. } = *args;
    let costs = args.costs.costs();
    let params = Params { clients, initial, seconds, stats_ms, costs, seed: args.output.seed };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("bounded-exhaust", &table(&rows))
}
