//! What every backend must do, as one suite. `conformance::run(factory)` panics at the first thing that is wrong.

use crate::{
    BATCH_BYTES_MAX, Batch, Flush, Held, Log, Mark, Outcome, Page, Position, Record, Registered, Registry,
    Row, Scan, Settled, ShardId, Slice, StorageError, Store, Table, Write,
};

/// A backend under test, with the data of one test.
pub trait Backend {
    /// Its log.
    type Log: Log;
    /// Its table.
    type Table: Table;

    /// Another log on the same data, as another worker or another process would have.
    fn log(&mut self) -> Self::Log;

    /// The table.
    fn table(&mut self) -> Self::Table;

    /// Closes and opens the data again. All handles were dropped before.
    fn reopen(&mut self);

    /// Makes the shard's next commit end in unknown, and every attempt to settle it until `let_settle`. `false` if
    /// this backend cannot be made to.
    fn make_unknown(&mut self, shard: ShardId) -> bool;

    /// The trouble is over.
    fn let_settle(&mut self);
}

/// A store that several nodes share.
pub trait SharedBackend: Backend {
    /// Its register of nodes.
    type Registry: Registry;

    /// A further node: its log, and how it sees the others.
    fn node(&mut self) -> (Self::Log, Self::Registry);
}

const A: ShardId = ShardId(0);
const B: ShardId = ShardId(1);
const C: ShardId = ShardId(300);

fn batch(shard: ShardId, text: &str) -> Batch {
    Batch { shard, record: text.as_bytes().to_vec() }
}

fn write(slice: Slice, key: &str, version: u64, text: &str) -> Write {
    let row = Row { version, bytes: text.as_bytes().to_vec() };
    Write { slice, key: key.as_bytes().to_vec(), row }
}

/// Commits one batch that must be stored.
fn commit<L: Log>(log: &mut L, shard: ShardId, text: &str) -> Position {
    match &log.commit(&[batch(shard, text)], Flush::Now)[..] {
        [Outcome::Committed { position }] => *position,
        other => panic!("{text} was not committed: {other:?}"),
    }
}

fn store<B: Backend>(backend: &mut B) -> Store<B::Log, B::Table> {
    Store::new(backend.log(), backend.table())
}

fn texts<L: Log, T: Table>(store: &mut Store<L, T>, shard: ShardId) -> Vec<String> {
    let recovered = store.open(shard).expect("the shard opens");
    recovered.records.iter().map(|record| String::from_utf8_lossy(&record.bytes).into_owned()).collect()
}

/// Runs everything, each part on fresh data from `factory`.
pub fn run<B: Backend>(mut factory: impl FnMut() -> B) {
    commits_are_ordered_and_there_after_reopening(&mut factory());
    shards_are_apart(&mut factory());
    bad_batches_are_refused_alone(&mut factory());
    a_fence_ends_the_former_owner(&mut factory());
    reloading_gives_what_was_committed(&mut factory());
    unknown_is_settled_once(&mut factory());
    unknown_is_lost_with_the_fence(&mut factory());
    checkpoints_shorten_the_log(&mut factory());
    later_is_kept_when_flushed(&mut factory());
    versions_only_grow(&mut factory());
    scans_are_ordered_and_paged(&mut factory());
    slices_are_dropped_for_good(&mut factory());
}

fn commits_are_ordered_and_there_after_reopening<B: Backend>(backend: &mut B) {
    let mut first = store(backend);
    assert_eq!(first.open(A).expect("an empty shard opens").last(), Position(0));
    for n in 1..=50 {
        assert_eq!(commit(first.log(), A, &format!("record {n}")), Position(n));
    }
    // An empty record and one with every byte are records like others.
    commit(first.log(), A, "");
    let all: Vec<u8> = (0..=255).collect();
    let outcomes = first.commit(&[Batch { shard: A, record: all.clone() }], Flush::Now);
    assert!(matches!(outcomes[..], [Outcome::Committed { position: Position(52) }]));
    drop(first);
    for _ in 0..3 {
        backend.reopen();
        let mut again = store(backend);
        let recovered = again.open(A).expect("the shard opens again");
        assert_eq!(recovered.checkpoint, Position(0));
        assert_eq!(recovered.records.len(), 52);
        assert_eq!(recovered.records[49].bytes, b"record 50");
        assert_eq!(recovered.records[50].bytes, b"");
        assert_eq!(recovered.records[51].bytes, all);
        for (at, record) in (1..).zip(&recovered.records) {
            assert_eq!(record.position, Position(at));
        }
    }
    backend.reopen();
    let mut again = store(backend);
    again.open(A).expect("the shard opens again");
    assert_eq!(commit(again.log(), A, "after"), Position(53));
}

fn shards_are_apart<B: Backend>(backend: &mut B) {
    let mut first = store(backend);
    for shard in [A, B, C] {
        first.open(shard).expect("opens");
    }
    let outcomes = first.commit(&[batch(C, "c1"), batch(A, "a1")], Flush::Now);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Committed { position: Position(1) })));
    commit(first.log(), A, "a2");
    assert!(first.commit(&[], Flush::Now).is_empty());
    drop(first);
    backend.reopen();
    let mut again = store(backend);
    assert_eq!(texts(&mut again, A), ["a1", "a2"]);
    assert_eq!(texts(&mut again, B), [""; 0]);
    assert_eq!(texts(&mut again, C), ["c1"]);
}

fn bad_batches_are_refused_alone<B: Backend>(backend: &mut B) {
    let mut log = backend.log();
    log.take(A).expect("taken");
    log.take(B).expect("taken");
    let large = Batch { shard: A, record: vec![0; BATCH_BYTES_MAX + 1] };
    let outcomes = log.commit(&[large, batch(B, "b1"), batch(C, "c"), batch(B, "b again")], Flush::Now);
    assert!(matches!(outcomes[0], Outcome::Failed(StorageError::TooLarge { .. })), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Committed { position: Position(1) }), "{outcomes:?}");
    assert!(matches!(outcomes[2], Outcome::Failed(StorageError::NotOpen(C))), "{outcomes:?}");
    assert!(matches!(outcomes[3], Outcome::Failed(StorageError::Twice(B))), "{outcomes:?}");
    assert!(matches!(log.read(C, Position(0)), Err(StorageError::NotOpen(C))));
    let beyond = Mark { shard: B, position: Position(2) };
    assert!(matches!(log.checkpoint(&[beyond]), Err(StorageError::Beyond { .. })));
    drop(log);
    backend.reopen();
    let mut again = store(backend);
    assert_eq!(texts(&mut again, A), [""; 0]);
    assert_eq!(texts(&mut again, B), ["b1"]);
}

fn a_fence_ends_the_former_owner<B: Backend>(backend: &mut B) {
    let mut old = store(backend);
    old.open(A).expect("opens");
    old.open(B).expect("opens");
    commit(old.log(), A, "by the old");
    old.log().confirm(A).expect("still ours");
    let mut new = store(backend);
    assert_eq!(texts(&mut new, A), ["by the old"]);
    let outcomes = old.commit(&[batch(A, "too late"), batch(B, "mine")], Flush::Now);
    assert!(matches!(outcomes[..], [Outcome::Fenced, Outcome::Committed { .. }]), "{outcomes:?}");
    assert!(matches!(old.log().confirm(A), Err(StorageError::Fenced(A))));
    let mark = Mark { shard: A, position: Position(1) };
    assert!(matches!(old.log().checkpoint(&[mark]), Err(StorageError::Fenced(A))));
    assert!(matches!(old.log().read(A, Position(0)), Err(StorageError::Fenced(A))));
    assert_eq!(commit(new.log(), A, "by the new"), Position(2));
    // And back, and forth: each finds everything.
    assert_eq!(texts(&mut old, A), ["by the old", "by the new"]);
    assert!(matches!(new.commit(&[batch(A, "no")], Flush::Now)[..], [Outcome::Fenced]));
    assert_eq!(commit(old.log(), A, "by the old again"), Position(3));
    drop((old, new));
    backend.reopen();
    let mut again = store(backend);
    assert_eq!(texts(&mut again, A), ["by the old", "by the new", "by the old again"]);
    assert_eq!(texts(&mut again, B), ["mine"]);
}

fn reloading_gives_what_was_committed<B: Backend>(backend: &mut B) {
    let mut store = store(backend);
    store.open(A).expect("opens");
    commit(store.log(), A, "one");
    commit(store.log(), A, "two");
    let large = Batch { shard: A, record: vec![0; BATCH_BYTES_MAX + 1] };
    assert!(matches!(store.commit(&[large], Flush::Now)[..], [Outcome::Failed(_)]));
    let reloaded = store.reload(A).expect("reloads");
    assert_eq!(reloaded.records.len(), 2);
    assert_eq!(reloaded.records[1].bytes, b"two");
    store.checkpoint(A, Position(1), &[]).expect("checkpoint");
    assert_eq!(store.reload(A).expect("reloads").records.len(), 1);
    assert_eq!(commit(store.log(), A, "three"), Position(3));
}

fn unknown_is_settled_once<B: Backend>(backend: &mut B) {
    let mut first = store(backend);
    first.open(A).expect("opens");
    commit(first.log(), A, "one");
    assert!(matches!(first.settle(A), Settled::Nothing));
    if !backend.make_unknown(A) {
        return;
    }
    let outcomes = first.commit(&[batch(A, "two")], Flush::Now);
    assert!(matches!(outcomes[..], [Outcome::Unknown(_)]), "{outcomes:?}");
    assert!(matches!(first.settle(A), Settled::Unknown(_)));
    let outcomes = first.commit(&[batch(A, "three")], Flush::Now);
    assert!(matches!(outcomes[..], [Outcome::Failed(StorageError::Unsettled(A))]), "{outcomes:?}");
    let known = first.reload(A);
    assert!(known.is_ok_and(|known| known.records.len() == 1), "what is unknown is not committed");
    backend.let_settle();
    let settled = settle(first.log(), A);
    assert!(matches!(settled, Settled::Committed { position: Position(2) }), "{settled:?}");
    assert!(matches!(first.settle(A), Settled::Nothing));
    assert_eq!(commit(first.log(), A, "three"), Position(3));
    drop(first);
    backend.reopen();
    assert_eq!(texts(&mut store(backend), A), ["one", "two", "three"]);
}

/// Settles what is unknown. A store that can answer does so before long.
fn settle(log: &mut impl Log, shard: ShardId) -> Settled {
    let mut attempts = (0..50).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        log.settle(shard)
    });
    let decided = attempts.find(|settled| !matches!(settled, Settled::Unknown(_)));
    decided.unwrap_or_else(|| log.settle(shard))
}

fn unknown_is_lost_with_the_fence<B: Backend>(backend: &mut B) {
    let mut old = store(backend);
    old.open(A).expect("opens");
    old.open(B).expect("opens");
    commit(old.log(), A, "one");
    if !backend.make_unknown(A) {
        return;
    }
    assert!(matches!(old.commit(&[batch(A, "in doubt")], Flush::Now)[..], [Outcome::Unknown(_)]));
    let mut new = store(backend);
    let found = texts(&mut new, A);
    backend.let_settle();
    let settled = settle(old.log(), A);
    assert!(matches!(settled, Settled::Lost), "{settled:?}");
    // Stored or not, it is decided: what the new owner has found is what there is.
    commit(new.log(), A, "new");
    commit(old.log(), B, "elsewhere");
    let mut expected = found;
    assert!(expected == ["one"] || expected == ["one", "in doubt"], "{expected:?}");
    expected.push("new".to_owned());
    drop((old, new));
    backend.reopen();
    let mut again = store(backend);
    assert_eq!(texts(&mut again, A), expected);
    assert_eq!(texts(&mut again, B), ["elsewhere"]);
}

fn checkpoints_shorten_the_log<B: Backend>(backend: &mut B) {
    let mut first = store(backend);
    first.open(A).expect("opens");
    first.open(B).expect("opens");
    let filler = "x".repeat(300);
    commit(first.log(), B, "quiet");
    for round in 1..=40u64 {
        let text = format!("{round} {filler}");
        let position = commit(first.log(), A, &text);
        if round % 4 == 0 {
            let rows = [write(Slice::KEPT, "a", position.0, &text)];
            first.checkpoint(A, position, &rows).expect("checkpoint");
            // Moving back, or staying, is no error and no move.
            first.checkpoint(A, Position(position.0 - 1), &[]).expect("nothing to do");
        }
        if round == 30 {
            drop(first);
            backend.reopen();
            first = store(backend);
            let recovered = first.open(A).expect("opens");
            assert_eq!(recovered.checkpoint, Position(28));
            assert_eq!(recovered.records.len(), 2);
            assert_eq!(texts(&mut first, B), ["quiet"], "held by nobody's checkpoint but its own");
        }
    }
    commit(first.log(), A, "last");
    drop(first);
    backend.reopen();
    let mut again = store(backend);
    let recovered = again.open(A).expect("opens");
    assert_eq!(recovered.checkpoint, Position(40));
    assert_eq!(recovered.last(), Position(41));
    let row = again.table().get(A, Slice::KEPT, b"a").expect("reads").expect("is there");
    assert_eq!(row.version, 40);
    assert_eq!(texts(&mut again, B), ["quiet"]);
}

fn later_is_kept_when_flushed<B: Backend>(backend: &mut B) {
    let mut first = store(backend);
    first.open(A).expect("opens");
    for n in 1..=20 {
        let outcomes = first.commit(&[batch(A, &n.to_string())], Flush::Later);
        assert!(matches!(outcomes[..], [Outcome::Committed { position: Position(at) }] if at == n));
    }
    assert_eq!(first.reload(A).expect("reloads").records.len(), 20);
    first.log().flush().expect("flushes");
    assert_eq!(commit(first.log(), A, "now"), Position(21));
    assert!(matches!(first.commit(&[batch(A, "late")], Flush::Later)[..], [Outcome::Committed { .. }]));
    // Whoever takes the shard finds what was reported, and it stays.
    let mut second = store(backend);
    assert_eq!(texts(&mut second, A).len(), 22);
    drop((first, second));
    backend.reopen();
    assert_eq!(texts(&mut store(backend), A).len(), 22);
}

fn versions_only_grow<B: Backend>(backend: &mut B) {
    let table = backend.table();
    let get = |table: &B::Table, key: &str| table.get(A, Slice::KEPT, key.as_bytes()).expect("reads");
    assert_eq!(get(&table, "k"), None);
    table.put(A, &[write(Slice::KEPT, "k", 5, "five"), write(Slice::KEPT, "l", 1, "one")]).expect("writes");
    table.put(A, &[write(Slice::KEPT, "k", 4, "four"), write(Slice::KEPT, "l", 2, "two")]).expect("writes");
    table.put(A, &[write(Slice::KEPT, "k", 5, "five")]).expect("a repeat does no harm");
    assert_eq!(get(&table, "k").expect("there").bytes, b"five");
    assert_eq!(get(&table, "l").expect("there").bytes, b"two");
    // Of one key in one call the highest version counts, whatever the order.
    table.put(A, &[write(Slice::KEPT, "m", 9, "nine"), write(Slice::KEPT, "m", 8, "eight")]).expect("writes");
    assert_eq!(get(&table, "m").expect("there").version, 9);
    // Deleted is an empty row; a late write does not bring it back, a newer one does.
    table.put(A, &[write(Slice::KEPT, "k", 6, "")]).expect("deletes");
    table.put(A, &[write(Slice::KEPT, "k", 5, "five")]).expect("too late");
    assert_eq!(get(&table, "k"), Some(Row { version: 6, bytes: Vec::new() }));
    let long = Write { key: vec![b'k'; crate::KEY_BYTES_MAX + 1], ..write(Slice::KEPT, "", 1, "x") };
    assert!(matches!(table.put(A, &[long]), Err(StorageError::TooLarge { .. })));
    drop(table);
    backend.reopen();
    let table = backend.table();
    assert_eq!(get(&table, "k"), Some(Row { version: 6, bytes: Vec::new() }));
    assert_eq!(get(&table, "l").expect("there").version, 2);
    table.put(A, &[write(Slice::KEPT, "k", 7, "back")]).expect("writes");
    assert_eq!(get(&table, "k").expect("there").bytes, b"back");
    assert_eq!(table.get(B, Slice::KEPT, b"k").expect("reads"), None, "shards are apart");
}

fn all_pages<T: Table>(table: &T, shard: ShardId, prefix: &str, rows_max: usize) -> Vec<String> {
    let mut keys = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let scan = Scan { slice: Slice::KEPT, prefix: prefix.as_bytes(), after: after.as_deref(), rows_max };
        let Page { rows, next } = table.scan(shard, scan).expect("scans");
        assert!(rows.len() <= rows_max.max(1));
        keys.extend(rows.into_iter().map(|(key, _)| String::from_utf8(key).expect("as written")));
        match next {
            Some(next) => after = Some(next),
            None => return keys,
        }
    }
}

fn scans_are_ordered_and_paged<B: Backend>(backend: &mut B) {
    let table = backend.table();
    let names = ["a", "ab", "ab\u{0}", "abc", "b", "ba", "c", "\u{7f}"];
    for shard in [A, B, C] {
        let writes: Vec<_> = names.iter().rev().map(|name| write(Slice::KEPT, name, 1, "row")).collect();
        table.put(shard, &writes).expect("writes");
    }
    table.put(B, &[write(Slice::KEPT, "ba", 2, ""), write(Slice::KEPT, "b", 2, "")]).expect("deletes");
    table.put(B, &[write(Slice(1), "bb", 2, "in another slice")]).expect("writes");
    for rows_max in [0, 1, 2, 3, 100] {
        assert_eq!(all_pages(&table, A, "", rows_max), names);
        assert_eq!(all_pages(&table, C, "", rows_max), names);
        assert_eq!(all_pages(&table, A, "ab", rows_max), ["ab", "ab\u{0}", "abc"]);
        assert_eq!(all_pages(&table, B, "b", rows_max), [""; 0], "deleted rows are not listed");
        assert_eq!(all_pages(&table, A, "zz", rows_max), [""; 0]);
    }
    // A cursor before the prefix is the beginning.
    let scan = Scan { slice: Slice::KEPT, prefix: b"b", after: Some(b"a"), rows_max: 10 };
    assert_eq!(table.scan(A, scan).expect("scans").rows.len(), 2);
}

fn slices_are_dropped_for_good<B: Backend>(backend: &mut B) {
    let table = backend.table();
    let rows: Vec<_> = (0..=3).map(|slice| write(Slice(slice), "id", 1, "seen")).collect();
    table.put(A, &rows).expect("writes");
    table.put(B, &rows).expect("writes");
    table.drop_slices(A, Slice(3)).expect("drops");
    table.drop_slices(A, Slice(2)).expect("moving back is no move");
    table.put(A, &[write(Slice(1), "late", 9, "late")]).expect("a late write does no harm");
    let there = |table: &B::Table, shard| {
        let get = |slice| table.get(shard, Slice(slice), b"id").expect("reads").is_some();
        [get(0), get(1), get(2), get(3)]
    };
    assert_eq!(there(&table, A), [true, false, false, true]);
    assert_eq!(there(&table, B), [true; 4]);
    let late = Scan { slice: Slice(1), prefix: b"", after: None, rows_max: 10 };
    assert_eq!(table.scan(A, late).expect("scans").rows.len(), 0);
    table.drop_slices(B, Slice(2)).expect("drops");
    drop(table);
    backend.reopen();
    let table = backend.table();
    assert_eq!(there(&table, A), [true, false, false, true]);
    assert_eq!(there(&table, B), [true, false, true, true]);
    table.put(B, &[write(Slice(1), "late", 9, "late")]).expect("a late write does no harm");
    assert_eq!(table.get(B, Slice(1), b"late").expect("reads"), None);
}

/// What every store must do that several nodes share, besides [`run`].
pub fn run_shared<B: SharedBackend>(mut factory: impl FnMut() -> B) {
    a_shard_is_taken_as_it_was_seen_or_not_at_all(&mut factory());
    a_released_shard_has_nobody(&mut factory());
    nodes_see_each_other(&mut factory());
    what_was_committed_last_is_seen_by_all(&mut factory());
}

fn what_was_committed_last_is_seen_by_all<B: SharedBackend>(backend: &mut B) {
    let (mut one, _) = backend.node();
    let (_, second) = backend.node();
    let last = || second.last(A).expect("the store answers");
    assert_eq!(last(), None, "nobody ever had it");
    one.take(A).expect("it is free");
    assert_eq!(last(), None, "nothing was committed");
    for (text, at) in [("first", 1), ("second", 2)] {
        commit(&mut one, A, text);
        assert_eq!(last(), Some(Record { position: Position(at), bytes: text.as_bytes().to_vec() }));
    }
    one.checkpoint(&[Mark { shard: A, position: Position(1) }]).expect("the store answers");
    assert_eq!(last().expect("it is kept").bytes, b"second");
    one.release(A).expect("the store answers");
    assert_eq!(last().expect("it is kept").bytes, b"second", "nobody has the shard");
}

fn held<R: Registry>(registry: &R, shard: ShardId) -> Option<Held> {
    let held = registry.held().expect("the store answers");
    held.into_iter().find(|held| held.shard == shard)
}

fn a_shard_is_taken_as_it_was_seen_or_not_at_all<B: SharedBackend>(backend: &mut B) {
    let (mut one, first) = backend.node();
    let (mut other, second) = backend.node();
    assert_eq!(held(&second, A), None, "nobody ever had it");
    assert!(one.take_seen(A, None).expect("the store answers").is_some());
    assert!(other.take_seen(A, None).expect("the store answers").is_none(), "it was free when it was seen");
    let seen = held(&second, A).expect("somebody has it");
    assert_eq!(seen.by, Some(first.own()));
    commit(&mut one, A, "at work");
    assert!(
        other.take_seen(A, Some(seen.fence)).expect("the store answers").is_none(),
        "its owner is at work"
    );
    commit(&mut one, A, "and goes on");
    let seen = held(&second, A).expect("somebody has it");
    let taken = other.take_seen(A, Some(seen.fence)).expect("the store answers").expect("it stands so");
    assert_eq!(taken.last, Position(2));
    assert_eq!(held(&first, A).expect("somebody has it").by, Some(second.own()));
    assert!(matches!(one.commit(&[batch(A, "late")], Flush::Now)[..], [Outcome::Fenced]));
}

fn a_released_shard_has_nobody<B: SharedBackend>(backend: &mut B) {
    let (mut one, first) = backend.node();
    let (mut other, _) = backend.node();
    one.take(A).expect("it is free");
    commit(&mut one, A, "kept");
    let before = held(&first, A).expect("somebody has it");
    one.release(A).expect("the store answers");
    let after = held(&first, A).expect("somebody had it");
    assert_eq!(after.by, None);
    assert!(matches!(
        one.commit(&[batch(A, "late")], Flush::Now)[..],
        [Outcome::Failed(_) | Outcome::Fenced]
    ));
    assert!(other.take_seen(A, Some(before.fence)).expect("the store answers").is_none(), "it was released");
    let taken = other.take_seen(A, Some(after.fence)).expect("the store answers").expect("it stands so");
    assert_eq!(taken.last, Position(1));
    assert_eq!(other.read(A, Position(0)).expect("the store answers")[0].bytes, b"kept");
    assert!(one.release(A).is_err(), "it has nothing to release");
    assert_eq!(commit(&mut other, A, "goes on"), Position(2));
}

fn nodes_see_each_other<B: SharedBackend>(backend: &mut B) {
    let (_, first) = backend.node();
    let (_, second) = backend.node();
    assert_ne!(first.own(), second.own());
    let say = |registry: &B::Registry, count: u64, drains: bool| {
        let about = format!("node {count}").into_bytes();
        registry
            .write(&Registered { node: registry.own(), count, drains, about })
            .expect("the store answers");
    };
    let found = |node| {
        let nodes = first.nodes().expect("the store answers");
        nodes.into_iter().find(|registered| registered.node == node)
    };
    say(&first, 1, false);
    say(&second, 7, false);
    say(&second, 8, true);
    assert_eq!(found(first.own()).map(|it| (it.count, it.drains)), Some((1, false)));
    assert_eq!(found(second.own()).map(|it| (it.count, it.drains)), Some((8, true)));
    assert_eq!(found(second.own()).map(|it| it.about), Some(b"node 8".to_vec()));
    let is_asked = |registry: &B::Registry| registry.is_asked_to_drain().expect("the store answers");
    assert_eq!(is_asked(&second), None);
    first.ask_to_drain(second.own(), true).expect("the store answers");
    assert_eq!(is_asked(&second), Some(true));
    assert_eq!(is_asked(&first), None);
    first.ask_to_drain(second.own(), false).expect("the store answers");
    assert_eq!(is_asked(&second), Some(false));
    first.remove(second.own()).expect("the store answers");
    assert_eq!(found(second.own()), None);
    say(&second, 9, false);
    assert_eq!(found(second.own()), None, "nobody comes back under its name");
    assert!(found(first.own()).is_some());
}
