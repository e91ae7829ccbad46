//! Each rule that a host keeps, and the check that catches a host which does not.

use quipu_engine::host::Discipline;
use quipu_storage::Flush;

use crate::crashes::is_caught;

#[track_caller]
fn assert_caught(discipline: Discipline, by: &str) {
    assert_eq!(is_caught(Discipline::Right, Flush::Now), None, "the right way passes the same check");
    let wrong = is_caught(discipline, Flush::Now).unwrap_or_else(|| panic!("{discipline:?} is not caught"));
    println!("{discipline:?}: {wrong} ({by})");
}

#[test]
fn replies_that_do_not_wait_are_caught() {
    assert_caught(Discipline::ReplyFirst, "an acknowledged add is lost");
}

#[test]
fn reads_that_do_not_wait_are_caught() {
    assert_caught(Discipline::ReadsDoNotWait, "what a reader has seen is taken back");
}

#[test]
fn memory_that_is_kept_after_a_failed_append_is_caught() {
    assert_caught(Discipline::MemoryIsKept, "what was refused counts");
}

#[test]
fn checkpoints_of_what_is_not_committed_are_caught() {
    assert_caught(Discipline::CheckpointsUncommitted, "one version has two rows");
}
