//! What goes over the wire for each add, beside what a gossip of full states would send.

use super::args::Args;
use super::group::Group;
use crate::bench::commands::Commands;
use crate::bench::endpoint::Endpoint;
use crate::bench::error::BenchError;
use crate::bench::replies::Reply;
use crate::failure::Failure;
use crate::interrupt::go_on;
use quipu_crdt::testing::Random;
use std::path::Path;

/// Adds that are sent together while counters are made.
const ADDS_AT_ONCE: usize = 500;
/// The writer and those that it sends to.
const SITES: u16 = 3;

/// What was sent.
pub(super) struct Traffic {
    /// To a site that is new: all counters.
    pub(super) full_bytes: u64,
    pub(super) ways: [Way; 2],
}

/// How the adds of a round are sent.
pub(super) struct Way {
    pub(super) label: &'static str,
    at_once: bool,
    pub(super) rounds: Vec<Round>,
}

/// One round: of the counters that change, each by one add.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) adds: u64,
    pub(super) peers: u64,
    /// To all peers together.
    pub(super) sent_bytes: u64,
    /// Their acknowledgements.
    pub(super) received_bytes: u64,
}

impl Round {
    pub(super) fn sent_per_add(&self) -> f64 {
        self.sent_bytes as f64 / self.peers as f64 / self.adds as f64
    }

    pub(super) fn received_per_add(&self) -> f64 {
        self.received_bytes as f64 / self.peers as f64 / self.adds as f64
    }

    /// What a full state is in units of what was sent to a peer.
    pub(super) fn times_less(&self, full_bytes: u64) -> f64 {
        full_bytes as f64 / (self.sent_bytes as f64 / self.peers as f64)
    }
}

pub(super) fn measure(args: &Args, folder: &Path, step: &mut dyn FnMut()) -> Result<Traffic, Failure> {
    let mut group = Group::new("bytes", folder, SITES)?;
    group.start_next(|link| link)?;
    let writer = group.endpoint(1);
    let mut keys: Vec<u32> = (0..args.counters).collect();
    let mut added = add(&writer, &keys, ADDS_AT_ONCE)?;
    group.start_next(|link| link)?;
    group.wait_until_known(added)?;
    let full_bytes = group.passed()?.sent_bytes;
    group.start_next(|link| link)?;
    group.wait_until_known(added)?;
    step();

    let way = |label, at_once| Way { label, at_once, rounds: Vec::new() };
    let mut ways = [way("in one go", true), way("one at a time", false)];
    let mut random = Random::stream(args.seed, "counters that change");
    for round in 0..args.rounds {
        for turn in 0..ways.len() {
            go_on()?;
            let way = &mut ways[(round + turn) % 2];
            random.shuffle(&mut keys);
            let before = group.passed()?;
            let changed = &keys[..args.changed()];
            let adds = add(&writer, changed, if way.at_once { changed.len() } else { 1 })?;
            added += adds;
            group.wait_until_known(added)?;
            let after = group.passed()?;
            way.rounds.push(Round {
                adds,
                peers: after.peers,
                sent_bytes: after.sent_bytes - before.sent_bytes,
                received_bytes: after.received_bytes - before.received_bytes,
            });
            step();
        }
    }
    group.stop()?;
    Ok(Traffic { full_bytes, ways })
}

/// Adds 1 to each of these, so many together, and says how many adds were acknowledged.
fn add(endpoint: &Endpoint, keys: &[u32], at_once: usize) -> Result<u64, Failure> {
    let mut commands = Commands::new("key:", None);
    let mut conversation = endpoint.open().map_err(Failure::failed)?;
    let mut out = Vec::new();
    for part in keys.chunks(at_once) {
        out.clear();
        part.iter().for_each(|key| commands.add(u64::from(*key), &mut out));
        conversation.send(&out).map_err(Failure::failed)?;
        for unanswered in (1..=part.len()).rev() {
            match conversation.receive(unanswered).map_err(Failure::failed)? {
                Reply::Integer(_) => {}
                other => {
                    let (address, text) = (endpoint.name.clone(), other.text());
                    return Err(Failure::failed(BenchError::Answer { address, text, remedy: "" }));
                }
            }
        }
    }
    Ok(keys.len() as u64)
}
