//! Whatever fails and whenever the process dies: what was acknowledged is there, once, and what was shown stays.

use quipu_crdt::testing::Random;
use quipu_engine::{Settings, host::Discipline};
use quipu_storage::{
    Flush, ShardId,
    memory::{Crash, Fault},
};

use crate::{
    checker::{Checker, key},
    world::{Setup, World},
};

const KEYS: usize = 9;
const STEPS: usize = 120;
/// The right way passes all of these, and each wrong one fails some.
const SEEDS: std::ops::Range<u64> = 0..400;
/// The counter that is watched.
const WATCHED: usize = 0;

fn watch(world: &mut World) -> Result<(), String> {
    let shard = world.shards().of(&key(WATCHED));
    world.host.watch(shard, &key(WATCHED)).map(drop).map_err(|refusal| refusal.to_string())
}

/// Another process takes over. Then retries come in.
fn restart(world: &mut World, checker: &mut Checker) -> Result<(), String> {
    checker.died();
    world.restart();
    // Whoever opens a shard acts on what it reads, so all of it is on the device.
    watch(world)?;
    checker.retry(world);
    checker.hear(world.commit(), WATCHED)
}

fn inject(world: &World, random: &mut Random) {
    let shard = ShardId(u16::try_from(random.below(usize::from(world.setup.shards))).unwrap());
    let faults = [
        Fault::Error,
        Fault::Full,
        Fault::UnknownStored,
        Fault::UnknownNotStored,
        Fault::UnknownLate,
        Fault::Taken,
    ];
    world.memory.inject(shard, *random.pick(&faults));
}

fn step(world: &mut World, checker: &mut Checker, random: &mut Random) -> Result<(), String> {
    for _ in 0..random.below(7) {
        let at = random.below(KEYS);
        match random.below(3) {
            0 => checker.read(world, at),
            _ => checker.add(world, at, 1 + random.below(9) as i64),
        }
    }
    match random.below(24) {
        0 => {
            // It dies before it commits.
            world.memory.crash();
            return restart(world, checker);
        }
        1 => {
            world.memory.crash_in_next_commit(*random.pick(&[Crash::Before, Crash::Between, Crash::After]));
            // What it sends before it dies is heard.
            checker.hear(world.commit(), WATCHED)?;
            world.memory.crash();
            return restart(world, checker);
        }
        2..6 => inject(world, random),
        6 if !world.setup.threaded => world.memory.fail_next_put_after(random.below(4)),
        _ => {}
    }
    checker.hear(world.commit(), WATCHED)?;
    match random.below(12) {
        0 => {
            world.memory.crash();
            restart(world, checker)?;
        }
        1..7 => checker.hear(world.maintain(), WATCHED)?,
        7 => drop(world.memory.land()),
        8 => {
            checker.retry(world);
            checker.hear(world.commit(), WATCHED)?;
        }
        9 if world.host.flush().is_ok() => checker.flushed(),
        10 => world.clock_ms += random.below(4_000) as u64,
        11 if world.host.stats().shards_unavailable > 0 => restart(world, checker)?,
        _ => {}
    }
    world.seen.check()
}

/// Clients, faults and crashes by a seed.
pub(crate) fn run(seed: u64, setup: Setup) -> Result<(), String> {
    let mut random = Random::new(seed);
    let memory_bytes = *random.pick(&[0, 200, 1 << 20]);
    let settings = Settings { memory_bytes, seed, ..setup.settings };
    let mut world = World::new(Setup { settings, ..setup });
    let mut checker = Checker::new(KEYS, setup.flush == Flush::Later);
    watch(&mut world)?;
    for _ in 0..STEPS {
        step(&mut world, &mut checker, &mut random)?;
    }
    world.memory.heal();
    world.memory.crash();
    restart(&mut world, &mut checker)?;
    world.host.flush().map_err(|error| error.to_string())?;
    checker.flushed();
    checker.check_end(&mut world)?;
    world.maintain();
    checker.check_end(&mut world)?;
    world.seen.check()
}

#[track_caller]
fn all_pass(seeds: std::ops::Range<u64>, setup: Setup) {
    for seed in seeds {
        run(seed, setup).unwrap_or_else(|wrong| panic!("seed {seed}, {setup:?}: {wrong}"));
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_counts_twice() {
    all_pass(SEEDS, Setup::default());
}

#[test]
fn nor_while_a_thread_writes_the_table() {
    all_pass(2_000..2_060, Setup { threaded: true, ..Setup::default() });
}

#[test]
fn of_commits_that_are_flushed_later_what_was_flushed_survives() {
    all_pass(4_000..4_300, Setup { flush: Flush::Later, ..Setup::default() });
}

#[test]
fn nor_is_what_a_thread_writes_ahead_of_what_is_flushed() {
    all_pass(8_000..8_060, Setup { flush: Flush::Later, threaded: true, ..Setup::default() });
}

#[test]
fn one_shard_alone() {
    all_pass(6_000..6_100, Setup { shards: 1, ..Setup::default() });
}

/// What some seed shows to be wrong with a host that is run like this.
pub(crate) fn caught(discipline: Discipline) -> Option<String> {
    let setup = Setup { discipline, ..Setup::default() };
    SEEDS.into_iter().find_map(|seed| run(seed, setup).err())
}
