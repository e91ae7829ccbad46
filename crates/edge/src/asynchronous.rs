//! The edge for asynchronous programs.

use std::{sync::Arc, time::Duration};

use crate::{
    BadAddress, CountError, InFlight, NotHandedOver, Reading, RetireError, Status, SyncError, Watch,
    edge::{Inner, closed, negated},
    watch::WatchCell,
};

/// An [`Edge`](crate::Edge) whose methods do not block. They need no runtime: the work is done by the threads of the edge,
/// and the futures are woken from there, in whatever executor they are.
///
/// A future that is dropped before it is ready does not take back what it began.
#[derive(Debug, Clone)]
pub struct AsyncEdge {
    inner: Arc<Inner>,
}

impl AsyncEdge {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// As [`Edge::add`](crate::Edge::add).
    pub async fn add(&self, key: impl AsRef<[u8]>, amount: i64) -> Result<(), CountError> {
        self.inner.count(key.as_ref(), amount).await.unwrap_or(Err(CountError::Closed))
    }

    /// As [`Edge::subtract`](crate::Edge::subtract).
    pub async fn subtract(&self, key: impl AsRef<[u8]>, amount: i64) -> Result<(), CountError> {
        self.add(key, negated(amount)?).await
    }

    /// As [`Edge::value`](crate::Edge::value).
    pub async fn value(&self, key: impl AsRef<[u8]>) -> Result<Reading, CountError> {
        self.inner.read(key.as_ref()).await.unwrap_or(Err(CountError::Closed))
    }

    /// As [`Edge::watch`](crate::Edge::watch); what it gives has [`Watch::changed`].
    pub async fn watch(&self, key: impl AsRef<[u8]>) -> Result<Watch, CountError> {
        let cell = Arc::new(WatchCell::default());
        self.inner.watch(key.as_ref(), Arc::clone(&cell)).await.unwrap_or(Err(CountError::Closed))?;
        Ok(Watch::new(cell))
    }

    /// As [`Edge::sync`](crate::Edge::sync).
    pub async fn sync(&self) -> Result<(), SyncError> {
        self.inner.sync().await.unwrap_or(Err(SyncError::Closed))
    }

    /// As [`Edge::flush`](crate::Edge::flush).
    pub async fn flush(&self, within: Duration) -> Result<(), NotHandedOver> {
        self.inner.flush(within).await.unwrap_or_else(|| Err(closed()))
    }

    /// As [`Edge::retire`](crate::Edge::retire).
    pub async fn retire(&self, within: Duration) -> Result<(), RetireError> {
        let gone = || Err(RetireError::NotHandedOver(closed()));
        self.inner.retire(within, false).await.unwrap_or_else(gone).map(drop)
    }

    /// As [`Edge::retire_giving_up`](crate::Edge::retire_giving_up).
    pub async fn retire_giving_up(&self, within: Duration) -> Result<Vec<InFlight>, RetireError> {
        let gone = || Err(RetireError::NotHandedOver(closed()));
        self.inner.retire(within, true).await.unwrap_or_else(gone)
    }

    /// As [`Edge::use_server`](crate::Edge::use_server).
    pub async fn use_server(&self, server: &str) -> Result<(), BadAddress> {
        let server = server.parse()?;
        // An edge that was closed uses none.
        let _ = self.inner.choose(server).await;
        Ok(())
    }

    /// As [`Edge::status`](crate::Edge::status).
    pub async fn status(&self) -> Option<Status> {
        self.inner.status().await
    }
}
