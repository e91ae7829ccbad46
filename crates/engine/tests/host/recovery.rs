//! Single traces of what goes wrong between a checkpoint, its mark, eviction and a reload.

use quipu_engine::{Action, Add, Added, Host, Refusal, Reply, Settings, SiteId, host::Discipline};
use quipu_storage::{
    Flush, Log, ShardId, Store,
    memory::{Fault, Memory},
};

use crate::world::{Setup, World};

fn one_shard(memory_bytes: usize, threaded: bool) -> World {
    let settings = Settings { memory_bytes, ..Settings::default() };
    World::new(Setup { shards: 1, settings, threaded, ..Setup::default() })
}

/// The rows are in the table and the process dies before the log hears of it. The next one writes them again, and
/// must not evict meanwhile what its lists point to.
#[test]
fn what_a_checkpoint_is_writing_again_is_not_evicted() {
    let mut world = one_shard(0, true);
    for key in [b"a", b"b", b"c"] {
        world.add(key, 1);
    }
    world.ask(b"a", Action::Reset { to: None });
    world.maintain();
    world.wait_for_rows();
    world.memory.crash();
    world.restart();
    world.seen.hold(true);
    world.maintain();
    world.maintain();
    world.seen.hold(false);
    world.wait_for_rows();
    world.maintain();
    for (key, amount) in [(b"d", 4), (b"e", 5), (b"f", 6)] {
        world.add(key, amount);
    }
    let expected = [(b"b", 1), (b"c", 1), (b"d", 4), (b"e", 5), (b"f", 6)];
    let expected: Vec<_> = expected.iter().map(|(key, value)| (key.to_vec(), *value)).collect();
    assert_eq!(world.list(b"", 10), expected);
    for (key, value) in expected {
        assert_eq!(world.value(&key), Some(value));
    }
    assert_eq!(world.value(b"a"), None);
    assert_eq!(world.host.live(), 5);
}

#[test]
fn counters_beyond_the_budget_go_to_disk_and_come_back() {
    const COUNTERS: usize = 2_000;
    const BUDGET_BYTES: usize = 20_000;
    let mut world = one_shard(BUDGET_BYTES, false);
    for at in 0..COUNTERS {
        world.send(format!("key:{at}").as_bytes(), Action::Add { add: Add::of(at as i64), operation: None });
    }
    world.commit();
    for _ in 0..4 {
        world.maintain();
    }
    let stats = world.host.stats();
    assert!(stats.resident_bytes <= BUDGET_BYTES as u64, "{stats:?}");
    assert_eq!(stats.live, COUNTERS as u64);
    for at in 0..COUNTERS {
        assert_eq!(world.value(format!("key:{at}").as_bytes()), Some(at as i64));
    }
    assert_eq!(world.host.stats().live, COUNTERS as u64);
}

/// A limit that leaves no room does not make a counter, whether or not one of that name was deleted before.
#[test]
fn nothing_counted_makes_no_counter() {
    let mut world = one_shard(1 << 20, false);
    world.add(b"a", 1);
    world.ask(b"a", Action::Reset { to: None });
    let add = Add { upper: Some(-1), beyond: quipu_engine::Beyond::Skip, ..Add::of(5) };
    let nothing = Reply::Added(Added { value: 0, applied: 0, repeated: false, site: SiteId::FIRST });
    for key in [b"a", b"b"] {
        assert_eq!(world.ask(key, Action::Add { add, operation: None }), nothing);
        assert_eq!(world.value(key), None);
    }
    assert_eq!(world.host.live(), 0);
}

#[test]
fn a_watcher_is_not_shown_what_is_not_settled() {
    let mut world = one_shard(1 << 20, false);
    world.add(b"a", 1);
    world.memory.inject(ShardId(0), Fault::UnknownNotStored);
    world.memory.inject(ShardId(0), Fault::UnknownNotStored);
    world.send(b"a", Action::Add { add: Add::of(1), operation: None });
    assert!(world.commit().replies.is_empty());
    assert!(matches!(world.host.watch(ShardId(0), b"a"), Err(Refusal::NotStored(_))));
    assert!(world.host.list(ShardId(0), b"", None, 10).is_err());
    assert!(world.maintain().replies.is_empty());
    let settled = world.maintain();
    let added = Reply::Added(Added { value: 2, applied: 1, repeated: false, site: SiteId::FIRST });
    assert_eq!(settled.replies.into_iter().map(|(_, reply)| reply).collect::<Vec<_>>(), [added]);
    assert_eq!(world.host.watch(ShardId(0), b"a"), Ok(Some(2)));
}

#[test]
fn a_store_that_refuses_is_known_until_it_takes_something() {
    let mut world = one_shard(1 << 20, false);
    world.add(b"a", 1);
    assert_eq!(world.host.refusing(), None);
    world.memory.inject(ShardId(0), Fault::Full);
    assert!(matches!(world.add(b"a", 1), Reply::Refused(Refusal::NotStored(_))));
    assert!(
        world.host.refusing().is_some_and(|why| why.contains("no space left")),
        "{:?}",
        world.host.refusing()
    );
    world.memory.inject(ShardId(0), Fault::Full);
    world.host.probe();
    world.commit();
    assert!(world.host.refusing().is_some(), "it is still full");
    // Nobody counts.
    world.host.probe();
    world.commit();
    assert_eq!(world.host.refusing(), None);
    assert_eq!(world.value(b"a"), Some(1));
}

#[test]
fn a_shard_that_was_taken_says_so() {
    let mut world = one_shard(1 << 20, false);
    world.add(b"a", 1);
    world.memory.inject(ShardId(0), Fault::Taken);
    for _ in 0..2 {
        assert_eq!(world.add(b"a", 1), Reply::Refused(Refusal::NotHere));
        world.maintain();
    }
    assert_eq!(world.host.stats().shards_unavailable, 1);
    world.restart();
    assert_eq!(world.value(b"a"), Some(1));
}

#[test]
fn a_shard_that_was_taken_does_not_keep_the_logs_of_others() {
    let settings = Settings { memory_bytes: 0, ..Settings::default() };
    let mut world = World::new(Setup { shards: 2, settings, threaded: true, ..Setup::default() });
    let keys: Vec<Vec<u8>> = (0..20u8).map(|at| vec![b'k', at]).collect();
    for key in &keys {
        world.add(key, 1);
    }
    world.maintain();
    world.wait_for_rows();
    world.memory.log().take(ShardId(0)).expect("somebody else takes it");
    assert!(world.memory.records(ShardId(0)) > 0 && world.memory.records(ShardId(1)) > 0);
    world.maintain();
    assert!(world.memory.records(ShardId(0)) > 0);
    assert_eq!(world.memory.records(ShardId(1)), 0);
}

#[test]
fn keys_that_are_none_are_refused() {
    let mut world = one_shard(0, false);
    world.add(b"a", 1);
    world.maintain();
    for bytes in [0, 513, 100_000] {
        let key = vec![b'k'; bytes];
        assert_eq!(world.add(&key, 1), Reply::Refused(Refusal::BadKey { bytes }));
        assert_eq!(world.host.watch(ShardId(0), &key), Err(Refusal::BadKey { bytes }));
    }
    assert!(matches!(world.add(&[b'k'; 512], 1), Reply::Added(_)));
}

/// A checkpoint of what is not committed leaves a row behind that another change has the version of.
#[test]
fn one_version_never_has_two_rows() {
    let trace = |discipline| {
        let settings = Settings { memory_bytes: 0, ..Settings::default() };
        let setup = Setup { shards: 1, settings, discipline, ..Setup::default() };
        let mut world = World::new(setup);
        world.add(b"a", 1);
        world.memory.inject(ShardId(0), Fault::Error);
        // Of the early checkpoint the row of the counter is written, and not the summary.
        world.memory.fail_next_put_after(1);
        world.add(b"a", 1);
        world.add(b"a", 2);
        world.maintain();
        world.seen.check()
    };
    assert_eq!(trace(Discipline::Right), Ok(()));
    assert!(trace(Discipline::CheckpointsUncommitted).is_err());
}

/// The table is that of an earlier moment, as after its journal was cut: what the log has let go of since is nowhere.
#[test]
fn a_table_that_lacks_what_the_log_let_go_of_is_not_opened() {
    let trace = |discipline| {
        let mut world = one_shard(0, false);
        world.add(b"a", 1);
        world.maintain();
        world.maintain();
        let earlier = world.memory.copy();
        world.add(b"a", 1);
        let unmarked = world.memory.copy();
        world.maintain();
        world.maintain();
        let now = world.now();
        let open = |log: &Memory, table: &Memory| {
            let store = Store::new(log.log(), table.table());
            let host = Host::new(store, None, Settings::default(), Flush::Now);
            let mut host = host.with_discipline(discipline);
            host.open(ShardId(0), now)
        };
        open(&unmarked, &earlier).expect("the log has all that the table lacks");
        open(&world.memory, &world.memory).expect("nothing is gone");
        [open(&world.memory, &earlier), open(&world.memory, &Memory::new())]
    };
    for refused in trace(Discipline::Right) {
        let error = refused.expect_err("rows are gone").to_string();
        assert!(error.contains("rows of shard 0") && error.contains("quipu restore"), "{error}");
    }
    assert!(trace(Discipline::OpensWithoutRows).iter().all(Result::is_ok), "it counts from less");
}
