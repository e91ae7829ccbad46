//! The fence of a shard: who owns it and where its log stands, and how both change.

use quipu_storage::{Fenced, Mark, Position, ShardId, StorageError, Taken};
use scylla::{
    response::query_result::QueryResult,
    value::{CqlValue, Row},
};
use uuid::Uuid;

use crate::{
    error::{unanswered, while_doing},
    store::Link,
};

/// A number as the database keeps it. Positions stay far below what does not fit.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that the database kept.
pub(crate) fn kept(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn shard_number(shard: ShardId) -> i32 {
    i32::from(shard.0)
}

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition held.
    Applied,
    /// It did not: this was there instead.
    Refused { owner: Option<Uuid>, next: Option<u64> },
}

impl Verdict {
    /// Reads the answer. Cassandra names the columns of the condition only when it did not hold, ScyllaDB always.
    pub(crate) fn of(answer: QueryResult, doing: &str) -> Result<Self, StorageError> {
        let rows = answer.into_rows_result().map_err(while_doing(doing))?;
        let column = |name: &str| rows.column_specs().get_by_name(name).map(|(at, _)| at);
        let row: Row = rows.first_row().map_err(while_doing(doing))?;
        let value = |name| column(name).and_then(|at| row.columns.get(at)?.as_ref());
        match value("[applied]") {
            Some(CqlValue::Boolean(true)) => Ok(Self::Applied),
            Some(CqlValue::Boolean(false)) => Ok(Self::Refused {
                owner: value("owner").and_then(CqlValue::as_uuid),
                next: value("next").and_then(CqlValue::as_bigint).map(kept),
            }),
            _ => Err(unanswered(doing, "the answer does not say whether the condition held")),
        }
    }
}

/// What the static columns of a shard's log say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) owner: Uuid,
    pub(crate) next: u64,
    checkpoint: u64,
}

impl Standing {
    pub(crate) fn taken(self) -> Taken {
        let last = Position(self.next.saturating_sub(1));
        Taken { checkpoint: Position(self.checkpoint), last }
    }

    fn fenced(self) -> Fenced {
        fenced(self.owner, self.next)
    }
}

/// A fence, as it is seen from outside.
pub(crate) fn fenced(owner: Uuid, next: u64) -> Fenced {
    Fenced { name: owner.as_u128(), last: Position(next.saturating_sub(1)) }
}

/// Who takes a shard, and from where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taker {
    pub(crate) shard: ShardId,
    pub(crate) node: Uuid,
    /// Only if it stands so.
    pub(crate) seen: Option<Option<Fenced>>,
}

/// What became of an attempt to take a shard.
enum Attempt {
    Taken(Taken),
    /// Somebody else was quicker.
    Late,
    /// It does not stand as it was seen.
    Changed,
}

/// Reads where a shard's log stands, after everything that was under way is decided. `None`: nobody ever had it.
pub(crate) async fn standing(link: &Link, shard: ShardId) -> Result<Option<Standing>, StorageError> {
    let doing = format!("asking who owns shard {}", shard.0);
    let asked = link.session.execute_unpaged(&link.statements.log.standing, (shard_number(shard),)).await;
    let rows = asked.map_err(while_doing(&doing))?.into_rows_result().map_err(while_doing(&doing))?;
    let row = rows.maybe_first_row::<(Option<&[u8]>, Option<Uuid>, Option<i64>, Option<i64>)>();
    Ok(row.map_err(while_doing(&doing))?.and_then(|(_, owner, next, checkpoint)| {
        Some(Standing { owner: owner?, next: kept(next?), checkpoint: kept(checkpoint?) })
    }))
}

/// Takes the fence from whoever has it. Returns the new owner's name with where the log stands. `None`: it does not stand as
/// it was seen.
pub(crate) async fn take(link: &Link, taker: Taker) -> Result<Option<(Uuid, Taken)>, StorageError> {
    // A name of its own for each taking: an old one never becomes true again.
    let owner = Uuid::now_v7();
    let until = tokio::time::Instant::now() + link.timing.patience;
    let mut backoff = link.backoff();
    loop {
        match try_take(link, taker, owner).await {
            Ok(Attempt::Taken(taken)) => return Ok(Some((owner, taken))),
            Ok(Attempt::Changed) => return Ok(None),
            Err(error) if !matches!(error, StorageError::Unanswered { .. }) => return Err(error),
            Err(error) if tokio::time::Instant::now() >= until => return Err(error),
            Ok(Attempt::Late) if tokio::time::Instant::now() >= until => {
                return Err(unanswered(
                    format!("taking shard {}", taker.shard.0),
                    "others took it again and again",
                ));
            }
            Ok(Attempt::Late) | Err(_) => backoff.wait().await,
        }
    }
}

async fn try_take(link: &Link, taker: Taker, owner: Uuid) -> Result<Attempt, StorageError> {
    let Taker { shard, node, seen } = taker;
    let doing = format!("taking shard {}", shard.0);
    let log = &link.statements.log;
    let now = standing(link, shard).await?;
    let answer = match now {
        // An earlier attempt, whose answer was lost.
        Some(now) if now.owner == owner => return Ok(Attempt::Taken(now.taken())),
        _ if seen.is_some_and(|seen| seen != now.map(Standing::fenced)) => return Ok(Attempt::Changed),
        Some(now) => {
            let values = (owner, node, shard_number(shard), now.owner, stored(now.next));
            link.session.execute_unpaged(&log.take, values).await
        }
        None => link.session.execute_unpaged(&log.take_first, (owner, node, shard_number(shard))).await,
    };
    if let Verdict::Refused { .. } = Verdict::of(answer.map_err(while_doing(&doing))?, &doing)? {
        return Ok(Attempt::Late);
    }
    // Only now: the former owner may have moved the checkpoint until the fence was ours.
    match standing(link, shard).await? {
        Some(now) if now.owner == owner => Ok(Attempt::Taken(now.taken())),
        _ => Err(StorageError::Fenced(shard)),
    }
}

/// Gives the fence back. Repeating it does no harm, nor does it if somebody else has it.
pub(crate) async fn release(link: &Link, shard: ShardId, owner: Uuid) -> Result<(), StorageError> {
    let doing = format!("releasing shard {}", shard.0);
    let released =
        link.session.execute_unpaged(&link.statements.log.release, (shard_number(shard), owner)).await;
    Verdict::of(released.map_err(while_doing(&doing))?, &doing).map(drop)
}

/// Moves the checkpoint, unless it is there already. Repeating it does no harm.
pub(crate) async fn move_checkpoint(link: &Link, mark: Mark, owner: Uuid) -> Result<(), StorageError> {
    let doing = format!("moving the checkpoint of shard {}", mark.shard.0);
    let position = stored(mark.position.0);
    let values = (position, shard_number(mark.shard), owner, position);
    let answer = link.session.execute_unpaged(&link.statements.log.checkpoint, values).await;
    match Verdict::of(answer.map_err(while_doing(&doing))?, &doing)? {
        Verdict::Refused { owner: found, .. } if found != Some(owner) => {
            Err(StorageError::Fenced(mark.shard))
        }
        Verdict::Applied | Verdict::Refused { .. } => Ok(()),
    }
}
