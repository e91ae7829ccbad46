//! Clients that count with ids, go to another node when one does not answer, and ask again until they have an answer.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    crew::Crew,
    harness::{Client, Value, random::Random},
};

const KEYS: u64 = 40;
/// The bounded counter, and what it begins with.
pub(crate) const STOCK: &str = "stock";
pub(crate) const STOCK_FIRST: i64 = 500;
/// One command in so many spends from it.
const SPEND_ONE_IN: u64 = 8;
/// A client that hears nothing for so long goes elsewhere.
const PATIENCE: Duration = Duration::from_secs(8);

/// What became of what was sent.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Acknowledged, by key.
    pub(crate) counted: BTreeMap<String, i64>,
    /// Taken from the bounded counter.
    pub(crate) spent: i64,
    /// Refused, because nothing was left.
    pub(crate) sold_out: u64,
    /// Errors, by their first word.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The longest time between two acknowledgements of one client.
    pub(crate) longest: Duration,
}

impl Tally {
    fn add(&mut self, other: Self) {
        for (key, count) in other.counted {
            *self.counted.entry(key).or_default() += count;
        }
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
        self.spent += other.spent;
        self.sold_out += other.sold_out;
        self.longest = self.longest.max(other.longest);
    }

    pub(crate) fn acknowledged(&self) -> i64 {
        self.counted.values().sum()
    }
}

/// Makes the bounded counter.
pub(crate) fn prepare(crew: &Crew) {
    let made = crew.client(0).call(&format!("COUNTER.CREATE {STOCK} MIN 0 VALUE {STOCK_FIRST}"));
    assert_eq!(made, Value::ok());
}

/// Counts with so many clients while `disturb` runs.
pub(crate) fn count_while(crew: &Crew, clients: u64, seed: u64, disturb: impl FnOnce()) -> Tally {
    let stop = AtomicBool::new(false);
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let counting: Vec<_> = (0..clients)
            .map(|number| {
                let (random, stop) = (Random::new(random.next()), &stop);
                scope.spawn(move || {
                    Counting { crew, number, random, client: None, tally: Tally::default() }.run(stop)
                })
            })
            .collect();
        // However it ends, the clients do, too.
        let _stopping = Stopping(&stop);
        disturb();
        drop(_stopping);
        for client in counting {
            tally.add(client.join().expect("a client has failed"));
        }
    });
    tally
}

struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Counting<'a> {
    crew: &'a Crew,
    number: u64,
    random: Random,
    client: Option<Client>,
    tally: Tally,
}

impl Counting<'_> {
    fn run(mut self, stop: &AtomicBool) -> Tally {
        let mut last = Instant::now();
        for id in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let spends = self.random.below(SPEND_ONE_IN) == 0;
            let key = if spends { STOCK.to_owned() } else { format!("key:{}", self.random.below(KEYS)) };
            let verb = if spends { "DECRBY" } else { "INCRBY" };
            let command = format!("{verb} {key} 1 IDMP client-{} {id}", self.number);
            // What was begun is brought to its end, so that nothing is in doubt.
            let is_counted = self.until_answered(&command);
            match (spends, is_counted) {
                (false, _) => *self.tally.counted.entry(key).or_default() += 1,
                (true, true) => self.tally.spent += 1,
                (true, false) => self.tally.sold_out += 1,
            }
            self.tally.longest = self.tally.longest.max(last.elapsed());
            last = Instant::now();
        }
        self.tally
    }

    /// Sends it again and again, under its id. Returns whether it was counted.
    fn until_answered(&mut self, command: &str) -> bool {
        loop {
            match self.ask(command) {
                Ok(Value::Integer(_)) => return true,
                Ok(Value::Error(error)) if error.starts_with("OUTOFBOUNDS") => return false,
                Ok(Value::Error(error)) => {
                    let word = error.split(' ').next().unwrap_or_default().to_owned();
                    let is_passing = ["TRYAGAIN", "INDOUBT", "NOTSTORED"].contains(&word.as_str());
                    assert!(is_passing, "{command}: {error}");
                    *self.tally.errors.entry(word).or_default() += 1;
                    // Elsewhere, or the same again.
                    if self.random.below(2) == 0 {
                        self.client = None;
                    }
                }
                Ok(other) => panic!("{command}: {other:?}"),
                Err(error) => {
                    *self.tally.errors.entry(error.kind().to_string()).or_default() += 1;
                    self.client = None;
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn ask(&mut self, command: &str) -> io::Result<Value> {
        let client = match &mut self.client {
            Some(client) => client,
            none => {
                let at = usize::try_from(self.random.below(self.crew.len() as u64)).expect("an index");
                none.insert(Client::connect_within(self.crew.resp(at), PATIENCE)?)
            }
        };
        client.ask(command)
    }
}

/// Every node shows exactly what was acknowledged.
pub(crate) fn check(crew: &Crew, tally: &Tally) {
    for number in 0..crew.len() {
        let mut client = crew.client(number);
        for (key, counted) in &tally.counted {
            assert_eq!(client.call(&format!("GET {key}")).count(), *counted, "{key} at node {number}");
        }
        let left = client.call(&format!("GET {STOCK}")).count();
        assert_eq!(left, STOCK_FIRST - tally.spent, "{STOCK} at node {number}");
        assert!(left >= 0);
    }
}
