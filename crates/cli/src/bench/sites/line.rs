//! A link that is longer than loopback: passes on what comes, so much later.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 16 * 1024;

/// Listens on a port of its own and passes on what comes, in both directions. Its threads end with the connections, and
/// with the process.
pub(super) struct Line {
    pub(super) address: SocketAddr,
    delay_us: Arc<AtomicU64>,
}

/// Bytes that are on their way.
struct Piece {
    due: Instant,
    bytes: Vec<u8>,
}

impl Line {
    /// Leads to this address.
    pub(super) fn to(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let delay_us = Arc::new(AtomicU64::new(0));
        let line = Line { address, delay_us: Arc::clone(&delay_us) };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Whoever is not connected dials again.
                let _ = connect(&client, target, &delay_us);
            }
        });
        Ok(line)
    }

    /// From now on, in each direction.
    pub(super) fn set_delay(&self, delay: Duration) {
        let delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_us.store(delay_us, Ordering::Relaxed);
    }
}

fn connect(client: &TcpStream, target: SocketAddr, delay_us: &Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    for (from, to) in [(client, &server), (&server, client)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        to.set_nodelay(true)?;
        let (piece, pieces) = mpsc::channel();
        let delay_us = Arc::clone(delay_us);
        thread::spawn(move || {
            read(from, |bytes| {
                let due = Instant::now() + Duration::from_micros(delay_us.load(Ordering::Relaxed));
                piece.send(Piece { due, bytes }).is_ok()
            });
        });
        thread::spawn(move || write(to, &pieces));
    }
    Ok(())
}

/// One end, until it closes or nobody takes what it says.
fn read(mut from: TcpStream, mut take: impl FnMut(Vec<u8>) -> bool) {
    let mut buffer = [0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if !take(buffer[..bytes].to_vec()) {
            break;
        }
    }
}

/// The other one.
fn write(mut to: TcpStream, pieces: &Receiver<Piece>) {
    for Piece { due, bytes } in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Answers every byte with itself.
pub(super) fn echo() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(mut back) = client.try_clone() else { continue };
            let _ = back.set_nodelay(true);
            thread::spawn(move || read(client, |bytes| back.write_all(&bytes).is_ok()));
        }
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_through_a_line_arrives_in_its_order_and_not_too_early() {
        let line = Line::to(echo().expect("a port")).expect("a port");
        let delay = Duration::from_millis(20);
        line.set_delay(delay);
        let mut stream = TcpStream::connect(line.address).expect("it listens");
        let sent = Instant::now();
        stream.write_all(b"one ").expect("it reads");
        stream.write_all(b"two").expect("it reads");
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).expect("it answers");
        assert_eq!(&answer, b"one two");
        assert!(sent.elapsed() >= 2 * delay);
    }
}
