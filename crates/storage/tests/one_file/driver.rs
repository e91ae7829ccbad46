//! A small engine over a state file, which remembers what it was promised.

use std::collections::BTreeMap;

use quipu_storage::{
    Batch, Flush, Outcome, Position, Row, Scan, Settled, ShardId, Slice, Store, Table, Write,
    file::{FileLog, FileTable, StateFile},
    testing::sim_disk::SimDisk,
};

pub(crate) const SHARDS: u16 = 2;
pub(crate) const NAME: &str = "state";

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Put { shard: ShardId, key: u8, bytes: usize },
    Delete { shard: ShardId, key: u8 },
    Checkpoint { shard: ShardId },
    Take { shard: ShardId },
}

/// What a shard was promised.
#[derive(Debug, Default, Clone)]
pub(crate) struct Promise {
    /// All records ever committed, and after them one that may be there.
    pub history: Vec<Vec<u8>>,
    /// So many of them were reported.
    pub reported: usize,
}

pub(crate) struct Driver {
    disk: SimDisk,
    store: Store<FileLog<SimDisk>, FileTable<SimDisk>>,
    pub promises: BTreeMap<ShardId, Promise>,
    serial: u8,
}

pub(crate) fn shards() -> impl Iterator<Item = ShardId> {
    (0..SHARDS).map(ShardId)
}

/// A record: a key, and what is put under it; nothing: it is deleted.
fn apply(rows: &mut BTreeMap<u8, Row>, version: u64, record: &[u8]) {
    let row = Row { version, bytes: record[1..].to_vec() };
    rows.insert(record[0], row);
}

fn fold(records: &[Vec<u8>]) -> BTreeMap<u8, Row> {
    let mut rows = BTreeMap::new();
    for (version, record) in (1..).zip(records) {
        apply(&mut rows, version, record);
    }
    rows
}

impl Driver {
    /// Opens what is on the disk and demands that it fits the promises.
    pub(crate) fn open(disk: &SimDisk, promises: BTreeMap<ShardId, Promise>) -> Result<Self, String> {
        let file = StateFile::on(disk.clone(), NAME).map_err(|error| error.to_string())?;
        let store = Store::new(file.log(), file.table());
        let mut driver = Self { disk: disk.clone(), store, promises, serial: 0 };
        for shard in shards() {
            driver.check(shard)?;
        }
        Ok(driver)
    }

    fn check(&mut self, shard: ShardId) -> Result<(), String> {
        let recovered = self.store.open(shard).map_err(|error| error.to_string())?;
        let promise = self.promises.entry(shard).or_default();
        let last = usize::try_from(recovered.last().0).unwrap();
        let lengths = (promise.reported, promise.history.len());
        let told = |what: &str| format!("{shard:?}: {what}; recovered up to {last}, promised {lengths:?}");
        if last < promise.reported {
            return Err(told("a record is lost"));
        }
        if last > promise.history.len() {
            return Err(told("there is more than was ever committed"));
        }
        promise.history.truncate(last);
        promise.reported = last;
        let scan = Scan { slice: Slice::KEPT, prefix: b"", after: None, rows_max: usize::MAX };
        let page = self.store.table().scan(shard, scan).map_err(|error| error.to_string())?;
        let mut rows: BTreeMap<u8, Row> = page.rows.into_iter().map(|(key, row)| (key[0], row)).collect();
        for record in recovered.records {
            apply(&mut rows, record.position.0, &record.bytes);
        }
        rows.retain(|_, row| !row.bytes.is_empty());
        let mut expected = fold(&promise.history);
        expected.retain(|_, row| !row.bytes.is_empty());
        if rows == expected { Ok(()) } else { Err(told("rows and records are not what was committed")) }
    }

    /// Goes through the steps until the end or the crash.
    pub(crate) fn run(&mut self, steps: &[Step]) {
        for step in steps {
            if self.disk.crashed() {
                break;
            }
            match *step {
                Step::Put { shard, key, bytes } => {
                    self.serial = self.serial.wrapping_add(1);
                    let mut record = vec![key];
                    record.resize(2 + bytes, self.serial.max(1));
                    self.commit(shard, record);
                }
                Step::Delete { shard, key } => self.commit(shard, vec![key]),
                Step::Checkpoint { shard } => self.checkpoint(shard),
                Step::Take { shard } => {
                    let recovered = self.store.open(shard).expect("it needs no disk");
                    assert_eq!(recovered.last(), Position(self.promises[&shard].reported as u64));
                }
            }
        }
    }

    fn commit(&mut self, shard: ShardId, record: Vec<u8>) {
        let promise = self.promises.get_mut(&shard).expect("it was opened");
        let mut outcome = self.store.commit(&[Batch { shard, record: record.clone() }], Flush::Now).remove(0);
        for _ in 0..3 {
            if !matches!(outcome, Outcome::Unknown(_)) || self.disk.crashed() {
                break;
            }
            outcome = match self.store.settle(shard) {
                Settled::Committed { position } => Outcome::Committed { position },
                Settled::Unknown(error) => Outcome::Unknown(error),
                other => panic!("nobody else takes it: {other:?}"),
            };
        }
        match outcome {
            Outcome::Committed { position } => {
                promise.history.push(record);
                assert_eq!(position, Position(promise.history.len() as u64));
                promise.reported = promise.history.len();
            }
            Outcome::Unknown(_) => {
                assert!(self.disk.crashed(), "trouble ends sooner");
                promise.history.push(record);
            }
            Outcome::Failed(_) => {}
            Outcome::Fenced => panic!("nobody else takes it"),
        }
    }

    /// Of all rows, deleted ones too. Failing is no harm: a later one covers the same.
    fn checkpoint(&mut self, shard: ShardId) {
        let promise = &self.promises[&shard];
        let position = Position(promise.reported as u64);
        let rows = fold(&promise.history[..promise.reported]).into_iter();
        let rows: Vec<Write> =
            rows.map(|(key, row)| Write { slice: Slice::KEPT, key: vec![key], row }).collect();
        let _ = self.store.checkpoint(shard, position, &rows);
    }
}
