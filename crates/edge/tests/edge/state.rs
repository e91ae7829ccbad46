//! The state: crashes, copies, two at once, full disks, the limit of counters.

use std::{fs, io::ErrorKind, time::Duration};

use quipu_edge::{
    CountError, Edge, OpenError, SyncError,
    testing::{Fault, Site},
};
use quipu_storage::{
    StorageError,
    testing::sim_disk::{Fate, Operation, SimDisk},
};

use crate::{LONG, in_memory, options, site};

#[test]
fn a_crash_at_any_point_of_a_handoff_loses_and_doubles_nothing() {
    for syncs in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let site = site();
        let mut issued = 0;
        for life in 1..=3 {
            let edge = options().open(&path, [site.url()]).unwrap();
            edge.add("hits", life).unwrap();
            issued += life;
            (0..syncs).for_each(|_| edge.sync().unwrap());
        } // Dropped without a word.
        let edge = options().open(&path, [site.url()]).unwrap();
        edge.flush(LONG).unwrap();
        assert_eq!(site.value("hits"), issued, "{syncs} exchanges");
        edge.retire(LONG).unwrap();
        assert!(!path.exists());
        assert_eq!(site.stats().slots, 0);
    }
}

#[test]
fn power_failures_too() {
    for syncs in 0..4 {
        for fate in Fate::ALL {
            let (disk, site) = (SimDisk::new(), site());
            let mut issued = 0;
            for life in 1..=3 {
                let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
                edge.add("hits", life).unwrap();
                issued += life;
                (0..syncs).for_each(|_| edge.sync().unwrap());
                drop(edge);
                disk.power_cycle(0, || fate);
            }
            let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
            edge.flush(LONG).unwrap();
            assert_eq!(site.value("hits"), issued, "{syncs} exchanges, {fate:?}");
        }
    }
}

#[test]
fn a_state_that_is_open_is_refused_and_an_edge_that_was_dropped_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let open = || options().open::<&str>(&path, []);
    let edge = open().unwrap();
    let refused = open().unwrap_err();
    assert!(matches!(refused, OpenError::Storage(StorageError::Locked { .. })), "{refused}");
    assert!(refused.to_string().contains("in use"), "{refused}");
    drop(edge);
    open().unwrap();
    assert!(matches!(options().open(&path, ["nonsense"]), Err(OpenError::Address(_))));
    fs::write(&path, "something else").unwrap();
    assert!(open().unwrap_err().to_string().contains("no state file"));
}

#[test]
fn a_copy_is_refused_where_the_original_has_a_slot_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("state"), folder.path().join("copy"));
    let site = site();
    let edge = options().open(&path, [site.url()]).unwrap();
    edge.add("hits", 5).unwrap();
    fs::copy(&path, &copy).unwrap();
    // The original, which was opened once more than the copy, begins a handoff.
    edge.sync().unwrap();
    drop(edge);
    let edge = options().open(&path, [site.url()]).unwrap();
    edge.add("more", 1).unwrap();
    site.always(Some(Fault::LoseAnswer));
    assert!(edge.sync().is_err());
    site.always(None);
    let twin = options().open(&copy, [site.url()]).unwrap();
    let noticed = twin.sync().unwrap_err();
    assert!(matches!(noticed, SyncError::Copy { .. }), "{noticed}");
    assert!(noticed.to_string().contains("two use the state of the edge"), "{noticed}");
    // It stays refused, and flushing says it at once.
    let before = site.requests();
    let open = twin.flush(LONG).unwrap_err();
    assert!(open.to_string().contains("used twice"), "{open}");
    assert_eq!(site.requests(), before);
    edge.flush(LONG).unwrap();
    assert_eq!((site.value("hits"), site.value("more")), (5, 1));
    // The file remembers it: nobody is asked again, whoever opens it.
    drop(twin);
    let twin = options().open(&copy, [site.url()]).unwrap();
    let before = site.requests();
    let remembered = twin.sync().unwrap_err();
    assert!(matches!(remembered, SyncError::KnownCopy { .. }), "{remembered}");
    assert!(remembered.to_string().contains("two use the state of the edge"), "{remembered}");
    assert!(twin.status().unwrap().copy.is_some());
    assert!(twin.retire(LONG).unwrap_err().to_string().contains("two use the state of the edge"));
    assert_eq!((site.requests(), site.value("hits")), (before, 5));
    assert!(copy.exists());
    // Until somebody says that it is the original.
    drop(twin);
    let twin = options().original().open(&copy, [site.url()]).unwrap();
    twin.sync().unwrap();
    assert!(site.requests() > before && twin.status().unwrap().copy.is_none());
}

/// It is not the chosen server that notices the copy, but one with which a handoff is open.
#[test]
fn a_copy_that_another_server_notices_hands_over_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("state"), folder.path().join("copy"));
    let sites = Site::cluster("shop", 2).unwrap();
    let (chosen, other) = (&sites[0], &sites[1]);
    let edge = options().open(&path, [other.url()]).unwrap();
    edge.add("hits", 5).unwrap();
    // The other server gives the edge a slot: there is a token for it.
    edge.sync().unwrap();
    drop(edge);
    fs::copy(&path, &copy).unwrap();
    // The original takes the token there, begins another handoff, and does not hear the answer.
    let edge = options().open(&path, [other.url()]).unwrap();
    edge.flush(LONG).unwrap();
    edge.add("{hits}:more", 1).unwrap();
    other.always(Some(Fault::LoseAnswer));
    assert!(edge.sync().is_err());
    other.always(None);
    let twin = options().open(&copy, [chosen.url(), other.url()]).unwrap();
    let noticed = twin.sync().unwrap_err();
    assert!(matches!(noticed, SyncError::Copy { .. }), "{noticed}");
    let before = (chosen.requests(), other.requests());
    assert!(twin.sync().is_err());
    assert_eq!((chosen.requests(), other.requests()), before);
    drop(twin);
    let twin = options().open(&copy, [chosen.url(), other.url()]).unwrap();
    let remembered = twin.sync().unwrap_err();
    assert!(matches!(remembered, SyncError::KnownCopy { .. }), "{remembered}");
    assert_eq!((chosen.requests(), other.requests()), before);
}

/// Damage of any kind is refused with words that do not advise to put an old copy in the place of the file.
#[test]
fn a_damaged_state_is_not_a_new_edge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let edge = options().open::<&str>(&path, []).unwrap();
    edge.add("hits", 1).unwrap();
    edge.add("hits", 2).unwrap();
    drop(edge);
    let whole = fs::read(&path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut flipped = whole.clone();
    flipped[used - 60] ^= 1;
    for damaged in [&whole[..0], &whole[..64], &whole[..used - 60], &flipped[..]] {
        fs::write(&path, damaged).unwrap();
        let refused = options().open::<&str>(&path, []).unwrap_err().to_string();
        assert!(refused.contains("quipu repair --state") && !refused.contains("from a copy"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was changed");
    }
    // What can be read can be had, and is not handed over before somebody says that it may be.
    let damage = quipu_edge::repair(&path).unwrap().expect("damaged");
    assert!(damage.bytes_lost > 0, "{damage:?}");
    assert!(quipu_edge::repair(&path).unwrap().is_none());
    let site = site();
    let edge = options().open(&path, [site.url()]).unwrap();
    assert_eq!(edge.value("hits").unwrap().value, 1);
    assert!(matches!(edge.sync(), Err(SyncError::KnownCopy { .. })));
    drop(edge);
    let edge = options().original().open(&path, [site.url()]).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(site.value("hits"), 1);
}

/// All keys are asked for, however many belong to one shard and how few to another.
#[test]
fn every_counter_is_asked_for_in_turn() {
    let site = site();
    let edge = in_memory(&[&site]);
    let many = |at: usize| format!("{{tag}}{at:04}-{}", "k".repeat(400));
    let few = |at: usize| format!("{at}");
    let keys: Vec<String> = (0..600).map(many).chain((0..600).map(few)).collect();
    keys.iter().for_each(|key| site.add(key, 1));
    keys.iter().for_each(|key| _ = edge.value(key).unwrap());
    for _ in 0..20 {
        edge.sync().unwrap();
    }
    let unheard = keys.iter().filter(|key| edge.value(key).unwrap().heard.is_none()).count();
    assert_eq!(unheard, 0, "of {}", keys.len());
}

/// What no server has told of does not wait until all others were asked for again.
#[test]
fn a_new_counter_is_asked_for_first() {
    let site = site();
    let edge = in_memory(&[&site]);
    let key = |at: usize| format!("{{tag}}{at:04}-{}", "k".repeat(400));
    let is_unheard = |at: &usize| edge.value(key(*at)).unwrap().heard.is_none();
    (0..2_000).for_each(|at| site.add(key(at), 1));
    (0..1_999).for_each(|at| _ = is_unheard(&at));
    let syncs = (1..100).find(|_| {
        edge.sync().unwrap();
        (0..1_999).filter(is_unheard).count() == 0
    });
    assert!(syncs > Some(4), "{syncs:?}");
    assert!(is_unheard(&1_999));
    edge.sync().unwrap();
    assert!(!is_unheard(&1_999));
}

#[test]
fn on_a_full_disk_nothing_is_counted_and_it_is_said() {
    let (disk, site) = (SimDisk::new(), site());
    let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    let mut counted = 1;
    disk.fail_all(Operation::Reserve, Some(ErrorKind::StorageFull));
    let refused = loop {
        match edge.add("hits", 1) {
            Ok(()) => counted += 1,
            Err(refused) => break refused,
        }
        assert!(counted < 10_000, "the disk is full");
    };
    assert!(matches!(refused, CountError::NotStored(_)), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("nothing was counted") && text.contains("no space left"), "{text}");
    assert!(edge.add("other", 1).is_err());
    assert_eq!(edge.value("hits").unwrap().value, counted);
    // Nothing may be sent that is not stored.
    let unsent = edge.sync().unwrap_err();
    assert!(matches!(unsent, SyncError::NotStored(_)), "{unsent}");
    assert_eq!(site.stats().slots, 0);
    disk.fail_all(Operation::Reserve, None);
    edge.add("hits", 1).unwrap();
    counted += 1;
    edge.flush(LONG).unwrap();
    assert_eq!((site.value("hits"), site.value("other")), (counted, 0));
}

#[test]
fn an_edge_that_cannot_write_down_that_it_retires_goes_on() {
    let (disk, site) = (SimDisk::new(), site());
    let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
    let mut fillers = 0;
    for _ in 0..3 {
        edge.add("hits", 1).unwrap();
        disk.fail_all(Operation::Reserve, Some(ErrorKind::StorageFull));
        // Until nothing fits any more into what is reserved.
        while edge.add("filler", 1).is_ok() {
            fillers += 1;
        }
        let failed = edge.retire(LONG).unwrap_err();
        assert!(failed.to_string().contains("no space left"), "{failed}");
        disk.fail_all(Operation::Reserve, None);
        edge.add("hits", 1).unwrap();
    }
    edge.retire(LONG).unwrap();
    assert_eq!((site.value("hits"), site.value("filler")), (6, fillers));
}

#[test]
fn what_was_read_stays_what_it_was_when_the_disk_is_full() {
    let (disk, site) = (SimDisk::new(), site());
    site.add("hits", 100);
    let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
    edge.value("hits").unwrap();
    edge.add("hits", 5).unwrap();
    // The count is in flight: no server's word includes it.
    edge.sync().unwrap();
    assert_eq!(edge.value("hits").unwrap().value, 105);
    disk.fail_all(Operation::Reserve, Some(ErrorKind::StorageFull));
    let mut counted = 105;
    while edge.add("hits", 1).is_ok() {
        counted += 1;
    }
    assert!(edge.add("hits", 1000).is_err());
    let reading = edge.value("hits").unwrap();
    assert_eq!(reading.value, counted);
    assert!(reading.heard.is_some());
    disk.fail_all(Operation::Reserve, None);
    edge.flush(LONG).unwrap();
    assert_eq!((edge.value("hits").unwrap().value, site.value("hits")), (counted, counted));
}

#[test]
fn a_disk_that_fails_in_the_middle_of_a_handoff_doubles_nothing() {
    for kind in [Operation::Write, Operation::Sync, Operation::Reserve, Operation::Names] {
        let (disk, site) = (SimDisk::new(), site());
        let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
        let mut counted = 0;
        for round in 0..12 {
            if round % 3 == 1 {
                disk.fail_all(kind, Some(ErrorKind::Other));
            }
            // While the disk fails it is not known of some whether they were counted, until it is back.
            let disk_back = disk.clone();
            let healer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                disk_back.fail_all(kind, None);
            });
            if edge.add("hits", 1).is_ok() {
                counted += 1;
            }
            drop(edge.sync());
            healer.join().unwrap();
        }
        edge.flush(LONG).unwrap_or_else(|open| panic!("{kind:?}: {open}"));
        assert_eq!(site.value("hits"), counted, "{kind:?}");
        drop(edge);
        disk.power_cycle(0, || Fate::Lost);
        let edge = options().open_on(disk.clone(), "state", [site.url()]).unwrap();
        edge.retire(LONG).unwrap();
        assert_eq!(site.value("hits"), counted, "{kind:?}");
    }
}

/// While it is not known what is stored, nothing is said to be handed over.
#[test]
fn a_disk_that_fails_ends_neither_flush_nor_retire() {
    let (disk, sites) = (SimDisk::new(), Site::cluster("tests", 2).unwrap());
    Site::talk(&sites);
    let open = || options().open_on(disk.clone(), "state", [sites[0].url()]).unwrap();
    let edge = open();
    edge.add("hits", 3).unwrap();
    edge.sync().unwrap();
    sites[0].always(Some(Fault::LoseRequest));
    let soon = Duration::from_millis(100);
    let fails = |edge: &Edge, retires: bool| {
        disk.fail_all(Operation::Sync, Some(ErrorKind::Other));
        std::thread::scope(|scope| {
            scope.spawn(|| drop(edge.add("more", 1))); // In doubt until the disk is back; or refused.
            for _ in 0..3 {
                let failed = if retires { edge.retire(soon).is_err() } else { edge.flush(soon).is_err() };
                assert!(failed, "retires: {retires}");
            }
            disk.fail_all(Operation::Sync, None);
        });
    };
    fails(&edge, false);
    sites[0].always(None);
    // The second site has not heard of it: the last words are not confirmed.
    while !edge.status().unwrap().is_retiring {
        edge.retire(Duration::from_secs(1)).unwrap_err();
    }
    fails(&edge, true);
    drop(edge);
    let edge = open();
    assert!(edge.status().unwrap().is_retiring, "the state is there");
    Site::talk(&sites);
    edge.retire(LONG).unwrap();
    assert_eq!(sites[0].value("hits"), 3);
}

#[test]
fn more_counters_than_the_limit_are_refused_until_some_are_handed_over() {
    let site = site();
    let edge = options().pending_max(3).in_memory([site.url()]).unwrap();
    for key in ["a", "b", "c", "a"] {
        edge.add(key, 1).unwrap();
    }
    let refused = edge.add("d", 1).unwrap_err();
    assert!(matches!(refused, CountError::Refused(_)), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("3 counters wait to be handed over") && text.contains("nothing was counted"),
        "{text}"
    );
    edge.add("b", 1).unwrap();
    edge.flush(LONG).unwrap();
    edge.add("d", 1).unwrap();
    edge.flush(LONG).unwrap();
    let values: Vec<i64> = ["a", "b", "c", "d"].iter().map(|key| site.value(key)).collect();
    assert_eq!(values, [2, 2, 1, 1]);
}

#[test]
fn a_file_does_not_grow_with_what_was_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let site = site();
    let edge = options().open(&path, [site.url()]).unwrap();
    for round in 0..40 {
        for key in 0..100 {
            edge.asynchronous(); // The handle costs nothing.
            edge.add(format!("counter-{round}-{key}"), 1).unwrap();
        }
        edge.flush(LONG).unwrap();
    }
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes < 2 * 1024 * 1024, "{bytes} bytes");
    drop(edge);
    let edge = options().open(&path, [site.url()]).unwrap();
    assert_eq!(edge.status().unwrap().waiting, 0);
    edge.retire(LONG).unwrap();
    assert_eq!(site.value("counter-39-99"), 1);
}

#[test]
fn keys_and_amounts_that_cannot_be_are_refused() {
    let edge = in_memory(&[]);
    for key in [&b""[..], &[b'k'; 513]] {
        let refused = edge.add(key, 1).unwrap_err();
        assert!(refused.to_string().contains("a key has 1 to 512 bytes"), "{refused}");
        assert!(edge.watch(key).is_err());
    }
    edge.add([0, 255, 10], i64::MAX).unwrap();
    assert!(edge.add([0, 255, 10], 1).is_err());
    assert!(edge.subtract("hits", i64::MIN).is_err());
    edge.subtract("hits", i64::MAX).unwrap();
    assert_eq!(edge.value("hits").unwrap().value, -i64::MAX);
    assert_eq!(edge.status().unwrap().waiting, 2);
}

#[test]
fn a_thousand_short_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for _ in 0..1000 {
        options().open::<&str>(&path, []).unwrap().add("runs", 1).unwrap();
    }
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes < 1024 * 1024, "{bytes} bytes");
    let site: Site = site();
    let edge = options().open(&path, [site.url()]).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(site.value("runs"), 1000);
    assert_eq!(edge.status().unwrap().openings, 1, "those that spoke to nobody are not counted");
}

/// A state of the first format, which later versions must still open.
#[test]
fn an_old_state_is_opened_and_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1.quipu"), &path).unwrap();
    let site = site();
    let edge = options().open(&path, [site.url()]).unwrap();
    let status = edge.status().unwrap();
    assert_eq!(status.name, "c58e755cf698f0981ac6bf721e53d731");
    assert_eq!((status.waiting, status.openings, status.cluster), (2, 0, None));
    edge.retire(LONG).unwrap();
    assert_eq!((site.value("hits"), site.value("stock")), (6, -7));
}
