//! The store under a node: a folder of its own, or a database that others look after.

use std::sync::Arc;

use quipu_storage::{
    Log, Registry, StorageError, Table,
    embedded::{Embedded, LogConfig},
};
use quipu_storage_cassandra::{Cassandra, Options};

use super::ServeError;
use crate::{
    config::{Config, Database},
    links::Instance,
};

/// Where everything is kept.
pub(super) enum Backend {
    Folder(Embedded),
    Database(Cassandra),
}

impl Backend {
    /// Opens what the configuration names.
    pub(super) fn open(config: &Config) -> Result<Self, ServeError> {
        if let Some(Database { address, access }) = &config.database {
            let options = Options { cluster: config.cluster.clone(), ..Options::default() };
            let (cassandra, warnings) =
                Cassandra::open(address, access, options).map_err(ServeError::Database)?;
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            return Ok(Self::Database(cassandra));
        }
        let workers = u16::try_from(config.workers).unwrap_or(u16::MAX);
        let log_config = LogConfig { workers, ..LogConfig::default() };
        let failed = |why: StorageError| match why.is_damage() {
            true => ServeError::Damaged { place: config.place(), why },
            false => ServeError::Storage { place: config.place(), why },
        };
        Ok(Self::Folder(Embedded::open(&config.data, log_config).map_err(failed)?))
    }

    /// The nodes that share it, if it can be shared.
    pub(super) fn registry(&self) -> Option<Arc<dyn Registry>> {
        match self {
            Self::Folder(_) => None,
            Self::Database(cassandra) => Some(Arc::new(cassandra.registry())),
        }
    }

    /// The number that it was made with, if all who open it must have the same.
    pub(super) fn instance(&self) -> Option<Instance> {
        match self {
            Self::Folder(_) => None,
            Self::Database(cassandra) => Some(Instance(cassandra.instance())),
        }
    }

    pub(super) fn table(&self) -> Arc<dyn Table> {
        match self {
            Self::Folder(embedded) => embedded.table(),
            Self::Database(cassandra) => cassandra.table(),
        }
    }

    /// The logs of a worker's shards. `wake` is called when a commit that was under way has come to its end.
    pub(super) fn log(&self, worker: usize, wake: impl Fn() + Send + Sync + 'static) -> Box<dyn Log> {
        match self {
            Self::Folder(embedded) => Box::new(embedded.log(u16::try_from(worker).unwrap_or(u16::MAX))),
            Self::Database(cassandra) => Box::new(cassandra.log_that_tells(wake)),
        }
    }
}
