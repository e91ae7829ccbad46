//! `quipu bench retries` against a small server that counts with and without ids.

mod fake;

use assert_cmd::Command;
use fake::{FakeServer, Manners};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

/// A few seconds instead of minutes.
const SMALL: &str = "--loss 0,0.3 --delay-ms 0,40 --timeout-ms 60 --batch 1,5 --clients 4 --rate 400 --seconds 0.4 \
                     --rounds 1 --operations 80";

/// One condition for each figure.
const TINY: &str =
    "--loss 0.3 --delay-ms 0 --batch 2 --clients 2 --rate 400 --seconds 0.2 --rounds 1 --operations 20";

fn quipu(target: SocketAddr, out: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["bench", "retries", "--target", &target.to_string(), "--out"]).arg(out);
    command.args(args.split_whitespace()).timeout(Duration::from_secs(120));
    command
}

fn stdout(target: SocketAddr, out: &Path, args: &str) -> String {
    let output = quipu(target, out, args).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "no progress bars where nobody sees them");
    String::from_utf8(output.stdout).expect("text")
}

fn failure(target: SocketAddr, out: &Path, args: &str, code: i32) -> String {
    let output = quipu(target, out, args).assert().failure().code(code).get_output().clone();
    String::from_utf8(output.stderr).expect("text")
}

/// The column of a table, `None` where nothing was measured.
fn column(folder: &Path, file: &str, name: &str) -> Vec<Option<f64>> {
    let text = std::fs::read_to_string(folder.join(file)).expect("a table");
    let mut lines = text.lines();
    let header = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a header");
    let index = header.split('\t').position(|column| column == name).expect("the column");
    lines.map(|line| line.split('\t').nth(index).expect("a cell").parse().ok()).collect()
}

fn numbers(folder: &Path, file: &str, name: &str) -> Vec<f64> {
    column(folder, file, name).into_iter().map(|cell| cell.expect("a number")).collect()
}

#[test]
fn without_ids_retries_are_counted_and_with_ids_never() {
    let server = FakeServer::start(Manners::default());
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path();
    let text = stdout(server.address, out, SMALL);
    assert_eq!(text.matches("error with ids: 0.000 %, paper: 0 %").count(), 3, "{text}");
    assert!(!text.contains("with ids: 0.000 %, paper: 0 %   differs"), "{text}");
    assert!(server.state().repeats > 50, "ids were repeated, and recognised");

    // Over the time: what was issued rises to what the rate asks for, and the counter with ids ends there.
    let issued = numbers(out, "fig14.tsv", "issued");
    assert!(issued.is_sorted() && issued.len() > 5, "{issued:?}");
    assert_eq!(issued.last(), Some(&160.0));
    assert_eq!(numbers(out, "fig14.tsv", "with_ids").last(), Some(&160.0));

    // Without a loss nothing is wrong; with one of 0.3 about 0.43 of the adds are counted once more.
    for name in ["without_percent", "batch_without_percent"] {
        let errors = numbers(out, "fig14-loss.tsv", name);
        assert_eq!(errors[0], 0.0, "{name}");
        assert!((15.0..90.0).contains(&errors[1]), "{name}: {errors:?}");
    }
    for name in ["with_ids_percent", "batch_with_ids_percent"] {
        assert_eq!(numbers(out, "fig14-loss.tsv", name), [0.0, 0.0], "{name}");
    }
    assert_eq!(numbers(out, "fig14-loss.tsv", "batch_issued"), [800.0, 800.0]);

    // Delays beyond the time-out do the same as losses.
    let errors = numbers(out, "fig17.tsv", "error_without_percent");
    assert_eq!(errors.len(), 4);
    assert!(errors[1] > 0.0 && errors[3] > 0.0, "{errors:?}");
    assert_eq!(numbers(out, "fig17.tsv", "with_ids"), [80.0; 4]);

    // Batches over one connection and over four, without and with ids.
    assert_eq!(numbers(out, "fig15.tsv", "batch"), [1.0, 1.0, 5.0, 5.0]);
    assert_eq!(numbers(out, "fig15.tsv", "connections"), [1.0, 4.0, 1.0, 4.0]);
    assert!(numbers(out, "fig15.tsv", "latency_ratio").iter().all(|ratio| *ratio > 0.0));

    let summary = std::fs::read_to_string(out.join("summary.md")).expect("a summary");
    for figure in ["fig14", "fig14-loss", "fig15", "fig17"] {
        let plot = std::fs::read_to_string(out.join(format!("{figure}.svg"))).expect("a plot");
        roxmltree::Document::parse(&plot).expect("SVG");
        assert!(summary.contains(&format!("({figure}.svg)")), "{summary}");
    }
}

#[test]
fn a_server_that_forgets_ids_is_found_out() {
    let server = FakeServer::start(Manners { forgets_ids: true, ..Manners::default() });
    let folder = tempfile::tempdir().expect("a folder");
    let error = failure(server.address, folder.path(), SMALL, 1);
    assert!(error.contains("figure 14, loss 0.3: with ids "), "{error}");
    assert!(error.contains("figure 14, loss 0.3, batches of 5: with ids "), "{error}");
    assert!(!error.contains("loss 0:"), "without a loss even this server is right: {error}");
    assert!(folder.path().join("summary.md").exists(), "what was found is there to be looked at");
}

#[test]
fn a_server_that_does_not_know_ids_can_be_tried_without() {
    let answers = Some("-ERR wrong number of arguments for 'incrby' command\r\n");
    let deaf = FakeServer::start(Manners { answers, ..Manners::default() });
    let folder = tempfile::tempdir().expect("a folder");
    let error = failure(deaf.address, folder.path(), SMALL, 1);
    assert!(error.contains("wrong number of arguments") && error.contains("--ids off"), "{error}");

    let server = FakeServer::start(Manners::default());
    let text = stdout(server.address, folder.path(), &format!("{SMALL} --ids off"));
    assert_eq!(text.matches("not tried (--ids off)").count(), 3, "{text}");
    assert!(!folder.path().join("fig15.tsv").exists(), "there is nothing to compare");
    assert!(server.state().commands.iter().all(|command| command.len() < 6), "no ids were sent");
    assert_eq!(column(folder.path(), "fig17.tsv", "with_ids"), [None; 4]);
}

#[test]
fn a_server_with_a_password_is_reached_through_the_proxy() {
    let server = FakeServer::start(Manners { password: Some("secret"), ..Manners::default() });
    let folder = tempfile::tempdir().expect("a folder");
    stdout(server.address, folder.path(), &format!("{TINY} --password secret"));
    let error = failure(server.address, folder.path(), &format!("{TINY} --ids off"), 1);
    assert!(error.contains("NOAUTH"), "{error}");
}

#[test]
fn a_server_that_goes_away_or_answers_errors_ends_the_run() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    for ids in ["on", "off"] {
        let error = failure(free, folder.path(), &format!("{TINY} --ids {ids}"), 1);
        assert!(error.contains(&format!("--target: cannot connect to {free}")), "{ids}: {error}");
    }
    let server = FakeServer::start(Manners { error_every: Some(100), ..Manners::default() });
    let error = failure(server.address, folder.path(), SMALL, 1);
    assert!(error.contains("answered with an error: ERR error at command 100"), "{error}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let server = FakeServer::start(Manners::default());
    let folder = tempfile::tempdir().expect("a folder");
    for (args, flag) in [
        ("--loss 1", "--loss"),
        ("--loss 0.1,-0.1", "--loss"),
        ("--loss NaN", "--loss"),
        ("--delay-ms 10001", "--delay-ms"),
        ("--timeout-ms 0", "--timeout-ms"),
        ("--batch 0", "--batch"),
        ("--batch 1001", "--batch"),
        ("--clients 0", "--clients"),
        ("--clients 101", "--clients"),
        ("--rate 0", "--rate"),
        ("--rate inf", "--rate"),
        ("--seconds 0", "--seconds"),
        ("--rounds 0", "--rounds"),
        ("--operations 0", "--operations"),
        ("--ids both", "--ids"),
    ] {
        let error = failure(server.address, folder.path(), args, 2);
        assert!(error.starts_with("error: ") && error.contains(flag), "{args}: {error}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, []).expect("a file");
    assert!(failure(server.address, &file, "", 2).contains("--out: cannot write to "));
    assert!(server.state().commands.is_empty());
}
