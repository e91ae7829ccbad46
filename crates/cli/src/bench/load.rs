//! What is asked of an endpoint in one round.

use super::commands::{Commands, Ids};
use super::endpoint::Endpoint;
use super::keys::{Distribution, Keys};
use quipu_crdt::testing::Random;
use std::time::Duration;

/// When a round ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// After so many commands.
    Requests(u64),
    /// When no more commands have been sent for so long; those under way are waited for.
    After(Duration),
}

/// A server, and how it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Contestant {
    pub(super) label: String,
    pub(super) endpoint: Endpoint,
    pub(super) with_ids: bool,
    /// What keys begin with.
    pub(super) prefix: String,
}

/// What is the same for all contestants.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(super) connections: usize,
    /// Commands that a connection sends at once.
    pub(super) pipeline: usize,
    pub(super) keys: u32,
    pub(super) distribution: Distribution,
    /// The share of reads, from 0 to 1.
    pub(super) reads: f64,
    /// Is different in every run, so that no id of another run is met.
    pub(super) run: String,
    pub(super) seed: u64,
    pub(super) end: End,
    /// All connections send at once, every so long, or as soon as the last one has its answers; `None`: each for itself.
    pub(super) wave_every: Option<Duration>,
}

impl Load {
    /// What one connection of a contestant sends in one round.
    pub(super) fn script(&self, contestant: &Contestant, round: usize, connection: usize) -> Script {
        let producer = format!("{}-{round}-{connection}", self.run);
        let ids = contestant.with_ids.then_some(Ids { producer, next: 1 });
        Script {
            commands: Commands::new(&contestant.prefix, ids),
            keys: Keys::new(self.distribution, self.keys),
            reads: self.reads,
            random: Random::stream(self.seed, &format!("round {round} connection {connection}")),
        }
    }
}

/// The commands of one connection, one burst after the other.
pub(super) struct Script {
    commands: Commands,
    keys: Keys,
    reads: f64,
    random: Random,
}

/// How many commands of which kind a burst holds, or were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) adds: u64,
    pub(super) reads: u64,
    pub(super) errors: u64,
}

impl Tally {
    pub(super) fn all(&self) -> u64 {
        self.adds + self.reads + self.errors
    }

    pub(super) fn include(&mut self, other: Tally) {
        self.adds += other.adds;
        self.reads += other.reads;
        self.errors += other.errors;
    }
}

impl Script {
    /// Replaces what is in `out` by the next burst.
    pub(super) fn burst(&mut self, commands: usize, out: &mut Vec<u8>) -> Tally {
        out.clear();
        let mut tally = Tally::default();
        for _ in 0..commands {
            let key = self.keys.draw(&mut self.random);
            if self.reads > 0.0 && self.random.chance(self.reads) {
                self.commands.read(key, out);
                tally.reads += 1;
            } else {
                self.commands.add(key, out);
                tally.adds += 1;
            }
        }
        tally
    }
}
