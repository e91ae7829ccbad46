//! The experiments with bounded counters: one file for each, its flags and its call.

pub(crate) mod excess;
pub(crate) mod exhaust;
pub(crate) mod latency;
pub(crate) mod load;

use super::progress::watched;
use quipu_sim::bounded::Costs;

// Not a doc comment: clap would show it instead of those of the commands.

// What a server costs.
#[derive(clap::Args)]
pub(crate) struct CostArgs {
    /// Workers of a site, each with a part of the counters; 1 to 64
    #[arg(long, default_value_t = Costs::default().workers, value_name = "N")]
    workers: usize,
    /// How long a commit takes, in virtual microseconds. By default as long as in the paper, by its throughput; on
    /// the machine of docs/benchmarks.md a flush takes about 100
    #[arg(long, default_value_t = Costs::default().commit_us, value_name = "US")]
    commit_us: u64,
    /// How long a command or a message keeps a worker's processor, in virtual microseconds
    #[arg(long, default_value_t = Costs::default().command_us, value_name = "US")]
    command_us: u64,
}

impl CostArgs {
    fn costs(&self) -> Costs {
        Costs { workers: self.workers, commit_us: self.commit_us, command_us: self.command_us }
    }
}
