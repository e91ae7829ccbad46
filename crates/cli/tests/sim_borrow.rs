//! `quipu sim borrow` and `example1` as a user runs them.

use assert_cmd::Command;

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

/// A small run of each, its first column, and how many lines it has beside the header.
const SMALL: [(&str, &str, usize); 3] = [
    (
        "borrow --loss 0,20 --end-ms 4000 --outage-ms 1000 --stay-ms 1000 --fold-after-ms 2000",
        "loss_percent",
        2,
    ),
    ("borrow --over-time --loss 10 --end-ms 4000 --outage-ms 1000 --stay-ms 1000", "loss_percent", 5),
    ("example1 --edges-per-relay 3 --end-ms 2000", "time_s", 3),
];

#[test]
fn same_seed_same_bytes_in_lines_with_one_header() {
    for (command, first_column, lines) in SMALL {
        let text = stdout(command);
        assert_eq!(text, stdout(command), "{command}");
        assert_ne!(text, stdout(&format!("{command} --seed 2")), "{command}");
        let (header, rows) = text.split_once('\n').expect("a header");
        assert!(header.starts_with(&format!("# {first_column}\t")), "{command}: {header}");
        assert_eq!(rows.lines().count(), lines, "{command}");
        for row in rows.lines() {
            assert_eq!(row.split('\t').count(), header.split('\t').count(), "{command}: {row}");
            let is_cell = |cell: &str| cell == "-" || cell.parse::<f64>().is_ok();
            assert!(row.split('\t').all(is_cell), "{command}: {row}");
        }
    }
}

#[test]
fn json_has_an_object_for_each_row() {
    for (command, first_column, lines) in SMALL {
        let text = stdout(&format!("{command} --json"));
        let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
        assert_eq!(value["experiment"].as_str(), command.split(' ').next());
        assert!(value["rows"][0][first_column].is_number(), "{command}: {text}");
        assert_eq!(value["rows"].as_array().map(Vec::len), Some(lines), "{command}");
    }
}

#[test]
fn ten_permanent_entries_however_many_edges() {
    let text = stdout("example1 --edges-per-relay 5 --end-ms 2000 --json");
    let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    assert_eq!(value["rows"][1]["site_entries"], 10.0);
    assert_eq!(value["rows"][1]["ids"], 1_510.0);
    assert_eq!(value["rows"][2]["relay_slots"], 0.0, "everything has been handed over");
}

#[test]
fn impossible_parameters_are_refused_with_the_flag_and_the_range() {
    for (args, flag, range) in [
        ("borrow --nodes 0", "--nodes", "0 is not in 1..=100"),
        ("borrow --loss 5,91", "--loss", "91 is not in 0..=90"),
        ("borrow --vanish-percent 101", "--vanish-percent", "101 is not in 0..=100"),
        ("borrow --outage-ms 90001", "--outage-ms", "90001 is not in 0..=90000"),
        ("borrow --end-ms 0", "--end-ms", "0 is not in 1..="),
        ("example1 --datacenters 0", "--datacenters", "0 is not in 1..=100"),
        ("example1 --sites 21", "--sites", "21 is not in 1..=20"),
        ("example1 --edges-per-relay 0", "--edges-per-relay", "0 is not in 1..=40000"),
        ("example1 --relays -1", "-1", ""),
    ] {
        let output = quipu(args).assert().failure().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).expect("text");
        assert!(message.contains(flag) && message.contains(range), "{args}: {message}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn help_names_the_papers_and_shows_examples() {
    for (command, paper) in
        [("borrow", "Borrowing an Identity"), ("example1", "Scalable eventually consistent counters")]
    {
        let help = stdout(&format!("{command} --help"));
        assert!(help.contains("Examples:") && help.contains(&format!("quipu sim {command}")), "{command}");
        assert!(help.contains(paper), "{command}: {help}");
    }
}
