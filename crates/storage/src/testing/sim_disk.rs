//! A disk that keeps its promises and no more: what was not flushed may be lost, torn or reordered by a crash, and
//! after a failed flush what was written before is lost or kept whatever is flushed later.
//!
//! Operations are counted, so that a test can crash before each of them in turn, and choose the fate of every write
//! that a crash finds unflushed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use crate::embedded::{Disk, DiskFile};

/// Writes are torn at multiples of this.
pub const SECTOR_BYTES: usize = 512;

/// What becomes of a write that a crash finds unflushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Not there.
    Lost,
    /// There.
    Kept,
    /// Only its first sectors.
    Front,
    /// Only its last sectors.
    Back,
    /// Every other sector, the first included or not.
    Comb {
        /// Whether the first is there.
        first: bool,
    },
}

impl Fate {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Lost,
        Self::Kept,
        Self::Front,
        Self::Back,
        Self::Comb { first: true },
        Self::Comb { first: false },
    ];

    fn keeps(self, sector: usize, sectors: usize) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Front => sector < sectors.div_ceil(2),
            Self::Back => sector >= sectors.div_ceil(2),
            Self::Comb { first } => sector.is_multiple_of(2) == first,
        }
    }
}

/// What kind of operation, for faults that are meant for one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Bytes into a file.
    Write,
    /// A flush of a file.
    Sync,
    /// Space for a file.
    Reserve,
    /// Creating, renaming, removing.
    Names,
    /// A flush of the names.
    SyncNames,
    /// Something outside of the disk that the test counts as well.
    Other,
}

/// A disk in memory; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// The names after each change since the last flush of names.
    name_changes: Vec<BTreeMap<String, usize>>,
    operations: u64,
    log: Vec<Operation>,
    crash_at: Option<u64>,
    crashed: bool,
    fail_at: BTreeMap<u64, io::ErrorKind>,
    /// Every operation of these kinds fails until the test says otherwise.
    failing: BTreeMap<Operation, io::ErrorKind>,
    /// Flushes that do nothing and say that they have: a wrong disk, or a program that does not flush.
    lying: bool,
    generation: u64,
}

#[derive(Debug, Default, Clone)]
struct Content {
    /// What a read returns.
    seen: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Vec<(usize, Vec<u8>)>,
    /// Written before a flush that failed: no later flush brings them.
    limbo: Vec<(usize, Vec<u8>)>,
}

fn apply(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl State {
    /// Counts an operation; fails it if the process is dead, dies now, or a fault was asked for.
    fn step(&mut self, operation: Operation) -> io::Result<()> {
        if self.crashed {
            return Err(io::Error::other("the process has crashed"));
        }
        if self.crash_at == Some(self.operations) {
            self.crashed = true;
            return Err(io::Error::other("the process crashes"));
        }
        let at = self.operations;
        self.operations += 1;
        self.log.push(operation);
        match self.fail_at.get(&at).or_else(|| self.failing.get(&operation)) {
            Some(&kind) => Err(io::Error::new(kind, "injected")),
            None => Ok(()),
        }
    }

    fn note_names(&mut self) {
        self.name_changes.push(self.names.clone());
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a test that panicked within the disk has failed already")
    }

    /// The process dies before the operation with this number.
    pub fn crash_at(&self, operation: u64) {
        self.lock().crash_at = Some(operation);
    }

    /// The operation with this number fails.
    pub fn fail_at(&self, operation: u64, kind: io::ErrorKind) {
        self.lock().fail_at.insert(operation, kind);
    }

    /// All operations of a kind fail, until `None`.
    pub fn fail_all(&self, operation: Operation, kind: Option<io::ErrorKind>) {
        let mut state = self.lock();
        match kind {
            Some(kind) => state.failing.insert(operation, kind),
            None => state.failing.remove(&operation),
        };
    }

    /// Flushes do nothing from now on.
    pub fn lie(&self) {
        self.lock().lying = true;
    }

    /// How many operations there were, and which.
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().log.clone()
    }

    /// Whether the process is dead.
    pub fn crashed(&self) -> bool {
        self.lock().crashed
    }

    /// Counts something that is not of the disk, such as a write to a table.
    pub fn other(&self) -> io::Result<()> {
        self.lock().step(Operation::Other)
    }

    /// How many decisions a crash now would need: one for the names, one for every unflushed write.
    pub fn decisions(&self) -> usize {
        let state = self.lock();
        1 + state.files.iter().map(|file| file.unflushed.len() + file.limbo.len()).sum::<usize>()
    }

    /// The power fails, and comes back. `names` chooses how many of the unflushed changes of names are there (they
    /// happen in order); `fate` is asked for every unflushed write, in order.
    pub fn power_cycle(&self, names: usize, mut fate: impl FnMut() -> Fate) {
        let mut state = self.lock();
        if names > 0 {
            let kept = names.min(state.name_changes.len());
            if let Some(kept) = kept.checked_sub(1) {
                state.durable_names = state.name_changes[kept].clone();
            }
        }
        state.name_changes.clear();
        state.names = state.durable_names.clone();
        for file in &mut state.files {
            let limbo = std::mem::take(&mut file.limbo);
            let unflushed = std::mem::take(&mut file.unflushed);
            for (offset, bytes) in limbo.into_iter().chain(unflushed) {
                write_torn(&mut file.durable, offset, &bytes, fate());
            }
            file.seen.clone_from(&file.durable);
        }
        state.crashed = false;
        state.crash_at = None;
        state.fail_at.clear();
        state.failing.clear();
        state.lying = false;
        state.generation += 1;
    }

    /// How many changes of names are not flushed.
    pub fn name_changes(&self) -> usize {
        self.lock().name_changes.len()
    }

    /// The content of all files, by name.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        state.names.iter().map(|(name, &file)| (name.clone(), state.files[file].seen.clone())).collect()
    }

    /// Flips one bit of a file, as damage does: flushed or not.
    pub fn flip(&self, name: &str, offset: usize, bit: u8) {
        let mut state = self.lock();
        let file = state.names[name];
        state.files[file].seen[offset] ^= 1 << bit;
        if let Some(byte) = state.files[file].durable.get_mut(offset) {
            *byte ^= 1 << bit;
        }
    }

    /// Cuts a file off, as damage does.
    pub fn cut(&self, name: &str, bytes: usize) {
        let mut state = self.lock();
        let file = state.names[name];
        state.files[file].seen.truncate(bytes);
        state.files[file].durable.truncate(bytes);
    }

    /// A copy that goes its own way.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.lock();
        let copy = State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            name_changes: state.name_changes.clone(),
            generation: state.generation,
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }
}

fn write_torn(content: &mut Vec<u8>, offset: usize, bytes: &[u8], fate: Fate) {
    // Sectors are those of the disk, not of the write.
    let first = offset / SECTOR_BYTES;
    let sectors = (offset + bytes.len()).div_ceil(SECTOR_BYTES) - first;
    let kept: BTreeSet<usize> = (0..sectors).filter(|&sector| fate.keeps(sector, sectors)).collect();
    for sector in kept {
        let from = ((first + sector) * SECTOR_BYTES).max(offset);
        let to = ((first + sector + 1) * SECTOR_BYTES).min(offset + bytes.len());
        apply(content, from, &bytes[from - offset..to - offset]);
    }
}

/// An open file of a [`SimDisk`]. A power cycle makes it useless, as it ends the process that had it open.
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    file: usize,
    generation: u64,
}

impl SimFile {
    fn step(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.disk.lock();
        if state.generation != self.generation {
            return Err(io::Error::other("opened before the crash"));
        }
        state.step(operation)?;
        Ok(state)
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.step(Operation::Write)?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let content = &mut state.files[self.file];
        apply(&mut content.seen, offset, bytes);
        content.unflushed.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let stepped = self.step(Operation::Sync).map(drop);
        let mut state = self.disk.lock();
        if state.crashed || state.generation != self.generation {
            return stepped;
        }
        let lying = state.lying;
        let content = &mut state.files[self.file];
        if stepped.is_err() {
            // The system marks the pages clean and forgets them.
            content.limbo.append(&mut content.unflushed);
            return stepped;
        }
        if !lying {
            for (offset, bytes) in std::mem::take(&mut content.unflushed) {
                apply(&mut content.durable, offset, &bytes);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<u64> {
        let mut state = self.step(Operation::Reserve)?;
        let content = &mut state.files[self.file];
        let (from, to) = (content.seen.len(), usize::try_from(bytes).map_err(io::Error::other)?);
        if to > from {
            apply(&mut content.seen, from, &vec![0; to - from]);
            content.unflushed.push((from, vec![0; to - from]));
        }
        Ok(content.seen.len() as u64)
    }

    fn read_start(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let state = self.disk.lock();
        let seen = &state.files[self.file].seen;
        Ok(seen[..seen.len().min(bytes)].to_vec())
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].seen.len() as u64)
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.lock();
        state.step(Operation::Names)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        state.files.push(Content::default());
        state.names.insert(name.to_owned(), file);
        state.note_names();
        Ok(SimFile { disk: self.clone(), file, generation: state.generation })
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = self.lock();
        let file = state.find(name)?;
        Ok(SimFile { disk: self.clone(), file, generation: state.generation })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step(Operation::Names)?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        state.note_names();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.step(Operation::Names)?;
        state.find(name)?;
        state.names.remove(name);
        state.note_names();
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.step(Operation::SyncNames)?;
        state.name_changes.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}
