//! The same commands to Redis and to the server, in both versions of the protocol, all at once and one by one; the
//! replies must be the same to the byte. The few that are meant to differ stand in the list with their reason.

use std::{
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    cases::{self, Case, Order, Requests},
    harness::{
        Client, Site, Value,
        client::encode,
        tools::{self, Redis},
    },
};

const OPEN: &str = include_str!("data/commands.txt");
const CLUSTER: &str = include_str!("data/cluster.txt");
const PASSWORD: &str = include_str!("data/with-password.txt");
/// How long a Redis may take to find out that it is a whole cluster.
const CLUSTER_OK_WITHIN: Duration = Duration::from_secs(30);
/// So many bytes at a time, when a line is sent in pieces.
const PIECE_BYTES: usize = 7;

/// How the commands of a line are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// In one write.
    Together,
    /// Each when the one before it has been answered.
    OneByOne,
    /// In one go, a few bytes at a time.
    InPieces,
}

/// A server, and what it says of itself that no other one does: each with what to read in its place.
struct Server {
    address: SocketAddr,
    own: Vec<(String, &'static str)>,
}

impl Server {
    fn at(address: SocketAddr) -> Self {
        Self { address, own: Vec::new() }
    }

    /// A node of a cluster.
    fn in_cluster(address: SocketAddr) -> Self {
        let id = Client::connect(address).expect("it takes clients").call("CLUSTER MYID").text();
        Self { address, own: vec![(id, "ID"), (address.port().to_string(), "PORT")] }
    }

    fn transcript(&self, requests: &Requests, protocol: u8, manner: Manner) -> Vec<u8> {
        let replies = transcript(self.address, requests, protocol, manner);
        if self.own.is_empty() {
            return replies;
        }
        // Those who tell of themselves tell it as text.
        let text = String::from_utf8(replies).expect("text");
        self.own.iter().fold(text, |text, (own, other)| text.replace(own, other)).into_bytes()
    }
}

/// What a server has replied until it has closed the connection.
fn transcript(address: SocketAddr, requests: &Requests, protocol: u8, manner: Manner) -> Vec<u8> {
    let mut client = Client::connect(address).expect("the server takes clients");
    if protocol == 3 {
        client.call("HELLO 3");
    }
    let mut replies = Vec::new();
    let quit = encode(&["QUIT"]);
    match (requests, manner) {
        (Requests::Commands(commands), Manner::OneByOne) => {
            for command in commands {
                // The server may have closed: that is its answer.
                if client.write(command).and_then(|()| client.read_into(&mut replies)).is_err() {
                    break;
                }
            }
            let _ = client.write(&quit);
        }
        (Requests::Commands(commands), manner) => {
            send(&mut client, &[commands.concat(), quit].concat(), manner);
        }
        (Requests::Raw(bytes), manner) => send(&mut client, &[&bytes[..], &quit].concat(), manner),
    }
    if let Err(error) = client.read_to_end(&mut replies) {
        replies.extend_from_slice(format!("<no end: {error}>").as_bytes());
    }
    replies
}

fn send(client: &mut Client, bytes: &[u8], manner: Manner) {
    let piece = if manner == Manner::InPieces { PIECE_BYTES } else { bytes.len() };
    for piece in bytes.chunks(piece) {
        // The server may have closed: that is its answer.
        if client.write(piece).is_err() {
            return;
        }
    }
}

fn in_order(replies: &[u8], order: Order) -> String {
    let text = replies.escape_ascii().to_string();
    match order {
        Order::AsSent => text,
        Order::Any => {
            let mut lines: Vec<&str> = text.split("\\r\\n").collect();
            lines.sort_unstable();
            lines.join("\\r\\n")
        }
    }
}

/// What is wrong with a line, if anything.
fn judge(case: &Case, redis: &[u8], ours: &[u8]) -> Option<String> {
    let [theirs, replied] = [redis, ours].map(|replies| in_order(replies, case.order));
    match &case.difference {
        None if theirs == replied => None,
        None => Some(format!("{}\n  redis: {theirs}\n  quipu: {replied}", case.line)),
        Some(difference) if difference.always && theirs == replied => {
            Some(format!("{}\n  differs no more: {theirs}", case.line))
        }
        Some(difference) if difference.allows(ours) => None,
        Some(difference) => {
            let meant = difference.ours.escape_ascii();
            let reason = difference.reason;
            Some(format!("{}\n  redis: {theirs}\n  quipu: {replied}\n  meant: {meant} ({reason})", case.line))
        }
    }
}

/// Sends every line to both, and tells all that is wrong at once.
fn compare(cases: &[Case], servers: [&Server; 2], protocols: &[u8], before: &str) {
    let mut cleaners = servers.map(|server| Client::connect(server.address).expect("it takes clients"));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in cases {
        for protocol in protocols.iter().filter(|it| case.protocol.is_none_or(|only| only == **it)) {
            for manner in [Manner::Together, Manner::OneByOne, Manner::InPieces] {
                if case.is_raw() && manner == Manner::OneByOne {
                    continue;
                }
                for command in before.split(" ; ") {
                    cleaners.iter_mut().for_each(|cleaner| assert!(!cleaner.call(command).is_error()));
                }
                compared += 1;
                let requests = case.requests(&format!("fresh-{compared}"));
                let [theirs, replied] = servers.map(|server| server.transcript(&requests, *protocol, manner));
                wrong.extend(
                    judge(case, &theirs, &replied).map(|it| format!("RESP{protocol} {manner:?} {it}")),
                );
            }
        }
    }
    println!("{} lines, {compared} conversations compared", cases.len());
    assert!(wrong.is_empty(), "{} of {compared} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

pub(crate) fn replies_are_those_of_redis(redis_server: &Path) {
    let cases = cases::read(OPEN);
    assert!(cases.len() > 300, "only {} lines", cases.len());
    let (redis, site) = (Redis::start(redis_server, &[]), Site::new("--workers 2"));
    let ours = site.start();
    compare(&cases, [&Server::at(redis.address), &Server::at(ours.resp)], &[2, 3], "FLUSHALL");
}

pub(crate) fn replies_with_a_password_are_those_of_redis(redis_server: &Path) {
    let cases = cases::read(PASSWORD);
    assert!(cases.len() > 30, "only {} lines", cases.len());
    let redis = Redis::start(redis_server, &["--requirepass", "secret"]);
    let site = Site::new("--workers 2 --requirepass secret");
    let ours = site.start();
    let servers = [&Server::at(redis.address), &Server::at(ours.resp)];
    compare(&cases, servers, &[2], "AUTH secret ; FLUSHALL");
}

/// A Redis that has all hash slots, beside a site that has them.
pub(crate) fn replies_in_a_cluster_are_those_of_redis(redis_server: &Path) {
    let cases = cases::read(CLUSTER);
    assert!(cases.len() > 60, "only {} lines", cases.len());
    let folder = tempfile::TempDir::new().expect("a folder");
    let nodes = folder.path().join("nodes.conf").to_string_lossy().into_owned();
    let bus = tools::free_port().to_string();
    let flags = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--cluster-port", &bus];
    let flags = [&flags[..], &["--cluster-config-file", &nodes]].concat();
    let redis = Redis::start(redis_server, &flags);
    let mut client = Client::connect(redis.address).expect("it takes clients");
    assert_eq!(client.call("CLUSTER ADDSLOTSRANGE 0 16383"), Value::ok());
    let until = Instant::now() + CLUSTER_OK_WITHIN;
    while !client.call("CLUSTER INFO").text().contains("cluster_state:ok") {
        assert!(Instant::now() < until, "the cluster of Redis does not come about");
        thread::sleep(Duration::from_millis(20));
    }
    let site = Site::new("--workers 2 --resp-cluster 127.0.0.1:0");
    let ours = site.start();
    let port = ours.resp_cluster.expect("it has such a port");
    compare(&cases, [&Server::in_cluster(redis.address), &Server::in_cluster(port)], &[2, 3], "FLUSHALL");
    // On the other port nothing has changed.
    let disabled = Value::Error("ERR This instance has cluster support disabled".to_owned());
    assert_eq!(ours.client().call("CLUSTER SLOTS"), disabled);
    assert_eq!(ours.client().call("MGET a b").array().len(), 2);
}
