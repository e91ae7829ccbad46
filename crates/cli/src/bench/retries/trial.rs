//! One trial: clients count on two counters through a bad network, on one without and on one with operation ids.

use super::client::Client;
use super::proxy::{Faults, Proxy};
use crate::bench::commands::{Commands, Ids};
use crate::bench::endpoint::Endpoint;
use crate::bench::error::BenchError;
use crate::bench::load::Contestant;
use crate::bench::verify::verify;
use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often the end and Ctrl-C are looked at.
const STEP: Duration = Duration::from_millis(10);

/// When a trial ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    Operations(u64),
    Elapsed(Duration),
}

#[derive(Debug, Clone)]
pub(super) struct Conditions {
    pub(super) faults: Faults,
    /// A client that has no acknowledgement after so long tries again.
    pub(super) timeout: Duration,
    pub(super) clients: usize,
    /// Operations per second of all clients together, if the network lets them.
    pub(super) rate: f64,
    pub(super) until: Until,
    /// Rows over the time, with that of the end.
    pub(super) samples: u32,
}

/// The counters at some moment; at the end, when every operation has been acknowledged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Adds that clients have begun, each of which should count once.
    pub(super) issued: u64,
    pub(super) without: i128,
    /// None where ids are not tried.
    pub(super) with_ids: Option<i128>,
}

impl Sample {
    /// How far the counter without ids is off, in percent.
    pub(super) fn error_without(&self) -> f64 {
        error_percent(self.without, self.issued)
    }

    pub(super) fn error_with(&self) -> Option<f64> {
        self.with_ids.map(|counted| error_percent(counted, self.issued))
    }
}

fn error_percent(counted: i128, issued: u64) -> f64 {
    let off = counted - i128::from(issued);
    100.0 * off as f64 / issued.max(1) as f64
}

#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Over the time, and last the end.
    pub(super) samples: Vec<Sample>,
    pub(super) end: Sample,
    pub(super) retries: u64,
    pub(super) lost: u64,
}

/// The counters of one trial, which no other has used.
pub(super) struct Counters {
    without: Contestant,
    with_ids: Option<Contestant>,
    /// What producers begin with.
    name: String,
}

impl Counters {
    pub(super) fn new(target: &Endpoint, name: &str, ids: bool) -> Self {
        let counter = |with_ids: bool, label: &str| Contestant {
            label: label.to_owned(),
            endpoint: target.clone(),
            with_ids,
            prefix: format!("bench:{name}:{label}:"),
        };
        Counters {
            without: counter(false, "without"),
            with_ids: ids.then(|| counter(true, "ids")),
            name: name.to_owned(),
        }
    }

    fn read(&self, seconds: f64, issued: u64) -> Result<Sample, BenchError> {
        let value = |counter: &Contestant| Ok(verify(counter, 1, issued)?.counted);
        let with_ids = self.with_ids.as_ref().map(value).transpose()?;
        Ok(Sample { seconds, issued, without: value(&self.without)?, with_ids })
    }
}

/// Why a trial has no outcome. Its counters are not used again.
#[derive(Debug)]
pub(super) enum TrialError {
    Bench(BenchError),
    Interrupted,
}

impl From<BenchError> for TrialError {
    fn from(error: BenchError) -> Self {
        TrialError::Bench(error)
    }
}

impl From<TrialError> for Failure {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Bench(error) => Failure::failed(error),
            TrialError::Interrupted => Failure::Interrupted,
        }
    }
}

/// Runs a trial. `go_on` is asked from time to time.
pub(super) fn run(
    target: &Endpoint,
    conditions: &Conditions,
    counters: &Counters,
    seed: u64,
    go_on: &dyn Fn() -> bool,
) -> Result<Outcome, TrialError> {
    let proxy = Proxy::start(target, conditions.faults, seed).map_err(|error| target.io(error))?;
    let endpoint = Endpoint::in_front_of(target, proxy.address, conditions.timeout);
    let trial = Trial {
        conditions,
        counters,
        proxy: &proxy,
        endpoint: &endpoint,
        started: Instant::now(),
        next: AtomicU64::new(0),
        issued: AtomicU64::new(0),
        retries: AtomicU64::new(0),
        active: AtomicUsize::new(conditions.clients),
        stop: AtomicBool::new(false),
    };
    let samples = trial.run(go_on)?;
    let (issued, retries) = (trial.issued.into_inner(), trial.retries.into_inner());
    let (seconds, lost) = (trial.started.elapsed().as_secs_f64(), proxy.lost());
    drop(proxy); // Nothing is under way any more.
    let end = counters.read(seconds, issued)?;
    Ok(Outcome { samples: samples.into_iter().chain([end]).collect(), end, retries, lost })
}

struct Trial<'a> {
    conditions: &'a Conditions,
    counters: &'a Counters,
    proxy: &'a Proxy,
    endpoint: &'a Endpoint,
    started: Instant,
    /// The operation that is begun next, counted from 0.
    next: AtomicU64,
    issued: AtomicU64,
    retries: AtomicU64,
    /// Clients that have not ended.
    active: AtomicUsize,
    stop: AtomicBool,
}

impl Trial<'_> {
    fn run(&self, go_on: &dyn Fn() -> bool) -> Result<Vec<Sample>, TrialError> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.conditions.clients)
                .map(|number| {
                    scope.spawn(move || {
                        let outcome = self.client(number);
                        self.active.fetch_sub(1, Ordering::Relaxed);
                        outcome.inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            let samples = self.watch(go_on);
            // Also where the samples have failed: nobody would look at the rest.
            self.stop.fetch_or(samples.is_err(), Ordering::Relaxed);
            let failed = clients
                .into_iter()
                .filter_map(|client| client.join().expect("clients do not panic").err())
                // One that failed has stopped the others, which say only that.
                .reduce(|first, other| if matches!(first, TrialError::Bench(_)) { first } else { other });
            match failed {
                Some(error @ TrialError::Bench(_)) => Err(error),
                Some(TrialError::Interrupted) => samples.and(Err(TrialError::Interrupted)),
                None => samples,
            }
        })
    }

    /// Takes samples until all clients have ended.
    fn watch(&self, go_on: &dyn Fn() -> bool) -> Result<Vec<Sample>, TrialError> {
        let Conditions { until, samples, rate, .. } = *self.conditions;
        let length = match until {
            Until::Elapsed(length) => length,
            Until::Operations(operations) => Duration::from_secs_f64(operations as f64 / rate),
        };
        let period = length / samples.max(1);
        let (mut taken, mut number) = (Vec::new(), 1);
        while self.active.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(STEP);
            if !go_on() {
                return Err(TrialError::Interrupted);
            }
            let elapsed = self.started.elapsed();
            if number < samples && elapsed >= period * number {
                number += 1;
                let issued = self.issued.load(Ordering::Relaxed);
                taken.push(self.counters.read(elapsed.as_secs_f64(), issued)?);
            }
        }
        Ok(taken)
    }

    /// One client, from its first operation to its last. Every operation goes to both counters.
    fn client(&self, number: usize) -> Result<(), TrialError> {
        let batch = self.conditions.faults.batch;
        let go_on = || !self.stop.load(Ordering::Relaxed);
        let mut client = Client::new(self.proxy, self.endpoint);
        let producer = format!("{}-{number}", self.counters.name);
        let mut without = Commands::new(&self.counters.without.prefix, None);
        let mut with_ids =
            self.counters.with_ids.as_ref().map(|counter| {
                Commands::new(&counter.prefix, Some(Ids { producer: producer.clone(), next: 1 }))
            });
        let mut operation = Vec::new();
        while self.begin_next() {
            self.issued.fetch_add(batch as u64, Ordering::Relaxed);
            for commands in [Some(&mut without), with_ids.as_mut()].into_iter().flatten() {
                operation.clear();
                (0..batch).for_each(|_| commands.add(0, &mut operation));
                if !client.until_acknowledged(&operation, batch, &go_on)? {
                    return Err(TrialError::Interrupted);
                }
            }
        }
        self.retries.fetch_add(client.retries, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until the next operation is due; says whether there is one.
    fn begin_next(&self) -> bool {
        let operation = self.next.fetch_add(1, Ordering::Relaxed);
        let due = Duration::from_secs_f64(operation as f64 / self.conditions.rate);
        let is_over = match self.conditions.until {
            Until::Operations(operations) => operation >= operations,
            // By when it is due, so that the rate gives the number of operations.
            Until::Elapsed(length) => due >= length,
        };
        if is_over || self.stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        !self.stop.load(Ordering::Relaxed)
    }
}
