//! Clients that count while the store is harmed, and what they were told.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{Client, Value};

/// How long a client waits before it repeats what was refused.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// So many counters, on several shards.
const COUNTERS: u64 = 8;

/// What a client was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Adds that were acknowledged.
    pub(crate) acknowledged: i64,
    /// Refused with the word that nothing was counted.
    pub(crate) not_stored: i64,
    /// Refused with the word that it is not known.
    pub(crate) in_doubt: i64,
    /// The slowest answer of all.
    pub(crate) slowest: Duration,
}

/// What is said of an add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Counted,
    NotStored,
    InDoubt,
}

impl Told {
    fn note(&mut self, answer: Answer, after: Duration) {
        match answer {
            Answer::Counted => self.acknowledged += 1,
            Answer::NotStored => self.not_stored += 1,
            Answer::InDoubt => self.in_doubt += 1,
        }
        self.slowest = self.slowest.max(after);
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            acknowledged: self.acknowledged + other.acknowledged,
            not_stored: self.not_stored + other.not_stored,
            in_doubt: self.in_doubt + other.in_doubt,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// What all clients together were told.
#[derive(Debug)]
pub(crate) struct Report {
    /// Those with ids, who repeat until they are told the value.
    pub(crate) with_ids: Told,
    /// One without ids, who never repeats anything.
    pub(crate) without: Told,
    /// One that uses HTTP, with ids.
    pub(crate) http: Told,
}

pub(crate) fn key(number: u64) -> String {
    format!("counted:{}", number % COUNTERS)
}

pub(crate) const PLAIN: &str = "plain";

/// Counts from several clients while something is done to the store.
pub(crate) fn count_while(resp: SocketAddr, http: SocketAddr, disturb: impl FnOnce()) -> Report {
    const CLIENTS: usize = 4;
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || with_ids(resp, &format!("c{number}"), stop)))
            .collect();
        let without = scope.spawn(move || without_ids(resp, stop));
        let browser = scope.spawn(move || over_http(http, stop));
        let _stop = StopAtTheEnd(stop);
        disturb();
        stop.store(true, Ordering::Relaxed);
        let told = clients.into_iter().map(|client| client.join().expect("no failure"));
        let with_ids = told.reduce(|all, told| all.plus(&told)).expect("clients");
        let without = without.join().expect("no failure");
        Report { with_ids, without, http: browser.join().expect("no failure") }
    })
}

/// Also when the test fails: others wait for it.
struct StopAtTheEnd<'a>(&'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn answer(value: &Value) -> Answer {
    match value {
        Value::Integer(_) => Answer::Counted,
        Value::Error(text) if text.starts_with("NOTSTORED ") => Answer::NotStored,
        Value::Error(text) if text.starts_with("INDOUBT ") => Answer::InDoubt,
        other => panic!("{other:?}"),
    }
}

/// Adds 1 with an id, and again with the same id until it is told the value. Every add is acknowledged in the end.
fn with_ids(server: SocketAddr, name: &str, stop: &AtomicBool) -> Told {
    let mut client = Client::connect(server).expect("the server takes clients");
    let mut told = Told::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        loop {
            let start = Instant::now();
            let said = answer(&client.call(&format!("INCRBY {} 1 IDMP {name} {number}", key(number))));
            told.note(said, start.elapsed());
            if said == Answer::Counted {
                break;
            }
            thread::sleep(RETRY_AFTER);
        }
    }
    told
}

fn without_ids(server: SocketAddr, stop: &AtomicBool) -> Told {
    let mut client = Client::connect(server).expect("the server takes clients");
    let mut told = Told::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let said = answer(&client.call(&format!("INCR {PLAIN}")));
        told.note(said, start.elapsed());
    }
    told
}

fn over_http(server: SocketAddr, stop: &AtomicBool) -> Told {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false);
    let agent = ureq::Agent::new_with_config(config.build());
    let mut told = Told::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        loop {
            let start = Instant::now();
            let sent = agent
                .post(format!("http://{server}/v1/counters/{}/add", key(number)))
                .header("content-type", "application/json")
                .header("idempotency-key", format!("order-{number}"))
                .send(r#"{"amount": 1}"#);
            let mut response = sent.expect("an answer");
            let text = response.body_mut().read_to_string().expect("text");
            let said = match response.status().as_u16() {
                200 => Answer::Counted,
                503 if text.contains("urn:quipu:problem:not-stored") => Answer::NotStored,
                503 if text.contains("urn:quipu:problem:in-doubt") => Answer::InDoubt,
                other => panic!("{other}: {text}"),
            };
            told.note(said, start.elapsed());
            if said == Answer::Counted {
                break;
            }
            thread::sleep(RETRY_AFTER);
        }
    }
    told
}

/// The sum of all counters that adds with ids went to.
pub(crate) fn sum(client: &mut Client) -> i64 {
    (0..COUNTERS).map(|number| client.call(&format!("GET {}", key(number))).count()).sum()
}
