//! What happens in a run, as data: drawn from a seed, printed when something fails.

use super::trouble::{Planned, Trouble};
use super::wrong::Wrong;
use crate::Refused;
use crate::core::Millis;
use crate::run::within;
use crate::system::plan::{between, choose, some, work};
use crate::system::{ACTIVE_MS_MAX, CLIENTS_MAX, KEYS_MAX, Mix, Work};
use quipu_crdt::testing::Random;
use std::fmt;

/// The most nodes, with those that come later.
pub const NODES_MAX: usize = 6;

/// Which draws make a plan of a seed. A seed that has failed keeps its meaning when something new is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Edition {
    /// The first draws.
    #[default]
    First,
    /// And for how long anybody waits.
    Second,
    /// And adds that name limits of their own, are counted in part or not at all, and outcomes that are asked for.
    Third,
}

impl Edition {
    /// That of a seed whose edition is not named.
    pub const LATEST: Self = Self::Third;
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "1",
            Self::Second => "2",
            Self::Third => "3",
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
            _ => Err(format!("{text} is none of 1, 2, 3")),
        }
    }
}

/// How the store treats all of its nodes, all of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weather {
    /// How many of all requests are not answered: some are done, some are not, some are done late.
    pub unanswered: f64,
    /// How late at most.
    pub late_ms_max: Millis,
    /// How many of all requests are answered slowly.
    pub slow: f64,
    /// How slowly at most.
    pub slow_ms_max: Millis,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// All chance comes from it.
    pub seed: u64,
    /// Nodes at the start.
    pub nodes: usize,
    /// Shards that they share.
    pub shards: u16,
    /// Clients.
    pub clients: usize,
    /// For how long they work.
    pub active_ms: Millis,
    /// How often nodes write that they are there, and look who else is.
    pub beat_ms: Millis,
    /// Whoever has been silent for so long is gone.
    pub silence_ms: Millis,
    /// How fast the clock of each node goes, in thousandths of what is right.
    pub rates: Vec<u64>,
    /// By how much the wall clock of each node is wrong.
    pub skews_ms: Vec<i64>,
    /// A commit takes up to so long to the store, and its answer as long back.
    pub commit_ms: Millis,
    /// For how long operations are remembered.
    pub window_ms: Millis,
    /// Counters beyond this go to the table.
    pub memory_bytes: usize,
    /// The shards belong together, as while a site joins or leaves others: whoever speaks for the site has all of them.
    pub together: bool,
    /// Troubles follow each other about so fast.
    pub pace_ms: Millis,
    /// For so long anybody waits for the store, or for another node (`--storage-deadline`); `None`: for the store only, and not
    /// for its turn.
    pub deadline_ms: Option<Millis>,
    /// How the store treats its nodes.
    pub weather: Weather,
    /// How likely a command that one node passes on to another is lost, or its answer.
    pub loss: f64,
    /// What clients do.
    pub work: Work,
    /// What goes wrong.
    pub troubles: Vec<Planned>,
    /// What is done wrong, to see it caught.
    pub wrong: Wrong,
    /// What was changed about the plan of the seed.
    pub changes: Changes,
}

impl Plan {
    /// The plan of a seed, in the first edition.
    pub fn of(seed: u64) -> Self {
        Self::with_nodes(seed, None)
    }

    /// The plan that an edition makes of a seed, with this number of nodes at the start, or its own.
    pub fn drawn(seed: u64, given: Option<usize>, edition: Edition) -> Self {
        let mut plan = Self::with_nodes(seed, given);
        if edition >= Edition::Second {
            let random = &mut Random::stream(seed, "nodes: second edition");
            plan.deadline_ms = Some(choose(random, &[300, 1_500, 5_000]));
        }
        if edition >= Edition::Third {
            let random = &mut Random::stream(seed, "nodes: third edition");
            plan.work.limits = some(random, 0.5, &[0.1, 0.5]);
            plan.work.partial = some(random, 0.5, &[0.3, 1.0]);
            plan.work.curious = some(random, 0.5, &[0.05, 0.2]);
            if plan.work.mix.bounded == 0 && random.chance(0.5) {
                plan.work.mix.bounded = 1;
            }
        }
        plan.changes.edition = edition;
        plan
    }

    /// The plan of a seed, with this number of nodes at the start, or its own.
    pub fn with_nodes(seed: u64, given: Option<usize>) -> Self {
        let random = &mut Random::stream(seed, "nodes: plan");
        let own = choose(random, &[2, 2, 3, 3, 4]);
        let (beat_ms, silence_ms) = choose(random, &[(500, 5_000), (500, 5_000), (100, 1_000)]);
        let mut plan = Self {
            seed,
            nodes: given.unwrap_or(own),
            shards: choose(random, &[1, 2, 4, 8]),
            clients: choose(random, &[2, 4, 8]),
            active_ms: between(random, 3, 8) * silence_ms,
            beat_ms,
            silence_ms,
            rates: (0..NODES_MAX).map(|_| between(random, 900, 1_100)).collect(),
            skews_ms: (0..NODES_MAX).map(|_| choose(random, &[-3_000, -50, 0, 50, 3_000])).collect(),
            commit_ms: choose(random, &[1, 3, 10, 50]),
            window_ms: choose(random, &[120_000, 600_000]),
            memory_bytes: choose(random, &[1, 2_000, 16 << 20]),
            together: Random::stream(seed, "nodes: together").chance(0.25),
            pace_ms: choose(random, &[500, 1_500, 4_000]),
            deadline_ms: None,
            weather: Weather {
                unanswered: some(random, 0.5, &[0.005, 0.03, 0.15]),
                late_ms_max: choose(random, &[100, 2_000, 15_000]),
                slow: some(random, 0.4, &[0.002, 0.02]),
                slow_ms_max: choose(random, &[50, 1_000, 6_000]),
            },
            loss: some(random, 0.3, &[0.01, 0.1]),
            work: Self::work(random),
            troubles: Vec::new(),
            wrong: Wrong::default(),
            changes: Changes { nodes: given, ..Changes::default() },
        };
        plan.troubles = Trouble::draw(random, &plan);
        plan
    }

    /// What clients do: as where there are several sites, without what is about them.
    fn work(random: &mut Random) -> Work {
        let drawn = work(random);
        let mix = Mix { resets: 0, ..drawn.mix };
        let mix = if mix.plain + mix.ids + mix.bounded == 0 { Mix { plain: 1, ids: 1, ..mix } } else { mix };
        Work {
            mix,
            keys: choose(random, &[1, 3, 10]),
            think_ms: choose(random, &[20, 50, 200]),
            timeout_ms: choose(random, &[300, 1_000, 3_000]),
            attempts_max: choose(random, &[3, 10, 30]),
            stale: 0.0,
            remote_ms: 0,
            ..drawn
        }
    }

    /// How many places there are at which a node is at some time or other.
    pub(super) fn places(&self) -> usize {
        let last = self.troubles.iter().filter_map(|planned| planned.trouble.node()).max();
        self.nodes.max(last.map_or(0, |last| last + 1))
    }

    /// The plan by which speed is measured: three nodes and fifty clients, each adding ten times a second, half of it with
    /// ids, and nothing goes wrong.
    pub fn of_speed(seed: u64) -> Self {
        let calm = Self::of(seed);
        let mix = Mix { plain: 1, ids: 1, bounded: 0, resets: 0 };
        Self {
            nodes: 3,
            shards: 8,
            clients: 50,
            active_ms: 60_000,
            beat_ms: 500,
            silence_ms: 5_000,
            commit_ms: 3,
            window_ms: 600_000,
            memory_bytes: 16 << 20,
            together: false,
            weather: Weather { unanswered: 0.0, late_ms_max: 0, slow: 0.0, slow_ms_max: 0 },
            loss: 0.0,
            work: Work { mix, keys: 100, think_ms: 95, loss: 0.0, late: 0.0, ..calm.work },
            troubles: Vec::new(),
            ..calm
        }
    }

    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), Refused> {
        within("--nodes", &self.nodes, &(1..=NODES_MAX))?;
        within("--clients", &self.clients, &(1..=CLIENTS_MAX))?;
        within("--active-ms", &self.active_ms, &(1..=ACTIVE_MS_MAX))?;
        within("--keys", &self.work.keys, &(1..=KEYS_MAX))
    }

    /// The command that runs it.
    pub fn command(&self) -> String {
        format!("quipu sim nodes --seed {}{}", self.seed, self.changes)
    }

    /// An operation is not tried again after so long, because it might be forgotten by then: a request can wait at a node
    /// that is paused, and clocks can be fast.
    pub(super) fn patience_ms(&self) -> Millis {
        self.window_ms / 4
    }
}

/// Changes to the plan of a seed. A seed and its changes are a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Which draws make the plan.
    pub edition: Edition,
    /// Another number of nodes at the start.
    pub nodes: Option<usize>,
    /// Another number of clients.
    pub clients: Option<usize>,
    /// They work for another time.
    pub active_ms: Option<Millis>,
    /// Another number of counters of each kind.
    pub keys: Option<usize>,
    /// Only these of its troubles, by number.
    pub troubles: Option<Vec<usize>>,
    /// The store answers everything, and quickly, unless a trouble says otherwise.
    pub fair: bool,
}

impl Changes {
    /// The plan of a seed with these changes.
    pub fn plan(&self, seed: u64) -> Result<Plan, Refused> {
        if let Some(nodes) = &self.nodes {
            within("--nodes", nodes, &(1..=NODES_MAX))?;
        }
        let mut plan = Plan::drawn(seed, self.nodes, self.edition);
        plan.clients = self.clients.unwrap_or(plan.clients);
        plan.active_ms = self.active_ms.unwrap_or(plan.active_ms);
        plan.work.keys = self.keys.unwrap_or(plan.work.keys);
        if let Some(kept) = &self.troubles {
            let all = plan.troubles.len();
            if let Some(number) = kept.iter().find(|number| **number >= all) {
                let problem =
                    format!("seed {seed} has {all} troubles, numbered from 0; there is no {number}");
                return Err(Refused { flag: "--troubles", problem });
            }
            plan.troubles = kept.iter().map(|&number| plan.troubles[number]).collect();
        }
        if self.fair {
            plan.weather = Weather { unanswered: 0.0, slow: 0.0, ..plan.weather };
        }
        plan.changes = self.clone();
        plan.check()?;
        Ok(plan)
    }
}

impl fmt::Display for Changes {
    /// As flags of the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edition, nodes, clients, active_ms, keys, troubles, fair } = self;
        if *edition != Edition::LATEST {
            write!(f, " --edition {edition}")?;
        }
        nodes.iter().try_for_each(|nodes| write!(f, " --nodes {nodes}"))?;
        clients.iter().try_for_each(|clients| write!(f, " --clients {clients}"))?;
        active_ms.iter().try_for_each(|active_ms| write!(f, " --active-ms {active_ms}"))?;
        keys.iter().try_for_each(|keys| write!(f, " --keys {keys}"))?;
        if let Some(troubles) = troubles {
            let numbers: Vec<String> = troubles.iter().map(ToString::to_string).collect();
            let list = if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") };
            write!(f, " --troubles {list}")?;
        }
        if *fair { write!(f, " --fair") } else { Ok(()) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, shards, clients, active_ms, beat_ms, silence_ms, .. } = self;
        writeln!(
            f,
            "{nodes} nodes that share {shards} shards{}, {clients} clients for {active_ms} ms; done wrong: {:?}",
            if self.together { ", which are together" } else { "" },
            self.wrong
        )?;
        writeln!(
            f,
            "nodes: they beat every {beat_ms} ms and are gone after {silence_ms} ms of silence, their clocks go at {:?} \
             thousandths and are wrong by {:?} ms, ids are kept for {} ms, {} bytes of memory per shard",
            self.rates, self.skews_ms, self.window_ms, self.memory_bytes
        )?;
        writeln!(
            f,
            "store: a commit takes up to {} ms and as long back, {:?}",
            self.commit_ms, self.weather
        )?;
        writeln!(f, "between nodes: {} is lost; anybody waits for {:?} ms", self.loss, self.deadline_ms)?;
        writeln!(f, "clients: {:?}", self.work)?;
        for (number, Planned { at_ms, trouble }) in self.troubles.iter().enumerate() {
            writeln!(f, "trouble {number} at {at_ms} ms: {trouble:?}")?;
        }
        Ok(())
    }
}
