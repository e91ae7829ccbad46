//! `quipu serve` up to the moment at which the node starts: settings and where they come from.

use assert_cmd::Command;
use std::{fs, path::PathBuf, process::Output};
use tempfile::TempDir;

fn quipu(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::cargo_bin("quipu").expect("the binary is built");
    command.arg("serve").args(args).env_clear().envs(environment.iter().copied());
    command.output().expect("it runs")
}

fn printed(args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = quipu(&[args, &["--print-config"]].concat(), environment);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = quipu(&[args, &["--print-config"]].concat(), environment);
    assert_eq!(output.status.code(), Some(2), "{args:?} {environment:?}");
    assert!(output.stdout.is_empty(), "nothing is printed beside an error");
    String::from_utf8(output.stderr).expect("text")
}

fn file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("quipu.toml");
    fs::write(&path, text).expect("written");
    path
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines()
        .find(|line| line.starts_with(&format!("{name} =")))
        .unwrap_or_else(|| panic!("{name} in {text}"))
}

#[test]
fn the_defaults_are_printed_with_their_origin() {
    let text = printed(&[], &[]);
    assert_eq!(line(&text, "data"), "data = \"./quipu-data\" # default");
    assert_eq!(line(&text, "resp"), "resp = \"127.0.0.1:7379\" # default");
    assert_eq!(line(&text, "http"), "http = \"127.0.0.1:7380\" # default");
    assert_eq!(line(&text, "memory"), "memory = \"1GiB\" # default");
    assert_eq!(line(&text, "idmp-window"), "idmp-window = \"10min\" # default");
    assert!(text.contains("# shards is not set: as the data folder has; 64 for a new one"), "{text}");
    assert!(text.contains("# requirepass is not set"), "{text}");
    assert!(text.contains("# site is not set: as the data folder says; 1 for a new one"), "{text}");
    assert!(
        text.contains("# link is not set: \"127.0.0.1:7381\", opened if there are other sites"),
        "{text}"
    );
}

#[test]
fn flags_come_before_environment_before_file_before_defaults() {
    let folder = TempDir::new().expect("a folder");
    let path = file(&folder, "workers = 3\nmemory = \"100MiB\"\nlog-level = \"warn\"\nidmp-fpp = 1e-4\n");
    let path = path.to_str().expect("a name");
    let environment = [("QUIPU_MEMORY", "200MiB"), ("QUIPU_LOG_LEVEL", "debug"), ("QUIPU_CONFIG", path)];
    let text = printed(&["--log-level", "trace"], &environment);
    assert_eq!(line(&text, "log-level"), "log-level = \"trace\" # from --log-level");
    assert_eq!(line(&text, "memory"), "memory = \"200MiB\" # from QUIPU_MEMORY");
    assert_eq!(line(&text, "workers"), format!("workers = 3 # from {path}"));
    assert_eq!(line(&text, "idmp-fpp"), format!("idmp-fpp = 0.0001 # from {path}"));
    assert_eq!(line(&text, "max-clients"), "max-clients = 10000 # default");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let folder = TempDir::new().expect("a folder");
    let acl = folder.path().join("users.acl");
    fs::write(&acl, "user alice wonderland\n").expect("written");
    let acl = acl.to_str().expect("a name");
    let first = printed(
        &[
            "--resp",
            "0.0.0.0:1",
            "--http=off",
            "--durability",
            "interval:5",
            "--memory",
            "1536MiB",
            "--workers",
            "2",
        ],
        &[
            ("QUIPU_ACL_FILE", acl),
            ("QUIPU_SHARDS", "8"),
            ("QUIPU_IDMP_MODE", "filter"),
            ("QUIPU_SITE", "2"),
            ("QUIPU_LINK", "127.0.0.1:9"),
            ("QUIPU_PEERS", "1@10.0.0.1:7381,3@three.example.org:7381"),
            ("QUIPU_CLUSTER", "eu"),
            ("QUIPU_STORAGE", "cassandra://10.0.0.7,10.0.0.8/quipu"),
            ("QUIPU_ADVERTISE", "quipu-1.example.com"),
        ],
    );
    let path = file(&folder, &first);
    let second = printed(&["--config", path.to_str().expect("a name")], &[]);
    let values = |text: &str| toml::from_str::<toml::Table>(text).expect("TOML");
    assert_eq!(values(&first), values(&second));
    assert_eq!(values(&first).len(), 27, "all settings that there are: {first}");
}

#[test]
fn passwords_are_not_printed() {
    for (args, environment) in
        [(vec!["--requirepass", "hunter2"], vec![]), (vec![], vec![("QUIPU_REQUIREPASS", "hunter2")])]
    {
        let text = printed(&args, &environment);
        assert!(text.contains("# requirepass = \"********\" # from "), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    let help = quipu(&["--help"], &[("QUIPU_REQUIREPASS", "hunter2")]);
    assert!(!String::from_utf8_lossy(&help.stdout).contains("hunter2"));
}

#[test]
fn bad_values_are_refused_by_flag_value_and_remedy() {
    for (args, environment, parts) in [
        (vec!["--memory", "much"], vec![], vec!["--memory", "\"much\"", "such as 512MiB"]),
        (vec![], vec![("QUIPU_SHARDS", "63")], vec!["--shards", "\"63\"", "QUIPU_SHARDS", "give 32 or 64"]),
        (
            vec!["--resp", "0.0.0.0:7379"],
            vec![],
            vec!["--resp", "0.0.0.0:7379", "--requirepass", "--insecure"],
        ),
        (
            vec!["--link", "10.0.0.1:7381", "--peers", "2@10.0.0.2:7381"],
            vec![],
            vec!["--link", "10.0.0.1:7381", "links ask for no password", "--insecure"],
        ),
        (
            vec!["--site", "2", "--peers", "1@a:1,2@b:1"],
            vec![],
            vec!["--peers", "names this site itself (2@b:1)", "leave it out"],
        ),
        (
            vec!["--peers", "2@a:1,2@b:1"],
            vec![],
            vec!["--peers", "site 2 twice, at a:1 and at b:1", "leave one out"],
        ),
        (
            vec!["--peers", "0@a:1"],
            vec![],
            vec!["--peers", "\"0\" is no number of a site", "from 1 to 65535"],
        ),
        (vec![], vec![("QUIPU_PEERS", "2@nowhere")], vec!["--peers", "QUIPU_PEERS", "give NUMBER@HOST:PORT"]),
        (vec!["--site", "0"], vec![], vec!["--site", "\"0\"", "from 1 to 65535"]),
        (vec!["--link", "here"], vec![], vec!["--link", "\"here\"", "or off"]),
        (vec!["--config", "no-such.toml"], vec![], vec!["--config", "no-such.toml", "cannot be read"]),
        (vec!["--requirepass", ""], vec![], vec!["--requirepass", "is empty"]),
        (vec!["--colour"], vec![], vec!["--colour"]),
    ] {
        let text = refused(&args, &environment);
        for part in parts {
            assert!(text.contains(part), "{args:?} {environment:?}: {text}");
        }
    }
}

#[test]
fn a_public_address_is_taken_with_a_password_or_a_word() {
    printed(&["--http", "0.0.0.0:7380", "--requirepass", "secret"], &[]);
    printed(&["--http", "0.0.0.0:7380", "--insecure"], &[]);
    printed(&["--http", "0.0.0.0:7380"], &[("QUIPU_INSECURE", "true")]);
}

#[test]
fn a_file_with_anything_unknown_is_refused() {
    let folder = TempDir::new().expect("a folder");
    for (text, parts) in [
        ("idmp_window = \"1h\"", vec!["\"idmp_window\"", "is \"idmp-window\" meant?"]),
        ("memroy = \"1GiB\"", vec!["\"memroy\"", "is \"memory\" meant?"]),
        ("xyzzy = 1", vec!["\"xyzzy\"", "there are: data, storage"]),
        ("resp = [\"127.0.0.1:1\"]", vec!["no single value for \"resp\""]),
        ("[http]\nport = 1", vec!["no single value for \"http\""]),
        ("data = ", vec!["is not TOML", "line 1"]),
        ("workers = -2", vec!["--workers", "\"-2\"", "quipu.toml"]),
    ] {
        let path = file(&folder, text);
        let told = refused(&["--config", path.to_str().expect("a name")], &[]);
        for part in parts {
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
