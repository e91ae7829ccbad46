//! What is changed about the plan of a seed: by whoever wants to know more, and to make a failing plan smaller. A seed
//! and its changes are a command.

use super::fleet::Fleet;
use super::plan::{Edition, Plan, SITES_MAX};
use crate::Refused;
use crate::core::{Faults, Millis};
use crate::run::within;
use std::{fmt, str::FromStr};

/// Something that a plan can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Plain adds to counters that only grow.
    Plain,
    /// Operations with ids.
    Ids,
    /// Bounded counters.
    Bounded,
    /// Counters that are set and deleted.
    Resets,
    /// Messages between sites that are lost.
    Loss,
    /// Messages between sites that come twice.
    Duplication,
    /// Messages between sites that are held back.
    Reordering,
    /// Requests and answers of clients that are lost.
    ClientLoss,
    /// Requests of clients that come late.
    Late,
    /// Operations that are tried again long after.
    Stale,
    /// Adds to bounded counters that are not created yet.
    Hasty,
    /// Rights of bounded counters that are spread and moved.
    Moves,
    /// Adds to counters without bounds that name limits.
    Limits,
    /// Calls that are refused.
    Mistakes,
    /// Messages as bytes.
    Bytes,
    /// Too little memory.
    Eviction,
    /// Wrong clocks.
    Skews,
    /// Several shards.
    Shards,
    /// Sites that acknowledge before they flush.
    Interval,
    /// Edges and relays.
    Edges,
    /// Relays.
    Relays,
    /// Messages of edges and relays that are lost, come twice, or late.
    EdgeFaults,
    /// Slots that are folded.
    Folding,
}

impl Feature {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 23] = [
        (Self::Plain, "plain"),
        (Self::Ids, "ids"),
        (Self::Bounded, "bounded"),
        (Self::Resets, "resets"),
        (Self::Loss, "loss"),
        (Self::Duplication, "duplication"),
        (Self::Reordering, "reordering"),
        (Self::ClientLoss, "client-loss"),
        (Self::Late, "late"),
        (Self::Stale, "stale"),
        (Self::Hasty, "hasty"),
        (Self::Moves, "moves"),
        (Self::Limits, "limits"),
        (Self::Mistakes, "mistakes"),
        (Self::Bytes, "bytes"),
        (Self::Eviction, "eviction"),
        (Self::Skews, "skews"),
        (Self::Shards, "shards"),
        (Self::Interval, "interval"),
        (Self::Edges, "edges"),
        (Self::Relays, "relays"),
        (Self::EdgeFaults, "edge-faults"),
        (Self::Folding, "folding"),
    ];

    fn switch_off(self, plan: &mut Plan) {
        let Plan { work, faults, .. } = plan;
        match self {
            Self::Plain => work.mix.plain = 0,
            Self::Ids => work.mix.ids = 0,
            Self::Bounded => work.mix.bounded = 0,
            Self::Resets => work.mix.resets = 0,
            Self::Loss => faults.loss = 0.0,
            Self::Duplication => faults.duplication = 0.0,
            Self::Reordering => *faults = Faults { reordering: 0.0, reordering_ms_max: 0, ..*faults },
            Self::ClientLoss => work.loss = 0.0,
            Self::Late => work.late = 0.0,
            Self::Stale => work.stale = 0.0,
            Self::Hasty => work.hasty = false,
            Self::Moves => work.moves = 0.0,
            Self::Limits => work.limits = 0.0,
            Self::Mistakes => work.mistakes = 0.0,
            Self::Bytes => plan.encoded = false,
            Self::Eviction => plan.memory_bytes = 16 << 20,
            Self::Skews => plan.skews_ms.fill(0),
            Self::Shards => plan.shards = 1,
            Self::Interval => plan.intervals_ms.fill(0),
            Self::Edges => plan.fleet = Fleet::NONE,
            Self::Relays => plan.fleet.relays = 0,
            Self::EdgeFaults => plan.fleet.faults = Faults::NONE,
            Self::Folding => plan.fleet.ttl_s = Fleet::NONE.ttl_s,
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(feature, _)| feature == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(feature, _)| *feature);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("{text} is none of {}", names.join(", "))
        })
    }
}

/// Changes to the plan of a seed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Which draws make the plan.
    pub edition: Edition,
    /// Another number of sites.
    pub sites: Option<usize>,
    /// Another number of clients.
    pub clients: Option<usize>,
    /// They work for another time.
    pub active_ms: Option<Millis>,
    /// Another number of counters of each kind.
    pub keys: Option<usize>,
    /// Another number of edges.
    pub edges: Option<usize>,
    /// Only these of its troubles, by number.
    pub troubles: Option<Vec<usize>>,
    /// Without these.
    pub without: Vec<Feature>,
}

impl Changes {
    /// The plan of a seed with these changes.
    pub fn plan(&self, seed: u64) -> Result<Plan, Refused> {
        if let Some(sites) = &self.sites {
            within("--sites", sites, &(1..=SITES_MAX))?;
        }
        let mut plan = Plan::drawn(seed, self.sites, self.edition);
        plan.clients = self.clients.unwrap_or(plan.clients);
        plan.active_ms = self.active_ms.unwrap_or(plan.active_ms);
        plan.work.keys = self.keys.unwrap_or(plan.work.keys);
        plan.fleet.edges = self.edges.unwrap_or(plan.fleet.edges);
        if let Some(kept) = &self.troubles {
            let all = plan.troubles.len();
            if let Some(number) = kept.iter().find(|number| **number >= all) {
                let problem =
                    format!("seed {seed} has {all} troubles, numbered from 0; there is no {number}");
                return Err(Refused { flag: "--troubles", problem });
            }
            plan.troubles = kept.iter().map(|&number| plan.troubles[number]).collect();
        }
        self.without.iter().for_each(|feature| feature.switch_off(&mut plan));
        plan.changes = self.clone();
        plan.check()?;
        Ok(plan)
    }
}

impl fmt::Display for Changes {
    /// As flags of the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edition, sites, clients, active_ms, keys, edges, troubles, without } = self;
        if *edition != Edition::LATEST {
            write!(f, " --edition {edition}")?;
        }
        sites.iter().try_for_each(|sites| write!(f, " --sites {sites}"))?;
        clients.iter().try_for_each(|clients| write!(f, " --clients {clients}"))?;
        active_ms.iter().try_for_each(|active_ms| write!(f, " --active-ms {active_ms}"))?;
        keys.iter().try_for_each(|keys| write!(f, " --keys {keys}"))?;
        edges.iter().try_for_each(|edges| write!(f, " --edges {edges}"))?;
        if let Some(troubles) = troubles {
            let numbers: Vec<String> = troubles.iter().map(usize::to_string).collect();
            let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") };
            write!(f, " --troubles {numbers}")?;
        }
        if !without.is_empty() {
            let names: Vec<String> = without.iter().map(Feature::to_string).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        Ok(())
    }
}
