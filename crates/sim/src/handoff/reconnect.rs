//! A fixed number of clients that go offline without a word and come back to a random server (figure 8 of the
//! paper), where messages are exchanged naively with the new server alone, or smartly with all servers with
//! which there is something to finish.

use super::run::run_setup;
use super::setup::{Activity, CLIENTS_MAX, Pattern, Placement, Setup, TIME_MS_MAX, check_activity, in_range};
use super::{Error, Refused, Replica, Row, Summary};
use crate::core::{Faults, Millis};

/// How messages are exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exchange {
    /// A client talks to its new server and forgets the old ones.
    Naive,
    /// Clients also send to servers for which they hold tokens, servers to clients for which they hold slots.
    #[default]
    Smart,
}

/// What may be chosen. The default is the paper's run with the smart exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// How messages are exchanged.
    pub exchange: Exchange,
    /// Nodes of tier 0.
    pub tier0: u32,
    /// Servers, of tier 1.
    pub servers: u32,
    /// Clients, from the start to the end.
    pub clients: u32,
    /// One online and one offline time together.
    pub activity_ms: Millis,
    /// The online part of it, in percent; with 100 clients never disconnect.
    pub active_percent: u32,
    /// How often everybody sends, in the smart exchange.
    pub handler_ms: Millis,
    /// When the run ends.
    pub end_ms: Millis,
    /// A row every so often.
    pub stats_ms: Millis,
    /// The same seed gives the same run.
    pub seed: u64,
    /// What the network does to messages. The naive exchange does not survive a loss, and allows none.
    pub faults: Faults,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            exchange: Exchange::Smart,
            tier0: 10,
            servers: 100,
            clients: 1_000,
            activity_ms: 2_000,
            active_percent: 50,
            handler_ms: 100,
            end_ms: 600_000,
            stats_ms: 1_000,
            seed: 1,
            faults: Faults::NONE,
        }
    }
}

/// Runs it.
pub fn run(params: &Params, sink: &mut dyn FnMut(&Row) -> bool) -> Result<Summary, Error> {
    run_setup(params.setup()?, sink)
}

impl Params {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        self.setup().map(drop)
    }

    pub(super) fn setup(&self) -> Result<Setup, Refused> {
        in_range("--clients", self.clients.into(), 1, CLIENTS_MAX.into())?;
        in_range("--handler-ms", self.handler_ms, 1, TIME_MS_MAX)?;
        check_activity(self.activity_ms, self.active_percent)?;
        let (pattern, faults) = match self.exchange {
            Exchange::Naive => (Pattern::Answers, Faults::NONE),
            Exchange::Smart => (Pattern::Rounds { every_ms: self.handler_ms }, self.faults),
        };
        let setup = Setup {
            tier0: self.tier0,
            servers: self.servers,
            clients_at_start: self.clients,
            arrivals: 0,
            arrival_ms: 0,
            activity: Activity::percent_of(self.active_percent, self.activity_ms),
            goes_offline: true,
            pattern,
            placement: Placement::Random,
            retirement: None,
            end_ms: self.end_ms,
            stats_ms: self.stats_ms,
            seed: self.seed,
            faults,
            merge: Replica::merge,
        };
        setup.check()?;
        Ok(setup)
    }
}
