//! One client: its socket, what it has sent and not yet been read, and what it has not yet been told.

use std::{
    io::{self, Read, Write},
    sync::{Arc, atomic::AtomicU64},
};

use mio::net::TcpStream;

use super::{acks::Writes, waiting::Queue};
use crate::resp::{Parser, Session};

/// A client that does not read its answers is not read from any more when so much waits for it.
const UNSENT_BYTES_MAX: usize = 1024 * 1024;
/// Nor when so many of its commands wait for answers.
const WAITING_MAX: usize = 16 * 1024;
/// What a buffer may keep for the next time.
const KEPT_BYTES: usize = 16 * 1024;

pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) heard_ms: Arc<AtomicU64>,
    socket: TcpStream,
    pub(super) parser: Parser,
    pub(super) session: Session,
    /// Received, and not yet a whole command.
    pub(super) input: Vec<u8>,
    pub(super) out: Vec<u8>,
    sent: usize,
    pub(super) queue: Queue,
    pub(super) writes: Writes,
    pub(super) state: State,
    /// In the list of those that may have something to read.
    pub(super) is_listed: bool,
    /// In the list of those that may have something to write.
    pub(super) has_news: bool,
    /// There may be something to read that was not wanted when it came; the poll does not tell it again.
    pub(super) was_held_up: bool,
    /// The client sends no more; the poll does not tell this again either.
    pub(super) has_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Is told what it waits for, and then closed.
    Closing,
    /// Gone; kept until all answers to it have come, so that nobody else gets them.
    Gone,
}

/// What a look at the socket has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes; more may be there.
    Some(usize),
    /// So many bytes, and that was all for now.
    All(usize),
    /// The client sends no more. It may still read.
    End,
    /// The connection is broken.
    Broken,
}

impl Connection {
    pub(super) fn new(id: u64, heard_ms: Arc<AtomicU64>, socket: TcpStream, session: Session) -> Self {
        Self {
            id,
            heard_ms,
            socket,
            parser: Parser::new(),
            session,
            input: Vec::new(),
            out: Vec::new(),
            sent: 0,
            queue: Queue::default(),
            writes: Writes::default(),
            state: State::Open,
            is_listed: false,
            has_news: false,
            was_held_up: false,
            has_ended: false,
        }
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub(super) fn may_read(&self) -> bool {
        self.state == State::Open
            && self.out.len() - self.sent < UNSENT_BYTES_MAX
            && self.queue.len() < WAITING_MAX
            && !self.queue.is_held_up()
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Received::End,
                Ok(bytes) if bytes == buffer.len() => return Received::Some(bytes),
                Ok(bytes) => return Received::All(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::All(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Received::Broken,
            }
        }
    }

    /// Puts itself, once, on the list of those that may have something to read.
    pub(super) fn list(&mut self, index: usize, readable: &mut Vec<usize>) {
        if !self.is_listed {
            self.is_listed = true;
            readable.push(index);
        }
    }

    /// Puts itself, once, on the list of those that may have something to write.
    pub(super) fn tell(&mut self, index: usize, news: &mut Vec<usize>) {
        if !self.has_news {
            self.has_news = true;
            news.push(index);
        }
    }

    /// Sends what can be sent now.
    pub(super) fn send(&mut self) {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.state = State::Gone;
                    self.sent = self.out.len();
                }
            }
        }
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        self.sent = 0;
        if self.state == State::Closing && self.queue.is_empty() {
            self.state = State::Gone;
        }
    }

    /// May it be forgotten?
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Gone && self.queue.is_empty()
    }

    /// Forgets the first `bytes` of the input.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.input.drain(..bytes);
        if self.input.is_empty() {
            self.input.shrink_to(KEPT_BYTES);
        }
    }
}
