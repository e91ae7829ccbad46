//! A proxy that lets requests through and loses answers.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub(crate) struct Proxy {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    /// The first `lost` answers do not come through. The thread ends with the test's process.
    pub(crate) fn losing(target: SocketAddr, lost: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                forward(client, target, number < lost);
            }
        });
        Self { address, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// One request and, unless it is to be lost, its answer. Both are small enough to be read at once.
fn forward(mut client: TcpStream, target: SocketAddr, lose: bool) {
    let mut server = TcpStream::connect(target).expect("the server listens");
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
    }
    server.write_all(&read_message(&mut client)).expect("the server reads");
    let answer = read_message(&mut server);
    if !lose {
        client.write_all(&answer).expect("the client reads");
    }
    let _ = client.shutdown(Shutdown::Both); // It may have gone already.
}

/// A head, and as many bytes of a body as it names.
fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length =
        head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    bytes.extend(body);
    bytes
}
