//! A connection between two servers that can be cut and healed while they run. Tests on several sites use it, too.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// How often a pump that waits looks at the state of the cable.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a cable does with what is sent through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cable {
    Whole,
    /// Connections end, and none come about.
    Cut,
    /// Nothing comes through, and nobody is told.
    Silent,
}

/// A direction of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From whoever has connected.
    Forth,
    /// To them.
    Back,
}

/// Listens on a port of its own and passes on what comes, in both directions. Its threads end with the process.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    cable: Cable,
    target: Option<SocketAddr>,
    passed: u64,
    /// Nothing comes through in these directions; the other one may work.
    stalled: [bool; 2],
    /// Everything comes so much later.
    delay: Duration,
}

impl Line {
    /// Leads nowhere until it is [aimed](Self::aim).
    pub(crate) fn new() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            cable: Cable::Whole,
            target: None,
            passed: 0,
            stalled: [false; 2],
            delay: Duration::ZERO,
        }));
        let line = Self { address, state };
        let of_thread = line.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                of_thread.serve(client);
            }
        });
        Ok(line)
    }

    fn locked<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connections lead to this address from now on.
    pub(crate) fn aim(&self, target: SocketAddr) {
        self.locked(|state| state.target = Some(target));
    }

    pub(crate) fn cable(&self) -> Cable {
        self.locked(|state| state.cable)
    }

    pub(crate) fn set(&self, cable: Cable) {
        self.locked(|state| state.cable = cable);
    }

    /// Holds up one direction, or does not any more. What was sent comes through then.
    #[allow(dead_code, reason = "only tests on several sites use it")]
    pub(crate) fn stall(&self, way: Way, stalled: bool) {
        self.locked(|state| state.stalled[way as usize] = stalled);
    }

    /// From now on everything comes so much later, in both directions.
    #[allow(dead_code, reason = "only tests on several sites use it")]
    pub(crate) fn delay(&self, delay: Duration) {
        self.locked(|state| state.delay = delay);
    }

    /// How many bytes have come through.
    pub(crate) fn passed(&self) -> u64 {
        self.locked(|state| state.passed)
    }

    fn serve(&self, client: TcpStream) {
        if self.cable() == Cable::Silent {
            let line = self.clone();
            thread::spawn(move || line.hold(&client));
            return;
        }
        let target = self.locked(|state| state.target.filter(|_| state.cable == Cable::Whole));
        let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
        for (way, from, to) in [(Way::Forth, &client, &server), (Way::Back, &server, &client)] {
            let (line, from, to) = (self.clone(), from.try_clone(), to.try_clone());
            if let (Ok(from), Ok(to)) = (from, to) {
                thread::spawn(move || line.pump(way, &from, &to));
            }
        }
    }

    /// Somebody who connects to nobody.
    fn hold(&self, client: &TcpStream) {
        while self.cable() == Cable::Silent {
            thread::sleep(LOOK_EVERY);
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    /// One direction, to its end.
    fn pump(&self, way: Way, mut from: &TcpStream, mut to: &TcpStream) {
        let mut buffer = [0; 16 * 1024];
        let _ = from.set_read_timeout(Some(LOOK_EVERY));
        let _ = to.set_nodelay(true);
        loop {
            match self.cable() {
                Cable::Cut => break,
                Cable::Silent => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
                Cable::Whole if self.locked(|state| state.stalled[way as usize]) => {
                    thread::sleep(LOOK_EVERY);
                    continue;
                }
                Cable::Whole => {}
            }
            let read = from.read(&mut buffer);
            if read.is_ok() {
                thread::sleep(self.locked(|state| state.delay));
            }
            match read {
                Ok(0) => break,
                Ok(bytes) if to.write_all(&buffer[..bytes]).is_ok() => {
                    self.locked(|state| state.passed += bytes as u64);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                _ => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
