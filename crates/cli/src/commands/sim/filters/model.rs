//! `quipu sim fbf-model`: figures 9 and 10.

use super::{EffortArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::model::{Params, run as measure, table};

/// How often a forgetful Bloom filter errs: by the paper's equation, by the corrected one, and measured
///
/// Elements are inserted evenly over some refresh periods; then others, which were not, are looked up.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-model                                figure 9: more and more elements
  quipu sim fbf-model --figure 10                    larger and larger filters
  quipu sim fbf-model --past 6 --periods 9 --elements 900,1800,3600
                                                     all filters in use: equation 3 is too low")]
pub(crate) struct Args {
    /// The figure of the paper whose numbers of elements and of bits to take
    #[arg(long, default_value = "9", value_name = "N", value_parser = ["9", "10"])]
    figure: String,
    /// Elements inserted [default: 100 to 1000 in figure 9, 300 in figure 10]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    elements: Option<Vec<u64>>,
    /// Bits of each filter [default: 6250 in figure 9, 5000 to 30000 in figure 10]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    bits: Option<Vec<u64>>,
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
    let Args { hashes, past, period_ms, .. } = *args;
    let figure = if args.figure == "10" { Params::figure_10() } else { Params::figure_9() };
    let params = Params {
        settings: Settings { hashes, past, period_ms, window_ms: period_ms, ..figure.settings },
        bits: args.bits.clone().unwrap_or(figure.bits),
        elements: args.elements.clone().unwrap_or(figure.elements),
        periods: args.periods,
        effort: args.effort.effort(&figure.effort),
        seed: args.output.seed,
    };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-model", &table(&rows))
}
