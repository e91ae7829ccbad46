//! What the four experiments have in common, and what is refused before anything runs.

use super::Configuration;
use crate::run::{Refused, within};

/// The most clients.
pub const CLIENTS_MAX: usize = 1_000_000;
/// The most counters.
pub const COUNTERS_MAX: usize = 100_000;
/// The longest run, in virtual seconds: a day.
pub const SECONDS_MAX: u64 = 86_400;
/// The most workers of a site: no more than there are shards.
const WORKERS_MAX: usize = 64;
/// The slowest commit or command, in microseconds.
const COST_US_MAX: u64 = 1_000_000;

/// The grain of virtual time: all costs and delays are multiples of it, in microseconds.
pub(super) const TICK_US: u64 = 10;

/// A client waits so long after an answer, as in the paper.
pub(super) const THINK_US: u64 = 100_000;
/// So many of hundred operations add one and the others subtract one, as in the paper.
pub(super) const ADD_PERCENT: usize = 20;
/// The value of a counter that is spent to the end, as in the paper.
pub(super) const TO_BE_SPENT: i64 = 6_000;
/// The value of a counter that must never reach its limit. The paper says no more than that.
pub(super) const NEVER_SPENT: i64 = 1_000_000_000;

/// What a server costs, the same for all configurations.
///
/// A site has some workers, each with a part of the counters; a worker does one thing after the other. A command and a
/// message of another site take the processor for a while; then everything that changed goes to storage in one commit,
/// and the answers leave when it is done. What only reads needs no commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Workers of a site. By default three, for the three servers that a site has in the paper; a single counter keeps
    /// one of them busy.
    pub workers: usize,
    /// How long a commit takes. By default a millisecond: with it the plain counters take about as many operations as
    /// in the paper, 3,000 per second for one counter and 9,000 for a hundred.
    pub commit_us: u64,
    /// How long a command or a message keeps the processor. By default 50 microseconds, an assumption about the
    /// paper's machines: our server, on a machine of today, needs about 10.
    pub command_us: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs { workers: 3, commit_us: 1_000, command_us: 50 }
    }
}

impl Costs {
    pub(super) fn check(&self) -> Result<(), Refused> {
        within("--workers", &self.workers, &(1..=WORKERS_MAX))?;
        cost("--commit-us", self.commit_us, 0)?;
        cost("--command-us", self.command_us, TICK_US)
    }
}

fn cost(flag: &'static str, us: u64, min: u64) -> Result<(), Refused> {
    within(flag, &us, &(min..=COST_US_MAX))?;
    if us.is_multiple_of(TICK_US) {
        return Ok(());
    }
    Err(Refused { flag, problem: format!("{us} is not a multiple of {TICK_US}") })
}

/// Where the rights are when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// With the site that made the counter, the first one.
    WithTheCreator,
    /// Every site has its share.
    Shared,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// Mostly subtract, and sometimes add.
    Mixed,
    /// Subtract.
    Subtractions,
}

/// One run of one configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) configuration: Configuration,
    pub(super) counters: usize,
    pub(super) clients: usize,
    /// The value of each counter at the beginning. The limit is 0.
    pub(super) initial: i64,
    pub(super) rights: Rights,
    pub(super) workload: Workload,
    pub(super) costs: Costs,
    pub(super) seed: u64,
}
