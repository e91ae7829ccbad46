//! A client that has said all it has to say is told everything before its connection is closed.

use std::net::Shutdown;

use crate::harness::{Site, client::encode};

/// As `printf … | nc` does it.
#[test]
fn what_was_asked_before_the_end_is_answered() {
    let site = Site::new("--workers 2");
    let server = site.start();
    for round in 1..=50 {
        let mut client = server.client();
        // On shards of both workers, with a list among them, and a part of a command at the end.
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut asked: Vec<u8> = keys.iter().flat_map(|key| encode(&["INCR", key])).collect();
        asked.extend(encode(&["DBSIZE"]));
        asked.extend(encode(&["GET", "a"]));
        asked.extend_from_slice(b"*2\r\n$4\r\nINCR\r\n");
        client.write(&asked).expect("sent");
        client.stream().shutdown(Shutdown::Write).expect("nothing more to say");
        let mut replied = Vec::new();
        client.read_to_end(&mut replied).expect("the server closes");
        let digits = round.to_string();
        let mut expected = format!(":{round}\r\n").repeat(keys.len());
        expected += &format!(":{}\r\n${}\r\n{digits}\r\n", keys.len(), digits.len());
        assert_eq!(String::from_utf8_lossy(&replied), expected);
    }
}

/// More than fits into the buffers between the two: the rest is sent when there is room.
#[test]
fn a_long_answer_is_sent_whole() {
    const LONG_BYTES: usize = 16 * 1024 * 1024;
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut client = server.client();
    let long = vec![b'x'; LONG_BYTES];
    client.write(&encode(&[&b"ECHO"[..], &long])).expect("sent");
    client.stream().shutdown(Shutdown::Write).expect("nothing more to say");
    let mut replied = Vec::new();
    client.read_to_end(&mut replied).expect("the server closes");
    let expected = [format!("${LONG_BYTES}\r\n").as_bytes(), &long, b"\r\n"].concat();
    assert!(replied == expected, "{} bytes instead of {}", replied.len(), expected.len());
}
