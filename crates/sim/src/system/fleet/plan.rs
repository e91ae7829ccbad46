//! The edges and relays of a run: drawn from a stream of chance of their own, so that what a seed means for sites and
//! clients does not depend on them.

use crate::core::{Faults, Millis};
use crate::system::plan::Plan;
use crate::system::trouble::{Planned, Trouble};
use quipu_crdt::testing::Random;
use quipu_engine::Settings;
use quipu_storage::memory::{Crash, Fault};

/// The most edges at a time.
pub const EDGES_MAX: usize = 1_000;
/// The most relays.
pub const RELAYS_MAX: usize = 100;
/// The most troubles of edges and relays in one run.
const TROUBLES_MAX: usize = 16;
/// In a run that takes very long, edges count this often.
const SLOW_THINK_MS: Millis = 1_500;
/// Such a run takes longer than this.
const LONG_MS: Millis = 60_000;

/// The edges and relays of a run, and what they do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fleet {
    /// Edges at a time: when one has retired, another one comes.
    pub edges: usize,
    /// Relays.
    pub relays: usize,
    /// Between two things that an edge or a relay counts, on average.
    pub think_ms: Millis,
    /// How often it speaks to a server when nothing moves.
    pub sync_ms: Millis,
    /// After so long without an answer it goes to another server.
    pub timeout_ms: Millis,
    /// How likely it goes to another server although this one has answered.
    pub switch: f64,
    /// Do they count on bounded counters, too?
    pub bounded: bool,
    /// A message to or from it takes so long, about.
    pub latency_ms: Millis,
    /// What else becomes of these messages.
    pub faults: Faults,
    /// Slots of edges are folded after so many seconds.
    pub ttl_s: u64,
    /// Relays retire in the end, too.
    pub relays_retire: bool,
}

/// Who hands over what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// An edge: one of those that come one after the other in this place.
    Edge(usize),
    /// A relay.
    Relay(usize),
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Edge(number) => write!(f, "edge {number}"),
            Self::Relay(number) => write!(f, "relay {number}"),
        }
    }
}

/// What befalls an edge or a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Its process dies between two commits, and starts again with its disk.
    Crash {
        /// For how long it is away.
        away_ms: Millis,
    },
    /// The same within its next commit.
    CrashInCommit {
        /// What of the commit was stored.
        when: Crash,
        /// For how long it is away.
        away_ms: Millis,
    },
    /// An edge dies, and its disk is lost. Another one comes in its place.
    LoseDisk {
        /// After this time.
        away_ms: Millis,
    },
    /// An edge vanishes for ever.
    Vanish,
    /// It hands over everything and leaves. Of edges, another one comes.
    Retire {
        /// An edge does not wait until it knows that all has arrived.
        early: bool,
    },
    /// Its log fails.
    Disk {
        /// How.
        fault: Fault,
        /// How many times in a row.
        times: usize,
    },
    /// It hands over to a site, does not hear that its token has arrived, and is away.
    AbsentAfter {
        /// Which site.
        site: usize,
        /// For how long it is away.
        away_ms: Millis,
    },
    /// Messages to it and from it are lost.
    Cut {
        /// For how long.
        for_ms: Millis,
    },
}

/// The kinds, which a seed switches on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Crash,
    CrashInCommit,
    LoseDisk,
    Vanish,
    Retire,
    Disk,
    Cut,
}

const KINDS: [Kind; 7] =
    [Kind::Crash, Kind::CrashInCommit, Kind::LoseDisk, Kind::Vanish, Kind::Retire, Kind::Disk, Kind::Cut];

impl Fleet {
    /// Nobody.
    pub const NONE: Self = Self {
        edges: 0,
        relays: 0,
        think_ms: 100,
        sync_ms: 200,
        timeout_ms: 500,
        switch: 0.0,
        bounded: false,
        latency_ms: 5,
        faults: Faults::NONE,
        ttl_s: Settings::EDGE_TTL_S,
        relays_retire: false,
    };

    /// Is anybody there?
    pub fn is_empty(&self) -> bool {
        self.edges + self.relays == 0
    }

    /// The edges and relays of a seed, and their troubles; in some seeds nobody.
    pub(in crate::system) fn draw(plan: &Plan) -> (Self, Vec<Planned>) {
        let random = &mut Random::stream(plan.seed, "system: edges");
        if random.chance(0.4) {
            return (Self::NONE, Vec::new());
        }
        let (fleet, troubles) = Self::of(random, plan);
        (fleet, troubles)
    }

    fn of(random: &mut Random, plan: &Plan) -> (Self, Vec<Planned>) {
        let fault = |random: &mut Random, of: &[f64]| if random.chance(0.5) { *random.pick(of) } else { 0.0 };
        let faults = Faults {
            loss: fault(random, &[0.01, 0.1, 0.3]),
            duplication: if random.chance(0.3) { *random.pick(&[0.05, 0.3]) } else { 0.0 },
            reordering: fault(random, &[0.05, 0.3]),
            reordering_ms_max: *random.pick(&[50, 500, 3_000]),
        };
        let think_ms = *random.pick(&[20, 60, 200]);
        let fleet = Self {
            edges: *random.pick(&[1, 2, 4, 6]),
            relays: *random.pick(&[0, 1, 1, 2]),
            think_ms: if plan.active_ms > LONG_MS { SLOW_THINK_MS } else { think_ms },
            sync_ms: *random.pick(&[50, 200, 1_000]),
            timeout_ms: *random.pick(&[100, 400, 1_000]),
            switch: *random.pick(&[0.0, 0.05, 0.3]),
            bounded: random.chance(0.7),
            latency_ms: *random.pick(&[1, 10, 60]),
            faults,
            ttl_s: *random.pick(&[1, 2, 5, Settings::EDGE_TTL_S, Settings::EDGE_TTL_S]),
            relays_retire: random.chance(0.5),
        };
        let troubles = Self::troubles(&fleet, random, plan);
        (fleet, troubles)
    }

    fn troubles(&self, random: &mut Random, plan: &Plan) -> Vec<Planned> {
        let kinds: Vec<Kind> = KINDS.into_iter().filter(|_| random.chance(0.5)).collect();
        if kinds.is_empty() {
            return Vec::new();
        }
        let count = random.below(TROUBLES_MAX + 1);
        let mut at: Vec<Millis> = (0..count).map(|_| random.bits() % plan.active_ms).collect();
        at.sort_unstable();
        let mut planned = Vec::new();
        for at_ms in at {
            let number = random.below(self.edges + self.relays);
            let who = if number < self.edges { Who::Edge(number) } else { Who::Relay(number - self.edges) };
            let mishap = Mishap::one(*random.pick(&kinds), random, who);
            planned.push(Planned { at_ms, trouble: Trouble::Befalls { who, mishap } });
        }
        planned
    }
}

impl Mishap {
    fn one(kind: Kind, random: &mut Random, who: Who) -> Self {
        let away_ms = *random.pick(&[0, 50, 1_000, 6_000]);
        let for_ms = *random.pick(&[50, 500, 3_000, 8_000]);
        let when = *random.pick(&[Crash::Before, Crash::Between, Crash::After]);
        let fault = *random.pick(&[
            Fault::Error,
            Fault::Full,
            Fault::UnknownStored,
            Fault::UnknownNotStored,
            Fault::UnknownLate,
        ]);
        let (times, early) = (1 + random.below(3), random.chance(0.5));
        match kind {
            // A relay is not lost without its disk: what edges have handed to it would be, too.
            Kind::LoseDisk | Kind::Vanish if matches!(who, Who::Relay(_)) => Self::Crash { away_ms },
            Kind::Crash => Self::Crash { away_ms },
            Kind::CrashInCommit => Self::CrashInCommit { when, away_ms },
            Kind::LoseDisk => Self::LoseDisk { away_ms },
            Kind::Vanish => Self::Vanish,
            Kind::Retire => Self::Retire { early },
            Kind::Disk => Self::Disk { fault, times },
            Kind::Cut => Self::Cut { for_ms },
        }
    }
}
