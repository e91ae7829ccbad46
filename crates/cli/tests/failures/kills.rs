//! Sites are killed at random moments and started again, links between them are cut and healed, and clients go from one
//! site to another in the middle of a retry.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::{
    directory::{Directory, Work},
    harness::{
        Cable, Cluster,
        caller::{Caller, Durability, Keys, PLAIN_KEY, Sum},
        cluster::wait,
        random::{Random, kills},
    },
};

pub(crate) const SITES: u16 = 3;
const CALLERS: u64 = 6;
const KEYS: Keys = Keys { hot: 5, cold: 0 };
/// A caller stays for at most so many writes.
const STAY_MAX: u64 = 20;
/// How long nothing happens to the sites.
const REST_MS: std::ops::Range<u64> = 20..250;
/// A caller that finds no server looks again.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// After so many kills everything is healed, and all sums must be exact.
const EXACT_EVERY: u64 = 15;
/// One start in so many ends before the server is ready.
const EARLY_ONE_IN: u64 = 7;
const EARLY_MS_MAX: u64 = 40;

/// What is between the sites.
pub(crate) trait Network {
    /// Something happens to it; it may get better or worse.
    fn disturb(&self, cluster: &Cluster, random: &mut Random);
    /// Everybody reaches everybody again.
    fn heal(&self, cluster: &Cluster);
}

/// The lines of the cluster itself.
struct Lines;

impl Network for Lines {
    fn disturb(&self, cluster: &Cluster, random: &mut Random) {
        let (one, other) = [(1, 2), (1, 3), (2, 3)][index(random, 3)];
        cluster.set(one, other, [Cable::Whole, Cable::Cut, Cable::Silent][index(random, 3)]);
    }

    fn heal(&self, cluster: &Cluster) {
        for (one, other) in [(1, 2), (1, 3), (2, 3)] {
            cluster.set(one, other, Cable::Whole);
        }
    }
}

pub(crate) fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).expect("less than a length")
}

pub(crate) fn kills_and_cut_links_lose_nothing() {
    Load::new("kills", Cluster::new(SITES, ""), &Lines).run(kills(30, 1));
}

/// A cluster under load.
pub(crate) struct Load<'a> {
    name: &'static str,
    cluster: Cluster,
    network: &'a dyn Network,
    directory: Directory,
    random: Random,
    callers: Vec<Caller>,
}

impl<'a> Load<'a> {
    /// None of the sites runs yet.
    pub(crate) fn new(name: &'static str, cluster: Cluster, network: &'a dyn Network) -> Self {
        let mut random = Random::announced(name);
        let new = |number| Caller::new(number, KEYS, Durability::Always, random.next());
        let callers = (0..CALLERS).map(new).collect();
        Self { name, cluster, network, directory: Directory::default(), random, callers }
    }

    pub(crate) fn run(mut self, kills: u64) {
        let mut left = kills;
        self.start_all();
        while left > 0 {
            let now = left.min(EXACT_EVERY);
            self.disturb_under_load(now);
            self.check_exact();
            left -= now;
        }
        let issued = self.sum(|caller| sum_of(&caller.sums)).issued;
        let repeats = self.callers.iter().map(|caller| caller.repeats).sum::<u64>();
        assert!(issued > 0 && repeats > 0, "{issued} issued, {repeats} repeats");
        println!(
            "{}: {kills} kills, {repeats} adds repeated at another site; {issued} counted, each once, after {} were \
             counted at two sites and taken back",
            self.name,
            taken_back(&self.cluster),
        );
    }

    fn disturb_under_load(&mut self, kills: u64) {
        let stop = AtomicBool::new(false);
        let mut callers = std::mem::take(&mut self.callers);
        thread::scope(|scope| {
            let _work = Work(&stop);
            for caller in &mut callers {
                let random = Random::new(self.random.next());
                let (directory, stop) = (&self.directory, &stop);
                scope.spawn(move || roam(caller, directory, random, stop));
            }
            // Borrowed by the callers, so it is not `self` that goes on.
            let mut sites =
                Sites { cluster: &mut self.cluster, directory: &self.directory, random: &mut self.random };
            let mut killed = 0;
            while killed < kills {
                thread::sleep(Duration::from_millis(between(sites.random, REST_MS)));
                self.network.disturb(sites.cluster, sites.random);
                killed += sites.kill_or_start();
            }
        });
        self.callers = callers;
    }

    fn start_all(&mut self) {
        let down: Vec<u16> = (1..=SITES).filter(|number| self.directory.find(*number).is_none()).collect();
        for number in down {
            self.cluster.start_site(number);
            self.directory.enter(number, self.cluster.running(number));
        }
    }

    /// After everything was healed and every unanswered add repeated, all sites show exactly what was issued.
    fn check_exact(&mut self) {
        self.network.heal(&self.cluster);
        self.start_all();
        for caller in &mut self.callers {
            let number = any_site(&mut self.random);
            caller.repeat(&mut self.cluster.client(number)).expect("nobody is killed now");
        }
        self.cluster.balance();
        for key in 0..KEYS.count() {
            let sum = self.sum(|caller| caller.sums[key]);
            assert_eq!(sum.acknowledged, sum.issued, "everything has been answered");
            self.cluster.agree(&KEYS.name(key), sum.issued);
            // A command may still come out of a connection that its client has left; it is a repeat by now.
            for number in 1..=SITES {
                let (mut client, info) =
                    (self.cluster.client(number), format!("COUNTER.INFO {}", KEYS.name(key)));
                let settled = format!("[value {} provisional 0 ", sum.issued);
                wait(&settled, || client.call(&info).text().starts_with(&settled));
            }
        }
        self.check_plain();
    }

    /// Adds without ids: all sites show the same, all that was acknowledged, and nothing that nobody sent.
    fn check_plain(&self) {
        let sum = self.sum(|caller| caller.plain);
        let values = || {
            let sites = 1..=SITES;
            let values =
                sites.map(|number| self.cluster.client(number).call(&format!("GET {PLAIN_KEY}")).count());
            values.collect::<BTreeSet<i64>>()
        };
        wait("one value of adds without ids", || values().len() == 1);
        let values = values();
        let possible = sum.acknowledged..=sum.issued;
        assert!(values.iter().all(|value| possible.contains(value)), "{values:?}, and {sum:?}");
    }

    fn sum(&self, of: impl Fn(&Caller) -> Sum) -> Sum {
        sum_of(&self.callers.iter().map(of).collect::<Vec<_>>())
    }
}

/// The part of the load that happens to the sites.
struct Sites<'a> {
    cluster: &'a mut Cluster,
    directory: &'a Directory,
    random: &'a mut Random,
}

impl Sites<'_> {
    /// Kills a site that runs, or starts one that does not: how many kills that makes.
    fn kill_or_start(&mut self) -> u64 {
        let number = any_site(self.random);
        if self.directory.find(number).is_some() {
            // A moment later its clients are told by their connections alone.
            self.cluster.take(number).kill();
            self.directory.remove(number);
            1
        } else if self.random.below(EARLY_ONE_IN) == 0 {
            let after = Duration::from_millis(self.random.below(EARLY_MS_MAX));
            self.cluster.sites[&number].start_and_kill_after(after);
            1
        } else {
            self.cluster.start_site(number);
            self.directory.enter(number, self.cluster.running(number));
            0
        }
    }
}

/// Goes from site to site, and takes along what was not answered.
fn roam(caller: &mut Caller, directory: &Directory, mut random: Random, stop: &AtomicBool) {
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = any_site(&mut random);
        let Some(addresses) = directory.find(number).filter(|_| number != last) else {
            thread::sleep(LOOK_EVERY);
            continue;
        };
        // However it ends, what was not answered is sent again at another site.
        let _ = caller.visit(addresses.resp, random.below(STAY_MAX));
        last = number;
    }
}

fn any_site(random: &mut Random) -> u16 {
    1 + u16::try_from(random.below(SITES.into())).expect("a small number")
}

fn between(random: &mut Random, range: std::ops::Range<u64>) -> u64 {
    range.start + random.below(range.end - range.start)
}

fn sum_of(sums: &[Sum]) -> Sum {
    sums.iter().fold(Sum::default(), |all, one| Sum {
        issued: all.issued + one.issued,
        acknowledged: all.acknowledged + one.acknowledged,
    })
}

/// How much retries that two sites had counted made, by the sites' own books.
fn taken_back(cluster: &Cluster) -> u64 {
    let output = cluster.audit(&["--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sites = found["sites"].as_array().expect("sites");
    sites.iter().map(|site| site["cancelled"]["subtracted"].as_u64().expect("a sum")).sum()
}
