//! Clients that do not read, do not finish what they say, or say nothing: others are served all the same.

use std::time::{Duration, Instant};

use crate::harness::{Client, Site, Value, client::encode};

/// With a machine that has much else to do. At once, for a person.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Somebody else asks, and is answered.
fn assert_served(other: &mut Client, what: &str) {
    for _ in 0..20 {
        let start = Instant::now();
        assert!(matches!(other.call("INCR served"), Value::Integer(_)));
        assert!(start.elapsed() < AT_ONCE, "{what}: another client waited for {:?}", start.elapsed());
    }
}

/// As many as there are workers, and more, so that each worker has some.
fn several(server: &crate::harness::Running) -> Vec<Client> {
    (0..6).map(|_| server.client()).collect()
}

#[test]
fn a_client_that_never_reads_holds_up_nobody_and_gets_everything_later() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut other = server.client();
    other.call("SET a 12345678901234567");
    let mut sent = Vec::new();
    let batch: Vec<u8> = (0..1_000).flat_map(|_| encode(&["GET", "a"])).collect();
    for mut silent in several(&server) {
        silent.stream().set_write_timeout(Some(Duration::from_millis(300))).expect("a time limit");
        let mut bytes = 0;
        // Whole commands until the server takes no more: it keeps only so much for a client that does not read.
        loop {
            match write_some(&mut silent, &batch) {
                Ok(()) => bytes += batch.len(),
                Err(written) => {
                    bytes += written;
                    break;
                }
            }
            assert!(bytes < 1 << 30, "the server takes without end");
        }
        assert_served(&mut other, "a client that does not read");
        sent.push((silent, bytes));
    }
    let command = encode(&["GET", "a"]).len();
    for (mut silent, bytes) in sent {
        for _ in 0..bytes / command {
            assert_eq!(silent.read().expect("an answer"), Value::Bulk(b"12345678901234567".to_vec()));
        }
        // The rest of the command that was cut, and one more.
        let cut = bytes % command;
        silent
            .write(
                &[&encode(&["GET", "a"])[if cut == 0 { command } else { cut }..], &encode(&["PING"])]
                    .concat(),
            )
            .expect("sent");
        if cut > 0 {
            assert_eq!(silent.read().expect("an answer"), Value::Bulk(b"12345678901234567".to_vec()));
        }
        assert_eq!(silent.read().expect("an answer"), Value::Simple("PONG".to_owned()));
    }
}

/// Writes all of it, or says how much was written until nothing more was taken.
fn write_some(client: &mut Client, bytes: &[u8]) -> Result<(), usize> {
    use std::io::Write as _;
    let mut written = 0;
    while written < bytes.len() {
        match client.stream().write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(_) => return Err(written),
        }
    }
    Ok(())
}

#[test]
fn half_a_command_holds_up_nobody() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut other = server.client();
    let halves =
        ["*", "*3\r\n", "*2\r\n$4\r\nIN", "*2\r\n$4\r\nINCR\r\n$1\r\na\r", "PIN", "*1\r\n$33000000\r\nx"];
    let mut stuck = Vec::new();
    for half in halves {
        for mut client in several(&server) {
            client.write(half.as_bytes()).expect("sent");
            stuck.push((half, client));
        }
        assert_served(&mut other, half);
    }
    // The rest may come at any time.
    for (half, client) in &mut stuck {
        let (rest, value) = match *half {
            "*2\r\n$4\r\nIN" => ("CR\r\n$1\r\nb\r\n", None),
            "*2\r\n$4\r\nINCR\r\n$1\r\na\r" => ("\n", None),
            "PIN" => ("G\r\n", Some(Value::Simple("PONG".to_owned()))),
            _ => continue,
        };
        client.write(rest.as_bytes()).expect("sent");
        let replied = client.read().expect("an answer");
        assert!(value.map_or(matches!(replied, Value::Integer(_)), |value| value == replied), "{replied:?}");
    }
    assert_eq!(other.call("GET a").integer(), 6);
    assert_eq!(other.call("GET b").integer(), 6);
}

/// Long lists are asked for by one client and made between the commands of others.
#[test]
fn long_lists_hold_up_nobody() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut other = server.client();
    let sets: Vec<u8> = (0..20_000).flat_map(|key| encode(&["SET", &format!("key:{key}"), "1"])).collect();
    other.write(&sets).expect("sent");
    for _ in 0..20_000 {
        assert_eq!(other.read().expect("an answer"), Value::ok());
    }
    let mut listing = several(&server);
    for client in &mut listing {
        client.write(&[encode(&["KEYS", "*"]), encode(&["DBSIZE"])].concat()).expect("sent");
    }
    assert_served(&mut other, "KEYS");
    for client in &mut listing {
        // One more, if the other client has counted by then.
        let keys = client.read().expect("a list").array().len();
        assert!((20_000..=20_001).contains(&keys), "{keys}");
        assert!((20_000..=20_001).contains(&client.read().expect("a number").integer()));
    }
}
