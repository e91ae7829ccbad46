//! Everything that is ever asked of the database once it is open, prepared once. `schema.rs` shows the tables.

use std::sync::Arc;

use quipu_storage::StorageError;
use scylla::{
    client::session::Session,
    policies::retry::FallthroughRetryPolicy,
    statement::{Consistency, Statement, prepared::PreparedStatement},
};
use uuid::Uuid;

use crate::error::while_doing;

#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) log: LogStatements,
    pub(crate) table: TableStatements,
    pub(crate) nodes: NodeStatements,
}

/// About nodes.
#[derive(Debug)]
pub(crate) struct NodeStatements {
    /// node, count, drains, about, count
    pub(crate) write: PreparedStatement,
    /// node
    pub(crate) remove: PreparedStatement,
    pub(crate) all: PreparedStatement,
    /// wanted, node
    pub(crate) want: PreparedStatement,
    /// node
    pub(crate) wanted: PreparedStatement,
    /// All shards.
    pub(crate) held: PreparedStatement,
}

/// About the logs. The comments name the values.
#[derive(Debug)]
pub(crate) struct LogStatements {
    /// shard
    pub(crate) standing: PreparedStatement,
    /// owner, node, shard
    pub(crate) take_first: PreparedStatement,
    /// new owner, node, shard, known owner, known next position
    pub(crate) take: PreparedStatement,
    /// shard, owner
    pub(crate) release: PreparedStatement,
    /// record, next position, shard, position, owner, position
    pub(crate) commit: PreparedStatement,
    /// body, its bytes, next position, shard, position, owner, position
    pub(crate) commit_body: PreparedStatement,
    /// checkpoint, shard, owner, checkpoint
    pub(crate) checkpoint: PreparedStatement,
    /// shard, after, up to
    pub(crate) records: PreparedStatement,
    /// shard, up to
    pub(crate) forget: PreparedStatement,
    /// shard, up to
    pub(crate) forget_parts: PreparedStatement,
    /// shard, position, body, part, bytes
    pub(crate) put_part: PreparedStatement,
    /// shard, position, body, part
    pub(crate) get_part: PreparedStatement,
    /// shard, from, up to
    pub(crate) get_parts: PreparedStatement,
}

/// About the table.
#[derive(Debug)]
pub(crate) struct TableStatements {
    pub(crate) kept: RowStatements,
    pub(crate) slices: RowStatements,
    /// shard, slice, bucket
    pub(crate) drop_slice: PreparedStatement,
    /// shard, slice, bucket, key, version, part, bytes
    pub(crate) put_part: PreparedStatement,
    /// shard, slice, bucket, key, version, part
    pub(crate) get_part: PreparedStatement,
    /// shard, slice, bucket, key, version
    pub(crate) forget_parts: PreparedStatement,
    /// shard, slice, bucket
    pub(crate) drop_parts: PreparedStatement,
    /// shard
    pub(crate) get_floor: PreparedStatement,
    /// shard, floor, floor
    pub(crate) put_floor: PreparedStatement,
}

/// About rows that are kept, or those that are in slices.
#[derive(Debug)]
pub(crate) struct RowStatements {
    /// shard, slice, bucket, key
    pub(crate) get: PreparedStatement,
    /// shard, slice, bucket, key, row, version
    pub(crate) put: PreparedStatement,
    /// shard, slice, bucket, from, before, limit
    pub(crate) scan: PreparedStatement,
}

/// Prepares statements, in which `$` stands for the keyspace.
struct Preparing<'a> {
    session: &'a Session,
    keyspace: &'a str,
}

impl Preparing<'_> {
    /// One that may be repeated.
    async fn plain(&self, text: &str) -> Result<PreparedStatement, StorageError> {
        let statement = Statement::new(text.replace('$', self.keyspace));
        let prepared = self.session.prepare(statement).await;
        let mut prepared = prepared.map_err(while_doing("preparing statements"))?;
        prepared.set_is_idempotent(true);
        Ok(prepared)
    }

    /// One with a condition. The driver does not repeat it: what to make of an outcome is decided here.
    async fn conditional(&self, text: &str) -> Result<PreparedStatement, StorageError> {
        let mut prepared = self.plain(text).await?;
        prepared.set_is_idempotent(false);
        prepared.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        Ok(prepared)
    }

    /// A read that sees what a conditional write would see.
    async fn serial(&self, text: &str) -> Result<PreparedStatement, StorageError> {
        let mut prepared = self.plain(text).await?;
        prepared.set_consistency(Consistency::LocalSerial);
        Ok(prepared)
    }
}

impl Statements {
    pub(crate) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, StorageError> {
        let preparing = Preparing { session, keyspace };
        let log = LogStatements::prepare(&preparing).await?;
        let table = TableStatements::prepare(&preparing).await?;
        let nodes = NodeStatements::prepare(&preparing).await?;
        Ok(Self { log, table, nodes })
    }
}

impl LogStatements {
    async fn prepare(with: &Preparing<'_>) -> Result<Self, StorageError> {
        let standing = "SELECT record, owner, next, checkpoint FROM $.log WHERE shard = ? AND position = 0";
        let take_first = "UPDATE $.log SET owner = ?, node = ?, next = 1, checkpoint = 0, record = 0x \
                          WHERE shard = ? AND position = 0 IF owner = null AND next = null";
        let take = "UPDATE $.log SET owner = ?, node = ? WHERE shard = ? IF owner = ? AND next = ?";
        let release =
            format!("UPDATE $.log SET owner = {NOBODY}, node = {NOBODY} WHERE shard = ? IF owner = ?");
        let commit = "UPDATE $.log SET record = ?, next = ? WHERE shard = ? AND position = ? \
                      IF owner = ? AND next = ?";
        let commit_body = "UPDATE $.log SET body = ?, body_bytes = ?, next = ? WHERE shard = ? AND position = ? \
                           IF owner = ? AND next = ?";
        let checkpoint = "UPDATE $.log SET checkpoint = ? WHERE shard = ? IF owner = ? AND checkpoint < ?";
        let records = "SELECT position, record, body, body_bytes FROM $.log \
                       WHERE shard = ? AND position > ? AND position <= ?";
        let forget = "DELETE FROM $.log WHERE shard = ? AND position > 0 AND position <= ?";
        let forget_parts = "DELETE FROM $.log_parts WHERE shard = ? AND position <= ?";
        let put_part = "INSERT INTO $.log_parts (shard, position, body, part, bytes) VALUES (?, ?, ?, ?, ?)";
        let get_part =
            "SELECT bytes FROM $.log_parts WHERE shard = ? AND position = ? AND body = ? AND part = ?";
        let get_parts = "SELECT position, body, bytes FROM $.log_parts \
                         WHERE shard = ? AND position >= ? AND position <= ?";
        Ok(Self {
            standing: with.serial(standing).await?,
            take_first: with.conditional(take_first).await?,
            take: with.conditional(take).await?,
            release: with.conditional(&release).await?,
            commit: with.conditional(commit).await?,
            commit_body: with.conditional(commit_body).await?,
            checkpoint: with.conditional(checkpoint).await?,
            records: with.plain(records).await?,
            forget: with.plain(forget).await?,
            forget_parts: with.plain(forget_parts).await?,
            put_part: with.plain(put_part).await?,
            get_part: with.plain(get_part).await?,
            get_parts: with.plain(get_parts).await?,
        })
    }
}

/// What a node has written is forgotten when it has not written for so long.
const NODE_SECONDS: u32 = 24 * 60 * 60;
/// In the place of an owner or a node that there is none of.
const NOBODY: Uuid = Uuid::nil();

impl NodeStatements {
    async fn prepare(with: &Preparing<'_>) -> Result<Self, StorageError> {
        let write = format!(
            "INSERT INTO $.nodes (place, node, count, drains, about) VALUES (0, ?, ?, ?, ?) \
             USING TTL {NODE_SECONDS} AND TIMESTAMP ?"
        );
        // Whatever it wrote: no node that was removed comes back under its name.
        let remove =
            format!("DELETE FROM $.nodes USING TIMESTAMP {} WHERE place = 0 AND node = ?", i64::MAX - 1);
        let all = "SELECT node, count, drains, about FROM $.nodes WHERE place = 0";
        let want =
            format!("UPDATE $.nodes USING TTL {NODE_SECONDS} SET wanted = ? WHERE place = 0 AND node = ?");
        let wanted = "SELECT wanted FROM $.nodes WHERE place = 0 AND node = ?";
        let held = "SELECT DISTINCT shard, owner, node, next FROM $.log";
        Ok(Self {
            write: with.plain(&write).await?,
            remove: with.plain(&remove).await?,
            all: with.plain(all).await?,
            want: with.plain(&want).await?,
            wanted: with.plain(wanted).await?,
            held: with.plain(held).await?,
        })
    }
}

impl TableStatements {
    async fn prepare(with: &Preparing<'_>) -> Result<Self, StorageError> {
        let put_part = "INSERT INTO $.row_parts (shard, slice, bucket, key, version, part, bytes) \
                        VALUES (?, ?, ?, ?, ?, ?, ?)";
        let get_part = "SELECT bytes FROM $.row_parts WHERE shard = ? AND slice = ? AND bucket = ? \
                        AND key = ? AND version = ? AND part = ?";
        let forget_parts = "DELETE FROM $.row_parts WHERE shard = ? AND slice = ? AND bucket = ? \
                            AND key = ? AND version < ?";
        let drop_slice = "DELETE FROM $.slices WHERE shard = ? AND slice = ? AND bucket = ?";
        let drop_parts = "DELETE FROM $.row_parts WHERE shard = ? AND slice = ? AND bucket = ?";
        let put_floor = "INSERT INTO $.floors (shard, floor) VALUES (?, ?) USING TIMESTAMP ?";
        Ok(Self {
            kept: RowStatements::prepare(with, "rows").await?,
            slices: RowStatements::prepare(with, "slices").await?,
            drop_slice: with.plain(drop_slice).await?,
            put_part: with.plain(put_part).await?,
            get_part: with.plain(get_part).await?,
            forget_parts: with.plain(forget_parts).await?,
            drop_parts: with.plain(drop_parts).await?,
            get_floor: with.plain("SELECT floor FROM $.floors WHERE shard = ?").await?,
            put_floor: with.plain(put_floor).await?,
        })
    }
}

impl RowStatements {
    async fn prepare(with: &Preparing<'_>, table: &str) -> Result<Self, StorageError> {
        let get = format!(
            "SELECT row, writetime(row) FROM $.{table} WHERE shard = ? AND slice = ? AND bucket = ? AND key = ?"
        );
        let put = format!(
            "INSERT INTO $.{table} (shard, slice, bucket, key, row) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?"
        );
        let scan = format!(
            "SELECT key, row, writetime(row) FROM $.{table} WHERE shard = ? AND slice = ? AND bucket = ? \
             AND key >= ? AND key < ? LIMIT ?"
        );
        Ok(Self {
            get: with.plain(&get).await?,
            put: with.plain(&put).await?,
            scan: with.plain(&scan).await?,
        })
    }
}
