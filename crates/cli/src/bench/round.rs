//! One round: all connections under load from one thread until the round ends.
//!
//! A closed loop: a connection sends its next burst when the one before is answered, so a slow server is asked less.

use super::connection::{Connection, Progress};
use super::error::BenchError;
use super::load::{Contestant, End, Load, Tally};
use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// How often time limits are looked at and progress is shown.
const TICK: Duration = Duration::from_millis(50);

/// What is told of waiting: finer than a tenth of a microsecond nothing is, and longer than an hour nobody waits.
const LATENCY_NS_MIN: u64 = 100;
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const LATENCY_DIGITS: u8 = 3;

/// What a round has shown.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(super) elapsed: Duration,
    pub(super) answered: Tally,
    /// One sample for each burst: from when it is sent to when its last reply is read, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    pub(super) first_error: Option<String>,
    /// Somebody pressed Ctrl-C before the round was over.
    pub(super) stopped: bool,
}

impl Measured {
    /// What was measured at the same time.
    pub(super) fn include(&mut self, other: Self) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.answered.include(other.answered);
        self.latency.add(other.latency).expect("all have the same bounds");
        self.first_error = self.first_error.take().or(other.first_error);
        self.stopped |= other.stopped;
    }

    pub(super) fn per_second(&self) -> f64 {
        self.answered.all() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// None yet.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS)
        .expect("the bounds are in order")
}

/// Told from time to time how much of the round is done, from 0 to 1; says whether to go on.
pub(super) type Watch<'a> = dyn FnMut(f64) -> bool + 'a;

/// Runs a round. What it has counted before an error is lost.
pub(super) fn run(
    contestant: &Contestant,
    load: &Load,
    number: usize,
    watch: &mut Watch<'_>,
) -> Result<Measured, BenchError> {
    let mut round = Round::open(contestant, load, number)?;
    round.start()?;
    let mut events = Events::with_capacity(1024);
    let mut tick_at = round.started + TICK;
    while round.busy > 0 || !round.is_over(Instant::now()) {
        let timeout = round.wave_at.map_or(TICK, |at| at.saturating_duration_since(Instant::now()).min(TICK));
        match round.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                return Err(contestant.endpoint.io(error));
            }
            _ => {}
        }
        for event in &events {
            round.wake(event.token().0)?;
        }
        let now = Instant::now();
        if round.busy == 0 && round.wave_at.is_some_and(|at| now >= at) {
            round.start_wave(now)?;
        }
        if now >= tick_at {
            tick_at = now + TICK;
            round.tick(now, watch)?;
        }
    }
    Ok(round.measured)
}

struct Round<'a> {
    load: &'a Load,
    poll: Poll,
    connections: Vec<Connection<'a>>,
    /// Connections with a burst under way.
    busy: usize,
    started: Instant,
    /// When the next wave begins, if the load comes in waves.
    wave_at: Option<Instant>,
    /// Commands that may still be sent, where their number ends the round.
    left: u64,
    measured: Measured,
}

impl<'a> Round<'a> {
    fn open(contestant: &'a Contestant, load: &'a Load, number: usize) -> Result<Self, BenchError> {
        let endpoint = &contestant.endpoint;
        let poll = Poll::new().map_err(|error| endpoint.io(error))?;
        let mut connections = Vec::with_capacity(load.connections);
        for index in 0..load.connections {
            let stream = endpoint.open().map_err(|error| many(error, index))?.into_stream();
            stream.set_nonblocking(true).map_err(|error| endpoint.io(error))?;
            let mut stream = mio::net::TcpStream::from_std(stream);
            poll.registry()
                .register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)
                .map_err(|error| endpoint.io(error))?;
            let script = load.script(contestant, number, index);
            connections.push(Connection::new(endpoint, index + 1, stream, script));
        }
        let measured = Measured {
            elapsed: Duration::ZERO,
            answered: Tally::default(),
            latency: latencies(),
            first_error: None,
            stopped: false,
        };
        let left = match load.end {
            End::Requests(requests) => requests,
            End::After(_) => u64::MAX,
        };
        let started = Instant::now();
        Ok(Round { load, poll, connections, busy: 0, started, wave_at: None, left, measured })
    }

    fn start(&mut self) -> Result<(), BenchError> {
        self.started = Instant::now();
        self.start_wave(self.started)
    }

    /// A burst of each connection. None has one under way.
    fn start_wave(&mut self, now: Instant) -> Result<(), BenchError> {
        self.wave_at = self.load.wave_every.map(|every| now.max(self.wave_at.unwrap_or(now)) + every);
        for index in 0..self.connections.len() {
            self.send(index, Instant::now())?;
        }
        Ok(())
    }

    fn is_over(&self, now: Instant) -> bool {
        let over = match self.load.end {
            End::Requests(_) => self.left == 0,
            End::After(duration) => now.saturating_duration_since(self.started) >= duration,
        };
        over || self.measured.stopped
    }

    /// The next burst of a connection, unless the round is over.
    fn send(&mut self, index: usize, now: Instant) -> Result<(), BenchError> {
        if self.is_over(now) {
            return Ok(());
        }
        let commands = self.load.pipeline.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= commands as u64;
        self.busy += 1;
        self.connections[index].send(commands, now)
    }

    fn wake(&mut self, index: usize) -> Result<(), BenchError> {
        let Progress::Answered { tally, sent_at } =
            self.connections[index].wake(&mut self.measured.first_error)?
        else {
            return Ok(());
        };
        let now = Instant::now();
        let nanoseconds = u64::try_from((now - sent_at).as_nanos()).unwrap_or(u64::MAX);
        self.measured.latency.saturating_record(nanoseconds);
        self.measured.answered.include(tally);
        self.measured.elapsed = now - self.started;
        self.busy -= 1;
        if self.wave_at.is_some() { Ok(()) } else { self.send(index, now) }
    }

    fn tick(&mut self, now: Instant, watch: &mut Watch<'_>) -> Result<(), BenchError> {
        for connection in &self.connections {
            connection.check_time(now)?;
        }
        let done = match self.load.end {
            End::Requests(requests) => self.measured.answered.all() as f64 / requests as f64,
            End::After(duration) => (now - self.started).as_secs_f64() / duration.as_secs_f64(),
        };
        self.measured.stopped |= !watch(done.min(1.0));
        Ok(())
    }
}

/// When some connections could be opened and then no more, it is for want of descriptors or of room at the server.
fn many(error: BenchError, opened: usize) -> BenchError {
    match error {
        BenchError::Unreachable { address, error, .. } if opened > 0 => {
            BenchError::OutOfFiles { address, opened, error }
        }
        other => other,
    }
}
