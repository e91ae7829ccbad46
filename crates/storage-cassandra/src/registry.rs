//! The register of the nodes that serve a site.

use std::sync::Arc;

use quipu_storage::{Held, NodeId, Position, Record, Registered, Registry, ShardId, StorageError, Taken};
use uuid::Uuid;

use crate::{
    error::while_doing,
    fence::{self, fenced, kept, stored},
    records,
    store::{Inner, Link},
};

/// How often what was committed last is read, while new records come.
const READS_OF_LAST: u32 = 5;

/// What one node sees of the others.
#[derive(Debug)]
pub struct CassandraRegistry {
    inner: Arc<Inner>,
    own: Uuid,
}

fn id(node: Uuid) -> NodeId {
    NodeId(node.as_u128())
}

fn name(node: NodeId) -> Uuid {
    Uuid::from_u128(node.0)
}

impl CassandraRegistry {
    pub(crate) fn new(inner: Arc<Inner>, own: Uuid) -> Self {
        Self { inner, own }
    }

    /// Asks once: whoever looks at the others looks again before long.
    fn ask<T, F>(&self, ask: impl FnOnce(Arc<Link>) -> F) -> Result<T, StorageError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StorageError>> + Send + 'static,
    {
        self.inner.bridge.run(ask(Arc::clone(&self.inner.link)))
    }
}

async fn nodes(link: Arc<Link>) -> Result<Vec<Registered>, StorageError> {
    const DOING: &str = "looking at the nodes of the site";
    // One that was asked to drain after it had gone has nothing else.
    type Stored = (Uuid, Option<i64>, Option<bool>, Option<Vec<u8>>);
    let answer = link.session.execute_unpaged(&link.statements.nodes.all, ()).await;
    let rows = answer.map_err(while_doing(DOING))?.into_rows_result().map_err(while_doing(DOING))?;
    let mut nodes = Vec::with_capacity(rows.rows_num());
    for row in rows.rows::<Stored>().map_err(while_doing(DOING))? {
        let (node, count, drains, about) = row.map_err(while_doing(DOING))?;
        if let (Some(count), Some(about)) = (count, about) {
            let drains = drains.unwrap_or(false);
            nodes.push(Registered { node: id(node), count: kept(count), drains, about });
        }
    }
    Ok(nodes)
}

async fn held(link: Arc<Link>) -> Result<Vec<Held>, StorageError> {
    const DOING: &str = "looking who has which shard";
    type Stored = (i32, Option<Uuid>, Option<Uuid>, Option<i64>);
    let answer = link.session.execute_unpaged(&link.statements.nodes.held, ()).await;
    let rows = answer.map_err(while_doing(DOING))?.into_rows_result().map_err(while_doing(DOING))?;
    let mut held = Vec::with_capacity(rows.rows_num());
    for row in rows.rows::<Stored>().map_err(while_doing(DOING))? {
        let (shard, owner, node, next) = row.map_err(while_doing(DOING))?;
        if let (Ok(shard), Some(owner), Some(next)) = (u16::try_from(shard), owner, next) {
            let by = node.filter(|node| !node.is_nil()).map(id);
            held.push(Held { shard: ShardId(shard), by, fence: fenced(owner, kept(next)) });
        }
    }
    held.sort_unstable_by_key(|held| held.shard);
    Ok(held)
}

async fn last(link: Arc<Link>, shard: ShardId) -> Result<Option<Record>, StorageError> {
    for _ in 0..READS_OF_LAST {
        let Some(standing) = fence::standing(&link, shard).await? else { return Ok(None) };
        let Taken { checkpoint, last } = standing.taken();
        if last <= checkpoint {
            return Ok(None);
        }
        let mut found = records::read(&link, shard, Position(last.0 - 1), last).await?;
        // If it is not there it went with a checkpoint, and there are newer ones by now.
        if let Some(record) = found.pop() {
            return Ok(Some(record));
        }
    }
    let doing = format!("reading what was committed last to shard {}", shard.0);
    Err(StorageError::Unanswered { doing, why: "there is always something newer".to_owned() })
}

impl Registry for CassandraRegistry {
    fn own(&self) -> NodeId {
        id(self.own)
    }

    fn write(&self, registered: &Registered) -> Result<(), StorageError> {
        let Registered { node, count, drains, about } = registered.clone();
        self.ask(|link| async move {
            let values = (name(node), stored(count), drains, about, stored(count));
            let written = link.session.execute_unpaged(&link.statements.nodes.write, values).await;
            written.map(drop).map_err(while_doing("saying that this node is there"))
        })
    }

    fn remove(&self, node: NodeId) -> Result<(), StorageError> {
        self.ask(|link| async move {
            let removed = link.session.execute_unpaged(&link.statements.nodes.remove, (name(node),)).await;
            removed.map(drop).map_err(while_doing("taking a node out"))
        })
    }

    fn nodes(&self) -> Result<Vec<Registered>, StorageError> {
        self.ask(nodes)
    }

    fn held(&self) -> Result<Vec<Held>, StorageError> {
        self.ask(held)
    }

    fn last(&self, shard: ShardId) -> Result<Option<Record>, StorageError> {
        self.ask(move |link| last(link, shard))
    }

    fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), StorageError> {
        self.ask(|link| async move {
            let asked = link.session.execute_unpaged(&link.statements.nodes.want, (drains, name(node))).await;
            asked.map(drop).map_err(while_doing("asking a node to drain"))
        })
    }

    fn is_asked_to_drain(&self) -> Result<Option<bool>, StorageError> {
        const DOING: &str = "looking whether this node is to drain";
        let own = self.own;
        self.ask(move |link| async move {
            let asked = link.session.execute_unpaged(&link.statements.nodes.wanted, (own,)).await;
            let rows = asked.map_err(while_doing(DOING))?.into_rows_result().map_err(while_doing(DOING))?;
            let wanted = rows.maybe_first_row::<(Option<bool>,)>().map_err(while_doing(DOING))?;
            Ok(wanted.and_then(|(wanted,)| wanted))
        })
    }
}
