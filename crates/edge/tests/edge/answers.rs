//! Servers of other clusters, servers that answer nonsense, servers that refuse.

use std::time::Duration;

use quipu_edge::{
    SyncError,
    testing::{Fault, Garble, Site},
};
use quipu_engine::handoff::exchange::EXCHANGE_MESSAGE_BYTES_MAX;

use crate::{LONG, in_memory, options, site};

#[test]
fn a_server_of_another_cluster_is_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let (ours, other) = (Site::start("ours").unwrap(), Site::start("theirs").unwrap());
    let edge = options().open(&path, [ours.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(edge.status().unwrap().cluster.as_deref(), Some("ours"));
    drop(edge);
    // It is remembered.
    let edge = options().open(&path, [other.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    let refused = edge.sync().unwrap_err().to_string();
    assert!(refused.contains("\"ours\"") || refused.contains("cluster ours"), "{refused}");
    assert_eq!((other.value("hits"), other.stats().slots), (0, 0));
    let status = edge.status().unwrap();
    assert_eq!((status.waiting, status.cluster.as_deref()), (1, Some("ours")));
    // The right one of two is found.
    edge.use_server(&ours.url()).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(ours.value("hits"), 2);
}

#[test]
fn a_server_that_lies_about_its_cluster_is_found_out() {
    let site = site();
    let edge = in_memory(&[&site]);
    edge.add("hits", 1).unwrap();
    site.next([Fault::Garble(Garble::Cluster)]);
    let refused = edge.sync().unwrap_err();
    assert!(matches!(&refused, SyncError::OtherCluster { ours, .. } if ours == "tests"), "{refused}");
    assert!(refused.to_string().contains("all counts are kept here"), "{refused}");
    edge.flush(LONG).unwrap();
    assert_eq!(site.value("hits"), 1);
}

#[test]
fn a_cluster_of_the_same_name_is_told_from_the_edges_own_by_its_id() {
    let [ours, same, other] = [site(), site(), site()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    // At first nobody knows the id; then it is told, and remembered.
    let edge = options().open(&path, [ours.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    edge.flush(LONG).unwrap();
    ours.know_cluster_id(1);
    other.know_cluster_id(2);
    edge.add("hits", 1).unwrap();
    edge.flush(LONG).unwrap();
    edge.sync().unwrap();
    drop(edge);
    let edge = options().open(&path, [other.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    let refused = edge.sync().unwrap_err();
    assert!(
        refused.to_string().contains("tests/0101") && refused.to_string().contains("tests/0202"),
        "{refused}"
    );
    assert_eq!((other.value("hits"), edge.status().unwrap().waiting), (0, 1));
    // One that does not know it is taken at its name.
    edge.use_server(&same.url()).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!((ours.value("hits"), same.value("hits"), other.value("hits")), (2, 1, 0));
}

#[test]
fn what_was_handed_to_an_older_incarnation_is_in_doubt_and_said() {
    let site = site();
    let edge = in_memory(&[&site]);
    edge.add("hits", 5).unwrap();
    edge.sync().unwrap(); // The slot has come, and a token is made for it.
    site.lose_disk().unwrap();
    edge.add("hits", 2).unwrap();
    let open = edge.flush(Duration::from_secs(2)).unwrap_err();
    assert_eq!((open.waiting, open.in_flight.len()), (0, 1), "{open}");
    assert!(open.to_string().contains("1 counter waits for site 1 "), "{open}");
    assert_eq!(site.value("hits"), 2, "neither counted nor dropped");
    assert_eq!(edge.status().unwrap().in_flight[0].counters, 1);
}

#[test]
fn nonsense_changes_nothing() {
    let whole = vec![0x81; 64];
    let nonsense = [
        Fault::Say(Vec::new()),
        Fault::Say(b"hello".to_vec()),
        Fault::Say(whole),
        Fault::Say(vec![1; EXCHANGE_MESSAGE_BYTES_MAX + 1]),
        Fault::Fail(500, "<html>oops</html>".to_owned()),
        Fault::Fail(404, String::new()),
        Fault::Fail(302, "{}".to_owned()),
        Fault::Garble(Garble::Server),
        Fault::Garble(Garble::Shards),
        Fault::Garble(Garble::Views),
    ];
    for fault in nonsense {
        let site = site();
        let edge = in_memory(&[&site]);
        for key in ["a", "b", "c"] {
            edge.add(key, 7).unwrap();
        }
        for _ in 0..3 {
            site.next([fault.clone()]);
            let said = edge.sync().unwrap_err();
            assert!(matches!(said, SyncError::Nonsense { .. }), "{fault:?}: {said}");
            assert!(said.to_string().contains("all counts are kept here"), "{said}");
            assert_eq!(edge.status().unwrap().waiting, 3, "{fault:?}");
        }
        edge.flush(LONG).unwrap_or_else(|open| panic!("{fault:?}: {open}"));
        for key in ["a", "b", "c"] {
            assert_eq!(site.value(key), 7, "{fault:?}");
        }
        edge.retire(LONG).unwrap();
    }
}

#[test]
fn a_server_that_says_why_is_quoted() {
    let site = site();
    let edge = in_memory(&[&site]);
    edge.add("hits", 1).unwrap();
    site.next([Fault::Fail(503, r#"{"detail":"the disk is full; nothing was handed over"}"#.to_owned())]);
    let refused = edge.sync().unwrap_err();
    assert!(matches!(refused, SyncError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
    edge.flush(LONG).unwrap();
}

/// Bytes that are nearly an answer.
#[test]
fn answers_with_a_wrong_byte_never_lose_a_count() {
    let site = site();
    let edge = in_memory(&[&site]);
    let mut random = quipu_storage::testing::Seeded::new(7);
    let mut added = 0;
    for _ in 0..150 {
        edge.add("hits", 1).unwrap();
        added += 1;
        let mut bytes = vec![1, 0x83];
        bytes.extend((0..random.below(80)).map(|_| random.next_u64().to_le_bytes()[0]));
        site.next([Fault::Say(bytes)]);
        drop(edge.sync());
    }
    site.next([]);
    edge.flush(LONG).unwrap();
    assert_eq!(site.value("hits"), added);
}
