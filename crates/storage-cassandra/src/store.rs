//! A keyspace, opened: logs and a table come from here.

use std::{sync::Arc, time::Duration};

use quipu_storage::StorageError;
use scylla::client::session::Session;
use uuid::Uuid;

#[cfg(feature = "testing")]
use crate::Faults;
use crate::{
    Access, Address, CassandraLog, CassandraRegistry, CassandraTable, Schema, SetupError, Warning,
    away::{self, Away},
    bridge::Bridge,
    connect::{self, commitlog_sync, datacenters, replication, stay_in},
    error::unanswered,
    floors::Floors,
    schema,
    statements::Statements,
};

/// Fewer copies than this are worth a warning.
const COPIES_MIN: u32 = 3;

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// One request.
    pub request: Duration,
    /// A commit, with all its attempts, before it is reported as unknown. It goes on behind that.
    pub commit: Duration,
    /// How long somebody waits who asks what became of it.
    pub settle: Duration,
    /// Taking a shard, reading it, moving its checkpoint: with all attempts.
    pub patience: Duration,
    /// The wait before the second attempt of anything; it doubles with each one.
    pub backoff_min: Duration,
    /// The longest wait between two attempts.
    pub backoff_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(2),
            commit: Duration::from_secs(2),
            settle: Duration::from_millis(10),
            patience: Duration::from_secs(10),
            backoff_min: Duration::from_millis(10),
            backoff_max: Duration::from_secs(1),
        }
    }
}

/// How a keyspace is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The cluster of sites that it must belong to.
    pub cluster: Option<String>,
    /// How long things may take.
    pub timing: Timing,
}

/// A keyspace, opened. Clones are handles on the same session.
#[derive(Debug, Clone)]
pub struct Cassandra {
    inner: Arc<Inner>,
    /// Under which name shards are taken.
    node: Uuid,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) bridge: Bridge,
    pub(crate) link: Arc<Link>,
}

/// What a task needs. It does not keep the runtime that it runs on alive.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
    pub(crate) timing: Timing,
    pub(crate) buckets: u16,
    pub(crate) floors: Floors,
    pub(crate) away: Away,
    cluster: String,
    instance: Uuid,
    #[cfg(feature = "testing")]
    pub(crate) faults: Faults,
}

impl Cassandra {
    /// Makes the keyspace and its tables. Doing it again changes nothing.
    pub fn init(address: &Address, access: &Access, schema: &Schema) -> Result<(), SetupError> {
        let (address, access, schema) = (address.clone(), access.clone(), schema.clone());
        bridge()?.run(async move {
            let session = connect::connect(&address, &access).await?;
            schema::make(&session, &address, &schema).await
        })
    }

    /// Opens a keyspace that was made before. The warnings are for whoever runs it.
    pub fn open(
        address: &Address,
        access: &Access,
        options: Options,
    ) -> Result<(Self, Vec<Warning>), SetupError> {
        let (address, access) = (address.clone(), access.clone());
        let bridge = bridge()?;
        let (link, warnings) = bridge.run(async move { open(&address, &access, options).await })?;
        let inner = Arc::new(Inner { bridge, link: Arc::new(link) });
        Ok((Self { inner, node: Uuid::now_v7() }, warnings))
    }

    /// The same keyspace for another node, over the same connections: for tests.
    #[must_use]
    pub fn as_another_node(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), node: Uuid::now_v7() }
    }

    /// The register of the nodes that serve the site.
    pub fn registry(&self) -> CassandraRegistry {
        CassandraRegistry::new(Arc::clone(&self.inner), self.node)
    }

    /// A session of one's own with the database that a keyspace is in, as its nodes have one: the same datacenter,
    /// `LOCAL_QUORUM`. For whoever wants to know what the database does by itself.
    pub async fn session(
        address: &Address,
        access: &Access,
        request: Duration,
    ) -> Result<Session, SetupError> {
        let session = connect::connect(address, access).await?;
        let meta = schema::read(&session, address).await?;
        stay_in(&session, &meta.datacenter, request);
        Ok(session)
    }

    /// A log that owns no shard yet.
    pub fn log(&self) -> CassandraLog {
        CassandraLog::new(Arc::clone(&self.inner), self.node, None)
    }

    /// The same, for somebody who does other things while commits are under way: `tell` is called when one of them has
    /// come to its end, from another thread. (What ends because time is over is not told: look now and then.)
    pub fn log_that_tells(&self, tell: impl Fn() + Send + Sync + 'static) -> CassandraLog {
        CassandraLog::new(Arc::clone(&self.inner), self.node, Some(Arc::new(tell)))
    }

    /// The table.
    pub fn table(&self) -> Arc<CassandraTable> {
        Arc::new(CassandraTable::new(Arc::clone(&self.inner)))
    }

    /// The cluster of sites that the keyspace belongs to.
    pub fn cluster(&self) -> &str {
        &self.inner.link.cluster
    }

    /// The number that was drawn when the keyspace was made.
    pub fn instance(&self) -> [u8; 16] {
        self.inner.link.instance.into_bytes()
    }

    /// Lets answers get lost.
    #[cfg(feature = "testing")]
    pub fn faults(&self) -> &Faults {
        &self.inner.link.faults
    }
}

fn bridge() -> Result<Bridge, SetupError> {
    Bridge::new().map_err(|error| unanswered("starting threads for the driver", error).into())
}

async fn open(
    address: &Address,
    access: &Access,
    options: Options,
) -> Result<(Link, Vec<Warning>), SetupError> {
    let session = connect::connect(address, access).await?;
    let keyspace = address.keyspace();
    let Some(replication) = replication(&session, keyspace).await? else {
        return Err(SetupError::NoKeyspace { store: address.to_string(), keyspace: keyspace.to_owned() });
    };
    let meta = schema::read(&session, address).await?;
    if let Some(asked) = options.cluster.filter(|asked| *asked != meta.cluster) {
        return Err(SetupError::OtherCluster { keyspace: keyspace.to_owned(), found: meta.cluster, asked });
    }
    let found = datacenters(&session);
    if !found.contains_key(&meta.datacenter) {
        let names = found.into_keys().collect::<Vec<_>>().join(", ");
        let remedy = format!("this keyspace lives in {}, whose nodes cannot be seen", meta.datacenter);
        return Err(SetupError::Datacenter { store: address.to_string(), found: names, remedy });
    }
    stay_in(&session, &meta.datacenter, options.timing.request);
    let copies = replication.copies(&meta.datacenter);
    let mut warnings = Vec::new();
    if copies < COPIES_MIN {
        warnings.push(Warning::FewCopies { keyspace: keyspace.to_owned(), copies });
    }
    if let Some(found) = commitlog_sync(&session).await.filter(|found| found == "periodic") {
        warnings.push(Warning::LateSync { found });
    }
    let statements = Statements::prepare(&session, keyspace).await?;
    let link = Link {
        session,
        statements,
        timing: options.timing,
        buckets: meta.buckets,
        floors: Floors::default(),
        away: Away::default(),
        cluster: meta.cluster,
        instance: meta.instance,
        #[cfg(feature = "testing")]
        faults: Faults::default(),
    };
    Ok((link, warnings))
}

impl Link {
    /// Asks until there is an answer, patience ends or the store is known to be away, for what may be asked twice.
    pub(crate) async fn patiently<T, F>(self: &Arc<Self>, ask: impl Fn() -> F) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, StorageError>>,
    {
        let until = tokio::time::Instant::now() + self.timing.patience;
        let mut backoff = self.backoff();
        loop {
            let answer = ask().await;
            away::note(self, &answer);
            match answer {
                Err(StorageError::Unanswered { .. })
                    if tokio::time::Instant::now() < until && !self.away.is_away() =>
                {
                    backoff.wait().await;
                }
                answer => return answer,
            }
        }
    }

    pub(crate) fn backoff(&self) -> crate::backoff::Backoff {
        crate::backoff::Backoff::new(self.timing.backoff_min, self.timing.backoff_max)
    }
}
