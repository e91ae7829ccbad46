//! A small server of counters for tests, with the bad manners that a load generator must cope with.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How the server behaves. By default well.
#[derive(Clone, Default)]
pub(crate) struct Manners {
    pub(crate) password: Option<&'static str>,
    /// Writes its replies byte by byte.
    pub(crate) byte_by_byte: bool,
    /// Closes each connection after so many commands.
    pub(crate) closes_after: Option<usize>,
    /// Reads and never answers.
    pub(crate) silent: bool,
    /// Every so many commands an error.
    pub(crate) error_every: Option<usize>,
    /// Answers everything with these bytes.
    pub(crate) answers: Option<&'static str>,
    /// Counts each tenth add twice.
    pub(crate) miscounts: bool,
    /// Ignores `IDMP producer id`: counts a repeat again.
    pub(crate) forgets_ids: bool,
}

#[derive(Default)]
pub(crate) struct State {
    /// All commands, in the order of their arrival.
    pub(crate) commands: Vec<Vec<String>>,
    /// What each connection has sent, in the order of their first commands.
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) counters: HashMap<String, i64>,
    /// The answer to each key, producer and id.
    ids: HashMap<[String; 3], i64>,
    pub(crate) repeats: usize,
}

pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
}

impl FakeServer {
    pub(crate) fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (manners, state) = (manners.clone(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream.expect("a connection"), &manners, &state));
            }
        });
        FakeServer { address, state, stop }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the server has panicked")
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // Wakes the thread that accepts.
    }
}

/// One connection, to its end.
fn serve(mut stream: TcpStream, manners: &Manners, state: &Mutex<State>) {
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let (mut inbox, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    let (mut served, mut place) = (0, None);
    let mut logged_in = manners.password.is_none();
    loop {
        let Ok(bytes @ 1..) = stream.read(&mut chunk) else { return };
        inbox.extend_from_slice(&chunk[..bytes]);
        let mut replies = Vec::new();
        let mut state = state.lock().expect("no thread has panicked");
        let place = *place.get_or_insert_with(|| {
            state.bytes.push(Vec::new());
            state.bytes.len() - 1
        });
        state.bytes[place].extend_from_slice(&chunk[..bytes]);
        while let Some((command, length)) = parse(&inbox) {
            inbox.drain(..length);
            served += 1;
            if manners.closes_after.is_some_and(|limit| served > limit) {
                return;
            }
            let reply = if command[0] == "AUTH" {
                logged_in = manners.password == Some(command[1].as_str());
                if logged_in { "+OK\r\n" } else { "-WRONGPASS invalid password\r\n" }.to_owned()
            } else if !logged_in {
                "-NOAUTH Authentication required.\r\n".to_owned()
            } else {
                state.answer(&command, manners)
            };
            state.commands.push(command);
            replies.extend_from_slice(reply.as_bytes());
        }
        drop(state);
        if !manners.silent && !write(&mut stream, &replies, manners.byte_by_byte) {
            return;
        }
    }
}

fn write(stream: &mut TcpStream, replies: &[u8], byte_by_byte: bool) -> bool {
    let size = if byte_by_byte { 1 } else { replies.len().max(1) };
    replies.chunks(size).all(|piece| stream.write_all(piece).is_ok())
}

impl State {
    fn answer(&mut self, command: &[String], manners: &Manners) -> String {
        if let Some(answer) = manners.answers {
            return answer.to_owned();
        }
        if manners.error_every.is_some_and(|every| (self.commands.len() + 1).is_multiple_of(every)) {
            return format!("-ERR error at command {}\r\n", self.commands.len() + 1);
        }
        match command.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["GET", key] => match self.counters.get(*key) {
                Some(value) => format!("${}\r\n{value}\r\n", value.to_string().len()),
                None => "$-1\r\n".to_owned(),
            },
            ["INCRBY", key, amount] => self.add(key, amount, manners),
            ["INCRBY", key, amount, "IDMP", producer, id] => {
                let id = [key, producer, id].map(|part| (*part).to_owned());
                if let Some(first) = self.ids.get(&id).filter(|_| !manners.forgets_ids) {
                    let first = format!(":{first}\r\n");
                    self.repeats += 1;
                    return first;
                }
                let reply = self.add(key, amount, manners);
                self.ids.insert(id, self.counters[*key]);
                reply
            }
            other => format!("-ERR unknown command {other:?}\r\n"),
        }
    }

    fn add(&mut self, key: &str, amount: &str, manners: &Manners) -> String {
        let amount: i64 = amount.parse().expect("a number");
        let times = if manners.miscounts && self.commands.len() % 10 == 9 { 2 } else { 1 };
        let counter = self.counters.entry(key.to_owned()).or_default();
        *counter += amount * times;
        format!(":{counter}\r\n")
    }
}

/// The first whole command, and its length.
fn parse(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |start: usize| {
        let length = bytes[start..].windows(2).position(|pair| pair == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[start + 1..start + length]).expect("text");
        Some((number.parse::<usize>().expect("a number"), start + length + 2))
    };
    if bytes.is_empty() {
        return None;
    }
    assert_eq!(bytes[0], b'*', "an array: {:?}", String::from_utf8_lossy(bytes));
    let (arguments, mut at) = line(0)?;
    let mut command = Vec::new();
    for _ in 0..arguments {
        let (length, start) = line(at)?;
        assert_eq!(bytes[at], b'$', "a bulk string");
        let argument = bytes.get(start..start + length + 2)?;
        command.push(String::from_utf8(argument[..length].to_vec()).expect("text"));
        at = start + length + 2;
    }
    Some((command, at))
}
