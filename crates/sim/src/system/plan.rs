//! What happens in a run, as data: drawn from a seed, printed when something fails, made smaller to find out why.
//!
//! Each seed switches kinds of work and of trouble on and off and picks its own rates, because faults that always come
//! together hide those that need to come alone.

use super::changes::Changes;
use super::fleet::{EDGES_MAX, Fleet, RELAYS_MAX};
use super::trouble::{Planned, Trouble};
use crate::core::{Faults, Millis};
use crate::run::within;
use crate::{Refused, system::wrong::Wrong};
use quipu_crdt::testing::Random;

/// The most sites.
pub const SITES_MAX: usize = 5;
/// The most clients.
pub const CLIENTS_MAX: usize = 10_000;
/// The most counters of each kind.
pub const KEYS_MAX: usize = 100_000;
/// The longest time during which clients work.
pub const ACTIVE_MS_MAX: Millis = 24 * 3600 * 1000;

/// Which draws make a plan of a seed. A seed that has failed keeps its meaning when new kinds of work and trouble come:
/// they are drawn in later editions only, each from a random stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Edition {
    /// The first draws.
    #[default]
    First,
    /// And those that came later.
    Second,
    /// Copies of sites that run beside their originals, adds with limits of their own, calls that are
    /// refused, and checkpoints at odd times.
    Third,
    /// Messages that are held back in one direction, edges that are absent while a site is removed in order, and outcomes
    /// that are asked for at every site after restarts.
    Fourth,
}

impl Edition {
    /// That of a seed whose edition is not named.
    pub const LATEST: Self = Self::Fourth;
}

impl std::fmt::Display for Edition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::First => "1",
            Self::Second => "2",
            Self::Third => "3",
            Self::Fourth => "4",
        })
    }
}

impl std::str::FromStr for Edition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" => Ok(Self::First),
            "2" => Ok(Self::Second),
            "3" => Ok(Self::Third),
            "4" => Ok(Self::Fourth),
            _ => Err(format!("{text} is none of 1, 2, 3, 4")),
        }
    }
}

/// Which sites have links to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Each to each.
    Full,
    /// Each to the next: the others pass on what the ends write.
    Line,
    /// All to the first.
    Star,
}

impl Topology {
    /// Are these two linked?
    pub(super) fn links(self, a: usize, b: usize) -> bool {
        match self {
            Self::Full => a != b,
            Self::Line => a.abs_diff(b) == 1,
            Self::Star => a != b && (a == 0 || b == 0),
        }
    }
}

/// How often clients do what, against each other; zero: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// Adds without ids, to counters that only grow.
    pub plain: usize,
    /// Adds and subtractions with ids, retried here and there.
    pub ids: usize,
    /// Spending from and adding to bounded counters.
    pub bounded: usize,
    /// Counters that are also set and deleted.
    pub resets: usize,
}

/// What clients do, and how long they wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// What they do.
    pub mix: Mix,
    /// Counters of each kind.
    pub keys: usize,
    /// Between an answer and the next command, on average.
    pub think_ms: Millis,
    /// After so long without an answer a client tries again, or gives up.
    pub timeout_ms: Millis,
    /// How often an operation with an id is tried at most.
    pub attempts_max: usize,
    /// How likely a retry goes to another site.
    pub failover: f64,
    /// How many of the ids tell their age.
    pub uuids: f64,
    /// How likely a client, instead of something new, tries an operation again that it was done with long ago. Only ids
    /// that tell their age allow that.
    pub stale: f64,
    /// How long an add to a bounded counter may wait for rights of other sites.
    pub remote_ms: Millis,
    /// How likely an operation on a bounded counter may be counted in part, or not at all, and answered all the same.
    pub partial: f64,
    /// How likely a client, instead of something new, asks some site what became of one of its last operations.
    pub curious: f64,
    /// How far the bounds of bounded counters are apart.
    pub room: i64,
    /// Are bounded counters used before they are known to be created?
    pub hasty: bool,
    /// How likely a client moves rights of a bounded counter, instead of counting; where some do, the rights of new
    /// counters are spread in different ways.
    pub moves: f64,
    /// How likely an operation with an id on a counter without bounds names a limit of its own.
    pub limits: f64,
    /// How likely a client, instead of something new, asks for what is always refused.
    pub mistakes: f64,
    /// How likely a request or an answer is lost.
    pub loss: f64,
    /// How likely a request comes late.
    pub late: f64,
    /// And how late at most.
    pub late_ms_max: Millis,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All chance comes from it.
    pub seed: u64,
    /// Sites.
    pub sites: usize,
    /// Shards of each.
    pub shards: u16,
    /// Clients.
    pub clients: usize,
    /// For how long they work.
    pub active_ms: Millis,
    /// Who is linked to whom.
    pub topology: Topology,
    /// A message between sites takes so long,
    pub latency_ms: Millis,
    /// and so much longer, about.
    pub latency_spread_ms: f64,
    /// What else becomes of messages between sites.
    pub faults: Faults,
    /// Do messages go through their bytes?
    pub encoded: bool,
    /// How long a commit takes.
    pub commit_ms: Millis,
    /// For how long operations are remembered.
    pub window_ms: Millis,
    /// Counters beyond this go to disk.
    pub memory_bytes: usize,
    /// So many operations of a shard may wait for other sites.
    pub unsettled_max: usize,
    /// By how much the wall clock of each site is wrong at the start.
    pub skews_ms: Vec<i64>,
    /// How often each site puts on its disk what it has acknowledged; 0: before it does.
    pub intervals_ms: Vec<Millis>,
    /// What clients do.
    pub work: Work,
    /// Edges and relays.
    pub fleet: Fleet,
    /// What goes wrong, by the time at which it begins: for sites, then for edges and relays.
    pub troubles: Vec<Planned>,
    /// The rule that is left out, to see it caught.
    pub wrong: Wrong,
    /// What was changed about the plan of the seed.
    pub changes: Changes,
}

/// One of these.
pub(crate) fn choose<T: Copy>(random: &mut Random, of: &[T]) -> T {
    *random.pick(of)
}

pub(crate) fn between(random: &mut Random, from: u64, to: u64) -> u64 {
    from + random.bits() % (to - from + 1)
}

/// On in some seeds, and then with one of these values.
pub(crate) fn some(random: &mut Random, share: f64, of: &[f64]) -> f64 {
    if random.chance(share) { choose(random, of) } else { 0.0 }
}

impl Plan {
    /// The plan of a seed, in the first edition.
    pub fn of(seed: u64) -> Self {
        Self::with_sites(seed, None)
    }

    /// The plan of a seed, with this number of sites, or its own.
    pub fn with_sites(seed: u64, given: Option<usize>) -> Self {
        Self::drawn(seed, given, Edition::First)
    }

    /// The plan that an edition makes of a seed, with this number of sites, or its own.
    pub fn drawn(seed: u64, given: Option<usize>, edition: Edition) -> Self {
        let random = &mut Random::stream(seed, "system: plan");
        let own = choose(random, &[2, 3, 3, 3, 3, 4, 5]);
        let sites = given.unwrap_or(own);
        let shards = choose(random, &[1, 2, 2, 4]);
        let topology = choose(random, &[Topology::Full, Topology::Full, Topology::Line, Topology::Star]);
        let active_ms = between(random, 5, 25) * 1_000;
        let faults = Faults {
            loss: some(random, 0.5, &[0.01, 0.1, 0.3]),
            duplication: some(random, 0.5, &[0.02, 0.2, 0.4]),
            reordering: some(random, 0.5, &[0.05, 0.3]),
            reordering_ms_max: choose(random, &[50, 500, 3_000]),
        };
        let mut plan = Self {
            seed,
            sites,
            shards,
            clients: choose(random, &[3, 6, 10, 20]),
            active_ms,
            topology,
            latency_ms: choose(random, &[1, 10, 40, 80]),
            latency_spread_ms: choose(random, &[1.0, 10.0, 60.0]),
            faults,
            encoded: random.chance(0.5),
            commit_ms: choose(random, &[1, 1, 3, 10]),
            window_ms: choose(random, &[4_000, 10_000, 600_000]),
            memory_bytes: choose(random, &[1, 2_000, 16 << 20]),
            unsettled_max: choose(random, &[5, 100, 32 << 10, 32 << 10]),
            skews_ms: Vec::new(),
            intervals_ms: Vec::new(),
            work: work(random),
            fleet: Fleet::NONE,
            troubles: Vec::new(),
            wrong: Wrong::default(),
            changes: Changes { sites: given, edition, ..Changes::default() },
        };
        if plan.work.stale > 0.0 && random.chance(0.5) {
            // Long enough for operations to be forgotten, which is done every two minutes.
            plan.active_ms = between(random, 130, 300) * 1_000;
            plan.window_ms = choose(random, &[4_000, 10_000]);
            plan.work.think_ms = 1_000;
        }
        let skews: &[i64] = if random.chance(0.5) { &[0] } else { &[-3_000, -50, 0, 50, 3_000] };
        let intervals: &[Millis] = if random.chance(0.7) { &[0] } else { &[0, 20, 200, 1_000] };
        plan.troubles = Trouble::draw(random, &plan);
        plan.skews_ms = (0..plan.slots()).map(|_| choose(random, skews)).collect();
        plan.intervals_ms = (0..plan.slots()).map(|_| choose(random, intervals)).collect();
        plan.set_clocks_for_newcomers();
        let (fleet, troubles) = Fleet::draw(&plan);
        plan.fleet = fleet;
        plan.troubles.extend(troubles);
        if edition >= Edition::Second {
            plan.draw_second();
            plan.work.moves = some(&mut Random::stream(seed, "system: rights"), 0.5, &[0.02, 0.1, 0.3]);
        }
        if edition >= Edition::Third {
            plan.draw_third();
        }
        if edition >= Edition::Fourth {
            plan.draw_fourth();
        }
        plan
    }

    /// What came with the second edition.
    fn draw_second(&mut self) {
        let random = &mut Random::stream(self.seed, "system: second edition");
        self.work.partial = some(random, 0.5, &[0.3, 1.0]);
        self.work.curious = some(random, 0.5, &[0.05, 0.2]);
        if random.chance(0.3) && self.window_ms >= 10_000 {
            // Long enough for many checkpoints, and not so long that an operation is forgotten meanwhile.
            self.work.remote_ms = 5_000;
        }
        let losses = Trouble::draw_two_losses(random, self);
        self.add_troubles(losses);
    }

    /// What came with the third edition.
    fn draw_third(&mut self) {
        let whims = &mut Random::stream(self.seed, "system: whims");
        self.work.limits = some(whims, 0.5, &[0.1, 0.5]);
        self.work.mistakes = some(whims, 0.5, &[0.02, 0.1]);
        let checkpoints =
            Trouble::draw_checkpoints(&mut Random::stream(self.seed, "system: checkpoints"), self);
        self.add_troubles(checkpoints);
        let random = &mut Random::stream(self.seed, "system: third edition");
        if let Some(beside) = Trouble::draw_beside(random, self) {
            self.run_beside(beside);
            self.set_clocks_for_newcomers();
        }
    }

    /// What came with the fourth edition.
    fn draw_fourth(&mut self) {
        let stalls = Trouble::draw_stalls(&mut Random::stream(self.seed, "system: stalls"), self);
        self.add_troubles(stalls);
        let absent = Trouble::draw_absent_edges(&mut Random::stream(self.seed, "system: absent edges"), self);
        self.add_troubles(absent);
        let questions = Trouble::draw_questions(&mut Random::stream(self.seed, "system: questions"), self);
        self.add_troubles(questions);
    }

    /// First those of sites, then those of edges and relays, each by the time at which they begin.
    fn add_troubles(&mut self, more: Vec<Planned>) {
        self.troubles.extend(more);
        self.troubles
            .sort_by_key(|planned| (matches!(planned.trouble, Trouble::Befalls { .. }), planned.at_ms));
    }

    /// A copy of a site runs beside its original. Until they are noticed both spend the rights of the site, so that bounds do
    /// not hold; a reset at one of them is none at the other; and what edges hand over is told apart by neither. These are
    /// left out.
    pub fn run_beside(&mut self, beside: Planned) {
        let Mix { plain, ids, .. } = self.work.mix;
        self.work.mix = Mix { plain, ids: if plain == 0 { ids.max(1) } else { ids }, bounded: 0, resets: 0 };
        self.fleet = Fleet::NONE;
        self.troubles.retain(|planned| !matches!(planned.trouble, Trouble::Befalls { .. }));
        self.troubles.push(beside);
        self.troubles.sort_by_key(|planned| planned.at_ms);
    }

    /// A newcomer cannot know which operations were forgotten before it came, only that they are too old: by its clock.
    fn set_clocks_for_newcomers(&mut self) {
        if self.work.stale > 0.0 && self.troubles.iter().any(|planned| planned.trouble.is_newcomer()) {
            self.troubles.retain(|planned| !matches!(planned.trouble, Trouble::Clock { .. }));
            self.skews_ms.fill(0);
        }
    }

    /// How many sites there are at some time or other.
    pub(super) fn slots(&self) -> usize {
        let last = self.troubles.iter().filter_map(|planned| planned.trouble.site()).max();
        self.sites.max(last.map_or(0, |last| last + 1))
    }

    /// How many places there are at which a process can run: one more than sites if a copy runs beside its original.
    pub(super) fn places(&self) -> usize {
        self.slots() + usize::from(self.beside().is_some())
    }

    /// The site beside which a copy runs. There is one at most.
    pub(super) fn beside(&self) -> Option<usize> {
        self.troubles.iter().find_map(|planned| match planned.trouble {
            Trouble::Beside { site, .. } => Some(site),
            _ => None,
        })
    }

    /// May a site come back without something that it has acknowledged, or not at all?
    pub(super) fn forgets(&self) -> bool {
        self.intervals_ms.iter().any(|interval_ms| *interval_ms > 0)
            || self.troubles.iter().any(|planned| planned.trouble.forgets())
    }

    /// The plan by which speed is measured: three sites and a hundred clients, each adding ten times a second, half of
    /// it with ids, and nothing goes wrong.
    pub fn of_speed(seed: u64) -> Self {
        let mix = Mix { plain: 1, ids: 1, bounded: 0, resets: 0 };
        let calm = Self::of(seed);
        Self {
            sites: 3,
            shards: 4,
            clients: 100,
            active_ms: 100_000,
            topology: Topology::Full,
            latency_ms: 40,
            latency_spread_ms: 10.0,
            faults: Faults::NONE,
            encoded: false,
            commit_ms: 1,
            window_ms: 600_000,
            memory_bytes: 16 << 20,
            unsettled_max: 32 << 10,
            skews_ms: vec![0; 3],
            intervals_ms: vec![0; 3],
            fleet: Fleet::NONE,
            work: Work { mix, keys: 100, think_ms: 75, loss: 0.0, late: 0.0, stale: 0.0, ..calm.work },
            troubles: Vec::new(),
            ..calm
        }
    }

    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        within("--sites", &self.sites, &(1..=SITES_MAX))?;
        within("--clients", &self.clients, &(1..=CLIENTS_MAX))?;
        within("--active-ms", &self.active_ms, &(1..=ACTIVE_MS_MAX))?;
        within("--keys", &self.work.keys, &(1..=KEYS_MAX))?;
        within("--edges", &self.fleet.edges, &(0..=EDGES_MAX))?;
        within("--relays", &self.fleet.relays, &(0..=RELAYS_MAX))?;
        let Mix { plain, ids, bounded, resets } = self.work.mix;
        if plain + ids + bounded + resets == 0 {
            let problem = format!("clients of seed {} would have nothing left to do", self.seed);
            return Err(Refused { flag: "--without", problem });
        }
        Ok(())
    }

    /// The command that runs it.
    pub fn command(&self) -> String {
        format!("quipu sim system --seed {}{}", self.seed, self.changes)
    }

    /// An operation is not tried again after so long, because it might be forgotten by then.
    pub(super) fn patience_ms(&self) -> Millis {
        let Work { late_ms_max, timeout_ms, .. } = self.work;
        self.window_ms.saturating_sub(late_ms_max + timeout_ms + 1_000)
    }
}

pub(crate) fn work(random: &mut Random) -> Work {
    let mut weight = |of: &[usize]| choose(random, of);
    let mut mix = Mix {
        plain: weight(&[0, 1, 2]),
        ids: weight(&[0, 1, 3]),
        bounded: weight(&[0, 1, 3]),
        resets: weight(&[0, 0, 1, 2]),
    };
    if mix == (Mix { plain: 0, ids: 0, bounded: 0, resets: 0 }) {
        mix.ids = 1;
    }
    Work {
        mix,
        keys: choose(random, &[1, 2, 5, 20]),
        think_ms: choose(random, &[5, 20, 100]),
        timeout_ms: choose(random, &[200, 500, 1_000]),
        attempts_max: choose(random, &[2, 4, 8]),
        failover: choose(random, &[0.1, 0.5, 0.9]),
        uuids: choose(random, &[0.0, 0.5, 1.0]),
        stale: some(random, 0.3, &[0.01, 0.1]),
        remote_ms: choose(random, &[0, 100, 1_000]),
        partial: 0.0,
        curious: 0.0,
        room: choose(random, &[1, 10, 100, 10_000]),
        hasty: random.chance(0.2),
        moves: 0.0,
        limits: 0.0,
        mistakes: 0.0,
        loss: some(random, 0.6, &[0.01, 0.1, 0.3]),
        late: some(random, 0.4, &[0.01, 0.1]),
        late_ms_max: choose(random, &[100, 1_000]),
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sites, shards, clients, active_ms, topology, .. } = self;
        writeln!(
            f,
            "{sites} sites ({topology:?}) of {shards} shards, {clients} clients for {active_ms} ms; rules: {:?}",
            self.wrong
        )?;
        writeln!(
            f,
            "messages: {} ms and about {} more, {:?}{}",
            self.latency_ms,
            self.latency_spread_ms,
            self.faults,
            if self.encoded { ", as bytes" } else { "" }
        )?;
        writeln!(
            f,
            "sites: a commit takes {} ms, ids are kept for {} ms, {} bytes of memory per shard, {} may be unsettled, clocks are wrong by {:?} ms, what is acknowledged is flushed every {:?} ms (0: before)",
            self.commit_ms,
            self.window_ms,
            self.memory_bytes,
            self.unsettled_max,
            self.skews_ms,
            self.intervals_ms
        )?;
        writeln!(f, "clients: {:?}", self.work)?;
        if !self.fleet.is_empty() {
            writeln!(f, "edges and relays: {:?}", self.fleet)?;
        }
        for (number, Planned { at_ms, trouble }) in self.troubles.iter().enumerate() {
            writeln!(f, "trouble {number} at {at_ms} ms: {trouble:?}")?;
        }
        Ok(())
    }
}
