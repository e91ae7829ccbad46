//! A proxy on loopback that loses and delays acknowledgements: the network between a client and a server.
//!
//! Every request reaches the server. Of the replies some do not reach the client: the connection is cut once the
//! server has answered. Others come late.

use crate::bench::endpoint::Endpoint;
use crate::bench::error::BenchError;
use crate::bench::replies::Inbox;
use quipu_crdt::testing::Random;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at a time; each has two threads. One beyond is closed at once, and its client tries again.
const CONNECTIONS_MAX: usize = 512;
/// No reply is later than so many times the mean.
const DELAY_MAX_MEANS: f64 = 10.0;
/// In steps of this a delay is waited for: when all is over nobody needs the reply.
const DELAY_STEP: Duration = Duration::from_millis(5);

/// What happens to acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Faults {
    /// The probability that one is lost.
    pub(super) loss: f64,
    /// Delays are exponential with this mean; zero is none.
    pub(super) delay_mean: Duration,
    /// Commands in a request. One acknowledgement is the replies to all of them.
    pub(super) batch: usize,
}

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    target: Endpoint,
    faults: Faults,
    stop: AtomicBool,
    open: AtomicUsize,
    lost: AtomicU64,
    random: Mutex<Random>,
    /// Why the server could not be reached.
    failure: Mutex<Option<BenchError>>,
}

impl Proxy {
    pub(super) fn start(target: &Endpoint, faults: Faults, seed: u64) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: target.clone(),
            faults,
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            random: Mutex::new(Random::stream(seed, "acknowledgements")),
            failure: Mutex::new(None),
        });
        let of_thread = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || of_thread.accept(&listener));
        Ok(Proxy { address, shared, acceptor: Some(acceptor) })
    }

    /// Acknowledgements that were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Why the server could not be reached, if it could not.
    pub(super) fn failure(&self) -> Option<BenchError> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Proxy {
    /// Waits until all connections are closed, so that no request is under way any more. Their clients have closed
    /// them before.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // Wakes the thread that accepts.
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        std::thread::scope(|scope| {
            for client in listener.incoming() {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                if self.open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    continue;
                }
                self.open.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move || {
                    self.serve(&client);
                    self.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
    }

    /// One connection, to its end. However it ends, the client tries again.
    fn serve(&self, client: &TcpStream) {
        let target = match self.target.open() {
            Ok(conversation) => conversation.into_stream(),
            Err(error) => {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return;
            }
        };
        // Idle is no fault here; either side's end ends the other.
        let set = client.set_nodelay(true).and_then(|()| target.set_read_timeout(None));
        if set.is_err() {
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = std::io::copy(&mut &*client, &mut &target);
                let _ = target.shutdown(Shutdown::Both);
            });
            let _ = self.acknowledge(client, &target);
            let _ = client.shutdown(Shutdown::Both);
            let _ = target.shutdown(Shutdown::Both);
        });
    }

    /// Passes acknowledgements on until one is lost.
    fn acknowledge(&self, mut client: &TcpStream, mut target: &TcpStream) -> std::io::Result<()> {
        let mut inbox = Inbox::new();
        let mut acknowledgement = Vec::new();
        loop {
            acknowledgement.clear();
            let mut replies = 0;
            while replies < self.faults.batch {
                let bytes = target.read(inbox.room())?;
                if bytes == 0 {
                    return Ok(());
                }
                inbox.filled(bytes);
                acknowledgement.extend_from_slice(inbox.latest(bytes));
                while inbox.next().map_err(std::io::Error::other)?.is_some() {
                    replies += 1;
                }
            }
            let (lost, delay) = self.draw();
            if lost {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            self.wait(delay);
            client.write_all(&acknowledgement)?;
        }
    }

    fn wait(&self, delay: Duration) {
        let until = Instant::now() + delay;
        while !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(DELAY_STEP));
        }
    }

    fn draw(&self) -> (bool, Duration) {
        let Faults { loss, delay_mean, .. } = self.faults;
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = random.chance(loss);
        let means = -(1.0 - random.unit()).ln();
        (lost, delay_mean.mul_f64(means.min(DELAY_MAX_MEANS)))
    }
}
