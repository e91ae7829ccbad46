//! `quipu sim bounded-excess`: figure 6.

use super::{CostArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_sim::bounded::excess::{Params, run as measure, table};

/// How many units of a counter are spent that there are not, as more clients spend them
///
/// Figure 6 of “Extending eventually consistent cloud databases for enforcing numeric invariants” (Balegas and others).
/// Clients subtract until nothing was counted for five seconds. A line for each number of clients: units beyond the
/// limit, units that nobody got, and when the last one was spent, in each configuration; for these see
/// `quipu sim bounded-latency --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim bounded-excess                           as in figure 6 of the paper
  quipu sim bounded-excess --clients 3000            a crowd")]
pub(crate) struct Args {
    /// Clients of all sites: a run of each configuration for each number; 1 to 1000000
    #[arg(long, value_delimiter = ',', default_values_t = Params::default().clients, value_name = "N,...")]
    clients: Vec<usize>,
    /// The value that is spent
    #[arg(long, default_value_t = Params::default().initial, value_name = "N")]
    initial: i64,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (clients, costs) = (args.clients.clone(), args.costs.costs());
    let params = Params { clients, initial: args.initial, costs, seed: args.output.seed };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("bounded-excess", &table(&rows))
}
