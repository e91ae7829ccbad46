//! Ever more clients arrive, and all stay active (figure 6 of the paper).

use super::run::run_setup;
use super::setup::{Activity, CLIENTS_MAX, Pattern, Placement, Setup, TIME_MS_MAX, in_range};
use super::{Error, Refused, Replica, Row, Summary};
use crate::core::{Faults, Millis};

/// What may be chosen. The default is the paper's run with 100 servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Nodes of tier 0.
    pub tier0: u32,
    /// Servers, of tier 1.
    pub servers: u32,
    /// Clients at the end.
    pub clients: u32,
    /// One arrives every so often; with 0 all are there from the start.
    pub arrival_ms: Millis,
    /// When the run ends; `None`: when the last client arrives.
    pub end_ms: Option<Millis>,
    /// A row every so often.
    pub stats_ms: Millis,
    /// The same seed gives the same run.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            tier0: 10,
            servers: 100,
            clients: 100_000,
            arrival_ms: 10,
            end_ms: None,
            stats_ms: 1_000,
            seed: 1,
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

    /// When the run ends.
    pub fn end(&self) -> Millis {
        let arrived = u64::from(self.clients) * self.arrival_ms;
        self.end_ms.unwrap_or(if arrived == 0 { END_MS } else { arrived })
    }

    pub(super) fn setup(&self) -> Result<Setup, Refused> {
        in_range("--clients", self.clients.into(), 1, CLIENTS_MAX.into())?;
        in_range("--arrival-ms", self.arrival_ms, 0, TIME_MS_MAX / u64::from(self.clients))?;
        let arrived = u64::from(self.clients) * self.arrival_ms;
        in_range("--end-ms", self.end(), arrived.max(1), TIME_MS_MAX)?;
        let at_once = self.arrival_ms == 0;
        let setup = Setup {
            tier0: self.tier0,
            servers: self.servers,
            clients_at_start: if at_once { self.clients } else { 0 },
            arrivals: if at_once { 0 } else { self.clients },
            arrival_ms: self.arrival_ms,
            activity: Activity::ALWAYS,
            goes_offline: false,
            pattern: Pattern::Answers,
            placement: Placement::Random,
            retirement: None,
            end_ms: self.end(),
            stats_ms: self.stats_ms,
            seed: self.seed,
            faults: Faults::NONE,
            merge: Replica::merge,
        };
        setup.check()?;
        Ok(setup)
    }
}

/// The end if all clients are there from the start: that of the paper's run.
const END_MS: Millis = 1_000_000;
