//! What a folder remembers of itself and of others.

use super::*;
use crate::config::{Origin, Settings, settings};
use quipu_storage::embedded::{Embedded, LogConfig};
use tempfile::TempDir;

/// A configuration with these settings, on this folder.
fn config(folder: &TempDir, given: &[(&settings::Known, &str)]) -> Config {
    let mut settings = Settings::default();
    settings.give(&settings::DATA, folder.path().to_string_lossy(), Origin::Flag);
    for (known, text) in given {
        settings.give(known, *text, Origin::Flag);
    }
    Config::new(&settings).expect("good")
}

fn open(folder: &TempDir, given: &[(&settings::Known, &str)]) -> Result<Folder, FolderError> {
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("a store");
    let config = config(folder, given);
    let opened = Folder::open(embedded.table(), &config, None)?;
    opened.council(&config)?;
    Ok(opened)
}

fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

#[test]
fn a_new_folder_is_what_it_was_told_and_stays_it() {
    let folder = TempDir::new().expect("a folder");
    let given: &[(&settings::Known, &str)] = &[
        (&settings::SITE, "2"),
        (&settings::PEERS, "3@a:1,1@b:1"),
        (&settings::CLUSTER, "eu"),
        (&settings::SHARDS, "8"),
    ];
    let first = open(&folder, given).expect("new");
    let Identity { cluster, shards, site: own, instance, run, earlier } = first.identity.clone();
    assert_eq!(earlier, []);
    assert_eq!((cluster.as_str(), shards, own, run.number), ("eu", 8, site(2), 1));
    let council = first.council(&config(&folder, given)).expect("it begins");
    assert_eq!(council.membership().members, [site(1), site(2), site(3)].into());
    assert!(!council.is_alone());
    drop(first);
    // Without flags, and with them.
    let mut runs = vec![run];
    for (given, number) in [(&[][..], 2), (given, 3)] {
        let again = open(&folder, given).expect("known");
        let Identity { run: later, .. } = again.identity;
        let earlier = runs.clone();
        assert_eq!(
            again.identity,
            Identity { run: later, cluster: "eu".into(), shards, site: own, instance, earlier }
        );
        runs.push(later);
        assert_eq!((later.number, later.nonce == run.nonce), (number, false));
        assert_eq!(again.council(&config(&folder, given)).expect("known").membership().members.len(), 3);
    }
}

#[test]
fn the_lowest_founder_draws_the_id_of_the_cluster_and_others_take_it_over() {
    let given =
        |site: &'static str, peers: &'static str| [(&settings::SITE, site), (&settings::PEERS, peers)];
    let folder = TempDir::new().expect("a folder");
    let drawn = open(&folder, &given("1", "2@a:1")).expect("new").cluster_id().expect("readable");
    assert!(drawn.is_some());
    assert_eq!(open(&folder, &[]).expect("known").cluster_id().expect("readable"), drawn);
    let other = TempDir::new().expect("a folder");
    let alone = open(&other, &[]).expect("new").cluster_id().expect("readable");
    assert!(alone.is_some() && alone != drawn, "each cluster has its own");

    let folder = TempDir::new().expect("a folder");
    let second = open(&folder, &given("2", "1@a:1")).expect("new");
    assert_eq!(second.cluster_id().expect("readable"), None);
    second.store_cluster_id(ClusterId([7; 16])).expect("stored");
    drop(second);
    let again = open(&folder, &[]).expect("known");
    assert_eq!(again.cluster_id().expect("readable"), Some(ClusterId([7; 16])));
    let newcomer = TempDir::new().expect("a folder");
    let newcomer = open(&newcomer, &[(&settings::SITE, "1"), (&settings::JOIN, "2@a:1")]).expect("new");
    assert_eq!(newcomer.cluster_id().expect("readable"), None, "it joins one that has an id");
}

#[test]
fn by_default_a_site_is_alone() {
    let folder = TempDir::new().expect("a folder");
    let opened = open(&folder, &[]).expect("new");
    assert_eq!((opened.identity.site, opened.identity.cluster.as_str()), (SiteId::FIRST, "quipu"));
    assert!(opened.council(&config(&folder, &[])).expect("it begins").is_alone());
}

#[test]
fn a_folder_from_before_there_were_sites_becomes_the_first() {
    #[derive(Encode)]
    struct Before {
        #[n(0)]
        shards: u16,
    }
    let folder = TempDir::new().expect("a folder");
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("a store");
    write(&embedded.table(), IDENTITY, 1, Before { shards: 16 }).expect("written");
    drop(embedded);
    let error = open(&folder, &[(&settings::SITE, "2")]).expect_err("it is site 1");
    assert!(error.to_string().contains("folder of site 1, and --site says 2"), "{error}");
    let first = open(&folder, &[]).expect("known").identity;
    assert_eq!((first.site, first.cluster.as_str(), first.shards), (SiteId::FIRST, "quipu", 16));
    assert_eq!(open(&folder, &[]).expect("known").identity.instance, first.instance);
}

#[test]
fn flags_that_contradict_the_folder_are_refused_with_what_to_do() {
    let folder = TempDir::new().expect("a folder");
    let given: &[(&settings::Known, &str)] =
        &[(&settings::SITE, "2"), (&settings::PEERS, "1@a:1"), (&settings::SHARDS, "8")];
    drop(open(&folder, given).expect("new"));
    for (known, value, parts) in [
        (&settings::SITE, "3", ["folder of site 2, and --site says 3", "use another --data"]),
        (&settings::CLUSTER, "eu", ["cluster \"quipu\", and --cluster says \"eu\"", "use another --data"]),
        (&settings::SHARDS, "16", ["8 shards, and --shards says 16", "use another --data"]),
        (&settings::PEERS, "1@a:1,4@b:1", ["names site 4", "`quipu site add`"]),
        (&settings::PEERS, "1@a:1,2@b:1", ["names site 2, which is this site itself", "leave it out"]),
    ] {
        let text = open(&folder, &[(known, value)]).expect_err("refused").to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let fresh = TempDir::new().expect("a folder");
    let error = open(&fresh, &[(&settings::PEERS, "1@a:1")]).expect_err("it is site 1 itself");
    assert!(matches!(error, FolderError::OwnPeer { own: 1 }), "{error}");
    assert!(open(&fresh, &[(&settings::SITE, "7")]).is_ok(), "nothing was written");
}

#[test]
fn peers_and_the_council_are_remembered() {
    let folder = TempDir::new().expect("a folder");
    let seen = |number| Seen {
        instance: Instance([7; 16]),
        run: Run { number, nonce: number },
        contested: number > 2,
    };
    let opened = open(&folder, &[]).expect("new");
    assert_eq!(opened.seen(site(2)).expect("readable"), None);
    for number in [1, 1, 2, 3] {
        opened.remember(site(2), seen(number)).expect("stored");
    }
    opened.remember(SiteId { number: 2, incarnation: 1 }, seen(9)).expect("stored");
    let council = Council::newcomer(SiteId::FIRST).encode();
    for bytes in [b"one".to_vec(), council.clone()] {
        opened.store_council(bytes).expect("stored");
    }
    drop(opened);
    let again = open(&folder, &[]).expect("known");
    assert_eq!(again.seen(site(2)).expect("readable"), Some(seen(3)));
    assert_eq!(again.seen(site(3)).expect("readable"), None);
    assert_eq!(again.load_council().expect("readable"), Some(council));
}

#[test]
fn nothing_is_served_from_a_folder_whose_restore_was_interrupted() {
    let folder = TempDir::new().expect("a folder");
    let first = open(&folder, &[]).expect("new").identity;
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("a store");
    let error = Plan::begin(embedded.table(), Some(0)).err().expect("incarnations grow");
    assert!(matches!(error, FolderError::OldIncarnation { asked: 0, .. }), "{error}");
    Plan::begin(embedded.table(), None).expect("begun");
    drop(embedded);
    let error = open(&folder, &[]).expect_err("parts of it may have the new id").to_string();
    assert!(error.contains("1.1 was interrupted") && error.contains("run `quipu restore`"), "{error}");
    // Said again, it goes on; whatever incarnation is asked for.
    let restored = crate::restore(folder.path(), Some(7)).expect("restored");
    let new = SiteId { number: 1, incarnation: 1 };
    assert_eq!((restored.old, restored.new, restored.is_alone), (SiteId::FIRST, new, true));
    let again = open(&folder, &[]).expect("it is served");
    assert_eq!((again.identity.site, again.identity.shards), (new, first.shards));
    assert_ne!(again.identity.instance, first.instance);
    let membership = again.council(&config(&folder, &[])).expect("known").membership();
    assert_eq!(membership.members, [new].into());
    assert_eq!(membership.removed, [(SiteId::FIRST, new)].into());
}

#[test]
fn an_empty_folder_that_joins_knows_whom_to_ask_and_is_no_member() {
    let folder = TempDir::new().expect("a folder");
    let given: &[(&settings::Known, &str)] = &[(&settings::SITE, "4"), (&settings::JOIN, "1@a:1")];
    let opened = open(&folder, given).expect("new");
    for given in [given, &[]] {
        let council = opened.council(&config(&folder, given)).expect("it begins");
        assert!(!council.is_alone());
        let membership = council.membership();
        assert_eq!((membership.epoch, membership.joining), (0, [site(4)].into()));
    }
}

#[test]
fn a_relay_draws_its_name_once_and_every_start_is_another_opening() {
    let folder = TempDir::new().expect("a folder");
    let given: &[(&settings::Known, &str)] = &[(&settings::TIER, "1"), (&settings::PARENTS, "a:1")];
    let first = open(&folder, given).expect("new");
    let name = first.relay().expect("it is a relay");
    assert_eq!((name.site(), first.identity.run.number), (None, 1));
    assert!(!first.is_retiring().expect("readable"));
    first.store_retiring().expect("stored");
    drop(first);
    let again = open(&folder, given).expect("known");
    assert_eq!((again.relay(), again.identity.run.number), (Some(name), 2));
    assert!(again.is_retiring().expect("readable"));
    drop(again);
    assert!(matches!(open(&folder, &[]), Err(FolderError::IsRelay)));
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("a store");
    assert!(matches!(Plan::begin(embedded.table(), None), Err(FolderError::RelayCopy)));

    let other = TempDir::new().expect("a folder");
    assert_ne!(open(&other, given).expect("new").relay(), Some(name));
    let site = TempDir::new().expect("a folder");
    assert_eq!(open(&site, &[]).expect("new").relay(), None);
    assert!(matches!(open(&site, given), Err(FolderError::IsSite { site: SiteId::FIRST })));
}

#[test]
fn a_folder_that_is_an_old_copy_stays_one_until_it_was_restored() {
    let folder = TempDir::new().expect("a folder");
    let opened = open(&folder, &[]).expect("new");
    assert_eq!(opened.old_copy().expect("readable"), None);
    opened.store_old_copy("it is old; run `quipu restore`").expect("stored");
    drop(opened);
    let again = open(&folder, &[]).expect("known").old_copy().expect("readable");
    assert_eq!(again.as_deref(), Some("it is old; run `quipu restore`"));
    let embedded = Embedded::open(folder.path(), LogConfig::default()).expect("a store");
    let plan = Plan::begin(embedded.table(), None).expect("a copy");
    plan.finish(&plan.council.restored(plan.new).expect("a council")).expect("stored");
    drop((plan, embedded));
    assert_eq!(open(&folder, &[]).expect("restored").old_copy().expect("readable"), None);
}
