//! `quipu sim bounded-load`: figures 4 and 7.

use super::{CostArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_sim::bounded::load::{Params, run as measure, table};

/// How many operations on counters with a limit get through, and how long they take then
///
/// Figures 4 (one counter) and 7 (a hundred) of “Extending eventually consistent cloud databases for enforcing numeric
/// invariants” (Balegas and others). A line for each configuration and number of clients, with the mean latency in the
/// column of the configuration; for the configurations see `quipu sim bounded-latency --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim bounded-load                             as in figure 4 of the paper
  quipu sim bounded-load --counters 100              as in figure 7
  quipu sim bounded-load --commit-us 100 --command-us 10   with storage and a processor as fast as ours")]
pub(crate) struct Args {
    /// Counters; each operation takes one of them at random; 1 to 100000
    #[arg(long, default_value_t = Params::default().counters, value_name = "N")]
    counters: usize,
    /// Clients of all sites: a run of each configuration for each number; 1 to 1000000
    #[arg(long, value_delimiter = ',', default_values_t = Params::default().clients, value_name = "N,...")]
    clients: Vec<usize>,
    /// How long each run lasts, in virtual seconds
    #[arg(long, default_value_t = Params::default().seconds, value_name = "S")]
    seconds: u64,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { counters, seconds, .. } = *args;
    let (clients, costs) = (args.clients.clone(), args.costs.costs());
    let params = Params { counters, clients, seconds, costs, seed: args.output.seed };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("bounded-load", &table(&rows))
}
