//! The experiments with the forgetful Bloom filter: one file for each, its flags and its call.

pub(crate) mod adapt;
pub(crate) mod membership;
pub(crate) mod model;
pub(crate) mod number;
pub(crate) mod recyclable;
pub(crate) mod refresh;
pub(crate) mod retries;

use super::progress::watched;
use quipu_sim::filters::Effort;

/// How long to look for errors.
#[derive(clap::Args)]
pub(crate) struct EffortArgs {
    /// Errors after which a rate is known well enough
    #[arg(long, default_value_t = 100, value_name = "N")]
    found: u64,
    /// Elements to look up at most for one rate [default: 1000000000, or what the figure needs]
    #[arg(long, value_name = "N")]
    probes_max: Option<u64>,
    /// Threads that look; the result does not depend on their number
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
}

impl EffortArgs {
    /// As the flags say, and where they are silent as the figure needs.
    fn effort(&self, figure: &Effort) -> Effort {
        let probes_max = self.probes_max.unwrap_or(figure.probes_max);
        Effort { found_enough: self.found, probes_max, threads: self.threads }
    }
}
