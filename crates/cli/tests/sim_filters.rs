//! The commands of the filter experiments, and `quipu sim all`.

use assert_cmd::Command;
use std::path::Path;

fn quipu(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.arg("sim").args(args.split_whitespace());
    command
}

fn stdout(args: &str) -> String {
    let output = quipu(args).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "no progress bars where nobody sees them");
    String::from_utf8(output.stdout).expect("text")
}

const SMALL: [(&str, &str); 7] = [
    ("fbf-membership --elements 400 --probes-max 1000000", "elements"),
    ("fbf-model --elements 500 --probes-max 1000000", "bits"),
    ("fbf-refresh --periods-ms 5000,1000 --probes-max 100000", "time_ms"),
    ("fbf-filters --filters 6,3 --probes-max 100000", "time_ms"),
    ("fbf-adapt --end-ms 30000 --probes-max 100000", "time_s"),
    ("fbf-vs-rbf --operations 1000", "retry_percent"),
    ("retries --operations 500", "time_ms"),
];

#[test]
fn same_seed_same_bytes_in_lines_with_one_header() {
    for (command, first_column) in SMALL {
        let text = stdout(command);
        assert_eq!(text, stdout(command), "{command}");
        let mut lines = text.lines();
        let header = lines.next().expect("a header");
        assert!(header.starts_with(&format!("# {first_column}\t")), "{command}: {header}");
        let columns = header.split('\t').count();
        let rows: Vec<&str> = lines.collect();
        assert!(!rows.is_empty(), "{command}");
        for row in rows {
            assert_eq!(row.split('\t').count(), columns, "{command}: {row}");
            assert!(
                row.split('\t').all(|cell| cell == "-" || cell.parse::<f64>().is_ok()),
                "{command}: {row}"
            );
        }
        assert!(text.ends_with('\n'));
    }
}

#[test]
fn another_seed_gives_other_numbers() {
    for (command, _) in SMALL {
        // The expected rates of these do not depend on the seed, and errors are too rare in a small run.
        if !command.starts_with("fbf-refresh") {
            assert_ne!(stdout(command), stdout(&format!("{command} --seed 2")), "{command}");
        }
    }
}

#[test]
fn json_has_an_object_for_each_row() {
    for (command, first_column) in SMALL {
        let text = stdout(&format!("{command} --json"));
        let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
        assert_eq!(value["experiment"].as_str(), command.split(' ').next());
        assert!(value["rows"][0][first_column].is_number(), "{command}: {text}");
        assert_eq!(value["rows"].as_array().map(Vec::len), Some(stdout(command).lines().count() - 1));
    }
}

#[test]
fn impossible_parameters_are_refused_with_the_flag_and_the_range() {
    for (args, flag, range) in [
        ("fbf-membership --bits 0", "--bits", "0 is not in 1..=16777216"),
        ("fbf-membership --bits 16777217", "--bits", "16777217 is not in 1..=16777216"),
        ("fbf-membership --hashes 0", "--hashes", "0 is not in 1..=32"),
        ("fbf-membership --past 29", "--past", "29 is not in 1..=28"),
        ("fbf-membership --periods 0", "--periods", "0 is not in 1..=1000"),
        ("fbf-membership --elements 100,0", "--elements", "0 is not in 1..=10000000"),
        ("fbf-membership --found 0", "--found", "0 is not in 1..="),
        ("fbf-membership --probes-max 0", "--probes-max", "0 is not in 1..="),
        ("fbf-membership --threads 0", "--threads", "0 is not in 1..=64"),
        ("fbf-model --period-ms 0", "--period-ms", "0 is not in 1..=86400000"),
        ("fbf-model --bits 5000,0", "--bits", "0 is not in 1..=16777216"),
        ("fbf-refresh --periods-ms 0", "--periods-ms", "0 is not in 1..=86400000"),
        ("fbf-refresh --rate-from 0", "--rate-from", "0 is not in 0.001..=10000"),
        ("fbf-refresh --rate-from 10 --rate-to 5", "--rate-to", "5 is not in 10..=10000"),
        ("fbf-refresh --rate-to NaN", "--rate-to", "NaN is not in 1..=10000"),
        ("fbf-filters --filters 2", "--filters", "2 is not in 3..=30"),
        ("fbf-filters --rate-to inf", "--rate-to", "inf is not in 1..=10000"),
        ("fbf-adapt --target 1", "--target", "1 is not between 0 and 1"),
        ("fbf-adapt --past-min 23", "--past-min", "23 is not in 1..=22"),
        ("fbf-adapt --bits-max 100", "--bits-max", "100 is not in 6250..=16777216"),
        ("fbf-adapt --window-ms 23000", "--window-ms", "23000 is not in 11000..=22000"),
        ("fbf-adapt --end-ms 0", "--end-ms", "0 is not in 1000..=3600000"),
        ("fbf-adapt --stats-ms 1500", "--stats-ms", "1500 is not a multiple of 1000"),
        ("fbf-adapt --load 5:1,5:2", "--load", "each point must be later than the one before"),
        ("fbf-vs-rbf --retry-percents 101", "--retry-percents", "101 is not in 0..=100"),
        ("fbf-vs-rbf --target 0", "--target", "0 is not between 0 and 1"),
        ("retries --operations 0", "--operations", "0 is not in 1..=10000000"),
        ("retries --ack-loss-percent 100.5", "--ack-loss-percent", "100.5 is not in 0..=100"),
        ("retries --stats-ms 0", "--stats-ms", "0 is not in 1..=86400000"),
        ("retries --arrival-ms 0", "--arrival-ms", "0 is not in 1..=86400000"),
    ] {
        let output = quipu(args).assert().failure().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).expect("text");
        assert!(message.starts_with(&format!("error: {flag}: ")), "{args}: {message}");
        assert!(message.contains(range), "{args}: {message}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn what_does_not_parse_is_refused_with_the_flag() {
    for (args, flag) in [
        ("fbf-adapt --load 5", "--load"),
        ("fbf-model --figure 11", "--figure"),
        ("fbf-filters --start warm", "--start"),
        ("retries --operations many", "--operations"),
        ("all", "--out"),
    ] {
        let output = quipu(args).assert().failure().code(2).get_output().clone();
        assert!(String::from_utf8(output.stderr).expect("text").contains(flag), "{args}");
    }
}

#[test]
fn an_unwritable_folder_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let output = quipu("all --quick --out").arg(file.join("report")).assert().failure().code(2);
    let message = String::from_utf8(output.get_output().stderr.clone()).expect("text");
    assert!(message.starts_with("error: --out: cannot write to "), "{message}");
}

#[test]
fn everything_in_one_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = quipu("all --quick --json --out").arg(folder.path()).assert().success();
    let value: serde_json::Value =
        serde_json::from_slice(&output.get_output().stdout).expect("one JSON value");
    let page = std::fs::read_to_string(folder.path().join("index.html")).expect("the page");
    let experiments = value["experiments"].as_array().expect("experiments");
    assert!(experiments.len() >= 11);
    for experiment in experiments {
        let name = experiment["experiment"].as_str().expect("a name");
        assert!(page.contains(&format!("id=\"{name}\"")), "the page shows {name}");
        assert!(page.contains(&format!("href=\"{name}.tsv\"")), "the page links the data of {name}");
        check_files(folder.path(), name);
    }
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org").count()
    );
    assert!(!page.contains("https://"), "nothing from elsewhere");
}

fn check_files(folder: &Path, name: &str) {
    let text = std::fs::read_to_string(folder.join(format!("{name}.svg"))).expect("a plot");
    let plot = roxmltree::Document::parse(&text).expect("well-formed XML");
    assert_eq!(plot.root_element().tag_name().name(), "svg");
    assert!(plot.root_element().attribute("viewBox").is_some(), "{name} can be scaled");
    let data = std::fs::read_to_string(folder.join(format!("{name}.tsv"))).expect("data");
    assert!(data.starts_with("# ") && data.lines().count() > 1, "{name}");
}

/// Ctrl-C ends a run with exit code 130 and without half a line.
#[cfg(unix)]
#[test]
fn an_interrupted_run_exits_with_130() {
    use std::process::Stdio;
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["sim", "fbf-model", "--elements", "1", "--probes-max", "1000000000000"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let signal = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signal.expect("kill is there").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
}
