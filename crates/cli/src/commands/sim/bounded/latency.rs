//! `quipu sim bounded-latency`: table I.

use super::{CostArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_sim::bounded::latency::{Params, run as measure, table};

/// How long operations on a counter with a limit take, where there is little to do
///
/// Table I of “Extending eventually consistent cloud databases for enforcing numeric invariants” (Balegas and others).
/// Three sites (1 US-East, 2 US-West, 3 Europe); clients add one (20 %) or subtract one (80 %), 100 ms after the last
/// answer. A line for each site: median and slowest, of a plain counter that is read, checked and written (weak), of
/// conditional writes at site 1 (strong), of a bounded counter (ours), and of one with a commit for each command
/// (unbatched), all far from the limit. Then ours from 6000 down to the limit: operations that were decided at the site
/// (near), and those that waited for rights of other sites (transfers).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim bounded-latency                          as in table I of the paper
  quipu sim bounded-latency --commit-us 100          with storage as fast as ours")]
pub(crate) struct Args {
    /// Clients of all sites; 3 to 1000000
    #[arg(long, default_value_t = Params::default().clients, value_name = "N")]
    clients: usize,
    /// How long each run lasts, in virtual seconds
    #[arg(long, default_value_t = Params::default().seconds, value_name = "S")]
    seconds: u64,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { clients, seconds, .. } = *args;
    let params = Params { clients, seconds, costs: args.costs.costs(), seed: args.output.seed };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("bounded-latency", &table(&rows))
}
