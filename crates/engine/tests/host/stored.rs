//! The bytes of records and rows: fixed, and refused when they are not what was written.

use std::collections::BTreeMap;

use quipu_crdt::testing::Random;
use quipu_engine::{
    Action, Add, Command, Host, Limits, Moment, OpenError, OperationId, Refusal, Released, Reply, Settings,
    Spread, Ticket, fuzzing,
};
use quipu_storage::{
    Batch, Flush, Row, Scan, ShardId, Slice, Store, Table, Write,
    memory::{Memory, MemoryLog, MemoryTable},
};

use crate::world::{Setup, World};

const SHARD: ShardId = ShardId(0);
const OPERATION: OperationId<'static> = OperationId { producer: b"p", id: b"1" };

/// A shard with one of everything, at the time of 1,000 ms.
fn world() -> World {
    let settings = Settings { memory_bytes: 0, ..Settings::default() };
    let mut world = World::new(Setup { shards: 1, settings, ..Setup::default() });
    world.clock_ms = 1_000;
    world.send(b"plain", Action::Add { add: Add::of(300), operation: None });
    world.send(b"set", Action::Add { add: Add::of(-7), operation: Some(OPERATION) });
    world.send(b"set", Action::Reset { to: Some(2) });
    world.send(
        b"bounded",
        Action::Create {
            limits: Limits { minimum: Some(0), maximum: None, initial: 10 },
            spread: Spread::Creator,
            wait_ms: 0,
        },
    );
    world.send(b"bounded", Action::Add { add: Add::of(-4), operation: None });
    world.send(b"gone", Action::Add { add: Add::of(1), operation: None });
    world.send(b"gone", Action::Reset { to: None });
    assert_eq!(world.commit().replies.len(), 7);
    world
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The one record of the shard.
fn record(world: &World) -> Vec<u8> {
    let mut store = Store::new(world.memory.log(), world.memory.table());
    let records = store.open(SHARD).expect("it opens").records;
    assert_eq!(records.len(), 1);
    records[0].bytes.clone()
}

fn writes(world: &mut World) -> Vec<Write> {
    // The first drops what has expired, and tells the time.
    world.maintain();
    world.maintain();
    let table = world.memory.table();
    let scan = |slice| {
        let scan = Scan { slice, prefix: b"", after: None, rows_max: 1_000 };
        let rows = table.scan(SHARD, scan).expect("it can be read").rows;
        rows.into_iter().map(move |(key, row)| Write { slice, key, row })
    };
    (0..20).map(Slice).flat_map(scan).collect()
}

/// What one batch of everything is logged as.
const RECORD: &str = concat!(
    "01",                                                     // format
    "8508031903e806",             // 8 changes, 3 counters, 1,000 ms, highest slice 6
    "838219012d0b820200820000",   // 301 added and 11 subtracted by clients, 2 set, nothing taken back
    "84",                         // four counters
    "45706c61696e01",             // plain, version 1
    "82008219012c00",             // counted here alone: 300 added, 0 subtracted
    "4373657404",                 // set, version 4
    "820181a1820100",             // by sites: one row, of site 1
    "8304820207",                 // version 4, 2 added, 7 subtracted
    "a18201008202820007",         // of itself it has set aside: up to version 2, 0 added, 7 subtracted
    "47626f756e64656406",         // bounded, version 6
    "8202838201008400f60a820100", // with bounds: at site 1; minimum 0, no maximum, initially 10, made by site 1
    "a182010082820004a0",         // site 1: 0 added, 4 subtracted, nothing passed on
    "44676f6e6508820181a18201008308820100a18201008208820100", // gone: all of it is set aside
    "81",                         // one operation
    "82503efed6bc262396cf3ad9e86c618c3a02", // its hash
    "842626261a00092ba8",         // -7 asked for, -7 counted, -7 was the value; expires at 601,000 ms
);

/// Slice, key, version and bytes of each row of a checkpoint after that.
const ROWS: [(u32, &str, u64, &str); 8] = [
    (0, "6b626f756e646564", 6, "018202838201008400f60a820100a182010082820004a0"),
    (0, "6b706c61696e", 1, "0182008219012c00"),
    (0, "6b736574", 4, "01820181a18201008304820207a18201008202820007"),
    (0, "6c", 1, "0101"),
    (0, "73", 9, "018509031903e806838219012d0b820200820000"),
    (0, "74", 1_000, "011903e8"),
    (6, "68000000000000000874c6fd1149f9d236", 1, "01820001"),
    (
        6,
        "70000000000000000874c6fd1149f9d2360000",
        1,
        "018182503efed6bc262396cf3ad9e86c618c3a02842626261a00092ba8",
    ),
];

/// As one was logged before sites had books.
const RECORD_WITHOUT_BOOKS: &str = "018408031903e8068445706c61696e0182008219012c00437365740482018\
    1a18201008304820207a1820100820282000747626f756e646564068202838201008400f60a820100a182010082820004a044676f6e650882\
    0181a18201008308820100a182010082088201008182503efed6bc262396cf3ad9e86c618c3a02842626261a00092ba8";

#[test]
fn a_record_without_books_is_still_read() {
    let bytes = (0..RECORD_WITHOUT_BOOKS.len()).step_by(2);
    let byte = |at: usize| u8::from_str_radix(&RECORD_WITHOUT_BOOKS[at..at + 2], 16).expect("hexadecimal");
    let found = Found { records: vec![bytes.map(byte).collect()], rows: Vec::new() };
    assert!(!is_noticed(&found));
}

#[test]
fn records_and_rows_have_these_bytes() {
    let mut world = world();
    assert_eq!(hex(&record(&world)), RECORD);
    world.restart();
    let rows = writes(&mut world);
    let rows: Vec<_> = rows
        .iter()
        .map(|Write { slice, key, row }| (slice.0, hex(key), row.version, hex(&row.bytes)))
        .collect();
    let expected =
        ROWS.map(|(slice, key, version, bytes)| (slice, key.to_owned(), version, bytes.to_owned()));
    assert_eq!(rows, expected);
    let gone = world.memory.table().get(SHARD, Slice::KEPT, b"kgone").expect("it can be read");
    assert_eq!(gone, Some(Row { version: 8, bytes: Vec::new() }), "deleted");
}

/// Stored bytes that a process finds.
#[derive(Clone)]
struct Found {
    records: Vec<Vec<u8>>,
    rows: Vec<Write>,
}

/// The same state twice: in the log, and in the table.
fn found() -> [Found; 2] {
    let mut world = world();
    let in_log = Found { records: vec![record(&world)], rows: Vec::new() };
    world.restart();
    [in_log, Found { records: Vec::new(), rows: writes(&mut world) }]
}

const KEYS: [&[u8]; 4] = [b"plain", b"set", b"bounded", b"gone"];

/// Does a process notice that something is wrong? It opens the shard, and uses everything in it.
fn is_noticed(found: &Found) -> bool {
    let memory = Memory::new();
    memory.table().put(SHARD, &found.rows).expect("nothing fails here");
    let mut store = Store::new(memory.log(), memory.table());
    store.open(SHARD).expect("it opens");
    for record in &found.records {
        store.commit(&[Batch { shard: SHARD, record: record.clone() }], Flush::Now);
    }
    let mut host: Host<MemoryLog, MemoryTable> =
        Host::new(Store::new(memory.log(), memory.table()), None, Settings::default(), Flush::Now);
    let now = Moment { elapsed_ms: 0, unix_ms: 1_700_000_000_000 };
    match host.open(SHARD, now) {
        Ok(()) => {}
        Err(OpenError::Unreadable { shard: 0, why }) => {
            assert!(why.to_string().contains(" cannot be read: "), "{why}");
            return true;
        }
        Err(other) => panic!("{other}"),
    }
    let is_listed = host.list(SHARD, b"", None, 10).is_ok();
    for key in KEYS {
        for action in [
            Action::Inspect,
            Action::Add { add: Add::of(-7), operation: Some(OPERATION) },
            Action::Reset { to: Some(1) },
        ] {
            host.submit(SHARD, Ticket(0), Command { key, action }, now);
        }
    }
    let mut released = Released::default();
    host.commit(now, &mut released);
    host.maintain(Moment { elapsed_ms: 100_000, ..now }, &mut released);
    let is_refused = |reply: &Reply| match reply {
        Reply::Refused(Refusal::NotStored(why)) => {
            assert!(why.contains("cannot be read"), "{why}");
            true
        }
        _ => false,
    };
    !is_listed || released.replies.iter().any(|(_, reply)| is_refused(reply))
}

#[test]
fn bytes_that_are_cut_off_or_go_on_are_noticed() {
    for found in found() {
        assert!(!is_noticed(&found));
        for at in 0..found.records.len() {
            for cut in 0..found.records[at].len() {
                let mut found = found.clone();
                found.records[at].truncate(cut);
                assert!(is_noticed(&found), "record {at} of {cut} bytes");
            }
            let mut found = found.clone();
            found.records[at].push(0);
            assert!(is_noticed(&found), "a byte after record {at}");
        }
        for at in 0..found.rows.len() {
            // No bytes at all is a row that was deleted.
            for cut in 1..found.rows[at].row.bytes.len() {
                let mut found = found.clone();
                found.rows[at].row.bytes.truncate(cut);
                assert!(is_noticed(&found), "{:?} cut", found.rows[at]);
            }
            let mut found = found.clone();
            found.rows[at].row.bytes.push(0);
            assert!(is_noticed(&found), "{:?} with more", found.rows[at]);
        }
    }
}

#[test]
fn another_format_is_refused_by_its_number() {
    for mut found in found() {
        found.records.iter_mut().for_each(|record| record[0] = 2);
        found.rows.iter_mut().for_each(|write| write.row.bytes[0] = 2);
        assert!(is_noticed(&found));
    }
}

/// Whatever single bytes become, a process notices it or goes on.
#[test]
fn damage_does_no_more_than_damage() {
    let mut random = Random::new(1);
    let mut noticed = 0;
    let all = found();
    for _ in 0..6_000 {
        let mut found = random.pick(&all).clone();
        let at = random.below(found.records.len() + found.rows.len());
        let count = found.records.len();
        let bytes = if at < count { &mut found.records[at] } else { &mut found.rows[at - count].row.bytes };
        for _ in 0..1 + random.below(3) {
            let place = random.below(bytes.len());
            let any = random.bits().to_le_bytes()[0];
            bytes[place] = *random.pick(&[0, 0x1b, 0x3b, 0x5b, 0x9b, 0xbb, 0xff, any]);
        }
        fuzzing::rows(bytes);
        noticed += usize::from(is_noticed(&found));
    }
    assert!((1_000..6_000).contains(&noticed), "{noticed}");
}

/// Numbers that would overflow, lengths that nothing follows, slices without end.
#[test]
fn claims_are_not_believed() {
    for bytes in [
        "01841bffffffffffffffff000000",       // changes
        "0184000500008080",                   // more counters than changes
        "018400001bffffffffffffffff00",       // time
        "018400001903e81affffffff",           // slices
        "01840000000080809bffffffffffffffff", // operations
        "0184000000009bffffffffffffffff",     // changes of a record
        "018400000000815bffffffffffffffff",   // a key
        "01820181bbffffffffffffffff",         // sites
        "019bffffffffffffffff",               // operations of a page
        "",
        "01",
    ] {
        let bytes: Vec<u8> = (0..bytes.len() / 2)
            .map(|at| u8::from_str_radix(&bytes[2 * at..2 * at + 2], 16).expect("digits"))
            .collect();
        assert_eq!(fuzzing::rows(&bytes), 0, "{}", hex(&bytes));
    }
}

#[test]
fn each_row_is_read_as_what_it_is() {
    let [in_log, in_table] = found();
    let mut read: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for record in in_log.records {
        read.insert(b"record".to_vec(), fuzzing::rows(&record));
    }
    for write in in_table.rows {
        let bytes = match write.key[0] {
            b'h' => [write.key.clone(), write.row.bytes].concat(),
            _ => write.row.bytes,
        };
        read.insert(write.key, fuzzing::rows(&bytes));
    }
    assert_eq!(read.len(), 9);
    assert!(read.values().all(|as_how_many| *as_how_many == 1), "{read:?}");
}

/// The seed keeps clients from choosing keys that collide. Nothing else depends on it.
#[test]
fn what_is_stored_does_not_depend_on_the_order_of_a_hash_map() {
    let rows = |seed| {
        let settings = Settings { memory_bytes: 0, seed, ..Settings::default() };
        let mut world = World::new(Setup { shards: 1, settings, ..Setup::default() });
        for at in 0..500u32 {
            let operation = Some(OperationId { producer: b"p", id: &at.to_be_bytes() });
            world.send(format!("key:{}", at % 50).as_bytes(), Action::Add { add: Add::of(1), operation });
        }
        world.commit();
        (record(&world), {
            world.restart();
            writes(&mut world)
        })
    };
    assert_eq!(rows(1), rows(2));
}

/// The corpus of the fuzz target, and with it every input that ever failed.
#[test]
fn the_fuzz_corpus_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rows");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("a name").path()).expect("an input");
        read += fuzzing::rows(&bytes);
    }
    assert!(read > 0, "not one of the inputs can be read as anything");
}
