//! `quipu bench cassandra` in small, on a Cassandra that is there: what it counts is exact, what it writes is whole, and
//! nothing is left. How long anything takes is not looked at.

use assert_cmd::Command;
use scylla::client::session_builder::SessionBuilder;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

use crate::database::Found;

/// Seconds instead of minutes.
const SMALL: &str =
    "--replication 1 --shards 1,4 --keys 1,50 --pipeline 1,4 --connections 5 --rounds 2 --seconds 0.3";

fn quipu(temporary: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["bench", "cassandra"]).args(args.split_whitespace()).env("TMPDIR", temporary);
    // Settings of others' servers are not for these; with this one they would not start.
    command.env("QUIPU_SITE", "7").timeout(Duration::from_secs(240));
    command
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("no {name} in {value}"))
}

pub(crate) fn everything_is_measured_and_nothing_is_left(found: Found) {
    let database = found.get();
    let folder = tempfile::tempdir().expect("a folder");
    let (json, plot) = (folder.path().join("run.json"), folder.path().join("run.svg"));
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    let address = format!("{}/bench", database.address());
    let args = format!("{SMALL} --storage {address} --json {} --plot {}", json.display(), plot.display());
    let output = quipu(&temporary, &args).assert().success().get_output().clone();
    assert_eq!(
        std::fs::read_dir(&temporary).expect("it is there").count(),
        0,
        "the servers' logs are removed"
    );

    let run: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("a file")).expect("JSON");
    let loads = list(&run, "loads");
    let kinds: Vec<_> = loads.iter().map(|load| (&load["keys"], &load["pipeline"])).collect();
    let kind = |keys: u32, pipeline: u32| (Value::from(keys), Value::from(pipeline));
    let expected = [kind(1, 1), kind(1, 4), kind(50, 1), kind(50, 4)];
    assert_eq!(kinds, expected.iter().map(|(keys, pipeline)| (keys, pipeline)).collect::<Vec<_>>());
    for load in loads {
        assert_eq!(list(load, "rounds").len(), 2);
        list(load, "rounds").iter().for_each(round_is_whole);
        let shards: Vec<_> = list(load, "ratios").iter().map(|ratio| &ratio["shards"]).collect();
        assert_eq!(shards, [1, 4]);
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let rows = text.lines().filter(|line| line.contains("pipeline")).count();
    assert_eq!(rows, 8, "a line for each load and number of shards: {text}");
    roxmltree::Document::parse(&std::fs::read_to_string(plot).expect("a file")).expect("SVG");

    let left: Vec<String> =
        keyspaces(&database.address()).into_iter().filter(|name| name.starts_with("bench")).collect();
    assert!(left.is_empty(), "keyspaces are left: {left:?}");
}

fn keyspaces(address: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let node = address.trim_start_matches("cassandra://");
        let session = SessionBuilder::new().known_node(node).build().await.expect("a session");
        let answer = session.query_unpaged("SELECT keyspace_name FROM system_schema.keyspaces", ()).await;
        let rows = answer.expect("an answer").into_rows_result().expect("rows");
        let names = rows.rows::<(String,)>().expect("names").map(|row| row.expect("a name").0);
        let names: Vec<String> = names.collect();
        assert!(names.iter().any(|name| name == "system"), "all of them: {names:?}");
        names
    })
}

fn round_is_whole(round: &Value) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number: {value}"));
    let quipu = list(round, "quipu");
    assert_eq!(quipu.len(), 2);
    for ours in quipu {
        let (adds, commits) = (number(&ours["measured"]["adds"]), number(&ours["commits"]));
        assert!(adds >= commits && commits > 0, "no add without a commit, and none for nothing: {ours}");
    }
    assert!(number(&round["cassandra"]["adds"]) > 0, "{round}");
}

pub(crate) fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, flag) in [
        ("--nodes 0", "--nodes"),
        ("--nodes 10", "--nodes"),
        ("--nodes 3 --storage cassandra://127.0.0.1/bench", "--nodes"),
        ("--storage redis://127.0.0.1", "--storage"),
        ("--replication 0", "--replication"),
        ("--shards 3", "--shards"),
        ("--shards 0", "--shards"),
        ("--keys 0", "--keys"),
        ("--pipeline 0", "--pipeline"),
        ("--connections 0", "--connections"),
        ("--rounds 0", "--rounds"),
        ("--seconds 0", "--seconds"),
        ("--seconds NaN", "--seconds"),
        ("--json /nowhere/at/all", "--json"),
        ("--plot /nowhere/at/all", "--plot"),
    ] {
        let output = quipu(folder.path(), args).assert().failure().code(2).get_output().clone();
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.starts_with("error: ") && error.contains(flag), "{args}: {error}");
        assert!(output.stdout.is_empty(), "{args}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
