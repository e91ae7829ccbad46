//! What the experiments have in common, and what is refused before anything runs.

use super::{Replica, Seen};
use crate::core::{Faults, Millis};
use crate::run::{Refused, within};
use quipu_crdt::handoff::MergeError;

/// The most nodes of tier 0: every pair of them exchanges messages all the time.
pub const TIER0_MAX: u32 = 100;
/// The most servers.
pub const SERVERS_MAX: u32 = 10_000;
/// The most clients at a time, and in all.
pub const CLIENTS_MAX: u32 = 10_000_000;
/// The longest run, in virtual milliseconds: about 11 days.
pub const TIME_MS_MAX: Millis = 1_000_000_000;

/// Refuses what is outside of a range.
pub(super) fn in_range(flag: &'static str, value: u64, min: u64, max: u64) -> Result<(), Refused> {
    within(flag, &value, &(min..=max))
}

/// Who sends when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Whoever receives answers.
    Answers,
    /// Everybody sends once in a while, and answers only where it closes something.
    Rounds {
        /// How often.
        every_ms: Millis,
    },
}

/// Clients come and go: so long active, so long not. Never inactive if `inactive_ms` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) active_ms: Millis,
    pub(super) inactive_ms: Millis,
}

impl Activity {
    pub(super) const ALWAYS: Activity = Activity { active_ms: 0, inactive_ms: 0 };

    pub(super) fn percent_of(percent: u32, period_ms: Millis) -> Self {
        let active_ms = period_ms * u64::from(percent) / 100;
        Activity { active_ms, inactive_ms: period_ms - active_ms }
    }
}

/// What becomes of a client that is cut off when it wants to retire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cleanup {
    /// It vanishes at once, and its slot stays for ever.
    #[default]
    Off,
    /// It has lost only its own server: it hands over to another and leaves with a notice, on which the
    /// servers drop its slots.
    On,
    /// It vanishes at once, and its slot is folded into a bit after a minute of silence.
    Fold,
}

/// How clients retire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retirement {
    pub(super) every_ms: Millis,
    pub(super) partition_percent: u32,
    pub(super) cleanup: Cleanup,
    pub(super) fold_after_ms: Millis,
}

/// Which node of tier 0 a server hands over to, and which server a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// Any.
    Random,
    /// Nodes of tier 0 and servers are divided evenly among data centers, servers among the nodes of tier 0 of their data
    /// center, clients among all servers.
    Even {
        /// A divisor of the nodes of tier 0 and of the servers.
        datacenters: u32,
    },
}

/// How replicas merge. Tests put in wrong ones.
pub(super) type MergeFn = fn(&mut Replica, &Seen) -> Result<(), MergeError>;

/// One run of one experiment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) tier0: u32,
    pub(super) servers: u32,
    /// Clients that are there from the start.
    pub(super) clients_at_start: u32,
    /// Clients that arrive later, one every `arrival_ms`.
    pub(super) arrivals: u32,
    pub(super) arrival_ms: Millis,
    pub(super) activity: Activity,
    /// An inactive client is offline: it ignores messages, and then comes back to a random server.
    pub(super) goes_offline: bool,
    pub(super) pattern: Pattern,
    pub(super) placement: Placement,
    pub(super) retirement: Option<Retirement>,
    pub(super) end_ms: Millis,
    pub(super) stats_ms: Millis,
    pub(super) seed: u64,
    pub(super) faults: Faults,
    pub(super) merge: MergeFn,
}

impl Setup {
    /// What every experiment refuses.
    pub(super) fn check(&self) -> Result<(), Refused> {
        in_range("--tier0", self.tier0.into(), 1, TIER0_MAX.into())?;
        in_range("--servers", self.servers.into(), 1, SERVERS_MAX.into())?;
        in_range("--end-ms", self.end_ms, 1, TIME_MS_MAX)?;
        in_range("--stats-ms", self.stats_ms, 1, self.end_ms)
    }
}

/// Refuses sessions that cannot be.
pub(super) fn check_activity(activity_ms: Millis, active_percent: u32) -> Result<(), Refused> {
    in_range("--activity-ms", activity_ms, 1, TIME_MS_MAX)?;
    in_range("--active-percent", active_percent.into(), 1, 100)?;
    let Activity { active_ms, inactive_ms } = Activity::percent_of(active_percent, activity_ms);
    if active_ms == 0 || (active_percent < 100 && inactive_ms == 0) {
        let problem = format!(
            "{active_percent} % of {activity_ms} ms is less than a millisecond; take a longer --activity-ms"
        );
        return Err(Refused { flag: "--active-percent", problem });
    }
    Ok(())
}
