//! The nodes of a site, as processes.

use std::{
    net::SocketAddr,
    sync::Mutex,
    time::{Duration, Instant},
};

use serde_json::Value as Json;

use crate::harness::{Client, Running, Site};

/// How long shards may take to find their nodes, on a machine with much else to do.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
pub(crate) const SHARDS: u64 = 8;

/// Nodes over one keyspace. A place keeps its addresses from start to start.
pub(crate) struct Crew {
    places: Vec<Place>,
}

struct Place {
    /// Ended before its keyspace goes.
    running: Mutex<Option<Running>>,
    addresses: Mutex<Option<(SocketAddr, SocketAddr)>>,
    site: Site,
}

impl Crew {
    /// Starts so many nodes.
    pub(crate) fn start(keyspace: &str, count: usize) -> Self {
        Self::start_alike(keyspace, count, "")
    }

    /// The same, with more flags.
    pub(crate) fn start_alike(keyspace: &str, count: usize, flags: &str) -> Self {
        let crew = Self::start_with(keyspace, &vec![format!("--link 127.0.0.1:0 {flags}"); count]);
        crew.settle();
        crew
    }

    /// Starts a node with each of these flags.
    pub(crate) fn start_with(keyspace: &str, flags: &[String]) -> Self {
        let site = |flags: &String| Site::on(keyspace, &format!("--shards {SHARDS} --workers 1 {flags}"));
        let place =
            |flags| Place { site: site(flags), addresses: Mutex::default(), running: Mutex::default() };
        let crew = Self { places: flags.iter().map(place).collect() };
        (0..crew.len()).for_each(|number| crew.start_node(number));
        crew
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where Redis clients find a node, whether it runs or not.
    pub(crate) fn resp(&self, number: usize) -> SocketAddr {
        self.places[number].addresses.lock().unwrap().expect("it was started").0
    }

    /// Where clients of a Redis Cluster find a node that runs.
    pub(crate) fn resp_cluster(&self, number: usize) -> SocketAddr {
        let running = self.places[number].running.lock().unwrap();
        running.as_ref().and_then(|running| running.resp_cluster).expect("it runs, with such a port")
    }

    pub(crate) fn http(&self, number: usize) -> SocketAddr {
        self.places[number].addresses.lock().unwrap().expect("it was started").1
    }

    /// Where other nodes find one that runs.
    pub(crate) fn link(&self, number: usize) -> SocketAddr {
        let running = self.places[number].running.lock().unwrap();
        running.as_ref().and_then(|running| running.link).expect("it runs")
    }

    pub(crate) fn client(&self, number: usize) -> Client {
        Client::connect(self.resp(number)).expect("the node takes clients")
    }

    pub(crate) fn start_node(&self, number: usize) {
        let Place { site, addresses, running } = &self.places[number];
        let known = *addresses.lock().unwrap();
        let node = match known {
            Some((resp, http)) => site.start_at_both(resp, http),
            None => site.start(),
        };
        *addresses.lock().unwrap() = Some((node.resp, node.http));
        *running.lock().unwrap() = Some(node);
    }

    pub(crate) fn kill(&self, number: usize) {
        self.take(number).kill();
    }

    /// An orderly end.
    pub(crate) fn stop(&self, number: usize) {
        self.take(number).stop();
    }

    pub(crate) fn signal(&self, number: usize, name: &str) {
        self.places[number].running.lock().unwrap().as_ref().expect("it runs").signal(name);
    }

    fn take(&self, number: usize) -> Running {
        self.places[number].running.lock().unwrap().take().expect("it runs")
    }

    /// What a node says of all of them.
    pub(crate) fn nodes(&self, number: usize) -> Option<Json> {
        let url = format!("http://{}/v1/nodes", self.http(number));
        let mut answer = ureq::get(&url).call().ok()?;
        serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
    }

    /// How many shards each of those has that are there, as a node sees it, the fewest first.
    pub(crate) fn shares(&self, number: usize) -> Vec<u64> {
        let nodes = self.nodes(number).unwrap_or_default();
        let nodes = nodes["nodes"].as_array().into_iter().flatten();
        let mut shares: Vec<u64> = nodes.map(|node| node["shards"].as_u64().unwrap_or(0)).collect();
        shares.sort_unstable();
        shares
    }

    /// Waits until all nodes see all of them with as many shards as any other, or one less, and each has its own open.
    pub(crate) fn settle(&self) {
        let count = self.len() as u64;
        let (least, more) = (SHARDS / count, SHARDS % count);
        let even: Vec<u64> = (0..count).map(|at| least + u64::from(at >= count - more)).collect();
        self.wait("all shards are shared out", || {
            (0..self.len()).all(|number| self.shares(number) == even) && self.open() == SHARDS
        });
    }

    /// How many shards are open at the nodes that run, by their own metrics.
    pub(crate) fn open(&self) -> u64 {
        self.sum_of_metrics(|line| line.starts_with("quipu_shard_here") && line.ends_with(" 1"))
    }

    /// The sum of a metric of all nodes that run.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.sum_of_metrics(|line| line.split_once(' ').is_some_and(|(it, _)| it == name))
    }

    /// What stands at the end of these lines, at all nodes that run.
    fn sum_of_metrics(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let running = (0..self.len()).filter(|number| self.places[*number].running.lock().unwrap().is_some());
        let of_node = |number: usize| {
            let url = format!("http://{}/metrics", self.http(number));
            let text = ureq::get(&url).call().ok()?.body_mut().read_to_string().ok()?;
            let values =
                text.lines().filter(|line| is_meant(line)).filter_map(|line| line.rsplit(' ').next());
            Some(values.filter_map(|value| value.parse::<u64>().ok()).sum())
        };
        running.map(|number| of_node(number).unwrap_or(0)).sum()
    }

    /// Waits until something is so.
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + SETTLED_WITHIN;
        while !is_so() {
            let seen = || (0..self.len()).map(|number| self.shares(number)).collect::<Vec<_>>();
            assert!(Instant::now() < until, "not so after {SETTLED_WITHIN:?}: {what}; {:?}", seen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
