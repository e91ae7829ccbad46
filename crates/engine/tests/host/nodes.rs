//! Several nodes over one store: shards change hands, and nobody speaks of what is another's by now.

use quipu_engine::{
    Action, Add, Command, Host, Moment, Refusal, Released, Reply, Settings, Ticket,
    host::{Discipline, Standing},
};
use quipu_storage::NodeId;
use quipu_storage::{
    Fenced, Flush, Log as _, Registry as _, ShardId, StorageError, Store,
    memory::{Fault, Memory, MemoryLog, MemoryTable},
};

const SHARD: ShardId = ShardId(3);
const NOW: Moment = Moment { elapsed_ms: 1_000, unix_ms: 1_000 };

struct Node {
    host: Host<MemoryLog, MemoryTable>,
    tickets: u64,
}

fn seen(memory: &Memory) -> Option<Fenced> {
    let held = memory.registry(NodeId(0)).held().unwrap();
    held.into_iter().find(|held| held.shard == SHARD).map(|held| held.fence)
}

impl Node {
    fn new(memory: &Memory, number: u128) -> Self {
        let store = Store::new(memory.log_of(NodeId(number)), memory.table());
        Self { host: Host::new(store, None, Settings::default(), Flush::Now), tickets: 0 }
    }

    fn take(&mut self, memory: &Memory) -> bool {
        self.host.open_seen(SHARD, seen(memory), NOW).unwrap()
    }

    /// What it says, if it says it at once.
    fn ask(&mut self, action: Action<'_>) -> Option<Reply> {
        self.tickets += 1;
        self.host.submit(SHARD, Ticket(self.tickets), Command { key: b"hits", action }, NOW);
        let mut released = Released::default();
        self.host.commit(NOW, &mut released);
        released.replies.pop().map(|(_, reply)| reply)
    }

    fn count(&mut self) -> Option<Reply> {
        self.ask(Action::Add { add: Add::of(1), operation: None })
    }

    fn lapse(&mut self) {
        self.host.set_standing(Standing { epoch: 0, holds: false });
    }
}

fn is(reply: Option<&Reply>, value: i64) -> bool {
    matches!(reply, Some(Reply::Value(Some(found))) if *found == value)
}

const MOVING: Option<Reply> = Some(Reply::Refused(Refusal::NotHere));

#[test]
fn a_shard_that_is_handed_over_goes_on_where_it_was() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    assert_eq!(one.count(), MOVING, "nobody has it yet");
    assert!(one.take(&memory));
    one.count();
    one.host.close(SHARD, &mut Released::default()).unwrap();
    assert_eq!(one.count(), MOVING);
    assert!(other.take(&memory));
    other.count();
    assert!(is(other.ask(Action::Get).as_ref(), 2));
    assert!(matches!(one.host.close(SHARD, &mut Released::default()), Err(StorageError::NotOpen(SHARD))));
}

#[test]
fn what_is_not_settled_is_not_handed_over() {
    let memory = Memory::new();
    let mut one = Node::new(&memory, 1);
    one.take(&memory);
    for _ in 0..2 {
        memory.inject(SHARD, Fault::UnknownNotStored);
    }
    assert_eq!(one.count(), None);
    let mut released = Released::default();
    assert!(matches!(one.host.close(SHARD, &mut released), Err(StorageError::Unsettled(SHARD))));
    memory.heal();
    for _ in 0..8 {
        one.host.maintain(NOW, &mut released);
    }
    assert_eq!(released.replies.len(), 1, "it is settled, and told");
    one.host.close(SHARD, &mut released).unwrap();
}

#[test]
fn who_has_lapsed_asks_the_fence_before_it_says_anything() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    one.take(&memory);
    one.count();
    one.lapse();
    assert!(is(one.ask(Action::Get).as_ref(), 1), "the shard is still its own");
    assert!(other.take(&memory));
    other.count();
    assert_eq!(one.ask(Action::Get), MOVING, "and now it is not");
    let mut released = Released::default();
    assert_eq!(one.host.forget_lost(&mut released), [SHARD]);
    assert_eq!(one.ask(Action::Get), MOVING);
    assert!(is(other.ask(Action::Get).as_ref(), 2));
}

#[test]
fn a_node_without_trust_lists_watches_and_counts_nothing() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    one.take(&memory);
    one.count();
    assert!(one.host.list(SHARD, b"", None, 10).is_ok());
    assert_eq!(one.host.watch(SHARD, b"hits"), Ok(Some(1)));
    assert_eq!((one.host.live_in(SHARD), one.host.live()), (Some(1), 1));
    // It is paused for so long that another node takes the shard.
    one.lapse();
    assert!(other.take(&memory));
    other.count();
    assert!(one.host.list(SHARD, b"", None, 10).is_err());
    assert_eq!(one.host.watch(SHARD, b"hits"), Err(Refusal::NotHere));
    assert_eq!((one.host.live_in(SHARD), one.host.live()), (None, 0));
    // It is relied on again, and asks the fence with its next batch.
    one.host.set_standing(Standing { epoch: 1, holds: true });
    assert!(one.host.list(SHARD, b"", None, 10).is_err());
    let mut released = Released::default();
    one.host.commit(NOW, &mut released);
    assert_eq!(one.host.forget_lost(&mut released), [SHARD]);
}

#[test]
fn a_node_that_has_asked_the_fence_lists_watches_and_counts_again() {
    let memory = Memory::new();
    let mut one = Node::new(&memory, 1);
    one.take(&memory);
    one.count();
    one.host.set_standing(Standing { epoch: 1, holds: true });
    for _ in 0..2 {
        assert!(one.host.list(SHARD, b"", None, 10).is_err(), "and that asks the fence");
        assert_eq!(one.host.watch(SHARD, b"hits"), Err(Refusal::NotHere));
        assert_eq!(one.host.live_in(SHARD), None);
    }
    one.host.commit(NOW, &mut Released::default());
    assert_eq!(one.host.list(SHARD, b"", None, 10).expect("a page").counters, [(b"hits".to_vec(), 1)]);
    assert_eq!(one.host.watch(SHARD, b"hits"), Ok(Some(1)));
    assert_eq!(one.host.live_in(SHARD), Some(1));
    assert_eq!(memory.records(SHARD), 2, "it was asked once");
}

#[test]
fn who_only_reads_is_not_told_that_a_count_is_in_doubt() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    one.take(&memory);
    one.count();
    one.lapse();
    // What asks the fence gets no answer, and then somebody else has the shard.
    memory.inject(SHARD, Fault::UnknownLate);
    assert_eq!(one.ask(Action::Get), None);
    assert!(other.take(&memory));
    let mut released = Released::default();
    for _ in 0..8 {
        one.host.maintain(NOW, &mut released);
    }
    let told: Vec<Reply> = released.replies.into_iter().map(|(_, reply)| reply).collect();
    assert_eq!(told, [MOVING.expect("a reply")]);
}

#[test]
fn who_doubts_asks_the_fence() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    one.take(&memory);
    let mut released = Released::default();
    let mut ask = |node: &mut Node| {
        node.host.confirm(SHARD);
        node.host.commit(NOW, &mut released);
        node.host.is_open(SHARD)
    };
    assert!(ask(&mut one));
    other.take(&memory);
    assert!(!ask(&mut one));
}

#[test]
fn what_is_this_nodes_by_its_fence_alone_is_given_back() {
    let memory = Memory::new();
    let (mut one, mut other) = (Node::new(&memory, 1), Node::new(&memory, 2));
    memory.log_of(NodeId(1)).take(SHARD).unwrap();
    let old = seen(&memory);
    let held_by = || memory.registry(NodeId(0)).held().unwrap()[0].by;
    assert_eq!(held_by(), Some(NodeId(1)));
    one.host.free(SHARD, old).unwrap();
    assert_eq!(held_by(), None);
    assert!(other.take(&memory));
    one.host.free(SHARD, old).unwrap();
    assert_eq!(held_by(), Some(NodeId(2)), "it does not stand as it was seen");
    other.host.free(SHARD, seen(&memory)).unwrap();
    assert_eq!(held_by(), Some(NodeId(2)), "it is open");
}

#[test]
fn trust_that_has_come_back_counts_from_the_next_commit_on() {
    let memory = Memory::new();
    let mut one = Node::new(&memory, 1);
    one.take(&memory);
    one.count();
    let records = || memory.records(SHARD);
    one.ask(Action::Get);
    assert_eq!(records(), 1, "a read stores nothing");
    one.host.set_standing(Standing { epoch: 1, holds: true });
    one.ask(Action::Get);
    assert_eq!(records(), 2, "it has lapsed in between");
    one.ask(Action::Get);
    assert_eq!(records(), 2);
}

#[test]
fn blind_trust_is_caught() {
    let memory = Memory::new();
    let mut one = Node::new(&memory, 1);
    one.host = one.host.with_discipline(Discipline::TrustsBlindly);
    let mut other = Node::new(&memory, 2);
    one.take(&memory);
    one.count();
    other.take(&memory);
    other.count();
    one.lapse();
    assert!(is(one.ask(Action::Get).as_ref(), 1), "an old value, which the right way does not tell");
    assert!(one.host.list(SHARD, b"", None, 10).is_ok());
}
