//! Old copies of a site's folder that were started: nothing differs in the end, and nothing that they have acknowledged
//! is lost without a word.

use std::{fs, path::PathBuf};

use crate::{
    cluster::{Cluster, wait},
    harness::Cable,
    members::{quipu, site_command, takes_writes},
};

/// Two sites. Site 2 has counted 5 when its folder is copied, and 8 more after that; then it is lost, and the copy takes
/// its place, cut off.
fn with_old_copy() -> Cluster {
    let mut cluster = Cluster::start(2, "");
    cluster.client(2).call("INCRBY hits 5");
    cluster.agree("hits", 5);
    let old = cluster.copy_folder(2);
    cluster.client(2).call("INCRBY hits 5");
    cluster.client(2).call("INCRBY other 3");
    cluster.agree("hits", 10);
    cluster.agree("other", 3);
    cluster.put_back(2, &old);
    cluster.set(1, 2, Cable::Cut);
    cluster
}

/// Restores site 2's folder. Returns where it says that the rest is.
fn restore(cluster: &mut Cluster) -> PathBuf {
    let data = cluster.sites[&2].data();
    let output = quipu(&format!("restore --data {}", data.display()));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    cluster.start_site(2);
    site_command(cluster, 1, "restore 2.1 --wait 30").expect("in the place of site 2");
    wait("site 2.1 takes writes", || takes_writes(cluster, 2, "new"));
    let file = data.join("uncounted-2.1.jsonl");
    assert!(said.contains(&format!("quipu import {}", file.display())), "{said}");
    file
}

fn import(cluster: &Cluster, at: u16, file: &str) -> String {
    let output = quipu(&format!("import {file} --server http://{}", cluster.running(at).http));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn what_an_old_copy_has_acknowledged_is_imported_once_and_nothing_differs() {
    let mut cluster = with_old_copy();
    cluster.start_site(2);
    for id in 0..20 {
        cluster.client(2).call(&format!("INCR x IDMP web {id}"));
    }
    assert_eq!(cluster.client(2).call("INCRBY hits 100").integer(), 105);
    cluster.set(1, 2, Cable::Whole);
    cluster.wait_for_info(2, "counting:no,site 2 runs from an old copy of its folder");
    cluster.take(2).stop();
    // Started once more, it knows, though nobody can tell it.
    cluster.set(1, 2, Cable::Cut);
    cluster.start_site(2);
    let refused = cluster.client(2).call("INCR x").text();
    assert!(refused.starts_with("OLDCOPY") && refused.contains("quipu restore"), "{refused}");
    cluster.take(2).stop();
    cluster.set(1, 2, Cable::Whole);
    // Tried again where it is not known.
    cluster.client(1).call("INCR x IDMP web 7");
    let file = restore(&mut cluster);
    cluster.agree("x", 1);
    cluster.agree("hits", 10);
    cluster.agree("other", 3);
    let again = file.with_file_name("again.jsonl");
    fs::copy(&file, &again).expect("copied");
    // Of a host whose clock is far ahead.
    let ahead = file.with_file_name("ahead.jsonl");
    let text = fs::read_to_string(&file).expect("text");
    let begun = r#"{"begun":"0fffffff-ffff-7000-8000-000000000000","#;
    fs::write(&ahead, text.replacen('{', begun, 1)).expect("written");
    let output = quipu(&format!("import {} --server http://{}", ahead.display(), cluster.running(1).http));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("in the future, by this server's clock"), "{said}");
    cluster.agree("x", 1);
    let said = import(&cluster, 1, &file.display().to_string());
    assert!(said.contains("20 amounts now, 1 before"), "{said}");
    cluster.agree("x", 20);
    cluster.agree("hits", 110);
    assert!(!file.exists(), "it was renamed");
    let said = import(&cluster, 1, &again.display().to_string());
    assert!(said.contains("0 amounts now, 21 before"), "{said}");
    cluster.agree("x", 20);
    cluster.agree("hits", 110);
    cluster.balance();
}

#[test]
fn a_copy_that_has_counted_more_than_its_original_is_refused() {
    let mut cluster = with_old_copy();
    // Its runs and its stream are ahead of all that site 1 has seen; the run that site 1 has seen is none of them.
    for run in 0..3 {
        cluster.start_site(2);
        for key in 0..100 {
            cluster.client(2).call(&format!("INCR hits{}", key % (run + 1)));
            cluster.client(2).call("INCR hits");
        }
        cluster.take(2).stop();
    }
    cluster.set(1, 2, Cable::Whole);
    cluster.start_site(2);
    cluster.wait_for_info(2, "counting:no,there is a copy of the folder of site 2");
    cluster.take(2).stop();
    let file = restore(&mut cluster);
    cluster.agree("hits", 10);
    cluster.agree("other", 3);
    import(&cluster, 1, &file.display().to_string());
    cluster.agree("hits", 310);
    cluster.agree("hits0", 184);
    cluster.balance();
}
