//! Sites as real processes under everything that can befall them at once, with the checks of a Jepsen test: whatever was
//! acknowledged is counted once, what was refused is not, of what nobody answered some is; what was told as settled is told
//! by everybody for ever; bounds hold at every look; counters that only grow never go back.
//!
//! A minute for both sizes in each run of the tests; for longer, and for a schedule that was printed:
//!
//! ```console
//! $ QUIPU_CHAOS_SECONDS=1800 QUIPU_SEED=7 cargo test -p quipu-cli --test failures chaos -- --nocapture --test-threads 1
//! ```

mod books;
mod checks;
mod clients;
mod schedule;
pub(crate) mod teeth;
mod watchers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicI64},
    thread,
    time::{Duration, Instant},
};

use self::{
    books::{Plain, Told, Violations},
    checks::{Outcomes, Watched},
    clients::{BOUNDED, BOUNDED_INITIAL, BOUNDED_MAX, PLAIN, RISING, Shared, WITH_IDS, Worker},
    schedule::{Schedule, Sites},
    watchers::{look_at_bounds, watch},
};
use crate::{
    directory::{Directory, Work},
    harness::{Client, Cluster, Site, Value, cluster::PATIENCE, random::Random},
};

/// For each of the two sizes.
const SECONDS_DEFAULT: u64 = 20;
const CLIENTS: u64 = 6;
/// Longer than any run: what is sent again late is still known.
const FLAGS: &str = "--idmp-window 3h --shards 8 --log-level warn";
/// Files that cannot grow do not end the server.
const IGNORE_FILE_LIMIT: &str = "trap '' XFSZ";
/// Of so many operations each site is asked for the outcome in the end, before and after all were killed.
const ASKED_IN_THE_END: usize = 1_500;
/// So many violations are printed in full.
const PRINTED_MAX: usize = 10;

pub(crate) fn chaos_over_three_sites() {
    run(3);
}

pub(crate) fn chaos_over_five_sites() {
    run(5);
}

fn run(sites: u16) {
    let seconds = std::env::var("QUIPU_CHAOS_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS_DEFAULT, |it| it.parse().expect("QUIPU_CHAOS_SECONDS is a number"));
    let mut random = Random::announced(&format!("chaos over {sites} sites"));
    let schedule = Schedule::draw(&mut random, sites, seconds);
    // Whoever starts brings the table up to date at once, and some are killed again while they do.
    let mut cluster = Cluster::on(sites, FLAGS, |_, flags| Site::after(IGNORE_FILE_LIMIT, flags));
    let (directory, violations) = (Directory::default(), Violations::default());
    for number in 1..=sites {
        cluster.start_site(number);
        directory.enter(number, cluster.running(number));
    }
    create_bounded(&cluster, sites);
    let floors = (1..=sites).flat_map(|site| PLAIN.map(|key| ((site, key), AtomicI64::new(0))));
    let shared = Shared {
        sites,
        directory: &directory,
        violations: &violations,
        began: Instant::now(),
        floors: floors.collect(),
        stop: AtomicBool::new(false),
    };
    let mut nemesis = Sites { cluster: &mut cluster, directory: &directory };
    let (mut workers, looks, watched) = under_load(&shared, &schedule, &mut nemesis, &mut random);
    nemesis.heal();
    finish(&mut workers);
    let told = in_the_end(&mut nemesis, &mut workers, &shared, watched);
    let all = violations.all();
    if !all.is_empty() {
        let shown = all.iter().take(PRINTED_MAX).cloned().collect::<Vec<_>>().join("\n");
        panic!("{} violations:\n{shown}\n\nthe schedule was:\n{schedule}", all.len());
    }
    let count = |of: fn(&Worker<'_>) -> u64| workers.iter().map(of).sum::<u64>();
    println!(
        "chaos over {sites} sites for {seconds} s, {} steps: {} operations with ids, {} of them sent to more than one site, \
         each counted once; {} attempts refused, {} unanswered, {} beyond bounds; {looks} looks at bounds; {} events watched; {told} outcomes \
         told by each site, the same after all were killed",
        schedule.0.len(),
        count(|it| it.operations.len() as u64),
        count(|it| it.operations.iter().filter(|it| it.sent_to.len() > 1).count() as u64),
        count(|it| it.refused),
        count(|it| it.unknown),
        count(|it| it.nothing),
        watched.events,
    );
    assert!(looks > 0 && watched.events > 0 && told > 0, "nothing was looked at");
}

fn create_bounded(cluster: &Cluster, sites: u16) {
    for one in 1..=sites {
        (one + 1..=sites).for_each(|other| cluster.wait_for_link(one, other));
    }
    for key in BOUNDED {
        let create =
            format!("COUNTER.CREATE {key} MIN 0 MAX {BOUNDED_MAX} VALUE {BOUNDED_INITIAL} WAIT 30000");
        assert_eq!(cluster.client(1).call(&create), Value::ok());
        cluster.agree(key, BOUNDED_INITIAL);
    }
}

/// Clients work and others look while the schedule comes about.
fn under_load<'a>(
    shared: &'a Shared<'a>,
    schedule: &Schedule,
    nemesis: &mut Sites<'_>,
    random: &mut Random,
) -> (Vec<Worker<'a>>, u64, Watched) {
    let mut workers: Vec<Worker<'a>> =
        (0..CLIENTS).map(|number| Worker::new(shared, number, Random::new(random.next()))).collect();
    let (looks, watched) = thread::scope(|scope| {
        let work = Work(&shared.stop);
        workers.iter_mut().for_each(|worker| _ = scope.spawn(|| worker.work()));
        let looks = scope.spawn(|| look_at_bounds(shared));
        let watchers: Vec<_> = (1..=shared.sites)
            .flat_map(|site| [(site, PLAIN[0], false), (site, RISING, true)])
            .map(|(site, key, may_fall)| scope.spawn(move || watch(shared, site, key, may_fall)))
            .collect();
        for (at_ms, step) in &schedule.0 {
            let wait_ms = at_ms.saturating_sub(shared.now_ms());
            thread::sleep(Duration::from_millis(wait_ms));
            nemesis.take(*step);
        }
        drop(work);
        let watched = watchers.into_iter().map(|it| it.join().expect("it watches"));
        let watched = watched.fold(Watched::default(), Watched::together);
        (looks.join().expect("it looks"), watched)
    });
    (workers, looks, watched)
}

/// All that is open is sent again until it is answered.
fn finish(workers: &mut [Worker<'_>]) {
    thread::scope(|scope| workers.iter_mut().for_each(|worker| _ = scope.spawn(|| worker.finish())));
}

/// Values and outcomes, now that everything has healed, and after all sites were killed once more. Returns of how many
/// operations each site has told the outcome.
fn in_the_end(
    nemesis: &mut Sites<'_>,
    workers: &mut [Worker<'_>],
    shared: &Shared<'_>,
    watched: Watched,
) -> usize {
    settle(nemesis.cluster, shared);
    let first = outcomes(workers, shared);
    check_values(nemesis.cluster, workers, shared);
    check_falls(nemesis.cluster, shared, watched);
    nemesis.restart_all();
    workers.iter_mut().for_each(Worker::connect_anew);
    settle(nemesis.cluster, shared);
    let again = outcomes(workers, shared);
    checks::unchanged(&first, &again).into_iter().for_each(|what| shared.violations.add(what));
    check_values(nemesis.cluster, workers, shared);
    first.len()
}

/// Waits until the books balance and nothing is provisional.
fn settle(cluster: &Cluster, shared: &Shared<'_>) {
    cluster.balance();
    let keys = WITH_IDS.into_iter().chain([RISING]).chain(BOUNDED);
    for (key, site) in keys.flat_map(|key| (1..=shared.sites).map(move |site| (key, site))) {
        let until = Instant::now() + PATIENCE;
        let mut client = cluster.client(site);
        loop {
            let info = client.call(&format!("COUNTER.INFO {key}")).text();
            if info.contains(" provisional 0 ") || info == "null" {
                break;
            }
            if Instant::now() > until {
                shared
                    .violations
                    .add(format!("site {site} has something provisional for {PATIENCE:?}: {info}"));
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// By operation, what all sites say: the same, and the operation is counted if anybody has acknowledged it.
fn outcomes(workers: &mut [Worker<'_>], shared: &Shared<'_>) -> Outcomes {
    let all: usize = workers.iter().map(|worker| worker.operations.len()).sum();
    let every = all.div_ceil(ASKED_IN_THE_END).max(1);
    let mut outcomes = BTreeMap::new();
    for worker in workers {
        for at in 0..worker.operations.len() {
            if at % every != 0 && !worker.operations[at].is_open {
                continue;
            }
            let told: Vec<Option<Told>> = (1..=shared.sites).map(|site| worker.ask_for(at, site)).collect();
            let operation = &worker.operations[at];
            let counted = checks::agreed(&told, operation).unwrap_or_else(|wrong| {
                shared.violations.add(wrong);
                None
            });
            outcomes.insert((operation.producer.clone(), operation.id), counted);
        }
    }
    outcomes
}

/// All sites show the same, and what was counted.
fn check_values(cluster: &Cluster, workers: &mut [Worker<'_>], shared: &Shared<'_>) {
    for key in WITH_IDS.into_iter().chain([RISING]).chain(BOUNDED) {
        let initial = if BOUNDED.contains(&key) { BOUNDED_INITIAL } else { 0 };
        let mut expected = initial;
        for worker in &mut *workers {
            for at in 0..worker.operations.len() {
                if worker.operations[at].key != key {
                    continue;
                }
                let told = if worker.operations[at].is_in_doubt() { worker.ask_for(at, 1) } else { None };
                expected += worker.operations[at].counts(told.as_ref());
            }
        }
        let wrong = checks::ends_with(key, &values(cluster, shared, key), expected);
        wrong.into_iter().for_each(|what| shared.violations.add(what));
    }
    for key in PLAIN {
        let mut all = Plain::default();
        for plain in workers.iter().map(|worker| &worker.plain[key]) {
            all.acknowledged += plain.acknowledged;
            all.unknown.extend(&plain.unknown);
        }
        shared.violations.holds(checks::ends_within(key, &values(cluster, shared, key), &all));
    }
}

/// What each site shows, when they agree, or have had time to.
fn values(cluster: &Cluster, shared: &Shared<'_>, key: &str) -> BTreeMap<u16, i64> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut clients: Vec<Client> = (1..=shared.sites).map(|site| cluster.client(site)).collect();
    loop {
        let get = format!("GET {key}");
        let values: BTreeMap<u16, i64> =
            (1..).zip(&mut clients).map(|(site, client)| (site, client.call(&get).count())).collect();
        let is_agreed = values.values().collect::<BTreeSet<_>>().len() == 1;
        if is_agreed || Instant::now() > until {
            return values;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A counter that only grows goes back by no more than was taken back.
fn check_falls(cluster: &Cluster, shared: &Shared<'_>, watched: Watched) {
    let output = cluster.audit(&["--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sites = found["sites"].as_array().expect("sites");
    let taken_back = sites.iter().filter_map(|site| site["cancelled"]["subtracted"].as_i64()).sum::<i64>();
    shared.violations.holds(checks::falls(RISING, watched.down, taken_back));
}
