//! `quipu sim fbf-adapt`: figure 13.

use super::watched;
use crate::commands::sim::output::Output;
use crate::failure::Failure;
use quipu_crdt::bloom::{Limits, Settings};
use quipu_sim::filters::adapt::{Params, run as measure, table};
use quipu_sim::filters::{Effort, LoadPoint};

/// Does resizing hold the errors of a forgetful Bloom filter below a target while the load rises and falls?
///
/// Prints the number of filters, the period and the size, and the share of errors by the paper's equation, by
/// the corrected one, and measured; and the share of elements within the window that have been forgotten.
/// Columns that begin with `printed` are of a filter resized to the letter of the paper.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim fbf-adapt                                from 10 to 60 per second in ten minutes, and back in one
  quipu sim fbf-adapt --bits-max 6250                only by number and period, as in the paper
  quipu sim fbf-adapt --load 0:10,60000:60 --end-ms 60000
                                                     a rise too steep to be followed")]
pub(crate) struct Args {
    /// The load: elements per second at times in ms, evenly changing in between
    #[arg(long, value_delimiter = ',', value_name = "MS:RATE,...", value_parser = parse_point,
        default_value = "0:10,600000:60,660000:10")]
    load: Vec<LoadPoint>,
    /// How long it lasts
    #[arg(long, default_value_t = 720_000, value_name = "MS")]
    end_ms: u64,
    /// The time between two lines
    #[arg(long, default_value_t = 2_000, value_name = "MS")]
    stats_ms: u64,
    /// The share of errors that is wanted
    #[arg(long, default_value_t = 0.01, value_name = "P")]
    target: f64,
    /// Bits of each filter at the beginning
    #[arg(long, default_value_t = 6_250, value_name = "N")]
    bits: u64,
    /// Bits of each filter at most
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    bits_max: u64,
    /// Hash functions
    #[arg(long, default_value_t = 5, value_name = "N")]
    hashes: u8,
    /// Past filters at the beginning
    #[arg(long, default_value_t = 1, value_name = "N")]
    past: usize,
    /// Past filters at least
    #[arg(long, default_value_t = 1, value_name = "N")]
    past_min: usize,
    /// Past filters at most
    #[arg(long, default_value_t = 22, value_name = "N")]
    past_max: usize,
    /// The refresh period at the beginning
    #[arg(long, default_value_t = 11_000, value_name = "MS")]
    period_ms: u64,
    /// The shortest refresh period
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    period_ms_min: u64,
    /// The longest refresh period
    #[arg(long, default_value_t = 13_000, value_name = "MS")]
    period_ms_max: u64,
    /// By how much the period changes at a time
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    period_ms_step: u64,
    /// For how long elements must be remembered
    #[arg(long, default_value_t = 20_000, value_name = "MS")]
    window_ms: u64,
    /// Errors after which a rate is known well enough
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    found: u64,
    /// Elements to look up at most for one rate
    #[arg(long, default_value_t = 10_000_000, value_name = "N")]
    probes_max: u64,
    /// Threads that look; the result does not depend on their number
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    output: Output,
}

fn parse_point(text: &str) -> Result<LoadPoint, String> {
    let point = text.split_once(':').and_then(|(time_ms, rate)| {
        Some(LoadPoint { time_ms: time_ms.parse().ok()?, rate: rate.parse().ok()? })
    });
    point.ok_or_else(|| "not a time in ms, a colon and a rate per second, as in 60000:10".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { target, past_min, past_max, period_ms_min, period_ms_max, period_ms_step, bits_max, .. } =
        *args;
    let Args { bits, hashes, past, period_ms, window_ms, .. } = *args;
    let params = Params {
        settings: Settings { bits, hashes, past, period_ms, window_ms },
        limits: Limits { target, past_min, past_max, period_ms_min, period_ms_max, period_ms_step, bits_max },
        load: args.load.clone(),
        end_ms: args.end_ms,
        stats_ms: args.stats_ms,
        effort: Effort { found_enough: args.found, probes_max: args.probes_max, threads: args.threads },
        seed: args.output.seed,
    };
    let rows = watched(|watch| measure(&params, watch))?;
    args.output.print("fbf-adapt", &table(&rows))
}
