//! Clients arrive and retire at the same rate (figure 9 of the paper). A client that is not cut off retires
//! when it has nothing left to hand off; what becomes of one that is, [`Cleanup`] says.

use super::run::run_setup;
use super::setup::{Activity, CLIENTS_MAX, Pattern, Placement, Retirement, Setup, TIME_MS_MAX, in_range};
use super::{Cleanup, Error, Refused, Replica, Row, Summary};
use crate::core::{Faults, Millis};

/// What may be chosen. The default is the paper's run with partitions of 10 %.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// Nodes of tier 0.
    pub tier0: u32,
    /// Servers, of tier 1.
    pub servers: u32,
    /// Clients at the start, and how many are kept.
    pub clients: u32,
    /// One arrives and a random one begins to retire every so often.
    pub arrival_ms: Millis,
    /// How many of the retiring clients are cut off, in percent.
    pub partition_percent: u32,
    /// What becomes of them and their slots.
    pub cleanup: Cleanup,
    /// With [`Cleanup::Fold`]: after so much silence a slot is folded.
    pub fold_after_ms: Millis,
    /// How often everybody sends.
    pub handler_ms: Millis,
    /// When the run ends.
    pub end_ms: Millis,
    /// A row every so often.
    pub stats_ms: Millis,
    /// The same seed gives the same run.
    pub seed: u64,
    /// What the network does to messages.
    pub faults: Faults,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            tier0: 10,
            servers: 100,
            clients: 1_000,
            arrival_ms: 10,
            partition_percent: 10,
            cleanup: Cleanup::Off,
            fold_after_ms: 60_000,
            handler_ms: 100,
            end_ms: 1_000_000,
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
        in_range("--arrival-ms", self.arrival_ms, 1, TIME_MS_MAX)?;
        in_range("--handler-ms", self.handler_ms, 1, TIME_MS_MAX)?;
        in_range("--partition-percent", self.partition_percent.into(), 0, 100)?;
        in_range("--end-ms", self.end_ms, 1, TIME_MS_MAX)?;
        if self.cleanup == Cleanup::On && self.partition_percent > 0 && self.servers == 1 {
            let problem =
                "with --cleanup on a client that loses its server needs another: at least 2".to_owned();
            return Err(Refused { flag: "--servers", problem });
        }
        let arrivals = self.end_ms / self.arrival_ms;
        let most = u64::from(CLIENTS_MAX - self.clients);
        let arrivals = u32::try_from(arrivals).ok().filter(|&arrivals| u64::from(arrivals) <= most);
        let Some(arrivals) = arrivals else {
            let least = self.end_ms.div_ceil(most.max(1));
            let problem = format!(
                "{} brings more than {CLIENTS_MAX} clients in {} ms; at least {least} is allowed",
                self.arrival_ms, self.end_ms
            );
            return Err(Refused { flag: "--arrival-ms", problem });
        };
        let setup = Setup {
            tier0: self.tier0,
            servers: self.servers,
            clients_at_start: self.clients,
            arrivals,
            arrival_ms: self.arrival_ms,
            activity: Activity::ALWAYS,
            goes_offline: false,
            pattern: Pattern::Rounds { every_ms: self.handler_ms },
            placement: Placement::Random,
            retirement: Some(Retirement {
                every_ms: self.arrival_ms,
                partition_percent: self.partition_percent,
                cleanup: self.cleanup,
                fold_after_ms: self.fold_after_ms,
            }),
            end_ms: self.end_ms,
            stats_ms: self.stats_ms,
            seed: self.seed,
            faults: self.faults,
            merge: Replica::merge,
        };
        setup.check()?;
        Ok(setup)
    }
}
