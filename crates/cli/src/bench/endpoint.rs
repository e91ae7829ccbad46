//! A server to put load on: where it is, and how a connection to it is opened.

use super::commands::encode;
use super::error::BenchError;
use super::replies::{Inbox, Reply};
use crate::failure::Failure;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// As the user wrote it.
    pub(super) name: String,
    /// The flag that named it.
    flag: &'static str,
    addresses: Vec<SocketAddr>,
    password: Option<String>,
    /// For connecting, and for every answer.
    pub(super) timeout: Duration,
}

impl Endpoint {
    pub(super) fn resolve(
        flag: &'static str,
        name: &str,
        password: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let addresses: Vec<SocketAddr> = match name.to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let problem = format!("{name}: {error}; write host:port, for example 127.0.0.1:7379");
                return Err(Failure::Usage { flag, problem });
            }
        };
        Ok(Endpoint {
            name: name.to_owned(),
            flag,
            addresses,
            password: password.map(str::to_owned),
            timeout,
        })
    }

    /// A server that this process has started.
    pub(super) fn of_our_own(name: String, address: SocketAddr, timeout: Duration) -> Self {
        Endpoint { name, flag: "a site", addresses: vec![address], password: None, timeout }
    }

    /// Something of our own in front of another endpoint, which needs no password.
    pub(super) fn in_front_of(other: &Endpoint, address: SocketAddr, timeout: Duration) -> Self {
        let name = format!("the proxy in front of {}", other.name);
        Endpoint { name, flag: other.flag, addresses: vec![address], password: None, timeout }
    }

    /// A connection that is logged in. Reading and writing block, up to the time-out.
    pub(super) fn open(&self) -> Result<Conversation<'_>, BenchError> {
        let mut failed = std::io::Error::from(ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, self.timeout) {
                Ok(stream) => return self.greet(stream),
                Err(error) => failed = error,
            }
        }
        Err(BenchError::Unreachable { flag: self.flag, address: self.name.clone(), error: failed })
    }

    fn greet(&self, stream: TcpStream) -> Result<Conversation<'_>, BenchError> {
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(self.timeout)))
            .and_then(|()| stream.set_write_timeout(Some(self.timeout)));
        set.map_err(|error| self.io(error))?;
        let mut conversation = Conversation { endpoint: self, stream, inbox: Inbox::new() };
        if let Some(password) = &self.password {
            conversation.send(&encode(&["AUTH", password]))?;
            let refused = match conversation.receive(1)? {
                Reply::Simple(b"OK") => None,
                other => Some(other.text()),
            };
            if let Some(text) = refused {
                return Err(BenchError::Password { address: self.name.clone(), text });
            }
        }
        Ok(conversation)
    }

    pub(super) fn io(&self, error: std::io::Error) -> BenchError {
        BenchError::Io { address: self.name.clone(), error }
    }
}

/// A connection on which one waits for answers.
pub(super) struct Conversation<'a> {
    endpoint: &'a Endpoint,
    stream: TcpStream,
    inbox: Inbox,
}

impl Conversation<'_> {
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(bytes).map_err(|error| self.endpoint.io(error))
    }

    /// The next reply. `unanswered` is how many are waited for, for the error if none comes.
    pub(super) fn receive(&mut self, unanswered: usize) -> Result<Reply<'_>, BenchError> {
        let endpoint = self.endpoint;
        let address = || endpoint.name.clone();
        while !self.inbox.holds_reply().map_err(|error| BenchError::NotResp { address: address(), error })? {
            match self.stream.read(self.inbox.room()) {
                Ok(0) => {
                    return Err(BenchError::Closed { address: address(), connection: 1, unanswered });
                }
                Ok(bytes) => self.inbox.filled(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let limit = endpoint.timeout;
                    return Err(BenchError::Silent { address: address(), connection: 1, unanswered, limit });
                }
                Err(error) => return Err(endpoint.io(error)),
            }
        }
        let reply = self.inbox.next().map_err(|error| BenchError::NotResp { address: address(), error })?;
        Ok(reply.expect("a whole reply is there"))
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}
