//! `quipu sim fbf-filters`: figure 12.

use super::{EffortArgs, watched};
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use clap::ValueEnum;
use quipu_crdt::bloom::Settings;
use quipu_sim::filters::number::{Params, Start, run as measure, table};

/// How often forgetful Bloom filters of more and of fewer filters err
///
/// The load rises evenly from nothing. Each rate is the average over filters whose refreshes are spread evenly
/// over the period; `-` where errors are too rare to be measured.
///
/// As in the paper, filters are new at the beginning: more of them err less because the oldest, which is asked
/// alone, is still empty. With `--start steady` each rate has lasted for long enough to use all of them; then
/// more filters err more.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-filters                              as in figure 12 of the paper
  quipu sim fbf-filters --start steady               when all filters are in use")]
pub(crate) struct Args {
    /// Numbers of filters to compare: future, present and all past ones
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = Params::default().filters)]
    filters: Vec<usize>,
    /// Bits of each filter
    #[arg(long, default_value_t = 6_250, value_name = "N")]
    bits: u64,
    /// Hash functions
    #[arg(long, default_value_t = 5, value_name = "N")]
    hashes: u8,
    /// The refresh period
    #[arg(long, default_value_t = 5_000, value_name = "MS")]
    period_ms: u64,
    /// Elements inserted during the rise
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    elements: u64,
    /// Elements per second at the end
    #[arg(long, default_value_t = 150.0, value_name = "R")]
    rate_to: f64,
    /// In which state filters are measured
    #[arg(long, value_enum, default_value_t = StartArg::Fresh)]
    start: StartArg,
    #[command(flatten)]
    effort: EffortArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum StartArg {
    /// New ones when the load begins to rise
    Fresh,
    /// At each rate, when they have had it for long enough to use all their filters
    Steady,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { bits, hashes, period_ms, elements, rate_to, .. } = *args;
    let figure = Params::default();
    let params = Params {
        settings: Settings { bits, hashes, period_ms, window_ms: period_ms, ..figure.settings },
        filters: args.filters.clone(),
        elements,
        rate_to,
        start: match args.start {
            StartArg::Fresh => Start::Fresh,
            StartArg::Steady => Start::Steady,
        },
        effort: args.effort.effort(&figure.effort),
        seed: args.output.seed,
    };
    let moments = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-filters", &table(&params, &moments))
}
