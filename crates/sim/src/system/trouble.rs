//! What goes wrong in a run, and when.

use super::fleet::{Mishap, Who};
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
    /// Messages from one site to another are held back and arrive later, in order. The link stays open: it is not silent for
    /// long enough to be given up.
    Stall {
        /// From this one,
        from: usize,
        /// to this one.
        to: usize,
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
    /// A site brings its table up to date, whatever waits in it.
    Checkpoint {
        /// The site.
        site: usize,
    },
    /// A site takes no more calls, waits until the others have all that it wrote, and leaves for good.
    Leave {
        /// The site.
        site: usize,
        /// Who answers for it from then on.
        heir: usize,
    },
    /// A new site joins while the others run.
    Join {
        /// The site: one after those of the start.
        site: usize,
    },
    /// A site dies for ever, and its disk with it. The others remove it and go on.
    Lose {
        /// The site.
        site: usize,
        /// Who answers for it from then on.
        heir: usize,
        /// After this time it is given up.
        after_ms: Millis,
    },
    /// Two sites die for ever, and their disks with them, before anybody can do something about it. The others remove first
    /// the one, then the other.
    LoseTwo {
        /// The one that is removed first.
        site: usize,
        /// And the other.
        other: usize,
        /// Who answers for them from then on.
        heir: usize,
        /// After this time they are given up.
        after_ms: Millis,
    },
    /// A copy of a site's disk is made. Later the site dies, and the copy goes on in its place, as another incarnation.
    Restore {
        /// The site.
        site: usize,
        /// It dies so long after the copy was made,
        age_ms: Millis,
        /// and is away for so long.
        away_ms: Millis,
    },
    /// A copy of a site's disk is made, and later started beside the site, which runs on. Clients and other sites reach one
    /// of the two. The one that notices it counts no more: it is thrown away, or goes on as another incarnation.
    Beside {
        /// The site.
        site: usize,
        /// The copy is started so long after it was made.
        age_ms: Millis,
        /// If the copy goes on as another incarnation, it is away for so long.
        away_ms: Millis,
    },
    /// All sites that are up are asked what became of the newest operations, and of some older ones.
    AskOutcomes,
    /// A site's wall clock jumps.
    Clock {
        /// The site.
        site: usize,
        /// By so much.
        by_ms: i64,
    },
    /// Something befalls an edge or a relay.
    Befalls {
        /// Whom.
        who: Who,
        /// What.
        mishap: Mishap,
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
    Join,
    Lose,
    Restore,
}

const KINDS: [Kind; 11] = [
    Kind::Crash,
    Kind::CrashInCommit,
    Kind::Cut,
    Kind::Split,
    Kind::Disk,
    Kind::Table,
    Kind::Clock,
    Kind::Leave,
    Kind::Join,
    Kind::Lose,
    Kind::Restore,
];

/// The most troubles of one run.
const TROUBLES_MAX: usize = 24;
/// The most checkpoints at odd times.
const CHECKPOINTS_MAX: usize = 12;
/// The most sites that join.
const JOINS_MAX: usize = 2;
/// The most stalls.
const STALLS_MAX: usize = 8;
/// How long a direction of a link is stalled. A link that is silent for five seconds is given up.
const STALL_MS: [Millis; 4] = [100, 700, 2_500, 4_900];
/// The most times that outcomes are asked for, besides after restarts.
const QUESTIONS_MAX: usize = 4;

impl Trouble {
    /// The site that it befalls, if it is one.
    pub(super) fn site(self) -> Option<usize> {
        match self {
            Self::Crash { site, .. }
            | Self::CrashInCommit { site, .. }
            | Self::Disk { site, .. }
            | Self::Table { site, .. }
            | Self::Checkpoint { site }
            | Self::Leave { site, .. }
            | Self::Join { site }
            | Self::Lose { site, .. }
            | Self::Restore { site, .. }
            | Self::Beside { site, .. }
            | Self::Clock { site, .. } => Some(site),
            Self::Cut { from: one, to: other, .. }
            | Self::Stall { from: one, to: other, .. }
            | Self::LoseTwo { site: one, other, .. } => Some(one.max(other)),
            Self::Split { .. } | Self::AskOutcomes | Self::Befalls { .. } => None,
        }
    }

    /// Does a site go on without something that it has acknowledged, or not at all?
    pub fn forgets(self) -> bool {
        matches!(self, Self::Lose { .. } | Self::LoseTwo { .. } | Self::Restore { .. } | Self::Beside { .. })
    }

    /// Does a site begin to count that has not heard of all operations?
    pub(super) fn is_newcomer(self) -> bool {
        matches!(self, Self::Join { .. } | Self::Restore { .. } | Self::Beside { .. })
    }

    /// The troubles of a seed.
    pub(super) fn draw(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| random.chance(0.4)).collect();
        let is_full = plan.topology == Topology::Full;
        kinds.retain(|kind| match kind {
            // Those that stay must still reach each other.
            Kind::Leave => plan.sites > 2 && is_full,
            Kind::Lose => plan.sites > 1 && is_full,
            _ => true,
        });
        if kinds.is_empty() {
            return Vec::new();
        }
        let count = random.below(TROUBLES_MAX + 1);
        let mut at: Vec<Millis> = (0..count).map(|_| random.bits() % plan.active_ms).collect();
        at.sort_unstable();
        let mut sites = plan.sites;
        let mut planned = Vec::new();
        for at_ms in at {
            let kind = match *random.pick(&kinds) {
                Kind::Join if sites == plan.sites + JOINS_MAX => Kind::Crash,
                kind => kind,
            };
            let trouble = Self::one(kind, random, sites, plan.shards);
            sites += usize::from(kind == Kind::Join);
            planned.push(Planned { at_ms, trouble });
        }
        planned
    }

    /// Two losses at once, in some seeds. Often one of the others has not heard of one of the two for a while.
    pub(super) fn draw_two_losses(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        if plan.sites < 3 || plan.topology != Topology::Full || !random.chance(0.3) {
            return Vec::new();
        }
        let site = random.below(plan.sites);
        let other = (site + 1 + random.below(plan.sites - 1)) % plan.sites;
        let heir = random.below(plan.sites);
        let at_ms = 1_000 + random.bits() % plan.active_ms;
        let lose = Self::LoseTwo { site, other, heir, after_ms: *random.pick(&[0, 50, 1_000]) };
        let mut planned = vec![Planned { at_ms, trouble: lose }];
        if random.chance(0.7) {
            let to = (0..plan.sites).find(|it| *it != site && *it != other).unwrap_or(heir);
            let cut = Self::Cut { from: site, to, both: random.chance(0.3), noticed: false, for_ms: 2_000 };
            let ahead_ms = *random.pick(&[50, 200, 900]);
            planned.push(Planned { at_ms: at_ms - ahead_ms, trouble: cut });
        }
        planned
    }

    /// A copy of a site that runs beside its original, in some seeds.
    pub(super) fn draw_beside(random: &mut Random, plan: &Plan) -> Option<Planned> {
        if plan.sites < 2 || !random.chance(0.3) {
            return None;
        }
        let site = random.below(plan.sites);
        let at_ms = 500 + random.bits() % (plan.active_ms / 2);
        let (age_ms, away_ms) = (*random.pick(&[0, 200, 1_000, 3_000]), *random.pick(&[0, 50, 1_000]));
        Some(Planned { at_ms, trouble: Self::Beside { site, age_ms, away_ms } })
    }

    /// Checkpoints, in some seeds. By themselves sites make one when they start, and then once in a minute. Some fail half-way.
    pub(super) fn draw_checkpoints(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        if !random.chance(0.5) {
            return Vec::new();
        }
        let mut planned = Vec::new();
        for _ in 0..=random.below(CHECKPOINTS_MAX) {
            let (site, at_ms) = (random.below(plan.sites), random.bits() % plan.active_ms);
            if random.chance(0.2) {
                planned.push(Planned { at_ms, trouble: Self::Table { site, rows: random.below(4) } });
            }
            planned.push(Planned { at_ms, trouble: Self::Checkpoint { site } });
        }
        planned
    }

    /// Messages that are held back in one direction, in some seeds.
    pub(super) fn draw_stalls(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        if plan.sites < 2 || !random.chance(0.4) {
            return Vec::new();
        }
        let count = 1 + random.below(STALLS_MAX);
        let stall = |_| {
            let from = random.below(plan.sites);
            let to = (from + 1 + random.below(plan.sites - 1)) % plan.sites;
            let (at_ms, for_ms) = (random.bits() % plan.active_ms, *random.pick(&STALL_MS));
            Planned { at_ms, trouble: Self::Stall { from, to, for_ms } }
        };
        (0..count).map(stall).collect()
    }

    /// A site that is removed in order while an edge is absent that has not heard that its token arrived there, in some of the
    /// seeds that have edges.
    pub(super) fn draw_absent_edges(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        let is_possible = plan.sites > 2 && plan.topology == Topology::Full && plan.fleet.edges > 0;
        if !is_possible || !random.chance(0.6) {
            return Vec::new();
        }
        let site = random.below(plan.sites);
        let heir = (site + 1 + random.below(plan.sites - 1)) % plan.sites;
        let at_ms = 500 + random.bits() % (plan.active_ms / 2);
        let leaves = Planned {
            at_ms: at_ms + *random.pick(&[300, 1_000, 2_000]),
            trouble: Self::Leave { site, heir },
        };
        let edges = 1 + random.below(plan.fleet.edges);
        let absent = |number| {
            let mishap = Mishap::AbsentAfter { site, away_ms: *random.pick(&[2_000, 5_000, 12_000]) };
            Planned { at_ms, trouble: Self::Befalls { who: Who::Edge(number), mishap } }
        };
        (0..edges).map(absent).chain([leaves]).collect()
    }

    /// When outcomes are asked for: in some seeds, and there around each restart.
    pub(super) fn draw_questions(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        if !random.chance(0.6) {
            return Vec::new();
        }
        let mut at: Vec<Millis> =
            (0..random.below(QUESTIONS_MAX)).map(|_| random.bits() % plan.active_ms).collect();
        for planned in &plan.troubles {
            let away_ms = match planned.trouble {
                Self::Crash { away_ms, .. } | Self::CrashInCommit { away_ms, .. } => away_ms,
                Self::Restore { age_ms, away_ms, .. } => age_ms + away_ms,
                _ => continue,
            };
            at.push(planned.at_ms.saturating_sub(1));
            at.push(planned.at_ms + away_ms + *random.pick(&[10, 200, 1_500]));
        }
        at.into_iter().map(|at_ms| Planned { at_ms, trouble: Self::AskOutcomes }).collect()
    }

    /// A trouble for one of so many sites.
    fn one(kind: Kind, random: &mut Random, sites: usize, shards: u16) -> Self {
        let site = random.below(sites);
        let other = (site + 1 + random.below(sites.max(2) - 1)) % sites;
        let away_ms = *random.pick(&[0, 50, 1_000, 4_000]);
        let for_ms = *random.pick(&[20, 300, 2_000, 8_000]);
        let noticed = random.chance(0.5);
        match kind {
            Kind::Crash => Self::Crash { site, away_ms },
            Kind::CrashInCommit => {
                let when = *random.pick(&[Crash::Before, Crash::Between, Crash::After]);
                Self::CrashInCommit { site, when, away_ms }
            }
            Kind::Cut => Self::Cut { from: site, to: other, both: random.chance(0.6), noticed, for_ms },
            Kind::Split => {
                let group = u32::try_from(random.below(1 << sites)).expect("few sites");
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
                let shard = u16::try_from(random.below(usize::from(shards))).expect("few shards");
                Self::Disk { site, shard, fault, times: 1 + random.below(3) }
            }
            Kind::Table => Self::Table { site, rows: random.below(4) },
            Kind::Leave => Self::Leave { site, heir: other },
            Kind::Join => Self::Join { site: sites },
            Kind::Lose => Self::Lose { site, heir: other, after_ms: away_ms },
            Kind::Restore => Self::Restore { site, age_ms: for_ms, away_ms },
            Kind::Clock => {
                Self::Clock { site, by_ms: *random.pick(&[-20_000, -3_000, -100, 100, 3_000, 20_000]) }
            }
        }
    }
}
