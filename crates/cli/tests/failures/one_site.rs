//! One of three sites is killed while clients count with ids and fail over (the node failure of the paper on forgetful
//! Bloom filters, section VI-D): every add is counted once, and the answers to the retries say where.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::{
    directory::{Directory, Work},
    harness::{Cable, Client, Cluster, cluster::wait, random::Random},
};

const SITES: u16 = 3;
const CLIENTS: u16 = 6;
/// So many adds are answered between one event and the next.
const ADDS_BETWEEN: usize = 150;
/// One answer in so many is taken for lost, and the add repeated at another site.
const LOST_ONE_IN: u64 = 4;
const AMOUNT_MAX: u64 = 9;
/// An answer that takes longer is taken for lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// The producer of ids that come over HTTP.
const PRODUCER: &str = "http";

pub(crate) fn one_site_of_three_is_killed() {
    let mut random = Random::announced("one site");
    let mut cluster = Cluster::start(SITES, "");
    let directory = Directory::default();
    for number in 1..=SITES {
        directory.enter(number, cluster.running(number));
    }
    for killed in 1..=SITES {
        let key = format!("visits:{killed}");
        let adds = count_while_it_dies(&mut cluster, &directory, killed, &key, &mut random);
        cluster.balance();
        check(&cluster, &key, &adds);
    }
}

/// One add, which is sent until it is answered.
#[derive(Debug)]
struct Add {
    id: String,
    amount: i64,
    /// The sites that it was sent to.
    sent_to: BTreeSet<u16>,
    /// Where it was counted, by the answers that came.
    answers: BTreeSet<u16>,
}

/// All adds of a while in which the site was cut off, killed, started and healed.
fn count_while_it_dies(
    cluster: &mut Cluster,
    directory: &Directory,
    killed: u16,
    key: &str,
    random: &mut Random,
) -> Vec<Add> {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let work = Work(&stop);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Counting { directory, key, number, random: Random::new(random.next()) };
                let (stop, answered) = (&stop, &answered);
                scope.spawn(move || client.count(stop, answered))
            })
            .collect();
        let go_on = |what: &str| {
            let enough = answered.load(Ordering::Relaxed) + ADDS_BETWEEN;
            wait(what, || {
                // A client that has failed says why.
                clients.iter().any(thread::ScopedJoinHandle::is_finished)
                    || answered.load(Ordering::Relaxed) >= enough
            });
        };
        go_on("adds at three sites");
        // What it counts now, nobody else hears before it comes back.
        let others: Vec<u16> = (1..=SITES).filter(|number| *number != killed).collect();
        others.iter().for_each(|other| cluster.set(killed, *other, Cable::Cut));
        go_on("adds at a site that is cut off");
        cluster.take(killed).kill();
        directory.remove(killed);
        go_on("adds at the two that are left");
        cluster.start_site(killed);
        directory.enter(killed, cluster.running(killed));
        go_on("adds at a site that has come back and is alone");
        others.iter().for_each(|other| cluster.set(killed, *other, Cable::Whole));
        go_on("adds at all again");
        drop(work);
        clients.into_iter().flat_map(|client| client.join().expect("it counts")).collect()
    })
}

/// A client that counts over HTTP, at its own site as long as that answers.
struct Counting<'a> {
    directory: &'a Directory,
    key: &'a str,
    number: u16,
    random: Random,
}

impl Counting<'_> {
    fn count(mut self, stop: &AtomicBool, answered: &AtomicUsize) -> Vec<Add> {
        let mut adds = Vec::new();
        let mut site = 1 + self.number % SITES;
        while !stop.load(Ordering::Relaxed) {
            let id = format!("{}-{}-{}", self.key, self.number, adds.len());
            let amount = i64::try_from(1 + self.random.below(AMOUNT_MAX)).expect("a digit");
            let mut add = Add { id, amount, sent_to: BTreeSet::new(), answers: BTreeSet::new() };
            while !self.send(&mut add, site) {
                site = site % SITES + 1;
                thread::sleep(TRY_AGAIN_AFTER);
            }
            if self.random.below(LOST_ONE_IN) == 0 {
                // If nobody is there, the answer was not lost after all.
                self.send(&mut add, site % SITES + 1);
            }
            adds.push(add);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        adds
    }

    /// Whether there was an answer.
    fn send(&self, add: &mut Add, site: u16) -> bool {
        let Some(addresses) = self.directory.find(site) else { return false };
        add.sent_to.insert(site);
        let answer = post(&addresses.http.to_string(), self.key, add);
        let Some(Answer { site, .. }) = answer else { return false };
        add.answers.insert(site);
        true
    }
}

/// What an add is answered with.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    value: i64,
    /// Where it was counted.
    site: u16,
    replayed: bool,
}

/// `None` if no answer came.
fn post(server: &str, key: &str, add: &Add) -> Option<Answer> {
    let config =
        ureq::Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).http_status_as_error(false);
    let agent = ureq::Agent::new_with_config(config.build());
    let request = agent
        .post(format!("http://{server}/v1/counters/{key}/add"))
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", &add.id);
    let mut response = request.send(format!("{{\"amount\": {}}}", add.amount)).ok()?;
    let replayed = response.headers().get("Idempotent-Replayed").is_some_and(|value| value == "true");
    let status = response.status();
    let text = response.body_mut().read_to_string().ok()?;
    assert!(status.is_success(), "{status}: {text}");
    let body: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let site = body["site"].as_str().and_then(|site| site.parse().ok()).expect("a site without incarnations");
    Some(Answer { value: body["value"].as_i64().expect("a number"), site, replayed })
}

/// Every add was counted at one site, all sites and all answers agree at which, and each site's part is what was counted
/// there.
fn check(cluster: &Cluster, key: &str, adds: &[Add]) {
    let mut parts: BTreeMap<u16, i64> = (1..=SITES).map(|number| (number, 0)).collect();
    let mut clients: Vec<Client> = (1..=SITES).map(|number| cluster.client(number)).collect();
    for add in adds {
        let counted_at = counted_at(cluster, &mut clients, key, add);
        *parts.get_mut(&counted_at).expect("a site") += add.amount;
    }
    let all: i64 = adds.iter().map(|add| add.amount).sum();
    for (number, client) in (1..=SITES).zip(&mut clients) {
        assert_eq!(client.call(&format!("GET {key}")).count(), all, "at site {number}");
        let info = client.call(&format!("COUNTER.INFO {key}")).text();
        assert!(info.starts_with(&format!("[value {all} provisional 0 ")), "{info}");
        assert_eq!(contributions(&info), parts, "by site {number}: {info}");
    }
    let elsewhere = adds.iter().filter(|add| add.sent_to.len() > 1).count();
    let corrected = adds.iter().filter(|add| add.answers.len() > 1).count();
    println!(
        "one site: {key}: {} adds, {all} in all, counted at {parts:?}; {elsewhere} were sent to more than one site, \
         {corrected} counted at two at first",
        adds.len()
    );
    assert!(
        elsewhere > 0 && corrected > 0,
        "{elsewhere} sent to more than one site, {corrected} counted at two"
    );
}

/// Where an add was counted, as each site says when it is asked, and when the add is repeated.
fn counted_at(cluster: &Cluster, clients: &mut [Client], key: &str, add: &Add) -> u16 {
    let said: BTreeSet<u16> = clients
        .iter_mut()
        .map(|client| {
            let outcome = client.call(&format!("COUNTER.OUTCOME {key} {PRODUCER} {}", add.id)).text();
            let words: Vec<&str> = outcome.trim_matches(['[', ']']).split(' ').collect();
            let amount = add.amount.to_string();
            let site = match words[..] {
                ["counted", _, found, site] if found == amount => site,
                ["cancelled", site] => site,
                _ => panic!("{add:?}: {outcome}"),
            };
            site.parse().expect("a site")
        })
        .collect();
    let repeats: Vec<Answer> = (1..=SITES)
        .map(|number| {
            let server = cluster.running(number).http.to_string();
            post(&server, key, add).expect("an answer: nobody is killed now")
        })
        .collect();
    assert!(repeats[0].replayed && repeats.iter().all(|it| *it == repeats[0]), "{add:?}: {repeats:?}");
    let found = repeats[0].site;
    assert_eq!(said, BTreeSet::from([found]), "{add:?}: {repeats:?}");
    assert!(add.sent_to.contains(&found), "{add:?} was counted at {found}");
    found
}

/// What each site has contributed, by `COUNTER.INFO`.
fn contributions(info: &str) -> BTreeMap<u16, i64> {
    let sites = info.split("[site ").skip(1).map(|site| {
        let words: Vec<&str> = site.split([' ', ']']).collect();
        let number = |word: &str| word.parse::<i64>().unwrap_or_else(|_| panic!("a number: {info}"));
        assert_eq!((words[1], words[3]), ("added", "subtracted"), "{info}");
        (words[0].parse().expect("a site"), number(words[2]) - number(words[4]))
    });
    sites.collect()
}
