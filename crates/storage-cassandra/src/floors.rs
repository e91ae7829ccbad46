//! Floors of shards: slices below are gone, whatever is written to them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use quipu_storage::{ShardId, Slice, StorageError};

use crate::{error::while_doing, fence::shard_number, store::Link};

/// What is known of them here. Whoever owns a shard moves its floor, so what was read since the shard was taken holds.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    known: Mutex<BTreeMap<ShardId, Slice>>,
}

impl Floors {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardId, Slice>> {
        self.known.lock().expect("a thread that looked at a floor panicked")
    }

    /// The shard has been taken: somebody else may have moved its floor.
    pub(crate) fn forget(&self, shard: ShardId) {
        self.lock().remove(&shard);
    }

    fn learn(&self, shard: ShardId, floor: Slice) -> Slice {
        let mut known = self.lock();
        let known = known.entry(shard).or_insert(floor);
        *known = floor.max(*known);
        *known
    }
}

/// The floor of a shard.
pub(crate) async fn floor(link: &Link, shard: ShardId) -> Result<Slice, StorageError> {
    if let Some(&known) = link.floors.lock().get(&shard) {
        return Ok(known);
    }
    let doing = || format!("reading the floor of shard {}", shard.0);
    let answer = link.session.execute_unpaged(&link.statements.table.get_floor, (shard_number(shard),)).await;
    let rows = answer.map_err(while_doing(doing()))?.into_rows_result().map_err(while_doing(doing()))?;
    let row = rows.maybe_first_row::<(i64,)>().map_err(while_doing(doing()))?;
    let floor = row.and_then(|(floor,)| u32::try_from(floor).ok()).map_or(Slice::KEPT, Slice);
    Ok(link.floors.learn(shard, floor))
}

/// Whether the slice counts for nothing any more.
pub(crate) async fn is_dropped(link: &Link, shard: ShardId, slice: Slice) -> Result<bool, StorageError> {
    Ok(slice != Slice::KEPT && slice < floor(link, shard).await?)
}

/// Moves a floor up. A floor is its own timestamp, so that it never moves back.
pub(crate) async fn raise(link: &Link, shard: ShardId, floor: Slice) -> Result<(), StorageError> {
    let number = i64::from(floor.0);
    let values = (shard_number(shard), number, number);
    let stored = link.session.execute_unpaged(&link.statements.table.put_floor, values).await;
    stored.map_err(while_doing(format!("moving the floor of shard {}", shard.0)))?;
    link.floors.learn(shard, floor);
    Ok(())
}
