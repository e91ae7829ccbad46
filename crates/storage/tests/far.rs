//! A memory that is far away: commits are under way for as long as a test wants.

use quipu_storage::{
    Batch, Flush, Log, NodeId, Outcome, Position, Settled, ShardId,
    memory::{Answer, Memory, MemoryLog},
};

const SHARD: ShardId = ShardId(1);

/// Two nodes over one memory; the first has the shard, and a commit of it is under way under this number.
fn under_way() -> (Memory, MemoryLog, MemoryLog, u64) {
    let memory = Memory::new();
    memory.move_far_away();
    let (mut one, other) = (memory.log_of(NodeId(1)), memory.log_of(NodeId(2)));
    one.take(SHARD).unwrap();
    assert!(matches!(one.begin(vec![batch()], Flush::Now)[..], [None]));
    let number = one.under_way(SHARD).unwrap();
    (memory, one, other, number)
}

fn batch() -> Batch {
    Batch { shard: SHARD, record: b"one".to_vec() }
}

#[test]
fn a_commit_is_heard_of_when_it_is_answered() {
    let (memory, mut one, _, number) = under_way();
    assert!(one.finished(false).is_empty());
    assert!(memory.deliver(number));
    assert!(!memory.deliver(number), "it arrives once more, and changes nothing");
    assert!(one.finished(false).is_empty(), "it is stored, and nobody has said so");
    assert!(matches!(one.begin(vec![batch()], Flush::Now)[..], [Some(Outcome::Failed(_))]));
    memory.answer(number, Answer::Told);
    assert!(matches!(one.finished(false)[..], [(SHARD, Outcome::Committed { position: Position(1) })]));
    assert_eq!(memory.records(SHARD), 1);
}

#[test]
fn a_commit_that_arrives_after_the_shard_was_taken_is_not_stored() {
    let (memory, mut one, mut other, number) = under_way();
    other.take(SHARD).unwrap();
    assert!(!memory.deliver(number));
    memory.answer(number, Answer::Told);
    assert!(matches!(one.finished(false)[..], [(SHARD, Outcome::Fenced)]));
}

#[test]
fn a_commit_that_was_stored_is_told_so_even_if_the_shard_was_taken_since() {
    let (memory, mut one, mut other, number) = under_way();
    memory.deliver(number);
    assert_eq!(other.take(SHARD).unwrap().last, Position(1));
    memory.answer(number, Answer::Told);
    assert!(matches!(one.finished(false)[..], [(SHARD, Outcome::Committed { .. })]));
}

#[test]
fn a_commit_without_an_answer_is_settled_once_however_late_it_arrives() {
    let (memory, mut one, mut other, number) = under_way();
    memory.answer(number, Answer::Unanswered);
    assert!(matches!(one.finished(false)[..], [(SHARD, Outcome::Unknown(_))]));
    assert!(matches!(one.settle(SHARD), Settled::Committed { position: Position(1) }));
    assert!(!memory.deliver(number));
    assert_eq!(memory.records(SHARD), 1);
    // And one that is not settled in time is the new owner's to know.
    one.begin(vec![batch()], Flush::Now);
    let number = one.under_way(SHARD).unwrap();
    memory.answer(number, Answer::Unanswered);
    one.finished(false);
    memory.deliver(number);
    other.take(SHARD).unwrap();
    assert!(matches!(one.settle(SHARD), Settled::Lost));
    assert_eq!(other.read(SHARD, Position(1)).unwrap().len(), 1);
}

#[test]
fn whoever_waits_lets_everything_arrive() {
    let (_, mut one, ..) = under_way();
    assert!(matches!(one.finished(true)[..], [(SHARD, Outcome::Committed { .. })]));
}
