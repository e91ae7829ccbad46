//! Requests and answers that are lost, repeated and late; servers that change in the middle.

use std::time::Duration;

use quipu_edge::{
    Edge, NotHandedOver, SyncError,
    testing::{Fault, Site},
};
use quipu_storage::testing::Seeded;

use crate::{LONG, in_memory, nobody, options, site};

#[test]
fn what_is_lost_repeated_or_late_is_counted_once() {
    let faults =
        [Fault::LoseRequest, Fault::LoseAnswer, Fault::Repeat, Fault::Delay(Duration::from_millis(700))];
    // Each fault at each step of a handoff.
    for fault in faults {
        for step in 0..3 {
            let site = site();
            let edge = in_memory(&[&site]);
            edge.add("hits", 5).unwrap();
            site.next((0..step).map(|_| Fault::Delay(Duration::ZERO)).chain([fault.clone()]));
            edge.flush(LONG).unwrap_or_else(|open| panic!("{fault:?} at {step}: {open}"));
            assert_eq!(site.value("hits"), 5, "{fault:?} at {step}");
            edge.add("hits", -2).unwrap();
            edge.retire(LONG).unwrap();
            assert_eq!(site.value("hits"), 3, "{fault:?} at {step}");
        }
    }
}

/// Whatever happens to requests, to whom they go, and when the state is opened again.
#[test]
fn storms() {
    for seed in 0..12 {
        storm(seed);
    }
}

fn storm(seed: u64) {
    let mut random = Seeded::new(seed);
    let sites = Site::cluster("tests", 3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let urls: Vec<String> = sites.iter().map(Site::url).collect();
    let open = || options().timeouts(LONG, Duration::from_millis(50)).open(&path, &urls).unwrap();
    let mut edge = open();
    let mut issued = [0_i64; 4];
    for _ in 0..60 {
        match random.below(12) {
            0..5 => {
                let (key, amount) = (random.below(4), random.below(9) as i64 - 3);
                edge.add(format!("key-{key}"), amount).unwrap();
                issued[key] += amount;
            }
            5..8 => drop(edge.sync()),
            8 => edge.use_server(&urls[random.below(3)]).unwrap(),
            9 => {
                drop(edge);
                edge = open();
            }
            10 => {
                let faults = [
                    Fault::LoseRequest,
                    Fault::LoseAnswer,
                    Fault::Repeat,
                    Fault::Delay(Duration::from_millis(80)),
                    Fault::Say(b"nonsense".to_vec()),
                ];
                let site = &sites[random.below(3)];
                site.next((0..3).map(|_| faults[random.below(faults.len())].clone()));
            }
            _ => Site::talk(&sites),
        }
    }
    edge.flush(LONG).unwrap_or_else(|open| panic!("seed {seed}: {open}"));
    while let Err(open) = edge.retire(Duration::from_millis(100)) {
        // Sites hear each other only here: one that has the last words alone does not confirm them.
        assert!(edge.status().unwrap().is_retiring, "seed {seed}: {open}");
        Site::talk(&sites);
    }
    // A request that was late arrives within the time that it was late by.
    std::thread::sleep(Duration::from_millis(100));
    Site::talk(&sites);
    for (key, issued) in issued.iter().enumerate() {
        for site in &sites {
            assert_eq!(site.value(format!("key-{key}")), *issued, "seed {seed}, key {key}");
        }
    }
    for site in &sites {
        let stats = site.stats();
        assert_eq!((stats.cached, stats.notices), (0, 0), "seed {seed}: {stats:?}");
    }
}

#[test]
fn the_next_server_of_the_list_takes_over() {
    let (first, second) = (nobody(), site());
    let edge = options().in_memory([&first, &second.url()]).unwrap();
    edge.add("hits", 1).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(second.value("hits"), 1);
}

#[test]
fn a_handoff_that_was_begun_with_one_server_ends_there_when_it_is_back() {
    let sites = Site::cluster("tests", 2).unwrap();
    let edge = in_memory(&[&sites[0], &sites[1]]);
    edge.add("hits", 4).unwrap();
    // The first has a slot, and the edge a token for it, of which nobody hears.
    edge.sync().unwrap();
    sites[0].always(Some(Fault::LoseRequest));
    edge.add("hits", 3).unwrap();
    let open: NotHandedOver = edge.flush(Duration::from_secs(3)).unwrap_err();
    assert_eq!((open.waiting, open.in_flight.len(), open.in_flight[0].counters), (0, 1, 1), "{open}");
    assert_eq!(open.in_flight[0].address, Some(sites[0].url()));
    let text = open.to_string();
    assert!(text.contains("1 counter waits for site 1"), "{text}");
    assert!(text.contains("nothing is lost"), "{text}");
    assert_eq!((sites[0].value("hits"), sites[1].value("hits")), (0, 3));
    sites[0].always(None);
    edge.flush(LONG).unwrap();
    assert_eq!((sites[0].value("hits"), sites[1].value("hits")), (4, 3), "before they have met");
    Site::talk(&sites);
    assert_eq!((sites[0].value("hits"), sites[1].value("hits")), (7, 7));
}

#[test]
fn slots_that_will_not_be_used_are_closed_also_after_a_restart() {
    let sites = Site::cluster("tests", 2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let edge = options().open(&path, sites.iter().map(Site::url)).unwrap();
    edge.add("hits", 4).unwrap();
    // The first opens a slot, and nobody hears of it. So the edge goes on with the second.
    sites[0].next(std::iter::once(Fault::LoseAnswer).chain(vec![Fault::LoseRequest; 100]));
    drop(edge.flush(Duration::from_secs(2)));
    assert_eq!((sites[1].value("hits"), sites[0].stats().slots), (4, 1));
    drop(edge);
    sites[0].always(None);
    let edge = options().open(&path, sites.iter().rev().map(Site::url)).unwrap();
    edge.flush(LONG).unwrap();
    assert_eq!(sites[0].stats().slots, 0);
}

#[test]
fn a_deadline_is_kept_although_a_server_is_silent() {
    let site = site();
    let edge = Edge::options().only_when_asked().in_memory([site.url()]).unwrap();
    edge.add("hits", 4).unwrap();
    site.always(Some(Fault::Delay(Duration::from_secs(3))));
    let began = std::time::Instant::now();
    edge.flush(Duration::from_millis(200)).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn an_edge_retires_when_a_second_site_has_its_last_words() {
    let sites = Site::cluster("tests", 2).unwrap();
    let edge = in_memory(&[&sites[0], &sites[1]]);
    edge.add("hits", 4).unwrap();
    edge.sync().unwrap();
    sites[0].always(Some(Fault::LoseRequest));
    edge.add("hits", 3).unwrap();
    let alone = edge.retire(Duration::from_secs(1)).unwrap_err();
    assert_eq!(sites[0].stats().slots, 1, "it does not know yet");
    assert!(alone.to_string().contains("1 counter waits for site 1"), "{alone}");
    Site::talk(&sites);
    edge.retire(LONG).unwrap();
    drop(edge);
    sites[0].always(None);
    Site::talk(&sites);
    for site in &sites {
        assert_eq!(site.value("hits"), 7);
        let stats = site.stats();
        assert_eq!((stats.slots, stats.cached, stats.notices), (0, 0, 0), "{stats:?}");
    }
}

#[test]
fn a_state_stays_until_a_second_site_knows_what_it_has_handed_over() {
    let sites = Site::cluster("tests", 2).unwrap();
    Site::talk(&sites);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let edge = options().open(&path, [sites[0].url()]).unwrap();
    edge.add("hits", 4).unwrap();
    // The second site is away.
    let alone = edge.retire(Duration::from_secs(1)).unwrap_err();
    assert_eq!(sites[0].value("hits"), 4);
    assert!(alone.to_string().contains("no second site"), "{alone}");
    drop(edge);
    let edge = options().open(&path, [sites[0].url()]).unwrap();
    assert!(edge.status().unwrap().is_retiring);
    edge.retire(Duration::from_millis(100)).unwrap_err();
    Site::talk(&sites);
    edge.retire(LONG).unwrap();
    assert!(!path.exists());
    assert_eq!((sites[0].value("hits"), sites[1].value("hits")), (4, 4));
}

#[test]
fn an_edge_that_has_not_retired_in_time_goes_on() {
    let site = site();
    let edge = in_memory(&[&site]);
    edge.add("hits", 4).unwrap();
    site.always(Some(Fault::LoseRequest));
    let failed = edge.retire(Duration::from_millis(50)).unwrap_err();
    assert!(failed.to_string().contains("1 counter waits to be handed over"), "{failed}");
    assert!(failed.to_string().contains("cannot be reached"), "{failed}");
    edge.add("hits", 1).unwrap();
    site.always(None);
    edge.retire(LONG).unwrap();
    assert_eq!(site.value("hits"), 5);
    assert!(edge.add("hits", 1).unwrap_err().to_string().contains("closed"));
    assert!(edge.status().is_none());
}

#[test]
fn without_a_server_nothing_is_lost_and_it_is_said() {
    let edge = options().in_memory::<&str>([]).unwrap();
    edge.add("hits", 1).unwrap();
    assert!(matches!(edge.sync(), Err(SyncError::NoServers)));
    let open = edge.flush(LONG).unwrap_err();
    assert!(open.to_string().contains("no server was named"), "{open}");
    let edge = options().in_memory([nobody()]).unwrap();
    edge.add("hits", 1).unwrap();
    let why = edge.sync().unwrap_err();
    assert!(matches!(why, SyncError::Unreachable { .. }), "{why}");
    assert!(why.to_string().contains("all counts are kept here"), "{why}");
    assert_eq!(edge.status().unwrap().waiting, 1);
}

#[test]
fn it_hands_over_by_itself_and_then_is_silent() {
    let site = site();
    let edge = Edge::options().sync_every(Duration::from_millis(20)).in_memory([site.url()]).unwrap();
    edge.add("hits", 5).unwrap();
    wait_for(|| site.value("hits") == 5);
    wait_for(|| edge.status().unwrap().in_flight.is_empty());
    let before = site.requests();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(site.requests(), before, "an edge that has nothing to say says nothing");
    edge.add("hits", 1).unwrap();
    wait_for(|| site.value("hits") == 6);
}

#[test]
fn failures_are_followed_by_waits_that_grow() {
    let site = site();
    site.always(Some(Fault::LoseRequest));
    let wait = (Duration::from_millis(100), Duration::from_secs(5));
    let edge = Edge::options().sync_every(Duration::from_millis(1)).back_off(wait.0, wait.1);
    let edge = edge.in_memory([site.url()]).unwrap();
    edge.add("hits", 5).unwrap();
    std::thread::sleep(Duration::from_millis(1_000));
    // At once, then after at least 50, 100, 200, 400 ms; the connection may be tried twice each time.
    assert!((2..=12).contains(&site.requests()), "{}", site.requests());
    site.always(None);
    edge.flush(LONG).unwrap();
    assert_eq!(site.value("hits"), 5);
}

#[track_caller]
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come to that");
}
