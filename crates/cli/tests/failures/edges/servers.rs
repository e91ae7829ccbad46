//! Three sites and a relay of them, at addresses that stay the same, however often they are killed.

use std::{collections::BTreeMap, net::SocketAddr, thread, time::Duration};

use super::{Edge, books};
use crate::{
    harness::{Cluster, Line, Running, Site, Value, random::Random},
    kills::{SITES, index},
};

const SHARDS: u16 = 8;
/// The relay, among the numbers of the sites.
const RELAY: u16 = SITES + 1;
/// How long nothing happens to the servers.
const REST_MS_MAX: u64 = 600;
/// One start in so many ends before the server is ready.
const EARLY_ONE_IN: u64 = 7;
const EARLY_MS_MAX: u64 = 60;
/// So many counters are asked for at once.
const KEYS_AT_ONCE: usize = 500;

pub(crate) struct Servers {
    cluster: Cluster,
    /// From the relay to the sites.
    parents: BTreeMap<u16, Line>,
    relay: Site,
    relay_running: Option<Running>,
    /// Where clients find them, for HTTP and RESP.
    ports: BTreeMap<u16, (SocketAddr, SocketAddr)>,
    is_up: BTreeMap<u16, bool>,
}

impl Servers {
    /// All of them run.
    pub(crate) fn start() -> Self {
        let cluster = Cluster::new(SITES, &format!("--shards {SHARDS}"));
        let parents: BTreeMap<u16, Line> =
            (1..=SITES).map(|number| (number, Line::new().expect("a free port"))).collect();
        let addresses: Vec<String> = parents.values().map(|line| line.address.to_string()).collect();
        let flags = format!("--tier 1 --parents {} --shards {SHARDS} --workers 2", addresses.join(","));
        let (relay, ports, is_up) = (Site::new(&flags), BTreeMap::new(), BTreeMap::new());
        let mut servers = Self { cluster, parents, relay, relay_running: None, ports, is_up };
        servers.start_all();
        servers
    }

    pub(crate) fn start_all(&mut self) {
        for number in 1..=RELAY {
            if !self.is_up(number) {
                self.start_one(number);
            }
        }
    }

    /// Where edges find them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.ports.values().map(|(http, _)| format!("http://{http}")).collect()
    }

    fn is_up(&self, number: u16) -> bool {
        self.is_up.get(&number).copied().unwrap_or(false)
    }

    fn site(&self, number: u16) -> &Site {
        if number == RELAY { &self.relay } else { &self.cluster.sites[&number] }
    }

    fn running(&self, number: u16) -> &Running {
        match number {
            RELAY => self.relay_running.as_ref().expect("it runs"),
            _ => self.cluster.running(number),
        }
    }

    fn start_one(&mut self, number: u16) {
        let running = match self.ports.get(&number) {
            Some((http, resp)) => self.site(number).start_at_both(*resp, *http),
            None => self.site(number).start(),
        };
        self.ports.insert(number, (running.http, running.resp));
        self.is_up.insert(number, true);
        match self.parents.get(&number) {
            Some(line) => {
                line.aim(running.link.expect("it has peers"));
                self.cluster.enter(number, running);
            }
            None => self.relay_running = Some(running),
        }
    }

    fn kill(&mut self, number: u16) {
        let running = match number {
            RELAY => self.relay_running.take().expect("it runs"),
            _ => self.cluster.take(number),
        };
        self.is_up.insert(number, false);
        running.kill();
    }

    /// After a moment, kills a server or starts one: how many kills that makes.
    pub(crate) fn disturb(&mut self, random: &mut Random) -> u64 {
        thread::sleep(Duration::from_millis(random.below(REST_MS_MAX)));
        let number = 1 + u16::try_from(index(random, RELAY.into())).expect("a small number");
        if self.is_up(number) {
            self.kill(number);
            1
        } else if random.below(EARLY_ONE_IN) == 0 {
            let after = Duration::from_millis(random.below(EARLY_MS_MAX));
            self.site(number).start_and_kill_after(after);
            1
        } else {
            self.start_one(number);
            0
        }
    }

    /// What counters show at a site.
    fn values(&self, number: u16, keys: &[&String]) -> Vec<i64> {
        let mut client = self.running(number).client();
        let some = |keys: &[&String]| {
            let words: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
            client.call(&format!("MGET {}", words.join(" "))).array()
        };
        keys.chunks(KEYS_AT_ONCE).flat_map(some).map(|value| value.count()).collect()
    }

    /// The first value that is not what was reported, at any site.
    pub(crate) fn missing(&self, edges: &[Edge]) -> Option<String> {
        (1..=SITES).find_map(|number| self.in_doubt_at(number, edges).err())
    }

    /// How many adds in doubt are counted.
    pub(crate) fn counted_in_doubt(&self, edges: &[Edge]) -> u64 {
        let at: Vec<_> = (1..=SITES).map(|number| self.in_doubt_at(number, edges)).collect();
        assert!(at.iter().all(|one| *one == at[0]), "{at:?}");
        at[0].clone().expect("it was right a moment ago")
    }

    fn in_doubt_at(&self, number: u16, edges: &[Edge]) -> Result<u64, String> {
        let keys = books::by_key(edges.iter().map(|edge| &edge.books));
        let values = self.values(number, &keys.keys().collect::<Vec<_>>());
        let read = keys.iter().zip(values).map(|((key, adds), value)| books::read(key, value, adds));
        read.sum::<Result<u64, String>>().map_err(|why| format!("at site {number}, {why}"))
    }

    /// What any of them keeps of others: open slots, copies of tokens, last words.
    pub(crate) fn keep(&self) -> Option<String> {
        let names = ["slots:", "tokens:", "tokens_for_others:", "last_words:"];
        let mut kept = Vec::new();
        for number in 1..=RELAY {
            let Value::Bulk(text) = self.running(number).client().call("INFO handoff") else {
                panic!("no text")
            };
            let text = String::from_utf8(text).expect("text");
            let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
            kept.extend(lines.filter(|line| !line.ends_with(":0")).map(|line| format!("{number}: {line}")));
        }
        (!kept.is_empty()).then(|| kept.join(", "))
    }

    pub(crate) fn balance(&self) {
        self.cluster.balance();
    }
}
