//! A folder of which something is gone is not served, and `quipu repair` says what would be lost before it does anything.

#[path = "harness/mod.rs"]
mod harness;

use harness::Site;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn quipu(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(args).arg("--data").arg(folder).env_clear();
    command.output().expect("it runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let list =
        |folder: &Path| fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    list(folder).chain(list(&folder.join("log"))).chain(list(&folder.join("table"))).collect()
}

fn newest_log(folder: &Path) -> PathBuf {
    let mut logs = files(folder);
    logs.retain(|path| path.extension().is_some_and(|it| it == "log"));
    logs.pop_last().expect("a segment")
}

#[test]
fn a_folder_without_a_log_is_named_repaired_and_restored() {
    let site = Site::in_folder("--workers 1");
    let server = site.start();
    for _ in 0..20 {
        server.client().call("INCRBY hits 1");
    }
    server.stop();
    let folder = site.data();
    let log = newest_log(&folder);
    let name = log.file_name().expect("a name").to_string_lossy().into_owned();
    fs::remove_file(&log).expect("it was there");

    let serve = ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let refused = quipu(&serve, &folder);
    assert!(!refused.status.success());
    assert!(text(&refused).contains(&name) && text(&refused).contains("quipu repair"), "{}", text(&refused));

    let before = files(&folder);
    let told = quipu(&["repair"], &folder);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told));
    for words in [&name[..], "A repair loses", "group commits", "--yes"] {
        assert!(text(&told).contains(words), "{words}: {}", text(&told));
    }
    assert_eq!(files(&folder), before, "nothing was changed");

    let done = quipu(&["repair", "--yes"], &folder);
    assert!(done.status.success() && text(&done).contains("quipu restore"), "{}", text(&done));
    let refused = quipu(&serve, &folder);
    assert!(!refused.status.success() && text(&refused).contains("quipu restore"), "{}", text(&refused));
    let restored = quipu(&["restore"], &folder);
    assert!(restored.status.success(), "{}", text(&restored));
    let server = site.start();
    let counted = server.client().call("INCRBY hits 1").count();
    assert!((1..=21).contains(&counted), "{counted}");
    server.stop();
    let whole = quipu(&["repair"], &folder);
    assert!(whole.status.success() && text(&whole).contains("is whole"), "{}", text(&whole));
}

#[test]
fn a_folder_without_its_format_is_not_started_as_new() {
    let site = Site::in_folder("");
    let server = site.start();
    server.client().call("INCRBY hits 42");
    server.stop();
    let folder = site.data();
    fs::remove_file(folder.join("FORMAT")).expect("it was there");
    let refused = quipu(&["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"], &folder);
    assert!(!refused.status.success() && text(&refused).contains("FORMAT"), "{}", text(&refused));
    let done = quipu(&["repair", "--yes"], &folder);
    assert!(done.status.success() && text(&done).contains("loses nothing"), "{}", text(&done));
    let server = site.start();
    assert_eq!(server.client().call("GET hits").count(), 42);
}

type Harm<'a> = &'a dyn Fn(&Path);

/// What was counted before the last checkpoint is in the table alone: fjall would start with what it finds there.
#[test]
fn a_folder_whose_table_lacks_something_is_named_and_not_started() {
    let cut = |path: &Path| {
        fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(40)).expect("it is there");
    };
    let remove = |path: &Path| fs::remove_file(path).expect("it was there");
    let harms: [(&str, Harm<'_>); 4] = [
        ("table/0.jnl", &cut),
        ("table/0.jnl", &remove),
        ("table/keyspaces/0/current", &remove),
        ("table/keyspaces/1/current", &remove),
    ];
    for (name, harm) in harms {
        let site = Site::in_folder("--workers 1");
        let server = site.start();
        server.client().call("INCRBY hits 42");
        server.stop();
        site.start().kill();
        let folder = site.data();
        harm(&folder.join(name));
        let before = files(&folder);
        let serve = ["serve", "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        for (args, words) in [
            (&serve[..], "quipu repair"),
            (&["repair"], "cannot be repaired"),
            (&["repair", "--yes"], "cannot be repaired"),
        ] {
            let refused = quipu(args, &folder);
            let said = text(&refused);
            assert!(
                !refused.status.success() && said.contains(name) && said.contains(words),
                "{name}: {said}"
            );
            assert_eq!(files(&folder), before, "{name}: nothing was changed");
        }
    }
}
