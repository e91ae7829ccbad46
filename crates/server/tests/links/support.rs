//! A server in this process, and a peer that says whatever a test wants.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use quipu_engine::{Message, SiteId};
use quipu_server::{
    Server,
    config::{Config, Origin, Settings, settings},
    links::{FRAME_BYTES_MAX, Frame, Hello, Inbox, Instance, PROTOCOL, Refused, Run},
};
use quipu_storage::ShardId;
use tempfile::TempDir;

/// On a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const SHARDS: u16 = 4;
pub(crate) const CLUSTER: &str = "test";

pub(crate) fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

/// One of three sites.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) number: u16,
    config: Config,
    folder: TempDir,
}

impl Site {
    /// The peers are found at these addresses.
    pub(crate) fn start(number: u16, peers: [(u16, SocketAddr); 2]) -> Self {
        Self::with_shards(SHARDS, number, peers)
    }

    pub(crate) fn with_shards(shards: u16, number: u16, peers: [(u16, SocketAddr); 2]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let peers: Vec<String> = peers.iter().map(|(number, at)| format!("{number}@{at}")).collect();
        let mut given = Settings::default();
        for (known, value) in [
            (settings::DATA, folder.path().join("data").to_string_lossy().into_owned()),
            (settings::RESP, "127.0.0.1:0".to_owned()),
            (settings::HTTP, "127.0.0.1:0".to_owned()),
            (settings::LINK, "127.0.0.1:0".to_owned()),
            (settings::RESP_CLUSTER, "127.0.0.1:0".to_owned()),
            (settings::SITE, number.to_string()),
            (settings::PEERS, peers.join(",")),
            (settings::CLUSTER, CLUSTER.to_owned()),
            (settings::SHARDS, shards.to_string()),
        ] {
            given.give(&known, value, Origin::Flag);
        }
        let config = Config::new(&given).expect("good settings");
        let server = Server::start(&config).expect("it starts");
        Self { server, number, config, folder }
    }

    /// It is stopped and started again.
    pub(crate) fn again(self) -> Self {
        let Self { server, number, config, folder } = self;
        server.stop().expect("it stops");
        Self { server: Server::start(&config).expect("it starts"), number, config, folder }
    }

    /// Peers that nobody can reach: they have to dial.
    pub(crate) fn first() -> Self {
        Self::start(1, [(2, nobody()), (3, nobody())])
    }

    pub(crate) fn link(&self) -> SocketAddr {
        self.server.link_address().expect("it has peers")
    }

    /// The answer to a command over the Redis protocol: its first line, or the text that the line announces.
    pub(crate) fn ask(&self, command: &str) -> String {
        Self::ask_at(self.server.resp_address(), command)
    }

    /// The same, of a client of Redis Cluster.
    pub(crate) fn ask_as_cluster(&self, command: &str) -> String {
        Self::ask_at(self.server.resp_cluster_address(), command)
    }

    fn ask_at(address: Option<SocketAddr>, command: &str) -> String {
        let stream = TcpStream::connect(address.expect("an address")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        (&stream).write_all(format!("{command}\r\n").as_bytes()).expect("it reads");
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        let line = line.trim_end().to_owned();
        let Some(length) = line.strip_prefix('$').and_then(|length| length.parse().ok()) else { return line };
        let mut text = vec![0; length];
        reader.read_exact(&mut text).expect("as announced");
        String::from_utf8(text).expect("text")
    }

    /// Adds one to so many counters with long names.
    pub(crate) fn fill(&self, counters: usize) {
        let stream = TcpStream::connect(self.server.resp_address().expect("an address")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let mut answers = BufReader::new(&stream);
        let (filler, mut line) = ("x".repeat(480), String::new());
        for start in (0..counters).step_by(500) {
            let numbers = start..counters.min(start + 500);
            let commands: String =
                numbers.clone().map(|number| format!("INCR {number}{filler}\r\n")).collect();
            (&stream).write_all(commands.as_bytes()).expect("it reads");
            for _ in numbers {
                line.clear();
                answers.read_line(&mut line).expect("an answer");
                assert_eq!(line, ":1\r\n");
            }
        }
    }

    /// Waits until `INFO` tells what is expected of the other sites.
    pub(crate) fn expect(&self, what: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let info = self.ask("INFO replication");
            if info.contains(what) {
                return;
            }
            assert!(Instant::now() < until, "{what:?} does not come: {info}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn info(&self) -> String {
        self.ask("INFO replication")
    }
}

/// An address where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    // Nobody can connect to port 1 of this machine, as a rule; where somebody listens it is no site.
    ([127, 0, 0, 1], 1).into()
}

/// A peer made of a socket.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    inbox: Inbox,
}

/// What site `number` says to site `to`.
pub(crate) fn hello(number: u16, to: u16) -> Hello {
    Hello {
        protocol: PROTOCOL,
        cluster: CLUSTER.to_owned(),
        shards: SHARDS,
        site: site(number),
        to,
        instance: Instance([u8::try_from(number).expect("small"); 16]),
        run: Run { number: 5, nonce: 50 },
        epoch: 1,
        members: vec![site(1), site(2), site(3)],
        cluster_id: None,
        earlier: None,
    }
}

impl Raw {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time");
        Self { stream, inbox: Inbox::default() }
    }

    pub(crate) fn dial(to: &Site) -> Self {
        Self::new(TcpStream::connect(to.link()).expect("it listens"))
    }

    pub(crate) fn accept(listener: &TcpListener) -> Self {
        Self::new(listener.accept().expect("somebody dials").0)
    }

    /// Dials and goes through the whole handshake.
    pub(crate) fn join(to: &Site, number: u16) -> Self {
        Self::join_with_shards(SHARDS, to, number)
    }

    pub(crate) fn join_with_shards(shards: u16, to: &Site, number: u16) -> Self {
        let mut raw = Self::dial(to);
        raw.send(&Frame::Hello(Hello { shards, ..hello(number, to.number) }));
        assert!(raw.hello().is_some() && raw.positions().is_some());
        raw.send(&Frame::Positions(vec![0; shards.into()]));
        to.expect(&format!("peer{number}:link=up"));
        raw
    }

    /// Says something of each shard, so that the other side, which has just been started, tells what it has counted.
    pub(crate) fn speak(&mut self, shards: u16) {
        let message = Message::default().encode();
        for shard in (0..shards).map(ShardId) {
            self.send(&Frame::Shard { shard, message: &message });
        }
    }

    /// Are the next positions those of a site that has counted nothing? Its first change tells the table of its desk.
    pub(crate) fn has_positions_of_a_new_site(&mut self) -> bool {
        self.positions().is_some_and(|it| it.len() == usize::from(SHARDS) && it.iter().all(|at| *at <= 1))
    }

    /// What whoever has dialled does after its Hello.
    pub(crate) fn finish_handshake(&mut self) {
        assert!(matches!(self.next(|frame| matches!(frame, Frame::Hello(_))), Some(true)), "a Hello");
        assert!(self.has_positions_of_a_new_site());
        self.send(&Frame::Positions(vec![0; SHARDS.into()]));
    }

    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        self.write(&frame.to_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the other side reads");
    }

    /// The next frame; `None` when the other side has closed.
    pub(crate) fn next<T>(&mut self, look: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(frame) = self.inbox.next(FRAME_BYTES_MAX).expect("a sound frame") {
                return Some(look(frame));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(bytes) => self.inbox.push(&buffer[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the other side says nothing: {error}"),
            }
        }
    }

    pub(crate) fn hello(&mut self) -> Option<Hello> {
        self.next(|frame| if let Frame::Hello(hello) = frame { Some(hello) } else { None }).flatten()
    }

    pub(crate) fn positions(&mut self) -> Option<Vec<u64>> {
        self.next(|frame| if let Frame::Positions(positions) = frame { Some(positions) } else { None })
            .flatten()
    }

    /// What the other side says when it refuses; it must be the next thing it says, and the last.
    pub(crate) fn refused(mut self) -> Refused {
        let refused = self.next(|frame| match frame {
            Frame::Refused(refused) => refused,
            other => panic!("no refusal: {other:?}"),
        });
        assert!(self.next(|frame| format!("{frame:?}")).is_none(), "it closes");
        refused.expect("a refusal")
    }

    /// Reads on until the other side has closed.
    pub(crate) fn closed(&mut self) {
        let until = Instant::now() + PATIENCE;
        while self.next(|_| ()).is_some() {
            assert!(Instant::now() < until, "it does not close");
        }
    }

    /// Is the link up? A beat is sent, and one has to come.
    pub(crate) fn is_alive(&mut self) -> bool {
        let sent = self.stream.write_all(&Frame::Beat.to_bytes()).is_ok();
        let until = Instant::now() + PATIENCE;
        while sent && Instant::now() < until {
            match self.next(|frame| frame == Frame::Beat) {
                Some(true) => return true,
                Some(false) => {}
                None => return false,
            }
        }
        false
    }
}
