//! The tables, as pictures, and how they are made.
//!
//! ```text
//! log        shard | position | record | body, body_bytes owner, node, next, checkpoint (static)
//!            one partition per shard. Position 0 is no record: it stands first and is never deleted, so that
//!            looking at the static columns does not mean looking past deleted records
//! log_parts  shard | position, body, part | bytes          bytes of records that are not short
//! rows       shard, slice, bucket | key | row              rows that are kept; the version is the write timestamp
//! slices     shard, slice, bucket | key | row              rows that are dropped by the partition
//! row_parts  shard, slice, bucket | key, version, part | bytes
//! floors     shard | floor                                 slices below are gone, whatever is written to them
//! nodes      place | node | count, drains, about, wanted   who serves the site; the count is the write timestamp
//! meta       name | value                                  schema, cluster, datacenter, buckets, instance
//! ```

use scylla::{
    client::session::Session,
    statement::{Consistency, SerialConsistency, Statement},
};
use uuid::Uuid;

use crate::{
    Address, SetupError,
    connect::{datacenters, replication},
    error::while_doing,
};

/// The schema that this version makes and knows.
pub(crate) const SCHEMA: u32 = 1;
/// More partitions for one shard would only make listing slower.
const BUCKETS_MAX: u16 = 64;
/// As long as a node that is down is kept informed by hints. Nothing that comes back after that does harm: what lies
/// below a checkpoint or a floor is not read.
const GRACE_SECONDS: u32 = 3 * 60 * 60;

/// What is fixed when a keyspace is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// How many copies there are of everything.
    pub replication: u32,
    /// The datacenter that holds them; may be left out where there is only one.
    pub datacenter: Option<String>,
    /// The cluster of sites that it belongs to.
    pub cluster: String,
    /// Into how many partitions the rows of a shard are spread: enough that each stays below 100 MB.
    pub buckets: u16,
}

impl Default for Schema {
    fn default() -> Self {
        Self { replication: 3, datacenter: None, cluster: "quipu".to_owned(), buckets: 4 }
    }
}

/// What the keyspace says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) cluster: String,
    pub(crate) datacenter: String,
    pub(crate) buckets: u16,
    /// Drawn when it was made: no other keyspace has it.
    pub(crate) instance: Uuid,
}

fn tables(keyspace: &str) -> Vec<String> {
    let log = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.log (shard int, position bigint, record blob, body uuid, body_bytes int, \
         owner uuid STATIC, node uuid STATIC, next bigint STATIC, checkpoint bigint STATIC, PRIMARY KEY (shard, position)) \
         WITH gc_grace_seconds = {GRACE_SECONDS} AND compaction = {{'class': 'SizeTieredCompactionStrategy'}}"
    );
    let log_parts = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.log_parts (shard int, position bigint, body uuid, part int, \
         bytes blob, PRIMARY KEY (shard, position, body, part)) \
         WITH gc_grace_seconds = {GRACE_SECONDS} AND compaction = {{'class': 'SizeTieredCompactionStrategy'}}"
    );
    // Read at random, and hardly ever deleted.
    let rows = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.rows (shard int, slice bigint, bucket int, key blob, row blob, \
         PRIMARY KEY ((shard, slice, bucket), key)) WITH compaction = {{'class': 'LeveledCompactionStrategy'}}"
    );
    // Written once, read seldom, dropped by the partition.
    let slices = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.slices (shard int, slice bigint, bucket int, key blob, row blob, \
         PRIMARY KEY ((shard, slice, bucket), key)) \
         WITH gc_grace_seconds = {GRACE_SECONDS} AND compaction = {{'class': 'SizeTieredCompactionStrategy'}}"
    );
    let row_parts = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.row_parts (shard int, slice bigint, bucket int, key blob, \
         version bigint, part int, bytes blob, PRIMARY KEY ((shard, slice, bucket), key, version, part)) \
         WITH gc_grace_seconds = {GRACE_SECONDS} AND compaction = {{'class': 'SizeTieredCompactionStrategy'}}"
    );
    let floors =
        format!("CREATE TABLE IF NOT EXISTS {keyspace}.floors (shard int PRIMARY KEY, floor bigint)");
    let meta = format!("CREATE TABLE IF NOT EXISTS {keyspace}.meta (name text PRIMARY KEY, value text)");
    // One partition: all of it is read again and again, and there is little of it.
    let nodes = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.nodes (place int, node uuid, count bigint, drains boolean, about blob, \
         wanted boolean, PRIMARY KEY (place, node)) WITH gc_grace_seconds = {GRACE_SECONDS}"
    );
    vec![meta, log, log_parts, rows, slices, row_parts, floors, nodes]
}

/// Makes the keyspace and its tables; whatever is there already stays as it is.
pub(crate) async fn make(session: &Session, address: &Address, schema: &Schema) -> Result<(), SetupError> {
    if !(1..=BUCKETS_MAX).contains(&schema.buckets) {
        let found = u64::from(schema.buckets);
        return Err(SetupError::OutOfRange { what: "the number of buckets", found, must: "1 to 64" });
    }
    let datacenter = choose_datacenter(session, address, schema)?;
    let nodes = datacenters(session).get(&datacenter).copied().unwrap_or(0);
    if schema.replication == 0 || schema.replication > nodes {
        let found = u64::from(schema.replication);
        let must = "at least 1, and not more than the datacenter has nodes";
        return Err(SetupError::OutOfRange { what: "the replication factor", found, must });
    }
    let keyspace = address.keyspace();
    match replication(session, keyspace).await? {
        Some(known) if known.copies(&datacenter) != schema.replication => {
            return Err(SetupError::Differs {
                keyspace: keyspace.to_owned(),
                what: "a replication factor of",
                found: known.copies(&datacenter).to_string(),
                asked: schema.replication.to_string(),
            });
        }
        Some(_) => {}
        None => make_keyspace(session, keyspace, &datacenter, schema.replication).await?,
    }
    for table in tables(keyspace) {
        session.query_unpaged(table, ()).await.map_err(while_doing("making the tables"))?;
    }
    // Whoever comes first draws it.
    say(session, keyspace, "instance", &Uuid::now_v7().to_string()).await?;
    let stated = [
        ("cluster", schema.cluster.clone()),
        ("datacenter", datacenter),
        ("buckets", schema.buckets.to_string()),
        // The last: whoever finds it finds everything.
        ("schema", SCHEMA.to_string()),
    ];
    for (name, value) in stated {
        state(session, keyspace, name, &value).await?;
    }
    Ok(())
}

fn choose_datacenter(session: &Session, address: &Address, schema: &Schema) -> Result<String, SetupError> {
    let found = datacenters(session);
    let names = || found.keys().cloned().collect::<Vec<_>>().join(", ");
    let wrong =
        |remedy: String| SetupError::Datacenter { store: address.to_string(), found: names(), remedy };
    match (&schema.datacenter, found.keys().next()) {
        (Some(stated), _) if found.contains_key(stated) => Ok(stated.clone()),
        (Some(stated), _) => Err(wrong(format!("{stated} is none of them"))),
        (None, Some(only)) if found.len() == 1 => Ok(only.clone()),
        (None, _) => Err(wrong("say which".to_owned())),
    }
}

async fn make_keyspace(
    session: &Session,
    keyspace: &str,
    datacenter: &str,
    replication: u32,
) -> Result<(), SetupError> {
    let quoted = datacenter.replace('\'', "''");
    let statement = format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', '{quoted}': {replication}}}"
    );
    session.query_unpaged(statement, ()).await.map_err(while_doing("making the keyspace"))?;
    Ok(())
}

/// States something about the keyspace, once and for all. What was stated before must be the same.
async fn state(session: &Session, keyspace: &str, name: &'static str, value: &str) -> Result<(), SetupError> {
    say(session, keyspace, name, value).await?;
    match stated(session, keyspace, name).await? {
        Some(found) if found == value => Ok(()),
        Some(found) if name == "schema" => {
            Err(SetupError::UnknownSchema { keyspace: keyspace.to_owned(), found, known: SCHEMA })
        }
        found => Err(SetupError::Differs {
            keyspace: keyspace.to_owned(),
            what: name,
            found: found.unwrap_or_else(|| "(none)".to_owned()),
            asked: value.to_owned(),
        }),
    }
}

/// States something, unless it was stated before.
async fn say(session: &Session, keyspace: &str, name: &str, value: &str) -> Result<(), SetupError> {
    let doing = || format!("stating the {name} of the keyspace");
    let mut insert =
        Statement::new(format!("INSERT INTO {keyspace}.meta (name, value) VALUES (?, ?) IF NOT EXISTS"));
    insert.set_consistency(Consistency::Quorum);
    insert.set_serial_consistency(Some(SerialConsistency::Serial));
    session.query_unpaged(insert, (name, value)).await.map_err(while_doing(doing()))?;
    Ok(())
}

async fn stated(session: &Session, keyspace: &str, name: &str) -> Result<Option<String>, SetupError> {
    const DOING: &str = "reading what the keyspace says of itself";
    let mut select = Statement::new(format!("SELECT value FROM {keyspace}.meta WHERE name = ?"));
    // Of the whole database: it is not known yet which datacenter is ours.
    select.set_consistency(Consistency::Quorum);
    let answer = session.query_unpaged(select, (name,)).await.map_err(while_doing(DOING))?;
    let rows = answer.into_rows_result().map_err(while_doing(DOING))?;
    Ok(rows.maybe_first_row::<(String,)>().map_err(while_doing(DOING))?.map(|(value,)| value))
}

/// Reads what the keyspace says of itself, and refuses what is not known.
pub(crate) async fn read(session: &Session, address: &Address) -> Result<Meta, SetupError> {
    let keyspace = address.keyspace().to_owned();
    let question =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'meta'";
    let answer =
        session.query_unpaged(question, (&keyspace,)).await.map_err(while_doing("looking for tables"))?;
    let rows = answer.into_rows_result().map_err(while_doing("looking for tables"))?;
    if rows.rows_num() == 0 {
        return Err(SetupError::NotInitialised { keyspace, why: "it has no table \"meta\"".to_owned() });
    }
    match stated(session, &keyspace, "schema").await? {
        Some(found) if found == SCHEMA.to_string() => {}
        Some(found) => return Err(SetupError::UnknownSchema { keyspace, found, known: SCHEMA }),
        None => return Err(SetupError::NotInitialised { keyspace, why: "it states no schema".to_owned() }),
    }
    let missing = |name: &str| SetupError::NotInitialised {
        keyspace: address.keyspace().to_owned(),
        why: format!("its {name} is missing or cannot be read"),
    };
    let cluster = stated(session, &keyspace, "cluster").await?.ok_or_else(|| missing("cluster"))?;
    let datacenter = stated(session, &keyspace, "datacenter").await?.ok_or_else(|| missing("datacenter"))?;
    let buckets = stated(session, &keyspace, "buckets").await?;
    let buckets =
        buckets.and_then(|buckets| buckets.parse().ok()).ok_or_else(|| missing("number of buckets"))?;
    if !(1..=BUCKETS_MAX).contains(&buckets) {
        return Err(missing("number of buckets"));
    }
    let instance = stated(session, &keyspace, "instance").await?;
    let instance = instance.and_then(|it| it.parse().ok()).ok_or_else(|| missing("instance"))?;
    Ok(Meta { cluster, datacenter, buckets, instance })
}
