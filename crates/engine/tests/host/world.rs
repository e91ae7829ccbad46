//! One process after another over the same stored data, and the time.

use std::sync::Arc;

use quipu_engine::{
    Action, Add, Command, Host, Moment, OperationId, Released, Reply, Settings, Shards, Ticket,
    host::Discipline,
};
use quipu_storage::{
    Checkpointer, Flush, Store,
    memory::{Memory, MemoryLog},
};

use crate::table::{Seen, WatchedTable};

/// What the machine's clock shows when the first process starts.
pub(crate) const UNIX_MS: u64 = 1_700_000_000_000;

/// How a world is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) shards: u16,
    pub(crate) settings: Settings,
    pub(crate) flush: Flush,
    /// Checkpoints are written by a thread.
    pub(crate) threaded: bool,
    pub(crate) discipline: Discipline,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            shards: 4,
            settings: Settings::default(),
            flush: Flush::Now,
            threaded: false,
            discipline: Discipline::Right,
        }
    }
}

pub(crate) type TestHost = Host<MemoryLog, Arc<WatchedTable>>;

/// Stored data and the process that runs over it.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) memory: Memory,
    pub(crate) seen: Seen,
    pub(crate) host: TestHost,
    checkpointer: Option<Arc<Checkpointer>>,
    /// By a clock that all processes see.
    pub(crate) clock_ms: u64,
    /// By so much the machine's clock was set back.
    pub(crate) unix_back_ms: u64,
    started_ms: u64,
    tickets: u64,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let (memory, seen) = (Memory::new(), Seen::default());
        let (host, checkpointer) = boot(&memory, &seen, setup);
        let mut world = Self {
            setup,
            memory,
            seen,
            host,
            checkpointer,
            clock_ms: 0,
            unix_back_ms: 0,
            started_ms: 0,
            tickets: 0,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        for shard in self.shards().all() {
            self.host.open(shard, self.now()).expect("it opens");
        }
    }

    /// Another process goes on.
    pub(crate) fn restart(&mut self) {
        self.restart_and_open_after(0);
    }

    /// Another process goes on, and opens its shards when it has run for a while.
    pub(crate) fn restart_and_open_after(&mut self, wait_ms: u64) {
        // The former one's threads end before.
        let (host, checkpointer) = boot(&self.memory, &self.seen, self.setup);
        self.host = host;
        self.checkpointer = checkpointer;
        self.started_ms = self.clock_ms;
        self.clock_ms += wait_ms;
        self.open();
    }

    pub(crate) fn shards(&self) -> Shards {
        Shards::new(self.setup.shards).expect("a power of two")
    }

    pub(crate) fn now(&self) -> Moment {
        Moment {
            elapsed_ms: self.clock_ms - self.started_ms,
            unix_ms: UNIX_MS + self.clock_ms - self.unix_back_ms,
        }
    }

    pub(crate) fn send(&mut self, key: &[u8], action: Action<'_>) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let now = self.now();
        self.host.submit(self.shards().of(key), ticket, Command { key, action }, now);
        ticket
    }

    pub(crate) fn commit(&mut self) -> Released {
        let mut released = Released::default();
        self.host.commit(self.now(), &mut released);
        released
    }

    /// Looks after every shard once.
    pub(crate) fn maintain(&mut self) -> Released {
        let mut released = Released::default();
        for _ in 0..self.setup.shards.div_ceil(8) {
            self.host.maintain(self.now(), &mut released);
        }
        released
    }

    /// Time passes, as the host is told every now and then.
    pub(crate) fn pass(&mut self, ms: u64) {
        const EVERY_MS: u64 = 10_000;
        let until_ms = self.clock_ms + ms;
        while self.clock_ms < until_ms {
            self.clock_ms = until_ms.min(self.clock_ms + EVERY_MS);
            self.maintain();
        }
    }

    /// Waits until the thread has written all that it was given.
    pub(crate) fn wait_for_rows(&self) {
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.flush().expect("nothing fails here");
        }
    }

    /// One command and its answer.
    pub(crate) fn ask(&mut self, key: &[u8], action: Action<'_>) -> Reply {
        let ticket = self.send(key, action);
        let released = self.commit();
        let mut replies = released.replies.into_iter();
        replies.find(|(to, _)| *to == ticket).expect("an answer").1
    }

    pub(crate) fn add_once(&mut self, key: &[u8], id: &[u8], amount: i64) -> Reply {
        let operation = Some(OperationId { producer: b"p", id });
        self.ask(key, Action::Add { add: Add::of(amount), operation })
    }

    pub(crate) fn value(&mut self, key: &[u8]) -> Option<i64> {
        match self.ask(key, Action::Get) {
            Reply::Value(value) => value,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], amount: i64) -> Reply {
        self.ask(key, Action::Add { add: Add::of(amount), operation: None })
    }

    /// All counters, by pages.
    pub(crate) fn list(&mut self, prefix: &[u8], limit: usize) -> Vec<(Vec<u8>, i64)> {
        let mut all = Vec::new();
        for shard in self.shards().all() {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = self.host.list(shard, prefix, after.as_deref(), limit).expect("it can be read");
                assert!(page.counters.len() <= limit, "a page is not larger than asked for");
                all.extend(page.counters);
                if page.next.is_none() {
                    break;
                }
                assert!(page.next > after, "pages go on");
                after = page.next;
            }
        }
        all.sort();
        all
    }
}

fn boot(memory: &Memory, seen: &Seen, setup: Setup) -> (TestHost, Option<Arc<Checkpointer>>) {
    let table = Arc::new(WatchedTable { table: memory.table(), seen: seen.clone() });
    let checkpointer = setup
        .threaded
        .then(|| Arc::new(Checkpointer::spawn(table.clone()).expect("a thread can be started")));
    let store = Store::new(memory.log(), table);
    let host = Host::new(store, checkpointer.clone(), setup.settings, setup.flush);
    (host.with_discipline(setup.discipline), checkpointer)
}
