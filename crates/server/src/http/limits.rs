//! What clients may take of a server, so that nobody is held up by others.

use std::time::Duration;

/// Limits in number and in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Watches at a time. Less than the connections, so that those who watch leave room for those who count.
    pub watches: usize,
    /// How long the head of a request may take to arrive, and how long a connection may be idle between two.
    pub head_time: Duration,
    /// How long a body may take to arrive.
    pub body_time: Duration,
    /// How long a client may leave its answer unread.
    pub stall_time: Duration,
    /// After how much silence a client is asked whether it is still there; `None`: never. One that vanished while it
    /// watched a counter that rests would keep its place for ever.
    pub keepalive: Option<Duration>,
}

impl HttpLimits {
    /// The usual ones, for so many connections at most.
    pub(crate) fn for_connections(connections: usize, keepalive: Option<Duration>) -> Self {
        let usual = Self::default();
        Self { connections, watches: usual.watches.min(connections / 2), keepalive, ..usual }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            watches: 512,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(30),
            keepalive: Some(Duration::from_secs(300)),
        }
    }
}
