//! `quipu sim fbf-refresh`: figure 11.

use super::{EffortArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::refresh::{Params, run as measure, table};

/// How often a forgetful Bloom filter errs with shorter and longer refresh periods
///
/// The load rises exponentially. Each rate is the average over filters whose refreshes are spread evenly over
/// the period; `-` where errors are too rare to be measured.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-refresh                              as in figure 11 of the paper
  quipu sim fbf-refresh --rate-to 1000               a steeper rise: less to gain
  quipu sim fbf-refresh --periods-ms 10000,1000")]
pub(crate) struct Args {
    /// The periods to compare
    #[arg(long, value_delimiter = ',', value_name = "MS,...", default_values_t = Params::default().periods_ms)]
    periods_ms: Vec<u64>,
    /// Bits of each filter
    #[arg(long, default_value_t = 25_000, value_name = "N")]
    bits: u64,
    /// Hash functions
    #[arg(long, default_value_t = 5, value_name = "N")]
    hashes: u8,
    /// Past filters
    #[arg(long, default_value_t = 1, value_name = "N")]
    past: usize,
    /// Elements inserted during the rise
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    elements: u64,
    /// Elements per second at the beginning
    #[arg(long, default_value_t = 1.0, value_name = "R")]
    rate_from: f64,
    /// Elements per second at the end
    #[arg(long, default_value_t = 200.0, value_name = "R")]
    rate_to: f64,
    #[command(flatten)]
    effort: EffortArgs,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { bits, hashes, past, elements, rate_from, rate_to, .. } = *args;
    let figure = Params::default();
    let params = Params {
        settings: Settings { bits, hashes, past, ..figure.settings },
        periods_ms: args.periods_ms.clone(),
        elements,
        rate_from,
        rate_to,
        effort: args.effort.effort(&figure.effort),
        seed: args.output.seed,
    };
    let moments = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-refresh", &table(&params, &moments))
}
