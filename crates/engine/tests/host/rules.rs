//! Each rule that a host keeps, and the check that catches a host which does not: the same that the right way passes
//! with the same seeds (`crashes::nothing_acknowledged_is_lost_and_nothing_counts_twice`).

use quipu_engine::host::Discipline;

use crate::crashes::caught;

#[test]
fn replies_that_do_not_wait_are_caught() {
    assert!(caught(Discipline::ReplyFirst).is_some(), "an acknowledged add is lost");
}

#[test]
fn reads_that_do_not_wait_are_caught() {
    assert!(caught(Discipline::ReadsDoNotWait).is_some(), "what a reader was shown is taken back");
}

#[test]
fn memory_that_is_kept_after_a_failed_append_is_caught() {
    assert!(caught(Discipline::MemoryIsKept).is_some(), "what was refused is counted");
}

#[test]
fn checkpoints_of_what_is_not_committed_are_caught() {
    assert!(
        caught(Discipline::CheckpointsUncommitted).is_some(),
        "what was refused is counted, or covers a count"
    );
}
