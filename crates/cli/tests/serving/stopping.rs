//! An orderly end, and a start that cannot be.

use std::{net::TcpListener, process::Stdio, thread, time::Duration};

use crate::harness::{Client, Site, Value, client::encode};

const CLIENTS: usize = 8;
/// In one write.
const PIPELINE: i64 = 20;
/// A server that is told to stop has so long.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// What one client has sent, and what was acknowledged.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    issued: i64,
    acknowledged: i64,
}

/// Adds until the connection ends.
fn add(mut client: Client) -> Sum {
    let mut sum = Sum::default();
    let batch: Vec<u8> = (0..PIPELINE).flat_map(|_| encode(&["INCR", "hits"])).collect();
    loop {
        sum.issued += PIPELINE;
        if client.write(&batch).is_err() {
            return sum;
        }
        for _ in 0..PIPELINE {
            match client.read() {
                Ok(Value::Integer(_)) => sum.acknowledged += 1,
                // Said while it goes down, instead of an answer.
                Ok(Value::Error(text)) => assert!(text.contains("stopping"), "{text}"),
                Ok(other) => panic!("{other:?}"),
                Err(_) => return sum,
            }
        }
    }
}

fn stop_under_load(signal: &str, flags: &str) {
    let site = Site::new(flags);
    let server = site.start();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let (sums, status, took) = thread::scope(|scope| {
        let adding: Vec<_> = clients.into_iter().map(|client| scope.spawn(|| add(client))).collect();
        thread::sleep(Duration::from_millis(300));
        server.signal(signal);
        let (status, took) = server.wait(Duration::from_secs(60));
        let sums: Vec<Sum> = adding.into_iter().map(|thread| thread.join().expect("no failure")).collect();
        (sums, status, took)
    });
    assert_eq!(status.code(), Some(0), "{signal}: {status}: {}", site.said());
    assert!(took < STOPS_WITHIN, "{signal}: it took {took:?}");
    let (issued, acknowledged) =
        sums.iter().fold((0, 0), |all, sum| (all.0 + sum.issued, all.1 + sum.acknowledged));
    assert!(acknowledged > 0, "there was load");
    let value = site.start().client().call("GET hits").integer();
    assert!((acknowledged..=issued).contains(&value), "{value}, {acknowledged} acknowledged, {issued} sent");
}

#[test]
fn sigterm_loses_nothing_acknowledged() {
    stop_under_load("TERM", "--workers 2");
}

#[test]
fn sigint_loses_nothing_acknowledged() {
    stop_under_load("INT", "--workers 1");
}

/// What was acknowledged and not yet flushed is flushed then.
#[test]
fn sigterm_flushes_what_an_interval_has_left() {
    stop_under_load("TERM", "--workers 2 --durability interval:60000");
}

#[test]
fn it_stops_in_time_with_clients_that_do_not_read() {
    let site = Site::new("--workers 2");
    let server = site.start();
    let mut silent = server.client();
    silent.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a time limit");
    let gets: Vec<u8> = (0..10_000).flat_map(|_| encode(&["KEYS", "*"])).collect();
    // Until nothing more is taken.
    while silent.write(&gets).is_ok() {}
    let _idle: Vec<Client> = (0..100).map(|_| server.client()).collect();
    server.signal("TERM");
    let (status, took) = server.wait(Duration::from_secs(60));
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(took < STOPS_WITHIN, "it took {took:?}");
}

/// Runs a server that must refuse to start, and returns its exit code and what it says.
fn refused(site: &Site, resp: &str, http: &str) -> (Option<i32>, String) {
    let child = site.command(resp, http).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output).expect("it runs");
    assert!(output.stdout.is_empty(), "nothing says ready");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_second_process_on_a_folder_is_refused() {
    let site = Site::new("");
    let server = site.start();
    server.client().call("INCR a");
    let (code, said) = refused(&site, "127.0.0.1:0", "off");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("data") && said.contains(&server.pid().to_string()),
        "it names folder and process: {said}"
    );
    assert_eq!(server.client().call("INCR a"), Value::Integer(2), "the first goes on");
    server.stop();
    assert_eq!(site.start().client().call("GET a").integer(), 2);
}

#[test]
fn a_taken_port_is_refused_by_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    for (resp, http, flag) in [(&*address, "off", "--resp"), ("off", &*address, "--http")] {
        let (code, said) = refused(&Site::new(""), resp, http);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(flag) && said.contains(&address) && said.contains("in use"), "{said}");
    }
}
