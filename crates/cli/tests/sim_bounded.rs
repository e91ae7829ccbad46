//! `quipu sim bounded-latency`, `bounded-load`, `bounded-exhaust` and `bounded-excess` as a user runs them.

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
const SMALL: [(&str, &str, usize); 4] = [
    ("bounded-latency --seconds 2", "site", 3),
    ("bounded-load --seconds 1 --clients 3,60 --counters 10", "clients", 8),
    ("bounded-exhaust --initial 50 --seconds 3", "time_s", 6),
    ("bounded-excess --initial 50 --clients 5,20", "clients", 2),
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
        assert_eq!(value["seed"], 1);
        assert!(value["rows"][0][first_column].is_number(), "{command}: {text}");
        assert_eq!(value["rows"].as_array().map(Vec::len), Some(lines), "{command}");
    }
}

#[test]
fn only_weak_has_an_excess() {
    let text = stdout("bounded-excess --initial 50 --clients 60 --json");
    let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    let row = &value["rows"][0];
    assert!(row["weak_excess"].as_u64() > Some(10), "{row}");
    for column in ["strong_excess", "ours_excess", "unbatched_excess", "ours_left", "unbatched_left"] {
        assert_eq!(row[column], 0, "{column}: {row}");
    }
}

#[test]
fn impossible_parameters_are_refused_with_the_flag_and_the_range() {
    for (args, flag, range) in [
        ("bounded-latency --clients 2", "--clients", "2 is not in 3..=1000000"),
        ("bounded-latency --seconds 0", "--seconds", "0 is not in 1..=86400"),
        ("bounded-latency --workers 0", "--workers", "0 is not in 1..=64"),
        ("bounded-load --counters 0", "--counters", "0 is not in 1..=100000"),
        ("bounded-load --clients 5,0", "--clients", "0 is not in 1..=1000000"),
        ("bounded-load --commit-us 2000000", "--commit-us", "2000000 is not in 0..=1000000"),
        ("bounded-load --commit-us 15", "--commit-us", "15 is not a multiple of 10"),
        ("bounded-load --command-us 0", "--command-us", "0 is not in 10..=1000000"),
        ("bounded-exhaust --initial 0", "--initial", "0 is not in 1..=1000000000"),
        ("bounded-exhaust --seconds 1 --stats-ms 1001", "--stats-ms", "1001 is not in 1..=1000"),
        ("bounded-excess --clients 1000001", "--clients", "1000001 is not in 1..=1000000"),
        ("bounded-excess --initial -5", "-5", ""),
    ] {
        let output = quipu(args).assert().failure().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).expect("text");
        assert!(message.contains(flag) && message.contains(range), "{args}: {message}");
        assert!(output.stdout.is_empty(), "{args}");
    }
}

#[test]
fn help_names_the_paper_and_shows_examples() {
    for command in ["bounded-latency", "bounded-load", "bounded-exhaust", "bounded-excess"] {
        let help = stdout(&format!("{command} --help"));
        assert!(help.contains("Examples:") && help.contains(&format!("quipu sim {command}")), "{command}");
        assert!(help.contains("enforcing numeric"), "{command}: {help}");
    }
}
