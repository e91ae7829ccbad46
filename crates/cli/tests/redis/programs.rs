//! `redis-cli` and `redis-benchmark`, as people use them, and `quipu bench` against Redis.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::harness::{
    Site, Value,
    tools::{self, Redis},
};

fn cli(program: &Path, address: SocketAddr, words: &[&str]) -> String {
    let port = address.port().to_string();
    tools::output(Command::new(program).args(["-h", "127.0.0.1", "-p", &port]).args(words))
        .unwrap_or_else(|said| panic!("redis-cli {words:?}: {said}"))
}

pub(crate) fn redis_cli_counts_and_lists(program: &Path) {
    let site = Site::new("--workers 2");
    let server = site.start();
    let cli = |words: &[&str]| cli(program, server.resp, words);
    assert_eq!(cli(&["incr", "visits"]), "1\n");
    assert_eq!(cli(&["-3", "incrby", "visits", "41"]), "42\n");
    assert_eq!(cli(&["get", "visits"]), "42\n");
    assert_eq!(cli(&["incrby", "visits", "5", "idmp", "me", "1"]), "47\n");
    assert_eq!(cli(&["incrby", "visits", "5", "idmp", "me", "1"]), "47\n");
    assert_eq!(cli(&["wait", "0", "0"]), "0\n");
    assert_eq!(cli(&["wait", "1", "50"]), "0\n");
    assert_eq!(cli(&["get", "nothing"]), "\n");
    assert_eq!(cli(&["incrby", "visits", "x"]), "ERR value is not an integer or out of range\n\n");
    assert!(cli(&["info"]).contains("redis_version:"));

    let mut client = server.client();
    for number in 0..2500 {
        assert_eq!(client.call(&format!("SET scanned:{number} {number}")), Value::ok());
    }
    let scanned = cli(&["--scan", "--pattern", "scanned:*"]);
    let mut keys: Vec<&str> = scanned.lines().collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 2500);
    assert_eq!(cli(&["dbsize"]), "2501\n");
}

pub(crate) fn redis_benchmark_counts_exactly(program: &Path) {
    let site = Site::new("--workers 2");
    let server = site.start();
    let port = server.resp.port().to_string();
    let mut counted = 0;
    for (requests, clients, pipeline, more) in
        [(50_000, "50", "16", &[][..]), (5_000, "50", "1", &[]), (20_000, "8", "100", &["--threads", "2"])]
    {
        let number = requests.to_string();
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &port, "-t", "incr", "-q", "-n", &number]);
        command.args(["-c", clients, "-P", pipeline]).args(more);
        let said = tools::output(&mut command).unwrap_or_else(|said| panic!("redis-benchmark: {said}"));
        assert!(said.contains("requests per second"), "{said}");
        assert!(!said.to_ascii_lowercase().contains("error"), "{said}");
        counted += requests;
        // Requests are whole pipelines, and it ends when the last of them has been answered.
        assert_eq!(server.client().call("GET counter:__rand_int__").integer(), counted);
    }
}

/// A site that is alone has all hash slots.
pub(crate) fn redis_cli_in_a_cluster_of_one(program: &Path) {
    let site = Site::new("--workers 2 --resp-cluster 127.0.0.1:0");
    let server = site.start();
    let port = server.resp_cluster.expect("it has such a port");
    let cli = |words: &[&str]| cli(program, port, &[&["-c"], words].concat());
    assert_eq!(cli(&["incr", "visits"]), "1\n");
    assert_eq!(cli(&["incrby", "foo", "5", "idmp", "me", "1"]), "5\n");
    assert_eq!(cli(&["mget", "{foo}a", "{foo}b"]), "\n\n");
    assert!(cli(&["mget", "a", "b"]).starts_with("CROSSSLOT "));
    assert_eq!(cli(&["cluster", "keyslot", "foo"]), "12182\n");
    let info = cli(&["cluster", "info"]);
    assert!(info.contains("cluster_state:ok\r\n") && info.contains("cluster_known_nodes:1\r\n"), "{info}");
    let checked = cli(&["--cluster", "info", &port.to_string()]);
    assert!(checked.contains("2 keys") && checked.contains("16384 slots"), "{checked}");
    // The two ports are two ways to the same counters.
    assert_eq!(server.client().call("GET foo").integer(), 5);
    assert_eq!(cli(&["dbsize"]), "2\n");
}

pub(crate) fn quipu_bench_counts_what_redis_acknowledges(redis_server: &Path) {
    let redis = Redis::start(redis_server, &[]);
    let bench = |flags: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args(["bench", "--target", &redis.address.to_string()]);
        tools::output(command.args(flags.split(' ')))
    };
    let load = "--connections 20 --pipeline 16 --requests 40000 --keys 1000 --distribution zipf --reads 0.1 --verify";
    let said = bench(load).unwrap_or_else(|said| panic!("{said}"));
    assert!(said.contains("adds acknowledged"), "{said}");
    // The Redis of Debian does not know ids for INCRBY.
    let said = bench("--ids --requests 100").expect_err("nothing was counted");
    assert!(said.contains("100 commands with an error"), "{said}");
}
