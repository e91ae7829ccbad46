//! A server whose standard output nobody reads.

use std::{
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
