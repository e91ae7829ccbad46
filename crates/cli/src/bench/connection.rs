//! One connection of the load: sends a burst, takes its replies, sends the next. Never blocks.

use super::endpoint::Endpoint;
use super::error::BenchError;
use super::load::{Script, Tally};
use super::replies::{Inbox, Reply};
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

pub(super) struct Connection<'a> {
    endpoint: &'a Endpoint,
    /// From 1, for people.
    number: usize,
    pub(super) stream: TcpStream,
    script: Script,
    out: Vec<u8>,
    /// How much of `out` is with the kernel.
    written: usize,
    inbox: Inbox,
    burst: Option<Burst>,
}

/// Commands under way.
struct Burst {
    sent_at: Instant,
    asked: Tally,
    answered: Tally,
}

/// What came of being woken.
pub(super) enum Progress {
    Waiting,
    /// The whole burst is answered; the connection is idle.
    Answered {
        tally: Tally,
        sent_at: Instant,
    },
}

impl<'a> Connection<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, number: usize, stream: TcpStream, script: Script) -> Self {
        let (out, inbox) = (Vec::new(), Inbox::new());
        Connection { endpoint, number, stream, script, out, written: 0, inbox, burst: None }
    }

    /// Starts the next burst. The one before has been answered.
    pub(super) fn send(&mut self, commands: usize, now: Instant) -> Result<(), BenchError> {
        let asked = self.script.burst(commands, &mut self.out);
        self.written = 0;
        self.burst = Some(Burst { sent_at: now, asked, answered: Tally::default() });
        self.flush()
    }

    /// Hands to the kernel what it takes.
    fn flush(&mut self) -> Result<(), BenchError> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(self.closed()),
                Ok(bytes) => self.written += bytes,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    _ => return Err(self.failed(error)),
                },
            }
        }
        Ok(())
    }

    /// Goes on as far as it can. The first error reply is put into `first_error`.
    pub(super) fn wake(&mut self, first_error: &mut Option<String>) -> Result<Progress, BenchError> {
        self.flush()?;
        loop {
            let room = self.inbox.room();
            let wanted = room.len();
            let bytes = match self.stream.read(room) {
                // Nothing is lost with a connection that has nothing under way.
                Ok(0) if self.burst.is_none() => return Ok(Progress::Waiting),
                Ok(0) => return Err(self.closed()),
                Ok(bytes) => bytes,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(Progress::Waiting),
                    ErrorKind::Interrupted => continue,
                    _ => return Err(self.failed(error)),
                },
            };
            self.inbox.filled(bytes);
            self.take_replies(first_error)?;
            if let Some(burst) = self.burst.take_if(|burst| burst.answered.all() == burst.asked.all()) {
                // Nothing more can come now, so this read was the last: one call to the kernel less.
                return self.complete(&burst);
            }
            if bytes < wanted {
                return Ok(Progress::Waiting); // The kernel has no more, and wakes us when it has.
            }
        }
    }

    fn take_replies(&mut self, first_error: &mut Option<String>) -> Result<(), BenchError> {
        let address = || self.endpoint.name.clone();
        let Some(burst) = &mut self.burst else {
            let (got, expected) = ("more replies".to_owned(), "none".to_owned());
            return Err(BenchError::Unexpected { address: address(), got, expected });
        };
        while burst.answered.all() < burst.asked.all() {
            let reply =
                self.inbox.next().map_err(|error| BenchError::NotResp { address: address(), error })?;
            let Some(reply) = reply else { return Ok(()) };
            match reply {
                Reply::Integer(_) => burst.answered.adds += 1,
                Reply::Bulk(_) | Reply::Nil => burst.answered.reads += 1,
                Reply::Error(text) => {
                    burst.answered.errors += 1;
                    first_error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
                }
                Reply::Simple(_) => {
                    let (got, expected) = (reply.text(), "a number".to_owned());
                    return Err(BenchError::Unexpected { address: address(), got, expected });
                }
            }
        }
        Ok(())
    }

    /// Numbers answer adds and strings answer reads; an error may answer either.
    fn complete(&self, burst: &Burst) -> Result<Progress, BenchError> {
        let Burst { sent_at, asked, answered } = *burst;
        let fits = answered.adds <= asked.adds && answered.reads <= asked.reads && self.inbox.is_empty();
        if fits {
            return Ok(Progress::Answered { tally: answered, sent_at });
        }
        let more = if self.inbox.is_empty() { "" } else { " and more" };
        Err(BenchError::Unexpected {
            address: self.endpoint.name.clone(),
            got: format!("{} numbers and {} strings{more}", answered.adds, answered.reads),
            expected: format!("{} and {}", asked.adds, asked.reads),
        })
    }

    /// An error if it has waited for answers for longer than it may.
    pub(super) fn check_time(&self, now: Instant) -> Result<(), BenchError> {
        let limit = self.endpoint.timeout;
        match &self.burst {
            Some(burst) if now.saturating_duration_since(burst.sent_at) > limit => Err(BenchError::Silent {
                address: self.endpoint.name.clone(),
                connection: self.number,
                unanswered: self.unanswered(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    fn unanswered(&self) -> usize {
        let missing = self.burst.as_ref().map_or(0, |burst| burst.asked.all() - burst.answered.all());
        usize::try_from(missing).unwrap_or(usize::MAX)
    }

    fn closed(&self) -> BenchError {
        BenchError::Closed {
            address: self.endpoint.name.clone(),
            connection: self.number,
            unanswered: self.unanswered(),
        }
    }

    /// A reset is a close that the server did not mean to be polite about.
    fn failed(&self, error: std::io::Error) -> BenchError {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                self.closed()
            }
            _ => self.endpoint.io(error),
        }
    }
}
