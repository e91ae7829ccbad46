//! `quipu sim fbf-membership`: figure 8.

use super::{EffortArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::membership::{Params, run as measure, table};

/// How often a forgetful Bloom filter errs when any filter is asked, and when pairs of neighbours are
///
/// Elements are inserted evenly over some refresh periods; then others, which were not, are looked up. Prints
/// the share of them that is found, by the simple and by the optimised check.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-membership                           as in figure 8 of the paper
  quipu sim fbf-membership --elements 300            one point of it
  quipu sim fbf-membership --past 4 --periods 8      more filters, all in use")]
pub(crate) struct Args {
    /// Elements inserted, one line for each number
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = Params::default().elements)]
    elements: Vec<u64>,
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
    /// Over so many periods elements are inserted
    #[arg(long, default_value_t = 2, value_name = "N")]
    periods: u64,
    #[command(flatten)]
    effort: EffortArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { bits, hashes, past, period_ms, .. } = *args;
    let params = Params {
        settings: Settings { bits, hashes, past, period_ms, window_ms: period_ms },
        elements: args.elements.clone(),
        periods: args.periods,
        effort: args.effort.effort(&Params::default().effort),
        seed: args.output.seed,
    };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-membership", &table(&rows))
}
