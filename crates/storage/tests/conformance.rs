//! Every backend passes the one suite.

use std::{io::ErrorKind, sync::Arc};

use quipu_storage::{
    NodeId, ShardId,
    conformance::{self, Backend, SharedBackend},
    embedded::{Embedded, EmbeddedLog, FjallTable, Folder, LogConfig, Logs},
    file::{FileLog, FileTable, SingleFile, StateFile},
    memory::{Fault, Memory, MemoryLog, MemoryRegistry, MemoryTable},
    testing::sim_disk::{Operation, SimDisk},
};

struct InMemory {
    memory: Memory,
    fault: Fault,
    nodes: u128,
}

impl InMemory {
    fn new(fault: Fault) -> Self {
        Self { memory: Memory::new(), fault, nodes: 0 }
    }
}

impl Backend for InMemory {
    type Log = MemoryLog;
    type Table = MemoryTable;

    fn log(&mut self) -> MemoryLog {
        self.memory.log()
    }

    fn table(&mut self) -> MemoryTable {
        self.memory.table()
    }

    fn reopen(&mut self) {
        self.memory.crash();
    }

    fn make_unknown(&mut self, shard: ShardId) -> bool {
        // One for the commit and one for the first attempt to settle it.
        self.memory.inject(shard, self.fault);
        self.memory.inject(shard, Fault::UnknownNotStored);
        true
    }

    fn let_settle(&mut self) {
        self.memory.heal();
        self.memory.land();
    }
}

impl SharedBackend for InMemory {
    type Registry = MemoryRegistry;

    fn node(&mut self) -> (MemoryLog, MemoryRegistry) {
        self.nodes += 1;
        let node = NodeId(self.nodes);
        (self.memory.log_of(node), self.memory.registry(node))
    }
}

#[test]
fn memory_that_nodes_share() {
    conformance::run_shared(|| InMemory::new(Fault::UnknownStored));
}

#[test]
fn memory_that_forgets_the_write() {
    conformance::run(|| InMemory::new(Fault::UnknownNotStored));
}

#[test]
fn memory_that_forgets_to_answer() {
    conformance::run(|| InMemory::new(Fault::UnknownStored));
}

#[test]
fn memory_whose_write_lands_late() {
    conformance::run(|| InMemory::new(Fault::UnknownLate));
}

/// Segments so small that every part of the suite goes through several.
fn small() -> LogConfig {
    LogConfig { workers: 2, segment_bytes: 2048, reserve_bytes: 512, ..LogConfig::default() }
}

struct InFolder {
    folder: tempfile::TempDir,
    open: Option<Embedded>,
    next: u16,
}

impl InFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = Some(Embedded::open(folder.path(), small()).unwrap());
        Self { folder, open, next: 0 }
    }
}

impl Backend for InFolder {
    type Log = EmbeddedLog<Folder>;
    type Table = Arc<FjallTable>;

    fn log(&mut self) -> Self::Log {
        self.next += 1;
        self.open.as_ref().unwrap().log(self.next % 2)
    }

    fn table(&mut self) -> Self::Table {
        self.open.as_ref().unwrap().table()
    }

    fn reopen(&mut self) {
        self.open = None;
        self.open = Some(Embedded::open(self.folder.path(), small()).unwrap());
    }

    fn make_unknown(&mut self, _: ShardId) -> bool {
        false
    }

    fn let_settle(&mut self) {}
}

#[test]
fn embedded_in_a_folder() {
    conformance::run(InFolder::new);
}

/// The embedded log on a simulated disk, where every reopening is a power failure that loses all it may.
struct OnSimDisk {
    disk: SimDisk,
    memory: Memory,
    logs: Option<Logs<SimDisk>>,
    next: u16,
}

impl OnSimDisk {
    fn new() -> Self {
        let disk = SimDisk::new();
        let logs = Some(Logs::open(disk.clone(), disk.clone(), small()).unwrap());
        Self { disk, memory: Memory::new(), logs, next: 0 }
    }
}

impl Backend for OnSimDisk {
    type Log = EmbeddedLog<SimDisk>;
    type Table = MemoryTable;

    fn log(&mut self) -> Self::Log {
        self.next += 1;
        self.logs.as_ref().unwrap().log(self.next % 2)
    }

    fn table(&mut self) -> Self::Table {
        self.memory.table()
    }

    fn reopen(&mut self) {
        self.logs = None;
        self.disk.power_cycle(0, || quipu_storage::testing::sim_disk::Fate::Lost);
        self.logs = Some(Logs::open(self.disk.clone(), self.disk.clone(), small()).unwrap());
    }

    fn make_unknown(&mut self, _: ShardId) -> bool {
        self.disk.fail_all(Operation::Sync, Some(ErrorKind::Other));
        true
    }

    fn let_settle(&mut self) {
        self.disk.fail_all(Operation::Sync, None);
    }
}

#[test]
fn embedded_on_a_disk_that_loses_all_it_may() {
    conformance::run(OnSimDisk::new);
}

struct InOneFile {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    open: Option<StateFile<SingleFile>>,
}

impl InOneFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let open = Some(StateFile::open(&path).unwrap());
        Self { _folder: folder, path, open }
    }
}

impl Backend for InOneFile {
    type Log = FileLog<SingleFile>;
    type Table = FileTable<SingleFile>;

    fn log(&mut self) -> Self::Log {
        self.open.as_ref().unwrap().log()
    }

    fn table(&mut self) -> Self::Table {
        self.open.as_ref().unwrap().table()
    }

    fn reopen(&mut self) {
        self.open = None;
        self.open = Some(StateFile::open(&self.path).unwrap());
    }

    fn make_unknown(&mut self, _: ShardId) -> bool {
        false
    }

    fn let_settle(&mut self) {}
}

#[test]
fn one_file() {
    conformance::run(InOneFile::new);
}

/// One file on a simulated disk, where every reopening is a power failure that loses all it may.
struct OneFileOnSimDisk {
    disk: SimDisk,
    open: Option<StateFile<SimDisk>>,
}

impl OneFileOnSimDisk {
    fn new() -> Self {
        let disk = SimDisk::new();
        let open = Some(StateFile::on(disk.clone(), "state").unwrap());
        Self { disk, open }
    }
}

impl Backend for OneFileOnSimDisk {
    type Log = FileLog<SimDisk>;
    type Table = FileTable<SimDisk>;

    fn log(&mut self) -> Self::Log {
        self.open.as_ref().unwrap().log()
    }

    fn table(&mut self) -> Self::Table {
        self.open.as_ref().unwrap().table()
    }

    fn reopen(&mut self) {
        self.open = None;
        self.disk.power_cycle(0, || quipu_storage::testing::sim_disk::Fate::Lost);
        self.open = Some(StateFile::on(self.disk.clone(), "state").unwrap());
    }

    fn make_unknown(&mut self, _: ShardId) -> bool {
        self.disk.fail_all(Operation::Sync, Some(ErrorKind::Other));
        true
    }

    fn let_settle(&mut self) {
        self.disk.fail_all(Operation::Sync, None);
    }
}

#[test]
fn one_file_on_a_disk_that_loses_all_it_may() {
    conformance::run(OneFileOnSimDisk::new);
}
