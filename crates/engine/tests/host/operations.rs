//! For how long an operation is remembered, by which clock, and through what.

use quipu_engine::{
    Action, Add, Added, OperationId, Outcome, Refusal, Reply, Settings, SiteId, Window, WindowMode,
};
use quipu_storage::{
    Scan, Slice, Table,
    memory::{Crash, Fault},
};

use crate::world::{Setup, UNIX_MS, World};

const WINDOW_MS: u64 = 600_000;
/// A filter forgets by whole periods, and a table by whole slices: by then all is gone.
const FORGOTTEN_MS: u64 = 2 * WINDOW_MS;
/// A checkpoint is made at least so often.
const CHECKPOINT_MS: u64 = 60_000;
const KEY: &[u8] = b"key";

fn world(mode: WindowMode) -> World {
    let window = Window::new(WINDOW_MS, mode, 1e-6).expect("a window");
    World::new(Setup { shards: 1, settings: Settings { window, ..Settings::default() }, ..Setup::default() })
}

fn counted(value: i64, applied: i64) -> Reply {
    Reply::Added(Added { value, applied, repeated: false, site: SiteId::FIRST })
}

fn repeated(value: i64, applied: i64) -> Reply {
    Reply::Added(Added { value, applied, repeated: true, site: SiteId::FIRST })
}

/// How many rows of operations the table has.
fn stored_rows(world: &World) -> usize {
    let table = world.memory.table();
    let shard = world.shards().of(KEY);
    let rows = |slice| {
        let scan = Scan { slice: Slice(slice), prefix: b"", after: None, rows_max: 10_000 };
        table.scan(shard, scan).expect("it can be read").rows.len()
    };
    (1..100).map(rows).sum()
}

/// An id that tells that it was made at this time of the world.
fn uuid(made_ms: u64) -> Vec<u8> {
    let made_ms = UNIX_MS + made_ms;
    format!("{:08x}-{:04x}-7000-8000-000000000001", made_ms >> 16, made_ms & 0xffff).into_bytes()
}

/// Counts an operation of which only what is stored of its id is known, with the time of the world at which its import was begun.
fn import(world: &mut World, id: &[u8], begun_ms: u64) -> Reply {
    let stored = OperationId { producer: b"p", id }.to_stored(KEY);
    let since = [&stored[..], &uuid(begun_ms)].concat();
    let operation = OperationId::stored_since(since[..].try_into().expect("52 bytes"));
    world.ask(KEY, Action::Add { add: Add::of(5), operation: Some(operation) })
}

#[test]
fn an_import_is_remembered_until_it_is_refused_though_it_was_begun_by_a_clock_that_is_ahead() {
    const AHEAD_MS: u64 = WINDOW_MS / 2;
    let mut world = world(WindowMode::Exact);
    assert_eq!(import(&mut world, b"1", AHEAD_MS), counted(5, 5));
    world.pass(WINDOW_MS + AHEAD_MS);
    assert_eq!(import(&mut world, b"1", AHEAD_MS), repeated(5, 5), "at {}", world.clock_ms);
    world.pass(1);
    let reply = import(&mut world, b"1", AHEAD_MS);
    assert!(matches!(reply, Reply::Refused(Refusal::TooOld { .. })), "{reply:?}");
    // Further ahead than clocks may differ.
    let too_far_ms = world.clock_ms + AHEAD_MS + 1;
    let reply = import(&mut world, b"2", too_far_ms);
    assert!(matches!(reply, Reply::Refused(Refusal::FromTheFuture { .. })), "{reply:?}");
}

#[test]
fn remembered_for_the_window_and_not_for_ever() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    for _ in 0..10 {
        world.pass(WINDOW_MS / 10);
        assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 5), "at {}", world.clock_ms);
    }
    assert!(stored_rows(&world) > 0);
    world.pass(FORGOTTEN_MS - WINDOW_MS);
    assert_eq!(stored_rows(&world), 0, "slices are dropped whole");
    assert_eq!(world.add_once(KEY, b"1", 5), counted(10, 5));
}

#[test]
fn an_operation_belongs_to_its_key_and_its_amount() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    assert_eq!(world.add_once(b"other", b"1", 7), counted(7, 7));
    let Reply::Refused(refusal) = world.add_once(KEY, b"1", 6) else { panic!("it was counted") };
    assert_eq!(refusal, Refusal::OtherAmount { first: 5, now: 6 });
    assert!(refusal.to_string().contains("amount 5") && refusal.to_string().contains("with 6"));
    assert_eq!(world.value(KEY), Some(5));
}

#[test]
fn what_was_refused_is_not_remembered() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", i64::MAX), counted(i64::MAX, i64::MAX));
    assert_eq!(world.add_once(KEY, b"2", 1), Reply::Refused(Refusal::Overflow));
    assert_eq!(world.add(KEY, -1), counted(i64::MAX - 1, -1));
    assert_eq!(world.add_once(KEY, b"2", 1), counted(i64::MAX, 1));
}

/// The window is time that a process has seen. What a machine that is off does not see does not count.
#[test]
fn time_goes_on_where_the_last_process_stopped() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    world.pass(WINDOW_MS / 2);
    assert_eq!(world.add(KEY, 1), counted(6, 1));
    world.memory.crash();
    world.clock_ms += 3_600_000;
    world.restart();
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 5), "looked up while the filter is cold");
    world.pass(WINDOW_MS / 2);
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 5));
    world.pass(FORGOTTEN_MS);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(11, 5));
}

#[test]
fn a_shard_that_is_opened_late_has_not_aged() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    world.pass(CHECKPOINT_MS);
    world.restart_and_open_after(10 * WINDOW_MS);
    world.maintain();
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 5));
}

/// Slices that were dropped take no rows any more, so a process that goes on from an earlier time must not need them.
#[test]
fn operations_after_an_idle_hour_and_a_crash_are_remembered() {
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    world.pass(3_600_000);
    world.memory.crash();
    world.restart();
    assert_eq!(world.add_once(KEY, b"2", 5), counted(10, 5));
    world.pass(2 * CHECKPOINT_MS);
    assert!(stored_rows(&world) > 0);
    assert_eq!(world.add_once(KEY, b"2", 5), repeated(10, 5));
}

/// The rows of a checkpoint that was not finished stay. The next one has fewer operations, as some have expired.
#[test]
fn a_checkpoint_that_is_made_again_with_less_in_it_loses_nothing() {
    let mut world = world(WindowMode::Exact);
    let send = |world: &mut World, ids: std::ops::Range<u32>| {
        for id in ids {
            let operation = Some(OperationId { producer: b"p", id: &id.to_be_bytes() });
            world.send(KEY, Action::Add { add: Add::of(1), operation });
        }
        world.commit().replies
    };
    send(&mut world, 0..100);
    world.clock_ms += 90_000;
    send(&mut world, 100..160);
    // The header of the run and one page of two are written.
    world.memory.fail_next_put_after(2);
    world.maintain();
    world.clock_ms = WINDOW_MS + 60_000;
    world.maintain();
    let repeats = send(&mut world, 100..160);
    assert!(repeats.iter().all(|(_, reply)| matches!(reply, Reply::Added(added) if added.repeated)));
    assert_eq!(world.seen.check(), Ok(()));
}

#[test]
fn ids_that_tell_their_age_are_refused_when_too_old_or_too_new() {
    let mut world = world(WindowMode::Exact);
    world.clock_ms = 10 * WINDOW_MS;
    let now_ms = world.clock_ms;
    assert_eq!(world.add_once(KEY, &uuid(now_ms - WINDOW_MS), 1), counted(1, 1));
    let too_old = uuid(now_ms - WINDOW_MS - 1);
    let refusal = Refusal::TooOld { age_ms: WINDOW_MS + 1, window_ms: WINDOW_MS };
    assert_eq!(world.add_once(KEY, &too_old, 1), Reply::Refused(refusal));
    let operation = OperationId { producer: b"p", id: &too_old };
    assert_eq!(world.ask(KEY, Action::Outcome(operation)), Reply::Outcome(Outcome::TooOld));
    let ahead_ms_max = WINDOW_MS / 2;
    assert_eq!(world.add_once(KEY, &uuid(now_ms + ahead_ms_max), 1), counted(2, 1));
    let refusal = Refusal::FromTheFuture { ahead_ms: ahead_ms_max + 1, ahead_ms_max };
    assert_eq!(world.add_once(KEY, &uuid(now_ms + ahead_ms_max + 1), 1), Reply::Refused(refusal));
}

/// The id is known through the filter, or, where that has forgotten it sooner, in spite of it.
fn an_id_from_a_clock_that_is_ahead(mode: WindowMode, first_ms: u64, is_restarted: bool) {
    const STEP_MS: u64 = 25_000;
    let mut world = world(mode);
    world.pass(first_ms);
    let id = uuid(first_ms + WINDOW_MS / 2);
    assert_eq!(world.add_once(KEY, &id, 5), counted(5, 5));
    loop {
        world.pass(STEP_MS);
        if is_restarted && world.clock_ms == first_ms + 500_000 {
            world.memory.crash();
            world.restart();
        }
        match world.add_once(KEY, &id, 5) {
            Reply::Added(added) => assert!(added.repeated, "counted twice at {}", world.clock_ms),
            Reply::Refused(Refusal::TooOld { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    let refused_ms = first_ms + WINDOW_MS / 2 + WINDOW_MS + STEP_MS;
    assert_eq!(world.clock_ms, refused_ms, "refused as soon as it is too old");
    assert_eq!(world.value(KEY), Some(5));
}

#[test]
fn an_id_from_a_clock_that_is_ahead_is_known_until_it_is_refused() {
    for mode in [WindowMode::Exact, WindowMode::Filter] {
        // At the beginning of a filter's period, and at its end.
        for first_ms in [0, 190_000, 290_000] {
            an_id_from_a_clock_that_is_ahead(mode, first_ms, false);
            an_id_from_a_clock_that_is_ahead(mode, first_ms, true);
        }
    }
}

#[test]
fn the_filter_alone_knows_repeats_after_crashes_and_failures() {
    let mut world = world(WindowMode::Filter);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 0), "there is no answer to repeat");
    world.pass(2 * CHECKPOINT_MS);
    world.memory.inject(world.shards().of(KEY), Fault::Error);
    assert!(matches!(world.add(KEY, 1), Reply::Refused(Refusal::NotStored(_))));
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 0), "after a reload");
    world.memory.crash();
    world.restart();
    assert_eq!(world.add_once(KEY, b"1", 5), repeated(5, 0), "after a crash");
    let operation = OperationId { producer: b"p", id: b"1" };
    let first = Added { value: 5, applied: 5, repeated: false, site: SiteId::FIRST };
    assert_eq!(world.ask(KEY, Action::Outcome(operation)), Reply::Outcome(Outcome::Counted(first)));
    // By periods of a third of what it remembers, which is a little more than one and a half windows.
    world.pass(3 * WINDOW_MS);
    assert_eq!(world.add_once(KEY, b"1", 5), counted(10, 5));
}

/// A filter that is crowded takes nearly everything for known. That costs look-ups, and nothing else.
#[test]
fn what_the_filter_was_wrong_about_is_counted_once_and_remembered() {
    const OPERATIONS: u32 = 6_000;
    let mut world = world(WindowMode::Exact);
    assert_eq!(world.add_once(KEY, b"first", 0), counted(0, 0));
    world.pass(CHECKPOINT_MS);
    let send = |world: &mut World| {
        for id in 0..OPERATIONS {
            let operation = Some(OperationId { producer: b"p", id: &id.to_be_bytes() });
            world.send(KEY, Action::Add { add: Add::of(1), operation });
        }
        let replies = world.commit().replies;
        replies.iter().filter(|(_, reply)| matches!(reply, Reply::Added(added) if added.repeated)).count()
    };
    assert_eq!(send(&mut world), 0);
    let false_positives = world.host.stats().operations.false_positives;
    assert!(false_positives > 100, "the filter erred {false_positives} times");
    world.pass(2 * CHECKPOINT_MS);
    assert_eq!(send(&mut world), OPERATIONS as usize);
    world.memory.crash_in_next_commit(Crash::Before);
    world.commit();
    world.memory.crash();
    world.restart();
    assert_eq!(send(&mut world), OPERATIONS as usize);
    assert_eq!(world.value(KEY), Some(i64::from(OPERATIONS)));
}

#[test]
fn every_window_that_is_allowed_can_be_kept() {
    for length_ms in [Window::LENGTH_MS_MIN, Window::LENGTH_MS_MIN + 1, Window::LENGTH_MS_MAX] {
        for (mode, error_target) in
            [(WindowMode::Exact, 1e-9), (WindowMode::Filter, Window::ERROR_TARGET_MAX)]
        {
            let window = Window::new(length_ms, mode, error_target).expect("a window");
            let settings = Settings { window, ..Settings::default() };
            let mut world = World::new(Setup { shards: 1, settings, ..Setup::default() });
            assert_eq!(world.add_once(KEY, b"1", 5), counted(5, 5));
            world.pass(length_ms.min(CHECKPOINT_MS));
            let Reply::Added(added) = world.add_once(KEY, b"1", 5) else { panic!("refused") };
            assert!(added.repeated, "{window:?}");
            world.restart();
            let Reply::Added(added) = world.add_once(KEY, b"1", 5) else { panic!("refused") };
            assert!(added.repeated, "{window:?}");
        }
    }
}

/// A clock that is set back does not make an id young again that was forgotten.
fn a_clock_that_is_set_back(mode: WindowMode, is_restarted: bool) {
    let mut world = world(mode);
    world.pass(WINDOW_MS);
    let id = uuid(WINDOW_MS);
    assert_eq!(world.add_once(KEY, &id, 5), counted(5, 5));
    // Whatever has forgotten it by then: nothing, the filter, or all.
    for _ in 0..8 {
        world.pass(WINDOW_MS / 2);
        world.unix_back_ms = world.clock_ms.saturating_sub(WINDOW_MS + 1);
        if is_restarted {
            world.memory.crash();
            world.restart();
        }
        match world.add_once(KEY, &id, 5) {
            Reply::Added(added) => assert!(added.repeated, "counted twice at {}", world.clock_ms),
            Reply::Refused(Refusal::TooOld { age_ms, window_ms }) => assert!(age_ms > window_ms),
            other => panic!("{other:?}"),
        }
        world.unix_back_ms = 0;
    }
    assert_eq!(world.value(KEY), Some(5));
    // And one that is made now is as good as ever.
    let id = uuid(world.clock_ms);
    assert_eq!(world.add_once(KEY, &id, 5), counted(10, 5));
}

#[test]
fn what_was_forgotten_is_refused_whatever_the_clock_says() {
    for mode in [WindowMode::Exact, WindowMode::Filter] {
        a_clock_that_is_set_back(mode, false);
        a_clock_that_is_set_back(mode, true);
    }
}
