//! The register of nodes in memory.

use super::{Flaw, Memory};
use crate::{Held, NodeId, Record, Registered, Registry, ShardId, StorageError};

/// What one node sees of the others.
#[derive(Debug, Clone)]
pub struct MemoryRegistry {
    memory: Memory,
    own: NodeId,
}

impl MemoryRegistry {
    pub(super) fn new(memory: Memory, own: NodeId) -> Self {
        Self { memory, own }
    }
}

impl Registry for MemoryRegistry {
    fn own(&self) -> NodeId {
        self.own
    }

    fn write(&self, registered: &Registered) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        if !inner.removed.contains(&registered.node) {
            inner.nodes.insert(registered.node, registered.clone());
        }
        Ok(())
    }

    fn remove(&self, node: NodeId) -> Result<(), StorageError> {
        let mut inner = self.memory.lock();
        inner.nodes.remove(&node);
        inner.drains.remove(&node);
        inner.removed.insert(node);
        Ok(())
    }

    fn nodes(&self) -> Result<Vec<Registered>, StorageError> {
        Ok(self.memory.lock().nodes.values().cloned().collect())
    }

    fn held(&self) -> Result<Vec<Held>, StorageError> {
        let mut inner = self.memory.lock();
        if inner.flaw == Some(Flaw::ReadsBeforeFencing) {
            inner.read_early(self.own);
        }
        let held = inner.shards.iter().map(|(&shard, log)| Held { shard, by: log.by, fence: log.fenced() });
        Ok(held.collect())
    }

    fn last(&self, shard: ShardId) -> Result<Option<Record>, StorageError> {
        Ok(self.memory.lock().shards.get(&shard).and_then(|log| log.records.last().cloned()))
    }

    fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), StorageError> {
        self.memory.lock().drains.insert(node, drains);
        Ok(())
    }

    fn is_asked_to_drain(&self) -> Result<Option<bool>, StorageError> {
        Ok(self.memory.lock().drains.get(&self.own).copied())
    }
}
