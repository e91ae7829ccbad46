//! The table beyond what every backend must do: many partitions, large rows, floors that others moved.

use quipu_storage::{
    Log, Row, Scan, ShardId, Slice, StorageError, Table, Write, memory::Memory, testing::Seeded,
};

use crate::server::Server;

const SHARD: ShardId = ShardId(5);

fn write(key: &[u8], version: u64, bytes: Vec<u8>) -> Write {
    Write { slice: Slice::KEPT, key: key.to_vec(), row: Row { version, bytes } }
}

fn list<T: Table>(table: &T, prefix: &[u8], rows_max: usize) -> Vec<(Vec<u8>, Row)> {
    let mut rows = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let scan = Scan { slice: Slice::KEPT, prefix, after: after.as_deref(), rows_max };
        let page = table.scan(SHARD, scan).expect("scans");
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

/// Rows that lie in several partitions are listed as if they lay in one.
pub(crate) fn listing_as_in_memory(server: &Server) {
    let table = server.open(&server.keyspace()).table();
    let memory = Memory::new().table();
    let mut random = Seeded::new(3);
    for round in 1..=4 {
        let mut writes = Vec::new();
        for _ in 0..150 {
            // Short keys of few bytes meet often, at both ends of the alphabet.
            let key: Vec<u8> =
                (0..1 + random.below(4)).map(|_| [0, 1, b'a', 254, 255][random.below(5)]).collect();
            let bytes = if random.below(4) == 0 { Vec::new() } else { key.repeat(3) };
            writes.push(write(&key, round, bytes));
        }
        writes.sort_by(|one, other| one.key.cmp(&other.key));
        writes.dedup_by(|one, other| one.key == other.key);
        table.put(SHARD, &writes).expect("writes");
        memory.put(SHARD, &writes).expect("writes");
    }
    for prefix in [&[][..], &[0], &[255], &[255, 255], b"a", b"b", &[254, 0]] {
        for rows_max in [1, 3, 17, 1000] {
            let (found, expected) = (list(&table, prefix, rows_max), list(&memory, prefix, rows_max));
            assert_eq!(found, expected, "prefix {prefix:?}, {rows_max} at a time");
        }
    }
}

/// The least that keys and versions can be, and more than a timestamp can be.
pub(crate) fn ends_of_ranges(server: &Server) {
    let table = server.open(&server.keyspace()).table();
    let get = |key: &[u8]| table.get(SHARD, Slice::KEPT, key).expect("reads");
    table.put(SHARD, &[write(b"", 0, b"first".to_vec()), write(b"k", 0, Vec::new())]).expect("writes");
    assert_eq!(get(b""), Some(Row { version: 0, bytes: b"first".to_vec() }));
    assert_eq!(get(b"k"), Some(Row { version: 0, bytes: Vec::new() }));
    let longest = vec![255; quipu_storage::KEY_BYTES_MAX];
    table.put(SHARD, &[write(&longest, i64::MAX as u64, b"last".to_vec())]).expect("writes");
    assert_eq!(get(&longest), Some(Row { version: i64::MAX as u64, bytes: b"last".to_vec() }));
    assert_eq!(list(&table, b"", 10).len(), 2, "all but the deleted one");
    let beyond = table.put(SHARD, &[write(b"k", i64::MAX as u64 + 1, b"beyond".to_vec())]);
    assert!(matches!(beyond, Err(StorageError::Table { .. })), "{beyond:?}");
}

/// Rows of the largest size there is; earlier versions leave nothing behind.
pub(crate) fn large_rows(server: &Server) {
    let address = server.keyspace();
    let table = server.open(&address).table();
    let large = |byte: u8, bytes: usize| vec![byte; bytes];
    table
        .put(SHARD, &[write(b"k", 2, large(2, 3 << 20)), write(b"l", 1, b"small".to_vec())])
        .expect("writes");
    table.put(SHARD, &[write(b"k", 1, large(1, 1 << 20))]).expect("too late");
    let row = table.get(SHARD, Slice::KEPT, b"k").expect("reads").expect("is there");
    assert_eq!((row.version, row.bytes), (2, large(2, 3 << 20)));
    table.put(SHARD, &[write(b"k", 3, large(3, quipu_storage::ROW_BYTES_MAX))]).expect("writes");
    let rows = list(&table, b"", 10);
    assert_eq!(
        rows.iter().map(|(_, row)| row.bytes.len()).collect::<Vec<_>>(),
        [quipu_storage::ROW_BYTES_MAX, 5]
    );
    let parts = format!("SELECT part FROM {}.row_parts", address.keyspace());
    assert_eq!(server.ask(&parts), 16, "of the newest version only");
    table.put(SHARD, &[write(b"k", 4, b"small again".to_vec())]).expect("writes");
    assert_eq!(table.get(SHARD, Slice::KEPT, b"k").expect("reads").expect("is there").bytes, b"small again");
}

/// A node that gets a shard back sees the floor that another owner has moved meanwhile, and no late write below it.
pub(crate) fn slices_of_an_earlier_owner(server: &Server) {
    let address = server.keyspace();
    let (first, second) = (server.open(&address), server.open(&address));
    let row = |slice: u32, key: &[u8]| Write { slice: Slice(slice), ..write(key, 1, b"seen".to_vec()) };
    let mut log = first.log();
    log.take(SHARD).expect("taken");
    first.table().put(SHARD, &[row(1, b"id"), row(2, b"id"), row(3, b"id")]).expect("writes");
    second.log().take(SHARD).expect("taken");
    second.table().drop_slices(SHARD, Slice(3)).expect("drops");
    let left = format!("SELECT slice FROM {}.slices", address.keyspace());
    assert_eq!(server.ask(&left), 1, "dropped slices are gone");
    // The former owner does not know yet; what it writes now is late.
    first.table().put(SHARD, &[row(2, b"late")]).expect("does no harm");
    log.take(SHARD).expect("taken back");
    let there =
        |slice: u32, key: &[u8]| first.table().get(SHARD, Slice(slice), key).expect("reads").is_some();
    assert!(!there(2, b"late"));
    assert!(!there(2, b"id"));
    assert!(there(3, b"id"));
}
