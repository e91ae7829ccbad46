//! A server on a port of its own, and a client that sends exactly the bytes it is told to.

use crate::memory::Memory;
use quipu_server::{
    auth::Users,
    http::{HttpLimits, serve_http_within},
    metrics::Metrics,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::oneshot;

/// Nothing in these tests takes longer, except what they wait for on purpose.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) memory: Memory,
    pub(crate) metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(Users::default(), HttpLimits::default())
    }

    pub(crate) fn with(users: Users, limits: HttpLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (memory, metrics) = (Memory::default(), Metrics::new());
        let (stop, stopped) = oneshot::channel();
        let (counters, numbers) = (memory.clone(), metrics.clone());
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let stopped = async { stopped.await.unwrap_or(()) };
            runtime
                .block_on(serve_http_within(limits, listener, counters, users, numbers, stopped))
                .expect("it serves");
        });
        Self { address, memory, metrics, stop: Some(stop), thread: Some(thread) }
    }

    /// Orders the end and waits for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends well");
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream
    }

    /// Sends bytes and reads one answer.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request).expect("it reads");
        read_answer(&mut stream)
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Answer {
        self.ask_with(method, path, &[], b"")
    }

    pub(crate) fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.raw(&request(method, path, headers, body))
    }

    /// Sends JSON.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(method, path, &[("content-type", "application/json")], body.as_bytes())
    }

    /// Adds with an id.
    pub(crate) fn add(&self, key: &str, body: &str, id: &str) -> Answer {
        let headers = [("content-type", "application/json"), ("idempotency-key", id)];
        self.ask_with("POST", &format!("/v1/counters/{key}/add"), &headers, body.as_bytes())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        text += &format!("content-length: {}\r\n", body.len());
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A good answer, as JSON.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        self.json()
    }

    /// A problem of this status and kind, whole and with something to read.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:quipu:problem:{kind}"), "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["title"].as_str().is_some_and(|title| title.len() > 5), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{problem}");
        problem
    }
}

/// The head, up to the empty line.
pub(crate) fn read_head(stream: &mut TcpStream) -> (u16, BTreeMap<String, String>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream
            .read_exact(&mut byte)
            .unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head is ASCII");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status, headers.collect())
}

pub(crate) fn read_answer(stream: &mut TcpStream) -> Answer {
    let (status, headers) = read_head(stream);
    let mut body = Vec::new();
    match headers.get("content-length").and_then(|length| length.parse().ok()) {
        Some(length) => {
            body.resize(length, 0);
            stream.read_exact(&mut body).expect("the whole body");
        }
        None if status == 204 => {}
        None => {
            stream.read_to_end(&mut body).expect("the whole body");
        }
    }
    Answer { status, headers, body }
}
