//! What goes wrong in a run, and when.

use super::plan::{Plan, Topology};
use crate::core::Millis;
use quipu_crdt::testing::Random;
use quipu_storage::memory::{Crash, Fault};

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// A site's process dies between two commits, and starts again.
    Crash {
        /// Which.
        site: usize,
        /// For how long it is away.
        away_ms: Millis,
    },
    /// A site's process dies within its next commit, and starts again.
    CrashInCommit {
        /// Which.
        site: usize,
        /// What of the commit was stored.
        when: Crash,
        /// For how long it is away.
        away_ms: Millis,
    },
    /// Messages from one site to another are lost.
    Cut {
        /// From this one,
        from: usize,
        /// to this one,
        to: usize,
        /// and back?
        both: bool,
        /// Do they notice? Else they go on sending.
        noticed: bool,
        /// For how long.
        for_ms: Millis,
    },
    /// Messages between two groups of sites are lost.
    Split {
        /// The sites of one group, as bits.
        group: u32,
        /// Do they notice? Else they go on sending.
        noticed: bool,
        /// For how long.
        for_ms: Millis,
    },
    /// The log of a shard fails.
    Disk {
        /// The site,
        site: usize,
        /// its shard,
        shard: u16,
        /// how,
        fault: Fault,
        /// and how many times in a row.
        times: usize,
    },
    /// The table fails within its next write.
    Table {
        /// The site.
        site: usize,
        /// After so many rows.
        rows: usize,
    },
    /// A site takes no more calls, waits until the others have all that it wrote, and leaves for good.
    Leave {
        /// The site.
        site: usize,
        /// Who answers for it from then on.
        heir: usize,
    },
    /// A site's wall clock jumps.
    Clock {
        /// The site.
        site: usize,
        /// By so much.
        by_ms: i64,
    },
}

/// A trouble and when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// In virtual time.
    pub at_ms: Millis,
    /// What.
    pub trouble: Trouble,
}

/// The kinds of trouble, which a seed switches on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Crash,
    CrashInCommit,
    Cut,
    Split,
    Disk,
    Table,
    Clock,
    Leave,
}

const KINDS: [Kind; 8] = [
    Kind::Crash,
    Kind::CrashInCommit,
    Kind::Cut,
    Kind::Split,
    Kind::Disk,
    Kind::Table,
    Kind::Clock,
    Kind::Leave,
];

/// The most troubles of one run.
const TROUBLES_MAX: usize = 24;

impl Trouble {
    /// The troubles of a seed.
    pub(super) fn draw(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| random.chance(0.4)).collect();
        if plan.work.stale > 0.0 {
            // That an id is too old is told by the clock: one that is set back forgets.
            kinds.retain(|kind| *kind != Kind::Clock);
        }
        if plan.sites < 3 || plan.topology != Topology::Full {
            // Those that stay must still reach each other.
            kinds.retain(|kind| *kind != Kind::Leave);
        }
        if kinds.is_empty() {
            return Vec::new();
        }
        let count = random.below(TROUBLES_MAX + 1);
        let mut at: Vec<Millis> = (0..count).map(|_| random.bits() % plan.active_ms).collect();
        at.sort_unstable();
        at.into_iter()
            .map(|at_ms| Planned { at_ms, trouble: Self::one(*random.pick(&kinds), random, plan) })
            .collect()
    }

    fn one(kind: Kind, random: &mut Random, plan: &Plan) -> Self {
        let site = random.below(plan.sites);
        let away_ms = *random.pick(&[0, 50, 1_000, 4_000]);
        let for_ms = *random.pick(&[20, 300, 2_000, 8_000]);
        let noticed = random.chance(0.5);
        match kind {
            Kind::Crash => Self::Crash { site, away_ms },
            Kind::CrashInCommit => {
                let when = *random.pick(&[Crash::Before, Crash::Between, Crash::After]);
                Self::CrashInCommit { site, when, away_ms }
            }
            Kind::Cut => {
                let to = (site + 1 + random.below(plan.sites.max(2) - 1)) % plan.sites;
                Self::Cut { from: site, to, both: random.chance(0.6), noticed, for_ms }
            }
            Kind::Split => {
                let groups = 1usize << plan.sites;
                let group = u32::try_from(random.below(groups)).expect("few sites");
                Self::Split { group, noticed, for_ms }
            }
            Kind::Disk => {
                let fault = *random.pick(&[
                    Fault::Error,
                    Fault::Full,
                    Fault::UnknownStored,
                    Fault::UnknownNotStored,
                    Fault::UnknownLate,
                ]);
                let shard = u16::try_from(random.below(usize::from(plan.shards))).expect("few shards");
                Self::Disk { site, shard, fault, times: 1 + random.below(3) }
            }
            Kind::Table => Self::Table { site, rows: random.below(4) },
            Kind::Leave => {
                let heir = (site + 1 + random.below(plan.sites - 1)) % plan.sites;
                Self::Leave { site, heir }
            }
            Kind::Clock => {
                Self::Clock { site, by_ms: *random.pick(&[-20_000, -3_000, -100, 100, 3_000, 20_000]) }
            }
        }
    }
}
