//! A small engine that commits, checkpoints and moves shards between workers, and remembers what it was promised.

use std::collections::BTreeMap;

use quipu_storage::{
    Batch, Flush, Log, Mark, Outcome, Page, Position, Record, Row, Scan, Settled, ShardId, Slice,
    StorageError, Store, Table, Write,
    embedded::{Disk, EmbeddedLog, LogConfig, Logs},
    memory::{Memory, MemoryTable},
    testing::sim_disk::SimDisk,
};

pub(crate) const SHARDS: u16 = 3;
pub(crate) const WORKERS: u16 = 2;

/// What the engine is told to do.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// One group: for each shard a value to put under a key.
    Commit {
        worker: u16,
        writes: Vec<(ShardId, u8, usize)>,
        flush: Flush,
    },
    Flush {
        worker: u16,
    },
    Checkpoint {
        shard: ShardId,
    },
    /// What belongs to the folder is noted.
    Note,
    Move {
        shard: ShardId,
        worker: u16,
    },
}

/// In which order a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    RowsThenMark,
    /// Wrong.
    MarkThenRows,
}

/// A table whose every row is a step at which the process may die.
#[derive(Debug)]
pub(crate) struct SteppingTable {
    disk: SimDisk,
    table: MemoryTable,
}

impl Table for SteppingTable {
    fn get(&self, shard: ShardId, slice: Slice, key: &[u8]) -> Result<Option<Row>, StorageError> {
        self.table.get(shard, slice, key)
    }
    fn put(&self, shard: ShardId, writes: &[Write]) -> Result<(), StorageError> {
        for write in writes {
            self.disk.other().map_err(|error| StorageError::io("writing rows", error))?;
            self.table.put(shard, std::slice::from_ref(write))?;
        }
        Ok(())
    }
    fn scan(&self, shard: ShardId, scan: Scan<'_>) -> Result<Page, StorageError> {
        self.table.scan(shard, scan)
    }
    fn drop_slices(&self, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
        self.table.drop_slices(shard, floor)
    }
}

/// What a shard was promised.
#[derive(Debug, Default, Clone)]
pub(crate) struct Promise {
    /// All records ever committed, and after them those that may be there.
    pub history: Vec<Vec<u8>>,
    /// So many of them were reported durable.
    pub durable: usize,
    /// So many were reported at all.
    pub reported: usize,
}

pub(crate) struct Driver<D: Disk> {
    pub disk: SimDisk,
    memory: Memory,
    logs: Logs<D>,
    stores: Vec<Store<EmbeddedLog<D>, SteppingTable>>,
    owners: BTreeMap<ShardId, u16>,
    pub promises: BTreeMap<ShardId, Promise>,
    order: Order,
    serial: u64,
}

/// The key and value of a record; the value is long, so that frames span sectors.
fn record(key: u8, serial: u64, bytes: usize) -> Vec<u8> {
    let mut record = vec![key];
    record.extend_from_slice(&serial.to_le_bytes());
    record.resize(9 + bytes, key.wrapping_add(serial.to_le_bytes()[0]));
    record
}

fn fold(records: &[Vec<u8>]) -> BTreeMap<u8, Row> {
    let mut rows = BTreeMap::new();
    for (version, record) in (1..).zip(records) {
        rows.insert(record[0], Row { version, bytes: record.clone() });
    }
    rows
}

pub(crate) fn shards() -> impl Iterator<Item = ShardId> {
    (0..SHARDS).map(ShardId)
}

impl<D: Disk> Driver<D> {
    /// Opens what is on the disk and demands that it fits the promises.
    pub(crate) fn open(
        disk: &SimDisk,
        layer: impl Fn() -> D,
        memory: &Memory,
        config: LogConfig,
        order: Order,
        promises: BTreeMap<ShardId, Promise>,
    ) -> Result<Self, String> {
        let logs = Logs::open(layer(), layer(), config).map_err(|error| error.to_string())?;
        let table = || SteppingTable { disk: disk.clone(), table: memory.table() };
        let stores = (0..config.workers).map(|worker| Store::new(logs.log(worker), table())).collect();
        let owners = shards().map(|shard| (shard, shard.0 % config.workers)).collect();
        let serial = promises.values().map(|promise| promise.history.len() as u64).sum::<u64>() * 1000;
        let (disk, memory) = (disk.clone(), memory.clone());
        let mut driver = Self { disk, memory, logs, stores, owners, promises, order, serial };
        for shard in shards() {
            driver.check(shard)?;
        }
        Ok(driver)
    }

    fn check(&mut self, shard: ShardId) -> Result<(), String> {
        let worker = usize::from(self.owners[&shard]);
        let recovered = self.stores[worker].open(shard).map_err(|error| error.to_string())?;
        let promise = self.promises.entry(shard).or_default();
        let last = usize::try_from(recovered.last().0).unwrap();
        let told = |what: &str| format!("{shard:?}: {what}; recovered up to {last}, promised {promise:?}");
        if last < promise.durable {
            return Err(told("a durable record is lost"));
        }
        if last > promise.history.len() {
            return Err(told("there is more than was ever committed"));
        }
        for Record { position, bytes } in &recovered.records {
            if *bytes != promise.history[usize::try_from(position.0).unwrap() - 1] {
                return Err(told("a record is not what was committed"));
            }
        }
        promise.history.truncate(last);
        promise.durable = last;
        promise.reported = last;
        let mut rows: BTreeMap<u8, Row> = BTreeMap::new();
        let scan = Scan { slice: Slice::KEPT, prefix: b"", after: None, rows_max: usize::MAX };
        for (key, row) in self.memory.table().scan(shard, scan).unwrap().rows {
            rows.insert(key[0], row);
        }
        for Record { position, bytes } in recovered.records {
            let row = Row { version: position.0, bytes };
            let known = rows.entry(row.bytes[0]).or_insert_with(|| row.clone());
            if known.version < row.version {
                *known = row;
            }
        }
        if rows == fold(&promise.history) {
            Ok(())
        } else {
            Err(format!("{shard:?}: table and log together are not what was committed"))
        }
    }

    /// Goes through the steps until the end or the crash.
    pub(crate) fn run(&mut self, steps: &[Step]) {
        for step in steps {
            if self.disk.crashed() {
                break;
            }
            match step {
                Step::Commit { worker, writes, flush } => self.commit(*worker, writes, *flush),
                Step::Flush { worker } => {
                    if self.stores[usize::from(*worker)].log().flush().is_ok() {
                        self.flushed(*worker);
                    }
                }
                Step::Checkpoint { shard } => self.checkpoint(*shard),
                Step::Move { shard, worker } => self.take(*shard, *worker),
                // Failing is no harm: the last note stands.
                Step::Note => drop(self.logs.note()),
            }
        }
    }

    fn flushed(&mut self, worker: u16) {
        for (shard, _) in self.owners.iter().filter(|(_, owner)| **owner == worker) {
            let promise = self.promises.get_mut(shard).unwrap();
            promise.durable = promise.reported;
        }
    }

    pub(crate) fn commit(&mut self, worker: u16, writes: &[(ShardId, u8, usize)], flush: Flush) {
        let mut batches = Vec::new();
        for &(shard, key, bytes) in writes.iter().filter(|(shard, ..)| self.owners[shard] == worker) {
            self.serial += 1;
            batches.push(Batch { shard, record: record(key, self.serial, bytes) });
        }
        let store = &mut self.stores[usize::from(worker)];
        let outcomes = store.commit(&batches, flush);
        for (batch, outcome) in batches.into_iter().zip(outcomes) {
            let promise = self.promises.get_mut(&batch.shard).unwrap();
            let mut outcome = outcome;
            // A few attempts: in these tests trouble is short, or the process is dead.
            for _ in 0..3 {
                if !matches!(outcome, Outcome::Unknown(_)) || self.disk.crashed() {
                    break;
                }
                outcome = match store.settle(batch.shard) {
                    Settled::Committed { position } => Outcome::Committed { position },
                    Settled::Unknown(error) => Outcome::Unknown(error),
                    other => panic!("nobody else takes it: {other:?}"),
                };
            }
            match outcome {
                Outcome::Committed { position } => {
                    promise.history.push(batch.record);
                    assert_eq!(position, Position(promise.history.len() as u64));
                    promise.reported = promise.history.len();
                    if flush == Flush::Now {
                        promise.durable = promise.reported;
                    }
                }
                Outcome::Unknown(_) => {
                    assert!(self.disk.crashed(), "trouble ends sooner");
                    promise.history.push(batch.record);
                }
                Outcome::Failed(_) => {}
                Outcome::Fenced => panic!("nobody else takes it"),
            }
        }
    }

    fn checkpoint(&mut self, shard: ShardId) {
        let promise = &self.promises[&shard];
        let position = Position(promise.reported as u64);
        let rows: Vec<Write> = fold(&promise.history[..promise.reported])
            .into_iter()
            .map(|(key, row)| Write { slice: Slice::KEPT, key: vec![key], row })
            .collect();
        let store = &mut self.stores[usize::from(self.owners[&shard])];
        // Failing is no harm: a later one covers the same.
        let _ = match self.order {
            Order::RowsThenMark => store.checkpoint(shard, position, &rows),
            Order::MarkThenRows => store
                .log()
                .checkpoint(&[Mark { shard, position }])
                .and_then(|()| store.table().put(shard, &rows)),
        };
    }

    fn take(&mut self, shard: ShardId, worker: u16) {
        match self.stores[usize::from(worker)].open(shard) {
            Ok(recovered) => {
                let promise = self.promises.get_mut(&shard).unwrap();
                assert_eq!(recovered.last(), Position(promise.reported as u64));
                promise.durable = promise.reported;
                self.owners.insert(shard, worker);
            }
            // The fence may have been taken before the trouble: take it back.
            Err(_) => {
                let retaken = (0..5).map(|_| self.retake(shard)).find(Result::is_ok);
                assert!(
                    retaken.is_some() || self.disk.crashed(),
                    "trouble ends sooner: {:?}",
                    self.retake(shard)
                );
            }
        }
    }

    fn retake(&mut self, shard: ShardId) -> Result<(), StorageError> {
        self.stores[usize::from(self.owners[&shard])].open(shard).map(drop)
    }
}
