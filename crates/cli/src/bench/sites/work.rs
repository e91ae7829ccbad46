//! The CPU time of a server for each add, with two peers and alone.

use super::args::Args;
use super::cores::Cores;
use super::group::Group;
use crate::bench::keys::Distribution;
use crate::bench::load::{Contestant, End, Load};
use crate::bench::round;
use crate::failure::Failure;
use crate::interrupt::go_on;
use std::path::Path;
use std::time::Duration;

/// The writer and two peers.
const SITES: u16 = 3;
/// Both get so much of what the slower one can take.
const SHARE_OF_MOST: f64 = 0.7;
/// The unit of times in /proc, on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
/// Where they stand in `/proc/PID/stat` after the name: in user mode, and in the kernel for it.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;

/// What was measured.
pub(super) struct Works {
    /// The server had a core of its own.
    pub(super) has_core: bool,
    pub(super) loads: Vec<Work>,
}

/// One kind of load.
pub(super) struct Work {
    pub(super) keys: u32,
    pub(super) pipeline: usize,
    pub(super) rounds: Vec<Pair>,
}

/// One round with each.
pub(super) struct Pair {
    pub(super) with_peers: Round,
    pub(super) alone: Round,
}

impl Pair {
    pub(super) fn ratio(&self) -> f64 {
        self.with_peers.us_per_add() / self.alone.us_per_add()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) adds: u64,
    pub(super) per_second: f64,
    pub(super) cpu_seconds: f64,
}

impl Round {
    /// CPU time in microseconds.
    pub(super) fn us_per_add(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.adds as f64
    }
}

/// The sites of a contestant.
struct Side {
    group: Group,
    contestant: Contestant,
    /// Acknowledged in all rounds.
    added: u64,
}

pub(super) fn measure(args: &Args, folder: &Path, step: &mut dyn FnMut()) -> Result<Works, Failure> {
    let mut with_peers = Side::start("with two peers", folder, SITES)?;
    let mut alone = Side::start("alone", folder, 1)?;
    let cores = Cores::of_this_machine();
    if let Some(cores) = &cores {
        cores.give_first(with_peers.group.process(1)?);
        cores.give_first(alone.group.process(1)?);
        (2..=SITES).try_for_each(|peer| with_peers.group.process(peer).map(|it| cores.give_others(it)))?;
    }
    let mut all = Vec::new();
    for &keys in &args.keys {
        for &pipeline in &args.pipeline {
            let mut load = load(args, keys, pipeline);
            let mut rounds = Vec::new();
            for round in 0..=args.rounds {
                // Who begins changes from round to round, so that what drifts on the machine touches both alike.
                let pair = if round % 2 == 0 {
                    let with_peers = with_peers.round(&load, round)?;
                    Pair { with_peers, alone: alone.round(&load, round)? }
                } else {
                    let alone = alone.round(&load, round)?;
                    Pair { with_peers: with_peers.round(&load, round)?, alone }
                };
                // The first one is for warming up, as fast as they can. Then both get the same: whoever is asked less often
                // commits less at a time, and that would be counted as what its peers cost.
                if round > 0 {
                    rounds.push(pair);
                } else {
                    let least = pair.with_peers.per_second.min(pair.alone.per_second);
                    let wave = (args.connections * pipeline) as f64;
                    load.wave_every = Some(Duration::from_secs_f64(wave / (least * SHARE_OF_MOST)));
                }
                step();
            }
            all.push(Work { keys, pipeline, rounds });
        }
    }
    with_peers.group.stop()?;
    alone.group.stop()?;
    Ok(Works { has_core: cores.is_some(), loads: all })
}

fn load(args: &Args, keys: u32, pipeline: usize) -> Load {
    Load {
        connections: args.connections,
        pipeline,
        keys,
        distribution: Distribution::Uniform,
        reads: 0.0,
        run: String::new(),
        seed: args.seed,
        end: End::After(Duration::from_secs_f64(args.seconds)),
        wave_every: None,
    }
}

impl Side {
    fn start(label: &'static str, folder: &Path, size: u16) -> Result<Self, Failure> {
        let group = Group::start(label, folder, size)?;
        let contestant = Contestant {
            label: label.to_owned(),
            endpoint: group.endpoint(1),
            with_ids: false,
            prefix: "key:".to_owned(),
        };
        Ok(Side { group, contestant, added: 0 })
    }

    /// Until all peers have everything: sending it belongs to the work.
    fn round(&mut self, load: &Load, number: usize) -> Result<Round, Failure> {
        let process = self.group.process(1)?;
        let before = cpu_seconds(process)?;
        let measured = round::run(&self.contestant, load, number, &mut |_| go_on().is_ok());
        let measured = measured.map_err(Failure::failed)?;
        go_on()?;
        if let Some(error) = &measured.first_error {
            let name = &self.contestant.endpoint.name;
            return Err(Failure::failed(format!("{name} answered with an error: {error}")));
        }
        self.added += measured.answered.adds;
        self.group.wait_until_known(self.added)?;
        let cpu_seconds = cpu_seconds(process)? - before;
        Ok(Round { adds: measured.answered.adds, per_second: measured.per_second(), cpu_seconds })
    }
}

/// What a process has used so far, with all its threads.
fn cpu_seconds(process: u32) -> Result<f64, Failure> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path)
        .map_err(|error| Failure::failed(format!("{path}: {error}; CPU times are measured on Linux only")))?;
    ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
        .ok_or_else(|| Failure::failed(format!("{path} has no CPU times: {stat}")))
}

/// The name may hold spaces and brackets: the last bracket ends it.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(field(USER_TICKS)? + field(SYSTEM_TICKS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_whatever_a_process_is_called() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 4 0 77 1 2";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("12 (short) S 1"), None);
    }
}
