//! A disk without room: a limit on the size of files stands for it.

use std::process::Command;

use crate::harness::{Running, Site, Value, cluster::wait};

/// What the log has reserved when the server has started.
const RESERVED_BYTES: u64 = 4 << 20;

/// No file of the server may become longer than this.
fn limit_files(server: &Running, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let status = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &limit]).status();
    assert!(status.expect("util-linux is there").success());
}

fn readiness(server: &Running) -> u16 {
    match ureq::get(format!("http://{}/health/ready", server.http)).call() {
        Ok(answer) => answer.status().as_u16(),
        Err(ureq::Error::StatusCode(status)) => status,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_server_that_cannot_store_anything_is_not_ready_until_it_can() {
    // Without this a process that meets the limit is ended.
    let site = Site::under("-n 1024 && trap '' XFSZ", "--workers 1");
    if site.is_in_database() {
        return;
    }
    let server = site.start();
    assert_eq!(readiness(&server), 200);
    limit_files(&server, &RESERVED_BYTES.to_string());
    let mut client = server.client();
    let filler = "x".repeat(480);
    let mut counted = 0;
    let refused = loop {
        match client.call(&format!("INCR {counted}{filler}")) {
            Value::Integer(1) => counted += 1,
            answer => break answer,
        }
        assert!(counted * 480 < 2 * RESERVED_BYTES, "nothing was refused");
    };
    assert!(refused.text().starts_with("NOTSTORED "), "{refused:?}");
    wait("it is not ready", || {
        // What is left of the reserved bytes may take one more.
        client.call(&format!("INCR {filler}"));
        readiness(&server) == 503
    });
    assert_eq!(client.call(&format!("GET 0{filler}")).count(), 1, "it still answers reads");
    limit_files(&server, "unlimited");
    // Nobody counts meanwhile.
    wait("it is ready again", || readiness(&server) == 200);
    assert!(!client.call(&format!("INCR {filler}")).is_error());
    server.stop();
}
