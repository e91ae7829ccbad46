//! A store that is down when a server is started: it waits, says so, and serves as soon as the store is there.

use std::{
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::{
    database::Found,
    harness::{Value, cluster, server::signal},
};

/// What a server says that waits.
const WAITS: &str = "Nothing is served yet; trying again";

pub(crate) fn down_at_the_start(database: Found) {
    let mut database = database.get();
    let site = database.site("");
    let server = site.start();
    assert_eq!(server.client().call("INCRBY a 5"), Value::Integer(5));
    server.stop();
    database.kill();
    thread::scope(|scope| {
        let starting = scope.spawn(|| site.start());
        cluster::wait("it says that it waits", || site.said().contains(WAITS));
        let said = site.said();
        assert!(said.contains("no node of cassandra://") && said.contains("check that it runs"), "{said}");
        database.start_again();
        let server = starting.join().expect("it is ready");
        assert_eq!(server.client().call("GET a").integer(), 5);
        server.stop();
    });
}

pub(crate) fn told_to_stop_while_it_waits(database: Found) {
    let mut database = database.get();
    let site = database.site("");
    database.kill();
    let mut command = site.command("127.0.0.1:0", "127.0.0.1:0");
    let mut child = command.stdout(Stdio::null()).stderr(site.log_file()).spawn().expect("it starts");
    cluster::wait("it says that it waits", || site.said().contains(WAITS));
    signal(child.id(), "TERM");
    let until = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            break status;
        }
        if Instant::now() > until {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            panic!("it has not stopped: {}", site.said());
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(
        status.success() && site.said().contains("stopped before anything was served"),
        "{}",
        site.said()
    );
    database.start_again();
}
