//! Crashes at every operation, with every fate of what was not flushed; and the wrong ways, which the same check
//! must catch.

mod damage;
mod driver;
mod lazy_disk;

use std::{collections::BTreeMap, io::ErrorKind};

use driver::{Driver, Order, SHARDS, Step, WORKERS, shards};
use lazy_disk::Stubborn;
use quipu_storage::{
    Flush, ShardId,
    embedded::{
        Disk, DiskFile, LogConfig,
        flaws::{Begin, Flaws, Letting, Noting, Promise, Reclaim},
    },
    memory::Memory,
    testing::{
        Seeded,
        sim_disk::{Fate, SimDisk},
    },
};

const A: ShardId = ShardId(0);
const B: ShardId = ShardId(1);
const C: ShardId = ShardId(2);

/// The most ways of losing writes that are tried for one crash; above that they are drawn.
const WAYS_MAX: usize = 40;

#[derive(Debug, Clone, Copy)]
struct Setup {
    config: LogConfig,
    order: Order,
    lie: bool,
    stubborn: bool,
}

fn right() -> Setup {
    let config =
        LogConfig { workers: WORKERS, segment_bytes: 2048, reserve_bytes: 512, ..LogConfig::default() };
    Setup { config, order: Order::RowsThenMark, lie: false, stubborn: false }
}

/// Everything that the log does, in a few steps: groups, later flushes, rotation, checkpoints, reclaiming, moving.
fn short_script() -> Vec<Step> {
    let now = |worker, writes: &[(ShardId, u8, usize)]| Step::Commit {
        worker,
        writes: writes.to_vec(),
        flush: Flush::Now,
    };
    let later = |writes: &[(ShardId, u8, usize)]| Step::Commit {
        worker: 0,
        writes: writes.to_vec(),
        flush: Flush::Later,
    };
    vec![
        now(0, &[(A, 1, 20), (C, 1, 600)]),
        now(1, &[(B, 1, 700)]),
        Step::Note,
        now(0, &[(A, 2, 500)]),
        Step::Checkpoint { shard: A },
        now(0, &[(A, 1, 900)]),
        now(0, &[(A, 3, 700), (C, 2, 10)]),
        Step::Checkpoint { shard: C },
        Step::Checkpoint { shard: A },
        Step::Note,
        later(&[(A, 4, 300)]),
        Step::Note,
        later(&[(C, 4, 300)]),
        Step::Flush { worker: 0 },
        later(&[(A, 5, 10)]),
        Step::Move { shard: A, worker: 1 },
        now(1, &[(A, 6, 800), (B, 2, 900)]),
        now(1, &[(A, 1, 400)]),
        Step::Note,
        Step::Checkpoint { shard: B },
        Step::Checkpoint { shard: A },
        now(0, &[(C, 7, 1800)]),
        now(1, &[(A, 8, 100), (B, 8, 100)]),
        Step::Checkpoint { shard: C },
        now(0, &[(C, 9, 50)]),
    ]
}

struct Run {
    disk: SimDisk,
    memory: Memory,
    promises: BTreeMap<ShardId, driver::Promise>,
}

/// Runs a script on a fresh disk, with a crash or a failure at some operation.
fn run(setup: Setup, script: &[Step], prepare: impl FnOnce(&SimDisk)) -> Run {
    let (disk, memory) = (SimDisk::new(), Memory::new());
    prepare(&disk);
    if setup.lie {
        disk.lie();
    }
    let Setup { config, order, .. } = setup;
    let layer = || Stubborn::new(disk.clone(), setup.stubborn);
    let mut promises = BTreeMap::new();
    if let Ok(mut driver) = Driver::open(&disk, layer, &memory, config, order, BTreeMap::new()) {
        driver.run(script);
        promises = driver.promises;
    }
    Run { disk, memory, promises }
}

/// Opens what a crash has left, and goes on from there, twice.
fn check(setup: Setup, disk: &SimDisk, run: &Run) -> Result<(), String> {
    let mut promises = run.promises.clone();
    for _ in 0..2 {
        let layer = || Stubborn::new(disk.clone(), false);
        let mut driver = Driver::open(disk, layer, &run.memory, setup.config, setup.order, promises)?;
        for shard in shards() {
            driver.commit(shard.0 % WORKERS, &[(shard, 9, 5)], Flush::Now);
        }
        promises = driver.promises;
        disk.power_cycle(0, || Fate::Lost);
    }
    Ok(())
}

/// Every way in which the crashed disk may come back, or many of them.
fn every_way(setup: Setup, run: &Run, ways_max: usize, seed: u64) -> Result<usize, String> {
    let writes = run.disk.decisions() - 1;
    let names = run.disk.name_changes() + 1;
    let all =
        Fate::ALL.len().checked_pow(u32::try_from(writes).unwrap()).and_then(|ways| ways.checked_mul(names));
    let mut random = Seeded::new(seed);
    let exhaustive = all.is_some_and(|all| all <= ways_max);
    let ways = if exhaustive { all.unwrap() } else { ways_max };
    for way in 0..ways {
        let disk = run.disk.fork();
        let mut rest = way / names;
        let kept = if exhaustive { way % names } else { random.below(names) };
        disk.power_cycle(kept, || {
            let choice = if exhaustive { rest % Fate::ALL.len() } else { random.below(Fate::ALL.len()) };
            rest /= Fate::ALL.len();
            Fate::ALL[choice]
        });
        check(setup, &disk, run).map_err(|why| format!("way {way} of {ways}: {why}"))?;
    }
    Ok(ways)
}

/// Crashes before every operation of the script.
fn crash_everywhere(setup: Setup, script: &[Step]) -> Result<usize, String> {
    let operations = run(setup, script, |_| {}).disk.operations().len();
    let mut ways = 0;
    for at in 0..=operations as u64 {
        let run = run(setup, script, |disk| disk.crash_at(at));
        ways += every_way(setup, &run, WAYS_MAX, at).map_err(|why| format!("crash at {at}: {why}"))?;
    }
    Ok(ways)
}

/// Lets every operation fail once, with each crash soon after.
fn fail_everywhere(setup: Setup, script: &[Step]) -> Result<usize, String> {
    let operations = run(setup, script, |_| {}).disk.operations().len() as u64;
    let mut ways = 0;
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        for fail in 0..operations {
            for after in [1, 2, 3, 5, 8, 13, operations] {
                let run = run(setup, script, |disk| {
                    disk.fail_at(fail, kind);
                    disk.crash_at(fail + after);
                });
                ways += every_way(setup, &run, 4, fail)
                    .map_err(|why| format!("{kind:?} at {fail}, crash {after} later: {why}"))?;
            }
        }
    }
    Ok(ways)
}

#[test]
fn a_crash_anywhere_loses_nothing_that_was_reported() {
    let ways = crash_everywhere(right(), &short_script()).unwrap();
    println!("{ways} ways of crashing");
    assert!(ways > 300);
}

/// Crashes everywhere, and then before every operation of the recovery.
fn crash_while_recovering(setup: Setup) -> Result<usize, String> {
    let mut ways = 0;
    let operations = run(setup, &short_script(), |_| {}).disk.operations().len() as u64;
    for at in 0..=operations {
        let first = run(setup, &short_script(), |disk| disk.crash_at(at));
        for fate in [Fate::Lost, Fate::Kept, Fate::Front] {
            let mut opening = 0;
            loop {
                let disk = first.disk.fork();
                disk.power_cycle(usize::MAX, || fate);
                disk.crash_at(opening);
                let layer = || Stubborn::new(disk.clone(), false);
                let (config, order, promises) = (setup.config, setup.order, first.promises.clone());
                let opened = Driver::open(&disk, layer, &first.memory, config, order, promises);
                let second = Run { disk, memory: first.memory.clone(), promises: first.promises.clone() };
                ways += every_way(setup, &second, 12, at)
                    .map_err(|why| format!("crash at {at} ({fate:?}), and at {opening} of opening: {why}"))?;
                if opened.is_ok() {
                    break;
                }
                opening += 1;
            }
        }
    }
    Ok(ways)
}

#[test]
fn a_crash_while_recovering_from_a_crash_loses_nothing() {
    let ways = crash_while_recovering(right()).unwrap();
    println!("{ways} ways of crashing twice");
    assert!(ways > 1000);
}

#[test]
fn a_header_before_its_frames_is_caught() {
    let flaws = Flaws { begin: Begin::HeaderFirst, ..Flaws::default() };
    let config = LogConfig { flaws, ..right().config };
    caught(crash_while_recovering(Setup { config, ..right() }));
}

#[test]
fn an_error_anywhere_and_a_crash_after_it_lose_nothing() {
    let ways = fail_everywhere(right(), &short_script()).unwrap();
    println!("{ways} ways of failing and crashing");
    assert!(ways > 1000);
}

fn caught(found: Result<usize, String>) {
    match found {
        Ok(ways) => panic!("not caught in {ways} ways"),
        Err(why) => println!("caught: {why}"),
    }
}

#[test]
fn not_flushing_before_committed_is_caught() {
    caught(crash_everywhere(Setup { lie: true, ..right() }, &short_script()));
}

#[test]
fn a_mark_before_its_rows_is_caught() {
    caught(crash_everywhere(Setup { order: Order::MarkThenRows, ..right() }, &short_script()));
}

#[test]
fn reclaiming_a_segment_that_one_shard_needs_is_caught() {
    let flaws = Flaws { reclaim: Reclaim::AnyPassed, ..Flaws::default() };
    let config = LogConfig { flaws, ..right().config };
    caught(crash_everywhere(Setup { config, ..right() }, &short_script()));
}

fn flawed(flaws: Flaws) -> Setup {
    let config = LogConfig { flaws, ..right().config };
    Setup { config, ..right() }
}

/// The folder of an earlier version gets its first notes: with a crash before every operation of that, and none.
#[test]
fn a_crash_while_a_folder_gets_its_first_notes_loses_nothing() {
    let old = run(right(), &short_script(), |_| {});
    // Notes of a version that came and went: what they say is no longer true.
    let format = old.disk.contents()["FORMAT"].clone();
    let format = String::from_utf8(format).unwrap().replace("quipu-storage 2", "quipu-storage 1");
    Disk::open(&old.disk, "FORMAT").unwrap().write_at(0, format.as_bytes()).unwrap();
    old.disk.power_cycle(0, || Fate::Kept);
    let mut ways = 0;
    for at in 0.. {
        let disk = old.disk.fork();
        disk.crash_at(at);
        let layer = || Stubborn::new(disk.clone(), false);
        let (config, order) = (right().config, Order::RowsThenMark);
        let opened = Driver::open(&disk, layer, &old.memory, config, order, old.promises.clone());
        let is_done = opened.is_ok();
        drop(opened);
        let crashed = Run { disk, memory: old.memory.clone(), promises: old.promises.clone() };
        ways +=
            every_way(right(), &crashed, WAYS_MAX, at).unwrap_or_else(|why| panic!("crash at {at}: {why}"));
        if is_done {
            break;
        }
    }
    assert!(ways > 100, "{ways}");
}

#[test]
fn noting_what_is_not_flushed_is_caught() {
    caught(crash_everywhere(flawed(Flaws { noting: Noting::Written, ..Flaws::default() }), &short_script()));
}

#[test]
fn letting_a_file_go_before_that_is_noted_is_caught() {
    let flaws = Flaws { letting: Letting::FileFirst, ..Flaws::default() };
    caught(crash_everywhere(flawed(flaws), &short_script()));
}

#[test]
fn saying_that_there_are_notes_before_there_are_is_caught() {
    let flaws = Flaws { promise: Promise::FormatFirst, ..Flaws::default() };
    caught(crash_everywhere(flawed(flaws), &short_script()));
}

#[test]
fn flushing_again_after_a_failed_flush_is_caught() {
    caught(fail_everywhere(Setup { stubborn: true, ..right() }, &short_script()));
}

fn random_script(random: &mut Seeded, steps: usize) -> Vec<Step> {
    let shard = |random: &mut Seeded| ShardId(u16::try_from(random.below(usize::from(SHARDS))).unwrap());
    let worker = |random: &mut Seeded| u16::try_from(random.below(usize::from(WORKERS))).unwrap();
    (0..steps)
        .map(|_| match random.below(11) {
            10 => Step::Note,
            0 => Step::Checkpoint { shard: shard(random) },
            1 => Step::Move { shard: shard(random), worker: worker(random) },
            2 => Step::Flush { worker: worker(random) },
            _ => {
                let mut writes = Vec::new();
                for shard in shards() {
                    if random.below(3) == 0 {
                        continue;
                    }
                    let key = u8::try_from(random.below(6)).unwrap();
                    writes.push((shard, key, random.below(900)));
                }
                let flush = if random.below(4) == 0 { Flush::Later } else { Flush::Now };
                Step::Commit { worker: worker(random), writes, flush }
            }
        })
        .collect()
}

/// Many lives of one store: each ends in a crash, and the next must find what the ones before were promised.
fn many_lives(setup: Setup, seed: u64, lives: usize) -> Result<(), String> {
    let mut random = Seeded::new(seed);
    let (disk, memory) = (SimDisk::new(), Memory::new());
    let mut promises: BTreeMap<ShardId, driver::Promise> = BTreeMap::new();
    for life in 0..lives {
        let done = disk.operations().len() as u64;
        disk.crash_at(done + random.below(400) as u64);
        if random.below(2) == 0 {
            disk.fail_at(done + random.below(200) as u64, ErrorKind::Other);
        }
        let layer = || Stubborn::new(disk.clone(), setup.stubborn);
        let opened = Driver::open(&disk, layer, &memory, setup.config, setup.order, promises.clone());
        // An opening that fails is looked at below.
        if let Ok(mut driver) = opened {
            driver.run(&random_script(&mut random, 60));
            promises = driver.promises;
        }
        let names = random.below(disk.name_changes() + 1);
        disk.power_cycle(names, || Fate::ALL[random.below(Fate::ALL.len())]);
        // Looked at on a copy, where nothing fails.
        let copy = Run { disk: disk.fork(), memory: memory.clone(), promises: promises.clone() };
        check(setup, &copy.disk, &copy).map_err(|why| format!("seed {seed}, life {life}: {why}"))?;
    }
    Ok(())
}

#[test]
fn many_lives_with_errors_and_crashes() {
    let seeds = std::env::var("QUIPU_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        if let Err(why) = many_lives(right(), seed, 20) {
            panic!(
                "{why}\nreplay: QUIPU_SEEDS={} cargo test -p quipu-storage --test crash many_lives",
                seed + 1
            );
        }
    }
}
