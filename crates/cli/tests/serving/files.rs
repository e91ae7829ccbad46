//! Few files that may be open: clients never take those that storage needs.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::harness::{Client, Running, Site, Value};

/// More than the server takes under [`FEW`].
const CLIENTS: usize = 400;
/// Files, for everything.
const FEW: usize = 300;
/// Adds of each client that was taken.
const ADDS: i64 = 20;

fn clients_max(client: &mut Client) -> usize {
    let setting = client.call("CONFIG GET maxclients").array();
    usize::try_from(setting[1].integer()).expect("a number of clients")
}

/// Fills all places that the server says it has, and checks that everybody else is told.
fn crowd(server: &Running) -> Vec<Client> {
    let mut first = server.client();
    let places = clients_max(&mut first);
    let mut taken = vec![first];
    for number in 1..CLIENTS {
        let mut client = server.client();
        if number < places {
            assert_eq!(client.call("PING"), Value::Simple("PONG".to_owned()), "client {number} of {places}");
            taken.push(client);
        } else {
            let text = "ERR max number of clients reached".to_owned();
            assert_eq!(client.read().expect("a word before the end"), Value::Error(text));
        }
    }
    taken
}

/// On a database there is always a port for other nodes, which takes files of its own.
fn few() -> usize {
    if std::env::var_os("QUIPU_TEST_STORAGE").is_some() { FEW + 200 } else { FEW }
}

/// HTTP connections that are held open, and how many of them are served.
fn http_crowd(server: &Running, number: usize) -> (Vec<TcpStream>, usize) {
    let mut served = 0;
    let mut held = Vec::new();
    for _ in 0..number {
        let mut stream = TcpStream::connect(server.http).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
        // The server may have closed: its answer says why.
        let _ = stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: quipu\r\n\r\n");
        let mut head = [0; 12];
        match stream.read_exact(&mut head) {
            Ok(()) if head == *b"HTTP/1.1 200" => served += 1,
            Ok(()) => assert_eq!(head.escape_ascii().to_string(), "HTTP/1.1 503"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
        held.push(stream);
    }
    (held, served)
}

#[test]
fn clients_do_not_take_the_files_of_storage() {
    let few = few();
    let site = Site::under(&format!("-n {few}"), "--workers 2 --max-clients 10000");
    let server = site.start();
    let mut taken = crowd(&server);
    let max = taken.len();
    assert!((8..few).contains(&max), "{max} of {few}");
    let said = site.said();
    assert!(said.contains("--max-clients 10000") && said.contains("ulimit -n"), "{said}");
    let (_held, served) = http_crowd(&server, CLIENTS);
    assert!((1..few - max).contains(&served), "{served} HTTP clients beside {max}");

    for round in 1..=ADDS {
        for (number, client) in taken.iter_mut().enumerate() {
            assert_eq!(client.call(&format!("INCR key:{number}")), Value::Integer(round));
        }
    }
    drop(taken);
    server.stop();

    let server = site.start();
    let mut client = server.client();
    for number in 0..max {
        assert_eq!(client.call(&format!("GET key:{number}")).integer(), ADDS, "of client {number}");
    }
}

/// What the process allows itself is raised to what it needs.
#[test]
fn a_limit_that_may_be_raised_is_raised() {
    let site = Site::under(&format!("-S -n {FEW}"), &format!("--workers 2 --max-clients {CLIENTS}"));
    let server = site.start();
    let mut taken = crowd(&server);
    assert_eq!((clients_max(&mut taken[0]), taken.len()), (CLIENTS, CLIENTS));
    assert_eq!(taken[CLIENTS - 1].call("INCR a"), Value::Integer(1));
}

#[test]
fn a_limit_without_room_for_clients_is_refused_with_the_remedy() {
    let site = Site::under("-n 100", "--workers 2");
    assert!(site.try_start("127.0.0.1:0").is_none(), "it ends before it is ready");
    let said = site.said();
    assert!(said.contains("100 files") && said.contains("ulimit -n"), "{said}");
    assert!(!site.data().exists(), "nothing was made");
}
