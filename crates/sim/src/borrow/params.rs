//! What may be chosen, and what is refused before anything runs.

use crate::core::Millis;
use crate::run::{Refused, all_within, within};

/// The longest run, in virtual milliseconds.
const TIME_MS_MAX: Millis = 100_000_000;
/// The most permanent nodes: every pair of them exchanges whole states all the time.
const NODES_MAX: u32 = 100;
/// The most clients in one run.
const CLIENTS_MAX: u64 = 10_000_000;

/// What may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Permanent nodes.
    pub nodes: u32,
    /// A client arrives every so often.
    pub arrival_ms: Millis,
    /// How long a client counts, on average: from half of it to one and a half.
    pub stay_ms: Millis,
    /// A client counts one and sends every so often.
    pub send_ms: Millis,
    /// A permanent node sends to the others every so often.
    pub gossip_ms: Millis,
    /// How many clients vanish.
    pub vanish_percent: u32,
    /// A client that has not heard of its node for so long goes on with another.
    pub patience_ms: Millis,
    /// How long the first node is cut off in the middle of the run; 0 is never.
    pub outage_ms: Millis,
    /// With handoff: the slot of a client that has been silent for so long is folded into a bit.
    pub fold_after_ms: Millis,
    /// How many messages are lost, in percent: a run for each.
    pub loss_percent: Vec<u32>,
    /// When the last client arrives.
    pub end_ms: Millis,
    /// A row every so often.
    pub stats_ms: Millis,
    /// The same seed gives the same runs.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            nodes: 5,
            arrival_ms: 100,
            stay_ms: 10_000,
            send_ms: 250,
            gossip_ms: 1_000,
            vanish_percent: 10,
            patience_ms: 2_000,
            outage_ms: 30_000,
            fold_after_ms: 60_000,
            loss_percent: vec![0, 10, 30],
            end_ms: 180_000,
            stats_ms: 1_000,
            seed: 1,
        }
    }
}

impl Params {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        within("--nodes", &self.nodes, &(1..=NODES_MAX))?;
        within("--end-ms", &self.end_ms, &(1..=TIME_MS_MAX))?;
        within("--arrival-ms", &self.arrival_ms, &(1..=self.end_ms))?;
        within("--arrival-ms", &self.arrival_ms, &(self.end_ms.div_ceil(CLIENTS_MAX)..=self.end_ms))?;
        within("--stay-ms", &self.stay_ms, &(2..=TIME_MS_MAX))?;
        within("--send-ms", &self.send_ms, &(1..=TIME_MS_MAX))?;
        within("--gossip-ms", &self.gossip_ms, &(1..=TIME_MS_MAX))?;
        within("--vanish-percent", &self.vanish_percent, &(0..=100))?;
        within("--patience-ms", &self.patience_ms, &(1..=TIME_MS_MAX))?;
        within("--outage-ms", &self.outage_ms, &(0..=self.end_ms / 2))?;
        within("--fold-after-ms", &self.fold_after_ms, &(1..=TIME_MS_MAX))?;
        all_within("--loss", &self.loss_percent, &(0..=90))?;
        within("--stats-ms", &self.stats_ms, &(1..=self.end_ms))
    }

    /// Is the first node cut off at this time?
    pub(super) fn is_cut_off(&self, now: Millis) -> bool {
        let start = self.end_ms / 2;
        (start..start + self.outage_ms).contains(&now)
    }

    /// When the last client should have left and the slot of the last one that vanished have been folded.
    pub(super) fn all_is_over_ms(&self) -> Millis {
        self.end_ms + 2 * self.stay_ms + self.fold_after_ms + 2 * self.gossip_ms
    }
}
