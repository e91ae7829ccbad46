//! A listing by pages has every counter that exists all the time, once, whatever happens between the pages.

use std::collections::BTreeSet;

use quipu_crdt::testing::Random;
use quipu_engine::{Action, Add, Settings};

use crate::world::{Setup, World};

const STAY: usize = 30;
const COME_AND_GO: usize = 30;

fn stays(at: usize) -> Vec<u8> {
    format!("k{at:02}:stays").into_bytes()
}

fn comes_and_goes(at: usize) -> Vec<u8> {
    format!("k{at:02}:comes").into_bytes()
}

fn disturb(world: &mut World, random: &mut Random) {
    for _ in 0..random.below(8) {
        let add = Action::Add { add: Add::of(1), operation: None };
        match random.below(3) {
            0 => world.send(&stays(random.below(STAY)), add),
            1 => world.send(&comes_and_goes(random.below(COME_AND_GO)), add),
            _ => world.send(&comes_and_goes(random.below(COME_AND_GO)), Action::Reset { to: None }),
        };
    }
    world.commit();
    match random.below(8) {
        0..5 => drop(world.maintain()),
        5 => world.clock_ms += 30_000,
        6 if random.chance(0.2) => {
            world.memory.crash();
            world.restart();
        }
        _ => {}
    }
}

/// One listing of a shard, with something between the pages.
fn list(world: &mut World, shard: u16, prefix: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let shard = quipu_storage::ShardId(shard);
    let mut listed = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let limit = 1 + random.below(4);
        let page = world.host.list(shard, prefix, after.as_deref(), limit).expect("it can be read");
        assert!(page.counters.len() <= limit);
        listed.extend(page.counters.into_iter().map(|(key, _)| key));
        let Some(next) = page.next else { return listed };
        assert!(after.is_none_or(|after| after < next), "pages go on");
        after = Some(next);
        disturb(world, random);
    }
}

fn run(seed: u64, threaded: bool) {
    let mut random = Random::new(seed);
    let memory_bytes = *random.pick(&[0, 500, 2_000]);
    let settings = Settings { memory_bytes, seed, ..Settings::default() };
    let mut world = World::new(Setup { shards: 2, settings, threaded, ..Setup::default() });
    for at in 0..STAY {
        world.add(&stays(at), 1);
        disturb(&mut world, &mut random);
    }
    for round in 0..6 {
        let prefix: &[u8] = if round % 3 == 2 { b"k1" } else { b"" };
        let mut listed: Vec<_> =
            (0..2).flat_map(|shard| list(&mut world, shard, prefix, &mut random)).collect();
        listed.sort();
        let once: BTreeSet<_> = listed.iter().cloned().collect();
        assert_eq!(once.len(), listed.len(), "seed {seed}: listed twice");
        let possible: BTreeSet<_> =
            (0..STAY).map(stays).chain((0..COME_AND_GO).map(comes_and_goes)).collect();
        let possible: BTreeSet<_> = possible.into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert!(once.is_subset(&possible), "seed {seed}: listed what never was");
        let expected: BTreeSet<_> = (0..STAY).map(stays).filter(|key| key.starts_with(prefix)).collect();
        assert!(
            expected.is_subset(&once),
            "seed {seed}, round {round}: missing {:?}",
            expected.difference(&once)
        );
    }
}

#[test]
fn every_counter_that_stays_is_listed_once() {
    (0..60).for_each(|seed| run(seed, false));
}

#[test]
fn and_while_a_thread_writes_the_table() {
    (500..530).for_each(|seed| run(seed, true));
}

#[test]
fn a_page_of_nothing_is_a_page_of_one() {
    let mut world = World::new(Setup { shards: 1, ..Setup::default() });
    world.add(b"a", 1);
    world.add(b"b", 2);
    let page = world.host.list(quipu_storage::ShardId(0), b"", None, 0).expect("it can be read");
    assert_eq!((page.counters, page.next), (vec![(b"a".to_vec(), 1)], Some(b"a".to_vec())));
}
