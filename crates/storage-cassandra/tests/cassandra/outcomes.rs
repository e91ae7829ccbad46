//! Commits whose outcome is not known, owners that race, a database that is paused and killed: every record that was
//! acknowledged is there once, and none that was refused.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quipu_storage::{
    Batch, Flush, Log, Outcome, Position, Settled, ShardId, StorageError, Store, testing::Seeded,
};
use quipu_storage_cassandra::{Address, Cassandra, CassandraLog, Fault, Timing};

use crate::server::{Own, Server, quick};

const SHARD: ShardId = ShardId(7);
const SHARDS: u16 = 3;
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

fn batch(text: &str) -> Batch {
    Batch { shard: SHARD, record: text.as_bytes().to_vec() }
}

fn records(cassandra: &Cassandra, shard: ShardId) -> Vec<String> {
    let recovered = Store::new(cassandra.log(), cassandra.table()).open(shard).expect("it opens");
    recovered.records.into_iter().map(|record| String::from_utf8(record.bytes).expect("as written")).collect()
}

/// Waits until it is known what became of a commit. `true`: it is stored.
fn settle(log: &mut CassandraLog, shard: ShardId) -> bool {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        match log.settle(shard) {
            Settled::Committed { .. } => return true,
            Settled::Lost => return false,
            Settled::Nothing => panic!("there is something to settle"),
            Settled::Unknown(why) => assert!(Instant::now() < until, "it is not settled: {why}"),
        }
    }
}

/// Two owners take a shard from each other again and again, while answers get lost.
pub(crate) fn owners_that_race(server: &Server) {
    const COMMITS: u64 = 60;
    let address = server.keyspace();
    let race = |name: &'static str, seed: u64| {
        let cassandra = server.open(&address);
        let mut random = Seeded::new(seed);
        let mut log = cassandra.log();
        let (mut stored, mut refused) = (BTreeSet::new(), BTreeSet::new());
        let mut is_owner = false;
        for number in 0..COMMITS {
            if !is_owner {
                // Another may take it in the same moment; then it is that one's.
                is_owner = log.take(SHARD).is_ok();
                thread::sleep(Duration::from_millis(random.next_u64() % 20));
            }
            let faults = [None, None, None, Some(Fault::NotSent), Some(Fault::AnswerLost), Some(Fault::Late)];
            if let Some(fault) = faults[random.below(faults.len())] {
                cassandra.faults().inject(SHARD, fault);
            }
            let text = format!("{name} {number}");
            let outcome = log.commit(&[batch(&text)], Flush::Now).remove(0);
            cassandra.faults().heal();
            match outcome {
                Outcome::Committed { .. } => assert!(stored.insert(text)),
                Outcome::Fenced => {
                    is_owner = false;
                    assert!(refused.insert(text));
                }
                Outcome::Failed(StorageError::NotOpen(_)) => assert!(!is_owner),
                Outcome::Failed(error) => panic!("{error}"),
                Outcome::Unknown(_) => {
                    is_owner = settle(&mut log, SHARD);
                    if is_owner {
                        assert!(stored.insert(text));
                    }
                }
            }
        }
        (stored, refused)
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| race("one", 1));
        let other = scope.spawn(|| race("other", 2));
        (one.join().expect("no panic"), other.join().expect("no panic"))
    });
    let found = records(&server.open(&address), SHARD);
    let distinct: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(distinct.len(), found.len(), "a record is there twice");
    for (stored, refused) in [one, other] {
        assert!(stored.is_subset(&distinct), "lost: {:?}", stored.difference(&distinct));
        assert!(refused.is_disjoint(&distinct), "refused and stored: {:?}", refused.intersection(&distinct));
        assert!(!stored.is_empty());
    }
}

/// The shard is taken while a commit waits for its answer: whether the record is stored decides what is said of it.
pub(crate) fn taken_meanwhile(server: &Server) {
    let address = server.keyspace();
    let patient = server.open_with(&address, Timing { commit: SETTLED_WITHIN, ..quick() });
    let other = server.open(&address);
    for (fault, is_stored) in [(Fault::AnswerLost, true), (Fault::NotSent, false)] {
        let mut log = patient.log();
        log.take(SHARD).expect("taken");
        let before = records_so_far(server, &address);
        patient.faults().inject(SHARD, fault);
        let outcome = thread::scope(|scope| {
            let committing = scope.spawn(|| log.commit(&[batch("in doubt")], Flush::Now).remove(0));
            while is_stored && records_so_far(server, &address) == before {
                thread::sleep(Duration::from_millis(10));
            }
            other.log().take(SHARD).expect("taken");
            patient.faults().heal();
            committing.join().expect("no panic")
        });
        if is_stored {
            assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
            assert!(!settle(&mut log, SHARD), "the other one has it");
        } else {
            assert!(matches!(outcome, Outcome::Fenced), "{outcome:?}");
        }
    }
    assert_eq!(records(&other, SHARD), ["in doubt"]);
}

/// Commits that are under way side by side: each is told when it ends, and one that gets no answer holds up nobody.
pub(crate) fn commits_under_way(server: &Server) {
    let cassandra = server.open(&server.keyspace());
    let told = Arc::new(AtomicUsize::new(0));
    let mut log = cassandra.log_that_tells({
        let told = Arc::clone(&told);
        move || {
            told.fetch_add(1, Ordering::Relaxed);
        }
    });
    for shard in 0..SHARDS {
        log.take(ShardId(shard)).expect("taken");
    }
    let silent = ShardId(SHARDS - 1);
    cassandra.faults().inject(silent, Fault::AnswerLost);
    let batches =
        || (0..SHARDS).map(|shard| Batch { shard: ShardId(shard), record: b"one".to_vec() }).collect();
    assert!(log.finished(true).is_empty(), "there is nothing to wait for");
    assert!(log.begin(batches(), Flush::Now).iter().all(Option::is_none));
    let again = log.begin(batches(), Flush::Now);
    let refused =
        |again: &Option<Outcome>| matches!(again, Some(Outcome::Failed(StorageError::Unsettled(_))));
    assert!(again.iter().all(refused), "{again:?}");
    assert_eq!(log.confirm(silent).expect("ours").last, Position(0), "what is under way is not committed");
    let mut ended = Vec::new();
    while ended.len() < usize::from(SHARDS) {
        let finished = log.finished(true);
        assert!(!finished.is_empty(), "it waits for one at least");
        ended.extend(finished);
    }
    let (last, rest) = ended.split_last().expect("there are some");
    assert!(matches!(last, (shard, Outcome::Unknown(_)) if *shard == silent), "{last:?}");
    assert!(rest.iter().all(|(_, outcome)| matches!(outcome, Outcome::Committed { .. })), "{rest:?}");
    assert!(told.load(Ordering::Relaxed) >= rest.len());
    cassandra.faults().heal();
    assert!(settle(&mut log, silent));
    for shard in 0..SHARDS {
        assert_eq!(records(&cassandra, ShardId(shard)), ["one"]);
    }
}

fn records_so_far(server: &Server, address: &Address) -> usize {
    server.ask(&format!("SELECT position FROM {}.log", address.keyspace()))
}

/// A record of the largest size there is, which no database takes in one piece.
pub(crate) fn large_records(server: &Server) {
    let address = server.keyspace();
    let cassandra = server.open(&address);
    let mut store = Store::new(cassandra.log(), cassandra.table());
    store.open(SHARD).expect("opens");
    let largest = quipu_storage::BATCH_BYTES_MAX;
    let record = |bytes: usize| -> Vec<u8> { (0..bytes).map(|at| (at * 7 % 253).to_le_bytes()[0]).collect() };
    let sizes = [8 * 1024, 8 * 1024 + 1, 3 * 1024 * 1024, largest];
    for (position, bytes) in (1..).zip(sizes) {
        let batch = Batch { shard: SHARD, record: record(bytes) };
        let mut outcome = store.commit(&[batch], Flush::Now).remove(0);
        if matches!(outcome, Outcome::Unknown(_)) {
            // A slow machine: it goes on by itself.
            assert!(settle(store.log(), SHARD));
            outcome = Outcome::Committed { position: Position(position) };
        }
        assert!(
            matches!(outcome, Outcome::Committed { position: Position(at) } if at == position),
            "{outcome:?}"
        );
    }
    let mut other = Store::new(cassandra.log(), cassandra.table());
    let found = other.open(SHARD).expect("opens").records;
    assert_eq!(found.iter().map(|record| record.bytes.len()).collect::<Vec<_>>(), sizes);
    assert!(found.iter().all(|found| found.bytes == record(found.bytes.len())));
    // What the checkpoint covers is deleted, parts and all; the rest stays.
    let parts = format!("SELECT part FROM {}.log_parts", address.keyspace());
    assert_eq!(server.ask(&parts), 1 + 3 + 16);
    other.checkpoint(SHARD, Position(3), &[]).expect("moves");
    assert_eq!(server.ask(&parts), 16);
    assert_eq!(other.reload(SHARD).expect("reloads").records, found[3..]);
    other.checkpoint(SHARD, Position(4), &[]).expect("moves");
    assert_eq!(server.ask(&parts), 0);
    let rows = format!("SELECT position FROM {}.log WHERE shard = {}", address.keyspace(), SHARD.0);
    assert_eq!(server.ask(&rows), 1, "only the row that is never deleted");
}

/// A node that stands still: the commit is unknown, then it lands, and it is settled, once.
pub(crate) fn a_node_that_is_paused(own: Own) {
    let server = own.get();
    let cassandra = server.open(&server.keyspace());
    let mut log = cassandra.log();
    log.take(SHARD).expect("taken");
    assert!(matches!(log.commit(&[batch("one")], Flush::Now)[..], [Outcome::Committed { .. }]));
    server.nodes.pause(0).expect("pauses");
    let outcome = log.commit(&[batch("two")], Flush::Now).remove(0);
    let again = log.commit(&[batch("three")], Flush::Now).remove(0);
    server.nodes.resume(0).expect("goes on");
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert!(matches!(again, Outcome::Failed(StorageError::Unsettled(SHARD))), "{again:?}");
    assert!(settle(&mut log, SHARD));
    assert!(matches!(log.commit(&[batch("three")], Flush::Now)[..], [Outcome::Committed { .. }]));
    assert_eq!(records(&cassandra, SHARD), ["one", "two", "three"]);
}

/// Commits to some shards for a while. Returns what was acknowledged.
fn commit_on(cassandra: &Cassandra, until: Instant) -> Vec<Vec<String>> {
    let mut log = cassandra.log();
    for shard in 0..SHARDS {
        log.take(ShardId(shard)).expect("taken");
    }
    let mut stored: Vec<Vec<String>> = (0..SHARDS).map(|_| Vec::new()).collect();
    let mut number = 0;
    while Instant::now() < until {
        number += 1;
        let record = |shard| Batch { shard: ShardId(shard), record: format!("{number}").into_bytes() };
        let batches: Vec<_> = (0..SHARDS).map(record).collect();
        let outcomes = log.commit(&batches, Flush::Now);
        for ((batch, outcome), stored) in batches.iter().zip(outcomes).zip(&mut stored) {
            let is_stored = match outcome {
                Outcome::Committed { .. } => true,
                Outcome::Unknown(_) => settle(&mut log, batch.shard),
                outcome => panic!("{outcome:?}"),
            };
            assert!(is_stored, "nobody else takes it");
            stored.push(number.to_string());
        }
    }
    stored
}

/// A node that is killed and started again while commits are under way. Nothing that was acknowledged is lost, and
/// nobody has to be told that it is back.
pub(crate) fn a_node_that_is_killed(own: Own) {
    const BEFORE: Duration = Duration::from_secs(2);
    const LENGTH: Duration = Duration::from_secs(12);
    let mut server = own.get();
    let cassandra = server.open(&server.keyspace());
    let until = Instant::now() + LENGTH;
    let stored = thread::scope(|scope| {
        let committing = scope.spawn(|| commit_on(&cassandra, until));
        thread::sleep(BEFORE);
        server.nodes.kill(0).expect("killed");
        server.nodes.restart(0).expect("started");
        server.nodes.wait_until_ready().expect("ready");
        committing.join().expect("no panic")
    });
    for (shard, stored) in (0..).zip(&stored) {
        assert_eq!(records(&cassandra, ShardId(shard)), *stored);
    }
}
