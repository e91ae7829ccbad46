//! A store far away: commits are under way for a while.

use std::collections::BTreeSet;

use quipu_engine::{
    Action, Add, Command, Host, Moment, Overdue, Refusal, Released, Reply, Settings, Shards, Ticket,
    withdrawn,
};
use quipu_storage::{
    Flush, ShardId, Store,
    memory::{Fault, Memory, MemoryLog, MemoryTable},
    testing::far::{Far, Silence},
};

struct World {
    memory: Memory,
    silence: Silence,
    host: Host<Far<MemoryLog>, MemoryTable>,
    tickets: u64,
}

const NOW: Moment = Moment { elapsed_ms: 0, unix_ms: 1_700_000_000_000 };

fn shard_of(key: &str) -> ShardId {
    Shards::new(4).expect("a power of two").of(key.as_bytes())
}

impl World {
    fn new() -> Self {
        let (memory, silence) = (Memory::new(), Silence::default());
        let store = Store::new(Far::new(memory.log(), &silence), memory.table());
        let mut host = Host::new(store, None, Settings::default(), Flush::Now);
        for shard in Shards::new(4).expect("a power of two").all() {
            host.open(shard, NOW).expect("it opens");
        }
        Self { memory, silence, host, tickets: 0 }
    }

    fn send(&mut self, key: &str, action: Action<'_>) -> Ticket {
        self.tickets += 1;
        let command = Command { key: key.as_bytes(), action };
        self.host.submit(shard_of(key), Ticket(self.tickets), command, NOW);
        Ticket(self.tickets)
    }

    fn add(&mut self, key: &str, amount: i64) -> Ticket {
        self.send(key, Action::Add { add: Add::of(amount), operation: None })
    }

    fn commit(&mut self) -> Vec<(Ticket, Reply)> {
        let mut released = Released::default();
        self.host.commit(NOW, &mut released);
        released.replies
    }

    fn collect(&mut self, wait: bool) -> Vec<(Ticket, Reply)> {
        let mut released = Released::default();
        self.host.collect(wait, NOW, &mut released);
        released.replies
    }

    fn value(&mut self, key: &str) -> Option<i64> {
        let asked = self.send(key, Action::Get);
        match self.commit().pop() {
            Some((ticket, Reply::Value(value))) if ticket == asked => value,
            other => panic!("{other:?}"),
        }
    }
}

/// Two keys of different shards.
const ONE: &str = "one";
const OTHER: &str = "two";

#[test]
fn nobody_is_told_before_the_store_has_answered_and_other_shards_go_on() {
    assert_ne!(shard_of(ONE), shard_of(OTHER));
    let mut world = World::new();
    world.silence.set(true);
    let first = world.add(ONE, 5);
    assert!(world.commit().is_empty());
    assert!(world.host.is_committing(shard_of(ONE)) && !world.host.is_committing(shard_of(OTHER)));
    assert_eq!(world.value(OTHER), None);
    let second = world.add(OTHER, 7);
    assert!(world.commit().is_empty() && world.collect(false).is_empty());
    assert_eq!(world.host.stats().shards_unavailable, 0);
    assert_eq!(world.memory.records(shard_of(ONE)), 0);
    world.silence.set(false);
    let told: Vec<Ticket> = world.collect(false).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(told, [first, second]);
    assert!(!world.host.has_commits_under_way());
    assert_eq!((world.value(ONE), world.value(OTHER)), (Some(5), Some(7)));
}

#[test]
fn whoever_waits_hears_of_the_end_of_all() {
    let mut world = World::new();
    world.silence.set(true);
    world.add(ONE, 5);
    world.add(OTHER, 7);
    assert!(world.commit().is_empty());
    assert_eq!(world.collect(true).len(), 2);
}

#[test]
fn what_is_not_stored_is_forgotten_and_what_is_unknown_is_settled() {
    let mut world = World::new();
    world.add(ONE, 5);
    world.commit();
    world.collect(true);
    world.memory.inject(shard_of(ONE), Fault::Error);
    world.add(ONE, 10);
    world.commit();
    let refused = world.collect(true);
    assert!(matches!(refused[..], [(_, Reply::Refused(Refusal::NotStored(_)))]), "{refused:?}");
    assert_eq!(world.value(ONE), Some(5));
    world.memory.inject(shard_of(ONE), Fault::UnknownStored);
    world.add(ONE, 100);
    world.commit();
    assert!(world.collect(true).is_empty(), "nobody knows");
    let mut released = Released::default();
    world.host.maintain(NOW, &mut released);
    assert_eq!(released.replies.len(), 1);
    assert_eq!(world.value(ONE), Some(105));
    world.memory.inject(shard_of(ONE), Fault::Taken);
    world.add(ONE, 1_000);
    world.commit();
    let refused = world.collect(true);
    assert!(matches!(refused[..], [(_, Reply::Refused(Refusal::NotHere))]), "{refused:?}");
    assert_eq!(world.host.stats().shards_unavailable, 1);
}

#[test]
fn what_is_under_way_is_not_checkpointed() {
    let mut world = World::new();
    world.silence.set(true);
    world.add(ONE, 5);
    world.commit();
    let mut released = Released::default();
    for _ in 0..8 {
        world.host.maintain(Moment { elapsed_ms: 10_000_000, ..NOW }, &mut released);
    }
    assert_eq!(world.host.stats().checkpoints, 0);
    world.collect(true);
    for _ in 0..8 {
        world.host.maintain(Moment { elapsed_ms: 20_000_000, ..NOW }, &mut released);
    }
    assert_eq!(world.host.stats().checkpoints, 1);
}

/// Answers those who have waited for so long, at a time.
fn lose_patience(
    world: &mut World,
    after_ms: u64,
    early: &BTreeSet<Ticket>,
    now_ms: u64,
) -> Vec<(Ticket, Reply)> {
    let mut released = Released::default();
    let now = Moment { elapsed_ms: now_ms, ..NOW };
    world.host.lose_patience(Overdue { after_ms, early }, now, &mut released);
    released.replies
}

#[test]
fn whoever_waits_too_long_is_told_that_nothing_is_known_and_the_commit_goes_on() {
    let (nobody, mut world) = (BTreeSet::new(), World::new());
    world.silence.set(true);
    let first = world.add(ONE, 5);
    let second = world.add(ONE, 7);
    let read = world.send(ONE, Action::Get);
    world.commit();
    assert!(lose_patience(&mut world, 1_000, &nobody, 999).is_empty());
    // One of them came long before its commit began.
    let told = lose_patience(&mut world, 1_000, &BTreeSet::from([first]), 999);
    assert!(matches!(told[..], [(it, Reply::Refused(Refusal::InDoubt(_)))] if it == first), "{told:?}");
    let told = lose_patience(&mut world, 1_000, &nobody, 1_000);
    let [(one, Reply::Refused(Refusal::InDoubt(_))), (other, Reply::Refused(Refusal::NotStored(_)))] =
        told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((one, other), (second, read));
    assert!(lose_patience(&mut world, 1_000, &nobody, 2_000).is_empty(), "each is told once");
    world.silence.set(false);
    assert!(world.collect(false).is_empty(), "nobody waits any more");
    assert_eq!(world.value(ONE), Some(12), "it was counted all the same");
}

#[test]
fn an_unknown_outcome_is_waited_for_no_longer_either() {
    let (nobody, mut world) = (BTreeSet::new(), World::new());
    world.memory.inject(shard_of(ONE), Fault::UnknownStored);
    world.add(ONE, 5);
    world.commit();
    assert!(world.collect(true).is_empty() && world.host.is_undecided(shard_of(ONE)));
    let add = Command { key: ONE.as_bytes(), action: Action::Add { add: Add::of(1), operation: None } };
    assert!(world.host.must_wait(shard_of(ONE), &add));
    assert!(!world.host.must_wait(shard_of(OTHER), &add));
    let told = lose_patience(&mut world, 1_000, &nobody, 1_000);
    assert!(matches!(told[..], [(_, Reply::Refused(Refusal::InDoubt(_)))]), "{told:?}");
    let mut released = Released::default();
    world.host.maintain(NOW, &mut released);
    assert!(released.replies.is_empty() && !world.host.must_wait(shard_of(ONE), &add));
    assert_eq!(world.value(ONE), Some(5));
}

#[test]
fn nothing_is_said_of_an_id_that_may_be_under_way() {
    let operation = Some(quipu_engine::OperationId { producer: b"p", id: b"1" });
    let command = |operation| Command { key: b"k", action: Action::Add { add: Add::of(1), operation } };
    assert!(matches!(withdrawn(&command(None), 5, true), Refusal::NotStored(_)));
    assert!(matches!(withdrawn(&command(operation), 5, true), Refusal::InDoubt(_)));
    assert!(matches!(withdrawn(&command(operation), 5, false), Refusal::NotStored(_)));
}
