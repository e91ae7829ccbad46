//! `quipu bench` against a small server with all manners. Against the real Redis: `redis/programs.rs`.

mod fake;

use assert_cmd::Command;
use fake::{FakeServer, Manners};
use std::collections::{BTreeMap, HashSet};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn quipu(target: SocketAddr, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["bench", "--target", &target.to_string()]).args(args.split_whitespace());
    command.timeout(Duration::from_secs(60));
    command
}

/// What it prints when it ends well.
fn stdout(target: SocketAddr, args: &str) -> String {
    let output = quipu(target, args).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "no progress bars where nobody sees them");
    String::from_utf8(output.stdout).expect("text")
}

/// What it complains about, and what it has printed before.
fn failure(target: SocketAddr, args: &str, code: i32) -> (String, String) {
    let output = quipu(target, args).assert().failure().code(code).get_output().clone();
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stderr), text(output.stdout))
}

/// The sum of all counters.
fn total(server: &FakeServer) -> i64 {
    server.state().counters.values().sum()
}

fn json(target: SocketAddr, args: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json");
    stdout(target, &format!("{args} --json {}", file.display()));
    serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON")
}

#[test]
fn the_bytes_of_adds_and_reads_are_exact() {
    let server = FakeServer::start(Manners::default());
    stdout(server.address, "--connections 1 --pipeline 2 --keys 1 --requests 3");
    let add = "*3\r\n$6\r\nINCRBY\r\n$16\r\nkey:000000000000\r\n$1\r\n1\r\n";
    let state = server.state();
    // A connection that only looks whether somebody is there sends nothing.
    assert_eq!(state.bytes.len(), 1);
    assert_eq!(String::from_utf8_lossy(&state.bytes[0]), add.repeat(3));
    drop(state);

    stdout(server.address, "--connections 1 --keys 1 --requests 2 --reads 1");
    let read = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n";
    assert_eq!(String::from_utf8_lossy(&server.state().bytes[1]), read.repeat(2));
}

#[test]
fn ids_rise_from_a_producer_for_each_connection_and_differ_between_runs() {
    let server = FakeServer::start(Manners::default());
    for _ in 0..2 {
        stdout(server.address, "--connections 3 --pipeline 4 --keys 5 --requests 100 --ids --rounds 2");
    }
    let state = server.state();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for command in &state.commands {
        let [verb, key, amount, word, producer, id] = command.as_slice() else { panic!("{command:?}") };
        assert_eq!((verb.as_str(), amount.as_str(), word.as_str()), ("INCRBY", "1", "IDMP"));
        assert!(key.starts_with("key:00000000000"), "{key}");
        let id: u64 = id.parse().expect("a number");
        assert_eq!(id, last.insert(producer, id).unwrap_or(0) + 1, "{producer}");
    }
    assert_eq!(last.len(), 2 * 2 * 3, "runs, rounds, connections");
    assert_eq!(last.values().sum::<u64>(), 400);
    assert_eq!(state.repeats, 0);
    drop(state);
    assert_eq!(total(&server), 400);
}

#[test]
fn exactly_the_asked_commands_are_sent_and_answered() {
    let server = FakeServer::start(Manners::default());
    let run = json(server.address, "--connections 7 --pipeline 16 --keys 50 --requests 1003 --reads 0.3");
    let round = &run["contestants"][0]["rounds"][0];
    let (adds, reads) = (round["adds"].as_u64().expect("adds"), round["reads"].as_u64().expect("reads"));
    assert_eq!(adds + reads, 1_003);
    assert!((200..400).contains(&reads), "{reads}");
    assert_eq!(round["errors"], 0);
    assert_eq!(i64::try_from(adds), Ok(total(&server)));
    assert_eq!(server.state().commands.len(), 1_003);
    assert!(round["bursts"].as_u64() >= Some(1_003 / 16), "one sample for each burst: {round}");
    assert!(round["latency_ms"]["p50"].as_f64() <= round["latency_ms"]["max"].as_f64());
}

#[test]
fn a_round_by_time_waits_for_what_is_under_way() {
    let server = FakeServer::start(Manners::default());
    let run = json(server.address, "--connections 4 --pipeline 8 --seconds 0.3 --rounds 2");
    let rounds = run["contestants"][0]["rounds"].as_array().expect("rounds");
    assert_eq!(rounds.len(), 2);
    let adds: i64 = rounds.iter().map(|round| round["adds"].as_i64().expect("adds")).sum();
    assert!(rounds.iter().all(|round| round["seconds"].as_f64() >= Some(0.25)), "{rounds:?}");
    assert_eq!(adds, total(&server));
}

#[test]
fn the_same_seed_sends_the_same_keys() {
    let keys = |seed: u64| {
        let server = FakeServer::start(Manners::default());
        stdout(server.address, &format!("--connections 1 --requests 50 --distribution zipf --seed {seed}"));
        std::mem::take(&mut server.state().bytes[0])
    };
    assert_eq!(keys(1), keys(1));
    assert_ne!(keys(1), keys(2));
}

#[test]
fn replies_that_come_byte_by_byte_are_understood() {
    let server = FakeServer::start(Manners { byte_by_byte: true, ..Manners::default() });
    let text =
        stdout(server.address, "--connections 3 --pipeline 5 --keys 4 --requests 300 --reads 0.5 --verify");
    let adds = total(&server);
    assert!(text.contains(&format!("{adds} adds acknowledged, {adds} counted")), "{text}");
}

#[test]
fn errors_are_counted_and_the_first_is_shown() {
    let server = FakeServer::start(Manners { error_every: Some(10), ..Manners::default() });
    let args = "--connections 1 --keys 3 --requests 100";
    let (error, text) = failure(server.address, args, 1);
    assert!(error.contains("10 commands with an error, first: ERR error at command 10"), "{error}");
    assert!(error.contains("--allow-errors"), "{error}");
    assert!(text.lines().last().expect("the round").ends_with(" 10"), "{text}");

    let text = stdout(server.address, &format!("{args} --allow-errors"));
    assert!(text.contains("first error: ERR error at command 110"), "{text}");
}

#[test]
fn a_server_that_does_not_know_ids_is_told_apart() {
    let answers = Some("-ERR wrong number of arguments for 'incrby' command\r\n");
    let server = FakeServer::start(Manners { answers, ..Manners::default() });
    let (error, _) = failure(server.address, "--requests 10 --ids", 1);
    assert!(error.contains("it does not know IDMP, so leave --ids out"), "{error}");
}

#[test]
fn a_server_that_closes_ends_the_run() {
    let server = FakeServer::start(Manners { closes_after: Some(20), ..Manners::default() });
    let (error, _) = failure(server.address, "--connections 2 --pipeline 3 --requests 1000", 1);
    assert!(error.contains(&format!("{} closed connection ", server.address)), "{error}");
    assert!(error.contains("commands unanswered"), "{error}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = FakeServer::start(Manners { silent: true, ..Manners::default() });
    let started = Instant::now();
    let (error, _) = failure(server.address, "--connections 2 --pipeline 3 --timeout 0.3", 1);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(error.contains("has not answered 3 commands on connection 1 within 0.3 s"), "{error}");
    assert!(error.contains("--timeout"), "{error}");
}

#[test]
fn what_is_no_server_of_counters_is_told_apart() {
    for (answer, complaint) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as a RESP server"),
        ("*1\r\n:1\r\n", "does not answer as a RESP server"),
        ("+OK\r\n", "answered OK where a number was expected"),
        ("$2\r\n42\r\n", "0 numbers and 1 strings where 1 and 0 was expected"),
        (":1\r\n:2\r\n", "1 numbers and 0 strings and more where 1 and 0 was expected"),
    ] {
        let server = FakeServer::start(Manners { answers: Some(answer), ..Manners::default() });
        let (error, _) = failure(server.address, "--connections 1 --requests 5", 1);
        assert!(error.contains(complaint), "{answer:?}: {error}");
    }
}

#[test]
fn a_password_is_sent_first_on_every_connection() {
    let server = FakeServer::start(Manners { password: Some("secret"), ..Manners::default() });
    stdout(server.address, "--connections 3 --requests 30 --password secret --verify");
    assert_eq!(total(&server), 30);
    let auth = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n".as_bytes();
    assert!(server.state().bytes.iter().all(|bytes| bytes.starts_with(auth)));

    let (error, _) = failure(server.address, "--requests 30 --password wrong", 1);
    assert!(error.contains("--password: ") && error.contains("WRONGPASS"), "{error}");
    let (error, _) = failure(server.address, "--requests 30", 1);
    assert!(error.contains("NOAUTH") && error.contains("give --password"), "{error}");
    assert_eq!(total(&server), 30);
}

#[test]
fn a_server_that_miscounts_is_found_out() {
    let server = FakeServer::start(Manners { miscounts: true, ..Manners::default() });
    let (error, text) = failure(server.address, "--connections 1 --requests 100 --keys 7 --verify", 1);
    assert!(text.contains("100 adds acknowledged, 110 counted"), "{text}");
    assert!(
        error.contains("miscounted: it acknowledged 100 adds, and its counters add up to 110"),
        "{error}"
    );
    // Where nobody asks, nobody looks.
    stdout(server.address, "--connections 1 --requests 100 --keys 7");
}

#[test]
fn every_verified_run_counts_on_keys_of_its_own() {
    let server = FakeServer::start(Manners::default());
    for _ in 0..2 {
        stdout(server.address, "--requests 40 --keys 5 --verify");
    }
    let prefixes: HashSet<String> = server
        .state()
        .counters
        .keys()
        .map(|key| key.rsplit_once(':').expect("a prefix").0.to_owned())
        .collect();
    assert_eq!(prefixes.len(), 2, "{prefixes:?}");
}

#[test]
fn two_servers_take_turns_and_are_compared() {
    let (one, other) = (FakeServer::start(Manners::default()), FakeServer::start(Manners::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let (data, plot) = (folder.path().join("run.json"), folder.path().join("run.svg"));
    let text = stdout(
        one.address,
        &format!(
            "--against {} --connections 2 --requests 200 --rounds 3 --verify --json {} --plot {}",
            other.address,
            data.display(),
            plot.display()
        ),
    );
    let lines: Vec<&str> = text.lines().skip(4).take(6).collect();
    let order = [one.address, other.address, other.address, one.address, one.address, other.address];
    for ((line, address), round) in lines.iter().zip(order).zip([1, 1, 2, 2, 3, 3]) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(round.to_string().as_str()), "{line}");
        assert_eq!(words.next(), Some(address.to_string().as_str()), "{line}");
        assert!(words.all(|word| word.parse::<f64>().is_ok()), "{line}");
    }
    assert!(text.contains("median of 3 rounds"), "{text}");
    assert_eq!((total(&one), total(&other)), (600, 600));

    let run: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data).expect("a file")).expect("JSON");
    let rate = |contestant: usize, round: usize| {
        run["contestants"][contestant]["rounds"][round]["commands_per_second"].as_f64().expect("a rate")
    };
    let mut ratios: Vec<f64> = (0..3).map(|round| rate(0, round) / rate(1, round)).collect();
    ratios.sort_by(f64::total_cmp);
    let told = |name: &str| run["ratios"]["throughput"][name].as_f64().expect("a ratio");
    assert!((told("median") - ratios[1]).abs() < 1e-9);
    assert!((told("min") - ratios[0]).abs() < 1e-9 && (told("max") - ratios[2]).abs() < 1e-9);
    assert!(run["ratios"]["p50"]["median"].is_number() && run["ratios"]["p99"]["median"].is_number());

    let plot = std::fs::read_to_string(plot).expect("a plot");
    let drawn = roxmltree::Document::parse(&plot).expect("SVG");
    let bars = drawn.descendants().filter(|node| node.attribute("fill") == Some("#0072B2")).count();
    assert_eq!(bars, 2 + 1 + 4, "two legends, a throughput, four percentiles: {plot}");
}

#[test]
fn ids_are_compared_with_none_on_one_server() {
    let server = FakeServer::start(Manners::default());
    let text = stdout(server.address, "--ids both --connections 2 --requests 100 --rounds 2 --verify");
    assert!(text.contains("with ids / without, median of 2 rounds"), "{text}");
    assert_eq!(text.matches("200 adds acknowledged, 200 counted").count(), 2, "{text}");
    let with_ids = server.state().commands.iter().filter(|command| command.len() == 6).count();
    assert_eq!(with_ids, 200);
}

#[test]
fn nobody_there_names_the_address_and_how_to_start_a_server() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let (error, text) = failure(free, "--requests 1", 1);
    assert!(error.contains(&format!("--target: cannot connect to {free}")), "{error}");
    assert!(error.contains(&format!("quipu serve --resp {free}")), "{error}");
    assert!(text.is_empty(), "{text}");
    let server = FakeServer::start(Manners::default());
    let (error, _) = failure(server.address, &format!("--against {free}"), 1);
    assert!(error.contains(&format!("--against: cannot connect to {free}")), "{error}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let server = FakeServer::start(Manners::default());
    for (args, flag) in [
        ("--connections 0", "--connections"),
        ("--connections 10001", "--connections"),
        ("--pipeline 0", "--pipeline"),
        ("--keys 0", "--keys"),
        ("--keys 100000001", "--keys"),
        ("--distribution normal", "--distribution"),
        ("--distribution zipf:0", "--distribution"),
        ("--reads 1.5", "--reads"),
        ("--reads NaN", "--reads"),
        ("--requests 0", "--requests"),
        ("--seconds 0", "--seconds"),
        ("--seconds NaN", "--seconds"),
        ("--timeout -1", "--timeout"),
        ("--requests 5 --seconds 1", "--seconds"),
        ("--rounds 0", "--rounds"),
        ("--ids sometimes", "--ids"),
        ("--ids both --against 127.0.0.1:1", "--ids"),
        ("--against nowhere", "--against"),
        ("--json /no/such/folder/run.json", "--json"),
        ("--plot /no/such/folder/run.svg", "--plot"),
    ] {
        let (error, text) = failure(server.address, args, 2);
        assert!(error.starts_with("error: ") && error.contains(flag), "{args}: {error}");
        assert!(text.is_empty(), "{args}");
    }
    assert!(server.state().commands.is_empty());
}

#[test]
fn help_teaches_by_example() {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["bench", "--help"]).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).expect("text");
    for part in ["Examples:", "quipu bench --ids both", "one sample for each burst", "exit code is 1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_round_and_shows_it() {
    let server = FakeServer::start(Manners::default());
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["bench", "--seconds", "60", "--target", &server.address.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("quipu");
    while server.state().commands.is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    let output = child.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().last().expect("a line").trim_start().starts_with("1  "), "{text}");
}
