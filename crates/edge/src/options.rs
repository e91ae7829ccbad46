//! How an edge is opened.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::Duration,
};

use quipu_storage::{embedded::Disk, file::StateFile};

use crate::{
    Address, Edge, OpenError,
    backoff::Waits,
    courier::{Courier, Order, Pace, Signals},
    edge::Inner,
    http::Http,
    keeper::Keeper,
};

/// How an edge is opened. What is not said is as in [`Options::new`].
#[derive(Debug, Clone)]
pub struct Options {
    pending_max: usize,
    sync_every: Duration,
    connect_max: Duration,
    answer_max: Duration,
    after_failure: Waits,
    authorization: Option<String>,
    in_background: bool,
    is_original: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// At most 100,000 counters wait; what was counted is handed over within a second; 5 seconds for a connection and 10
    /// for an answer; after failures, waits from 0.2 to 30 seconds.
    pub fn new() -> Self {
        Self {
            pending_max: 100_000,
            sync_every: Duration::from_secs(1),
            connect_max: Duration::from_secs(5),
            answer_max: Duration::from_secs(10),
            after_failure: Waits { first: Duration::from_millis(200), longest: Duration::from_secs(30) },
            authorization: None,
            in_background: true,
            is_original: false,
        }
    }

    /// So many counters may wait to be handed over; more are refused. Each costs some 200 bytes of memory and 100 of disk.
    pub fn pending_max(mut self, counters: usize) -> Self {
        self.pending_max = counters;
        self
    }

    /// How soon what was counted is handed over, and how often values are asked for that somebody reads.
    pub fn sync_every(mut self, time: Duration) -> Self {
        self.sync_every = time;
        self
    }

    /// Nothing is sent except by [`Edge::sync`], [`Edge::flush`] and [`Edge::retire`].
    pub fn only_when_asked(mut self) -> Self {
        self.in_background = false;
        self
    }

    /// The state is the original, although it was found to be used twice, or was repaired: it hands over again.
    pub fn original(mut self) -> Self {
        self.is_original = true;
        self
    }

    /// How long a connection and an answer may take.
    pub fn timeouts(mut self, connect: Duration, answer: Duration) -> Self {
        (self.connect_max, self.answer_max) = (connect, answer);
        self
    }

    /// The waits after failures: the first, which doubles up to the longest. Each is drawn between half of it and all.
    pub fn back_off(mut self, first: Duration, longest: Duration) -> Self {
        self.after_failure = Waits { first, longest };
        self
    }

    /// The user and the password, for servers that have users.
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.authorization = Some(format!("Bearer {user}:{password}"));
        self
    }

    /// Opens the state in a file, which is made if it does not exist.
    pub fn open<S: AsRef<str>>(
        self,
        path: impl AsRef<Path>,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Edge, OpenError> {
        let servers = addresses(servers)?;
        self.start(StateFile::open(path.as_ref())?, servers)
    }

    /// An edge without a file: what was not handed over is lost when the process ends.
    pub fn in_memory<S: AsRef<str>>(self, servers: impl IntoIterator<Item = S>) -> Result<Edge, OpenError> {
        let servers = addresses(servers)?;
        self.start(StateFile::in_memory()?, servers)
    }

    /// Opens the state in a file of this name on a disk of one's own.
    pub fn open_on<D: Disk + 'static, S: AsRef<str>>(
        self,
        disk: D,
        name: &str,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Edge, OpenError> {
        let servers = addresses(servers)?;
        self.start(StateFile::on(disk, name)?, servers)
    }

    fn start<D: Disk + 'static>(self, file: StateFile<D>, servers: Vec<Address>) -> Result<Edge, OpenError> {
        let is_header = |text: &str| text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
        if self.authorization.as_deref().is_some_and(|text| !is_header(text)) {
            return Err(OpenError::Option("a user and a password are of printable ASCII characters"));
        }
        if self.sync_every.is_zero() || self.after_failure.first.is_zero() {
            return Err(OpenError::Option("a time between exchanges is more than zero"));
        }
        let (requests, requested) = mpsc::channel();
        let (orders, ordered) = mpsc::channel();
        // Without a background nobody is ever woken.
        let signals = Arc::new(Signals::default());
        signals.is_woken.store(!self.in_background, Ordering::Release);
        let mut keeper = Keeper::open(file, self.pending_max, orders.clone(), Arc::clone(&signals))?;
        if self.is_original {
            keeper.set_copy(None)?;
        }
        let Self { sync_every, after_failure, in_background, .. } = self;
        let http = Http::new(self.connect_max, self.answer_max, self.authorization);
        let pace = Pace { sync_every, after_failure, in_background };
        let courier = Courier::new(requests.clone(), keeper.identity(), http, pace, servers, signals);
        if in_background && keeper.is_open() {
            // If nobody is there to be woken, the next lines say it.
            let _ = orders.send(Order::Wake);
        }
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        let keeper = thread("edge-state").spawn(move || keeper.run(&requested)).map_err(OpenError::Thread)?;
        let edge = Edge::new(Inner::new(requests, orders, keeper));
        thread("edge-servers").spawn(move || courier.run(&ordered)).map_err(OpenError::Thread)?;
        Ok(edge)
    }
}

fn addresses<S: AsRef<str>>(servers: impl IntoIterator<Item = S>) -> Result<Vec<Address>, OpenError> {
    servers.into_iter().map(|server| Ok(server.as_ref().parse()?)).collect()
}
