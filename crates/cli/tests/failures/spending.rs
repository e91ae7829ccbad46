//! Two partitions spend from one bounded counter, with 64 writers in each: never more than there is, and after healing
//! the rest can be spent at any one site.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    thread,
};

use crate::{
    directory::Work,
    harness::{Cable, Client, Cluster, Value, random::Random},
    kills::index,
};

/// Writers in each partition.
const WRITERS: usize = 64;
const UNITS: i64 = 6_000;
/// So much is spent before the links are cut, so that all sites have rights by then.
const BEFORE_THE_CUT: i64 = 1_000;
/// How much is spent at once.
const SPEND: std::ops::RangeInclusive<u64> = 1..=3;
/// While there are links, commands wait so long for rights of other sites.
const REMOTE_MS: u64 = 200;
/// So often each writer of the two sites that still reach each other spends, where they shall leave something.
const SPENDS_OF_PAIR: usize = 5;
/// One spend in so many is repeated in the other partition, as if its answer had been lost.
const REPEATED_ONE_IN: u64 = 8;
/// One spend in so many is given back, at both sides under the same id: nobody may spend that before they meet.
const RETURNED_ONE_IN: u64 = 16;
/// Longer than anything takes that works.
const LONG_MS: u64 = 30_000;
/// How much is spent at once at the end.
const LAST_SPEND: i64 = 7;

pub(crate) fn two_partitions_never_sell_too_much() {
    let mut random = Random::announced("spending");
    let cluster = Cluster::start(3, "");
    connected(&cluster);
    for lonely in 1..=3 {
        Round::new(&cluster, lonely, SPENDS_OF_PAIR, &mut random).run();
        Round::new(&cluster, lonely, usize::MAX, &mut random).run();
    }
}

fn connected(cluster: &Cluster) {
    for (one, other) in [(1, 2), (1, 3), (2, 3)] {
        cluster.wait_for_link(one, other);
    }
}

/// One counter, and one site that is cut off from the two others.
struct Round<'a> {
    cluster: &'a Cluster,
    key: String,
    lonely: u16,
    pair: [u16; 2],
    /// So often at most each writer of the pair spends when the links are cut; the others take all they can get.
    spends_of_pair: usize,
    seeds: Vec<u64>,
    /// Acknowledged, each operation once.
    spent: AtomicI64,
    /// Acknowledged a second time, in the other partition.
    twice: AtomicI64,
    /// Given back, each operation once.
    returned: AtomicI64,
}

impl<'a> Round<'a> {
    fn new(cluster: &'a Cluster, lonely: u16, spends_of_pair: usize, random: &mut Random) -> Self {
        let pair = [lonely % 3 + 1, (lonely + 1) % 3 + 1];
        let seeds = (0..2 * WRITERS).map(|_| random.next()).collect();
        let key = format!("stock:{lonely}:{spends_of_pair}");
        let [spent, twice, returned] = [0; 3].map(AtomicI64::new);
        Self { cluster, key, lonely, pair, spends_of_pair, seeds, spent, twice, returned }
    }

    fn run(&self) {
        let create = format!("COUNTER.CREATE {} MIN 0 VALUE {UNITS} WAIT {LONG_MS}", self.key);
        assert_eq!(self.cluster.client(self.pair[0]).call(&create), Value::ok());
        self.cluster.agree(&self.key, UNITS);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _work = Work(&stop);
            for number in 1..=3 {
                let stop = &stop;
                scope.spawn(move || self.watch(number, stop));
            }
            self.spend_together();
            self.cut();
            self.spend_apart();
            self.check_sold();
            self.heal();
            self.spend_the_rest();
        });
    }

    /// What must be left once all sites have heard everything.
    fn rest(&self) -> i64 {
        UNITS - self.spent.load(Ordering::Relaxed) + self.returned.load(Ordering::Relaxed)
    }

    /// Nobody ever sees less than nothing.
    fn watch(&self, number: u16, stop: &AtomicBool) {
        let mut client = self.cluster.client(number);
        let get = format!("GET {}", self.key);
        while !stop.load(Ordering::Relaxed) {
            let value = client.call(&get).count();
            assert!(value >= 0, "{value} at site {number}");
        }
    }

    /// The writers of both partitions, each with the site that it writes to.
    fn writers(&self) -> impl Iterator<Item = Writer<'_>> {
        let sites = (0..2 * WRITERS).map(|number| match number {
            lonely if lonely < WRITERS => self.lonely,
            of_pair => self.pair[of_pair % 2],
        });
        sites.enumerate().map(|(number, site)| Writer {
            round: self,
            name: format!("writer-{number}"),
            site,
            random: Random::new(self.seeds[number]),
            last_id: 0,
        })
    }

    fn spend_together(&self) {
        thread::scope(|scope| {
            for mut writer in self.writers() {
                scope.spawn(move || writer.spend_together());
            }
        });
        for number in 1..=3 {
            assert!(
                rights_at(&mut self.cluster.client(number), &self.key, number) > 0,
                "rights for site {number}"
            );
        }
    }

    fn cut(&self) {
        for number in self.pair {
            self.cluster.set(self.lonely, number, Cable::Cut);
        }
        for number in self.pair {
            self.cluster.wait_for_info(number, &format!("peer{}:link=down", self.lonely));
            self.cluster.wait_for_info(self.lonely, &format!("peer{number}:link=down"));
        }
    }

    fn spend_apart(&self) {
        thread::scope(|scope| {
            for mut writer in self.writers() {
                scope.spawn(move || writer.spend_apart());
            }
        });
    }

    /// What both partitions have acknowledged, even the same operation in both, was there, and nothing of it was what had
    /// only just been given back.
    fn check_sold(&self) {
        let [spent, twice, returned] =
            [&self.spent, &self.twice, &self.returned].map(|sum| sum.load(Ordering::Relaxed));
        assert!(spent + twice <= UNITS, "{spent} sold, {twice} of it twice: more than {UNITS}");
        assert!(twice > 0 && returned > 0 && self.rest() > 0, "nothing is left to be checked");
        println!(
            "spending: site {} cut off: {spent} sold, {twice} of it in both partitions, {returned} given back",
            self.lonely
        );
    }

    fn heal(&self) {
        for number in self.pair {
            self.cluster.set(self.lonely, number, Cable::Whole);
        }
        connected(self.cluster);
        self.cluster.balance();
        self.cluster.agree(&self.key, self.rest());
    }

    /// At the site that had spent all it could: what any other site has left is fetched, to the last unit.
    fn spend_the_rest(&self) {
        let mut client = self.cluster.client(self.lonely);
        let mut rest = self.rest();
        while rest > 0 {
            let spend = rest.min(LAST_SPEND);
            rest -= spend;
            let answer = client.call(&format!("DECRBY {} {spend} REMOTE {LONG_MS}", self.key));
            assert_eq!(
                answer,
                Value::Integer(rest),
                "{}",
                client.call(&format!("COUNTER.RIGHTS {}", self.key)).text()
            );
        }
        self.cluster.agree(&self.key, 0);
        for number in 1..=3 {
            let refused = self.cluster.client(number).call(&format!("DECR {} REMOTE {REMOTE_MS}", self.key));
            assert!(is_out_of_bounds(&refused), "{refused:?}");
        }
    }
}

/// What a site may still subtract.
fn rights_at(client: &mut Client, key: &str, number: u16) -> i64 {
    let rights = client.call(&format!("COUNTER.RIGHTS {key}")).text();
    let of_site = rights.split("[site ").find_map(|part| part.strip_prefix(&format!("{number} ")));
    let of_site = of_site.unwrap_or_else(|| panic!("site {number} in {rights}"));
    let mut words = of_site.split(' ').skip_while(|word| *word != "subtract").skip(1);
    words.next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("a number in {rights}"))
}

fn is_out_of_bounds(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with("OUTOFBOUNDS"))
}

/// One writer of a round.
struct Writer<'a> {
    round: &'a Round<'a>,
    name: String,
    site: u16,
    random: Random,
    last_id: u64,
}

impl Writer<'_> {
    /// Until enough is spent; rights are fetched from other sites.
    fn spend_together(&mut self) {
        let mut client = self.round.cluster.client(self.site);
        let mut spent = 0;
        while self.round.spent.load(Ordering::Relaxed) < BEFORE_THE_CUT || spent == 0 {
            spent += self.spend(&mut client, &format!("REMOTE {REMOTE_MS} IDMP {} together:", self.name));
        }
    }

    /// Until there is nothing left at this side, or enough was spent.
    fn spend_apart(&mut self) {
        let round = self.round;
        let is_lonely = self.site == round.lonely;
        let mut client = round.cluster.client(self.site);
        let elsewhere = if is_lonely { round.pair[index(&mut self.random, 2)] } else { round.lonely };
        let mut elsewhere = round.cluster.client(elsewhere);
        let mut spends = 0;
        while is_lonely || spends < round.spends_of_pair {
            let words = format!("IDMP {} apart:", self.name);
            let spent = self.spend(&mut client, &words);
            if spent == 0 {
                return;
            }
            spends += 1;
            if self.random.below(REPEATED_ONE_IN) == 0 {
                let again = send(&mut elsewhere, &round.key, spent, &format!("{words}{}", self.last_id));
                round.twice.fetch_add(again, Ordering::Relaxed);
            }
            if self.random.below(RETURNED_ONE_IN) == 0 {
                let back = format!("INCRBY {} {spent} IDMP {} back:{}", round.key, self.name, self.last_id);
                for client in [&mut client, &mut elsewhere] {
                    assert!(client.call(&back).integer() >= spent, "it is part of the value");
                }
                round.returned.fetch_add(spent, Ordering::Relaxed);
            }
        }
    }

    /// Spends once, under a new id that `words` end with: how much.
    fn spend(&mut self, client: &mut Client, words: &str) -> i64 {
        let range = SPEND.end() - SPEND.start() + 1;
        let amount = i64::try_from(SPEND.start() + self.random.below(range)).expect("a small number");
        self.last_id += 1;
        let spent = send(client, &self.round.key, amount, &format!("{words}{}", self.last_id));
        self.round.spent.fetch_add(spent, Ordering::Relaxed);
        spent
    }
}

/// Spends, unless it is refused.
fn send(client: &mut Client, key: &str, amount: i64, words: &str) -> i64 {
    match client.call(&format!("DECRBY {key} {amount} {words}")) {
        Value::Integer(value) => {
            assert!(value >= 0, "{value}");
            amount
        }
        refused if is_out_of_bounds(&refused) => 0,
        other => panic!("{other:?}"),
    }
}
