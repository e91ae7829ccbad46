//! A commit whose outcome is found out later counts as one that was stored at once.

use quipu_engine::{
    Action, Add, Command, Host, Membership, Moment, Released, Settings, SiteId, Ticket, host::Standing,
};
use quipu_storage::{
    Flush, ShardId, Store,
    memory::{Fault, Memory, MemoryLog, MemoryTable},
};

const SHARD: ShardId = ShardId(0);
const NOW: Moment = Moment { elapsed_ms: 1_000, unix_ms: 1_700_000_001_000 };

struct World {
    memory: Memory,
    host: Host<MemoryLog, MemoryTable>,
}

impl World {
    /// The first of so many sites, which has links to the others.
    fn new(sites: u16, flush: Flush) -> Self {
        let site = |number| SiteId { number, incarnation: 0 };
        let memory = Memory::new();
        let settings = Settings { site: site(1), ..Settings::default() };
        let mut host = Host::new(Store::new(memory.log(), memory.table()), None, settings, flush);
        host.set_membership(&Membership::of((1..=sites).map(site)));
        host.open(SHARD, NOW).expect("it opens");
        (2..=sites).for_each(|number| host.connected(site(number)));
        Self { memory, host }
    }

    /// Runs a command, and settles what became of it. Returns how many replies there were.
    fn run(&mut self, action: Action<'_>) -> usize {
        let mut released = Released::default();
        self.host.submit(SHARD, Ticket(0), Command { key: b"hits", action }, NOW);
        self.host.commit(NOW, &mut released);
        self.host.maintain(NOW, &mut released);
        released.replies.len()
    }

    fn add(&mut self) {
        assert_eq!(self.run(Action::Add { add: Add::of(1), operation: None }), 1);
    }

    fn add_with(&mut self, fault: Fault) {
        self.memory.inject(SHARD, fault);
        self.add();
    }
}

#[test]
fn what_is_settled_later_has_asked_the_fence() {
    let mut world = World::new(1, Flush::Now);
    world.host.set_standing(Standing { epoch: 1, holds: true });
    world.add_with(Fault::UnknownStored);
    assert_eq!(world.memory.records(SHARD), 1);
    world.run(Action::Get);
    assert_eq!(world.memory.records(SHARD), 1, "the read does not ask again");
}

#[test]
fn bytes_that_are_settled_later_are_counted() {
    let (mut settled, mut told) = (World::new(1, Flush::Now), World::new(1, Flush::Now));
    settled.add_with(Fault::UnknownStored);
    told.add();
    assert_eq!(settled.host.stats().logged_bytes, told.host.stats().logged_bytes);
}

#[test]
fn a_store_that_has_settled_a_commit_takes_commits() {
    let mut world = World::new(1, Flush::Now);
    world.add_with(Fault::Full);
    assert!(world.host.refusing().is_some());
    world.add_with(Fault::UnknownStored);
    assert_eq!(world.host.refusing(), None);
}

#[test]
fn other_sites_hear_of_what_was_settled_later_once_it_is_flushed() {
    let mut world = World::new(2, Flush::Later);
    let outgoing = |world: &mut World| {
        let mut envelopes = Vec::new();
        world.host.outgoing(NOW, &mut envelopes);
        envelopes.len()
    };
    world.add_with(Fault::UnknownStored);
    assert_eq!(outgoing(&mut world), 0, "a log does not promise that it is on the device");
    world.host.flush().expect("nothing fails here");
    assert!(outgoing(&mut world) > 0);
}
