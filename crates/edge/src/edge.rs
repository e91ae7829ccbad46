//! The edge as programs see it.

use std::{
    path::Path,
    sync::{Arc, Mutex, mpsc::Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    Address, BadAddress, CountError, InFlight, NotHandedOver, OpenError, Options, RetireError, SyncError,
    Watch,
    asynchronous::AsyncEdge,
    courier::Order,
    keeper::Request,
    promise::{Pending, Promise, promise},
    watch::WatchCell,
};

/// What an edge knows of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What a server has told, and what was counted here since. Without a server's word only what was counted here.
    pub value: i64,
    /// How long ago a server has told. `None`: not since the edge was opened.
    pub heard: Option<Duration>,
}

/// How it stands with an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name: 32 hexadecimal digits that nobody else has drawn.
    pub name: String,
    /// The cluster that it counts for, once it has met a server.
    pub cluster: Option<String>,
    /// How often its state was opened by somebody who spoke to a server.
    pub openings: u64,
    /// Counters that wait to be handed over.
    pub waiting: usize,
    /// Handoffs that were begun and of which it is not known that they have ended.
    pub in_flight: Vec<InFlight>,
    /// Shards whose servers have not heard yet that it retires.
    pub last_words: usize,
    /// It counts no more.
    pub is_retiring: bool,
    /// Why nothing is handed over from this state: it is a copy, or was repaired.
    pub copy: Option<String>,
    /// Counters that servers are asked for.
    pub asks: usize,
    /// Why it is not known what waits and what is on its way: the disk fails.
    pub trouble: Option<String>,
}

/// A replica that counts here and hands over to servers. Methods block; [`Edge::asynchronous`] has those that do not.
///
/// It may be shared by threads. Dropping it is like a crash: what was counted is in its state, and goes on from there
/// when that is opened again.
#[derive(Debug)]
pub struct Edge {
    inner: Arc<Inner>,
}

/// What blocking and asynchronous edges share.
#[derive(Debug)]
pub(crate) struct Inner {
    requests: Sender<Request>,
    orders: Sender<Order>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Inner {
    pub(crate) fn new(requests: Sender<Request>, orders: Sender<Order>, keeper: JoinHandle<()>) -> Self {
        Self { requests, orders, keeper: Mutex::new(Some(keeper)) }
    }

    fn request<T>(&self, request: impl FnOnce(Promise<T>) -> Request) -> Pending<T> {
        let (reply, pending) = promise();
        // If nobody takes it, its reply is dropped, and that is told.
        let _ = self.requests.send(request(reply));
        pending
    }

    fn order<T>(&self, order: impl FnOnce(Promise<T>) -> Order) -> Pending<T> {
        let (reply, pending) = promise();
        let _ = self.orders.send(order(reply));
        pending
    }

    pub(crate) fn count(&self, key: &[u8], amount: i64) -> Pending<Result<(), CountError>> {
        let key = key.to_vec();
        self.request(|reply| Request::Count { key, amount, reply })
    }

    pub(crate) fn read(&self, key: &[u8]) -> Pending<Result<Reading, CountError>> {
        let key = key.to_vec();
        self.request(|reply| Request::Read { key, reply })
    }

    pub(crate) fn watch(&self, key: &[u8], cell: Arc<WatchCell>) -> Pending<Result<(), CountError>> {
        let key = key.to_vec();
        self.request(|reply| Request::Watch { key, cell, reply })
    }

    pub(crate) fn status(&self) -> Pending<Status> {
        self.request(|reply| Request::Status { reply })
    }

    pub(crate) fn sync(&self) -> Pending<Result<(), SyncError>> {
        self.order(|reply| Order::Sync { reply })
    }

    pub(crate) fn flush(&self, within: Duration) -> Pending<Result<(), NotHandedOver>> {
        let until = Instant::now() + within;
        self.order(|reply| Order::Flush { until, reply })
    }

    pub(crate) fn retire(
        &self,
        within: Duration,
        gives_up: bool,
    ) -> Pending<Result<Vec<InFlight>, RetireError>> {
        let until = Instant::now() + within;
        self.order(|reply| Order::Retire { until, gives_up, reply })
    }

    pub(crate) fn choose(&self, server: Address) -> Pending<()> {
        self.order(|reply| Order::Choose { server, reply })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Either may have ended already.
        let _ = self.orders.send(Order::Close);
        let _ = self.requests.send(Request::Close);
        // The state is free when this returns. Whoever waits for a server ends by itself.
        let keeper = self.keeper.lock().ok().and_then(|mut keeper| keeper.take());
        if let Some(keeper) = keeper {
            // A panic there has been reported by itself.
            let _ = keeper.join();
        }
    }
}

/// Nothing can be said of an edge that was closed.
pub(crate) fn closed() -> NotHandedOver {
    NotHandedOver { why: Some(SyncError::Closed), ..NotHandedOver::default() }
}

/// The opposite, which is an amount too.
pub(crate) fn negated(amount: i64) -> Result<i64, CountError> {
    amount.checked_neg().ok_or(CountError::Refused(quipu_engine::Refusal::Overflow))
}

impl Edge {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Opens the state in a file, which is made if it does not exist. The servers are tried in this order;
    /// there may be none, as long as nothing is to be handed over. More is said by [`Edge::options`].
    pub fn open<S: AsRef<str>>(
        path: impl AsRef<Path>,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Self, OpenError> {
        Options::new().open(path, servers)
    }

    /// An edge without a file: what was not handed over is lost when the process ends.
    pub fn in_memory<S: AsRef<str>>(servers: impl IntoIterator<Item = S>) -> Result<Self, OpenError> {
        Options::new().in_memory(servers)
    }

    /// Limits, times and passwords.
    pub fn options() -> Options {
        Options::new()
    }

    /// Adds to a counter. It is stored when this returns, and is counted once, whatever happens after that.
    pub fn add(&self, key: impl AsRef<[u8]>, amount: i64) -> Result<(), CountError> {
        self.inner.count(key.as_ref(), amount).wait().unwrap_or(Err(CountError::Closed))
    }

    /// Subtracts from a counter, as [`Edge::add`] adds.
    pub fn subtract(&self, key: impl AsRef<[u8]>, amount: i64) -> Result<(), CountError> {
        self.add(key, negated(amount)?)
    }

    /// What is known of a counter, at once. From now on, servers are asked for it, until it has not been read for a minute.
    pub fn value(&self, key: impl AsRef<[u8]>) -> Result<Reading, CountError> {
        self.inner.read(key.as_ref()).wait().unwrap_or(Err(CountError::Closed))
    }

    /// The value of a counter as it changes.
    pub fn watch(&self, key: impl AsRef<[u8]>) -> Result<Watch, CountError> {
        let cell = Arc::new(WatchCell::default());
        self.inner.watch(key.as_ref(), Arc::clone(&cell)).wait().unwrap_or(Err(CountError::Closed))?;
        Ok(Watch::new(cell))
    }

    /// One exchange, now. Handing over takes two, three if the server is met for the first time; [`Edge::flush`] goes on
    /// until it is done.
    pub fn sync(&self) -> Result<(), SyncError> {
        self.inner.sync().wait().unwrap_or(Err(SyncError::Closed))
    }

    /// Hands over everything within this time, or says what is still open. Nothing is lost if it is not all: it stays
    /// here, and goes on.
    pub fn flush(&self, within: Duration) -> Result<(), NotHandedOver> {
        self.inner.flush(within).wait().unwrap_or_else(|| Err(closed()))
    }

    /// Hands over everything, tells servers that this edge will not come again, so that nothing of it is left there, and
    /// removes its state. Meanwhile nothing is counted. If it does not succeed within this time, call it again, now or when
    /// the state was opened again.
    ///
    /// What is on its way to a site that is lost, its heir counts. What is on its way to a relay only that relay can
    /// confirm: until then this fails, and names the amounts.
    pub fn retire(&self, within: Duration) -> Result<(), RetireError> {
        let gone = || Err(RetireError::NotHandedOver(closed()));
        self.inner.retire(within, false).wait().unwrap_or_else(gone).map(drop)
    }

    /// The same, but what is on its way to relays that have not confirmed it within this time is given up: it may never be
    /// counted. Returns what that was.
    pub fn retire_giving_up(&self, within: Duration) -> Result<Vec<InFlight>, RetireError> {
        let gone = || Err(RetireError::NotHandedOver(closed()));
        self.inner.retire(within, true).wait().unwrap_or_else(gone)
    }

    /// From now on hands over to this server. Handoffs that were begun with another one are ended there.
    pub fn use_server(&self, server: &str) -> Result<(), BadAddress> {
        let server = server.parse()?;
        // An edge that was closed uses none.
        let _ = self.inner.choose(server).wait();
        Ok(())
    }

    /// How it stands. `None`: it was closed, or has retired.
    pub fn status(&self) -> Option<Status> {
        self.inner.status().wait()
    }

    /// The same edge, for asynchronous programs.
    pub fn asynchronous(&self) -> AsyncEdge {
        AsyncEdge::new(Arc::clone(&self.inner))
    }
}
