//! Clients arrive, and each is active only for a part of the time, always with the same server (figure 7 of
//! the paper). An inactive client counts no more, but finishes what it has begun.

use super::run::run_setup;
use super::setup::{Activity, Setup, check_activity};
use super::{Error, Refused, Row, Summary, clients};
use crate::core::Millis;

/// What may be chosen. The default is the paper's run with sessions of 10 % of 100 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// All that is not about sessions.
    pub clients: clients::Params,
    /// One active and one inactive time together.
    pub activity_ms: Millis,
    /// The active part of it, in percent.
    pub active_percent: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { clients: clients::Params::default(), activity_ms: 100_000, active_percent: 10 }
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
        check_activity(self.activity_ms, self.active_percent)?;
        let activity = Activity::percent_of(self.active_percent, self.activity_ms);
        Ok(Setup { activity, ..self.clients.setup()? })
    }
}
