//! A server whose standard output nobody reads, or whose log cannot be written.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::harness::{Client, Site, Value};

const READY_WITHIN: Duration = Duration::from_secs(60);

/// Ends the process whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As `quipu serve | true` does it: the line that says "ready" cannot be written.
#[test]
fn it_serves_without_a_reader_of_its_output() {
    let site = Site::new("--workers 1");
    let mut child = site
        .command("127.0.0.1:0", "off")
        .stdout(Stdio::piped())
        .stderr(site.log_file())
        .spawn()
        .map(Ended)
        .expect("the binary starts");
    drop(child.0.stdout.take().expect("it is piped"));
    let until = Instant::now() + READY_WITHIN;
    // The log says it too.
    let address = loop {
        let said = site.said();
        if let Some((_, rest)) = said.split_once("ready resp=") {
            break rest.split_whitespace().next().expect("an address").parse().expect("an address");
        }
        assert!(child.0.try_wait().expect("it can be asked").is_none(), "it has ended: {said}");
        assert!(Instant::now() < until, "not ready: {said}");
        thread::sleep(Duration::from_millis(20));
    };
    let mut client = Client::connect(address).expect("it takes clients");
    assert_eq!(client.call("INCR a"), Value::Integer(1));
    assert_eq!(child.0.try_wait().expect("it can be asked"), None, "it goes on: {}", site.said());
}

/// The disk that the log goes to is full: each line of it is lost, and nothing else.
#[test]
fn it_serves_although_its_log_cannot_be_written() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Site::new("--workers 1 --log-level trace").command("127.0.0.1:0", "off");
    let mut child =
        command.stdout(Stdio::piped()).stderr(full).spawn().map(Ended).expect("the binary starts");
    let mut ready = String::new();
    let out = child.0.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut ready).expect("it says something");
    let (_, rest) = ready.split_once("ready resp=").expect("it is ready");
    let address = rest.split_whitespace().next().expect("an address").parse().expect("an address");
    let mut client = Client::connect(address).expect("it takes clients");
    assert_eq!(client.call("INCR a"), Value::Integer(1));
    assert_eq!(child.0.try_wait().expect("it can be asked"), None, "it goes on");
}
