//! Relays as real processes: sites, a relay, and edges that hand over to them; final values are exact whatever is killed,
//! cut off or retired in between.

#[path = "../harness/mod.rs"]
mod harness;

mod edge;
mod handing;
mod lost;
mod passing;
mod program;
mod refused;
mod retiring;

use std::time::{Duration, Instant};

use edge::Edge;
use harness::{Cable, Line, Running, Site, Value, cluster::wait};

const SHARDS: u16 = 4;

/// A site, and a line to its link that can be cut and survives restarts of the site.
struct Parent {
    site: Site,
    running: Option<Running>,
    line: Line,
}

impl Parent {
    fn start() -> Self {
        let site = Site::new(&format!("--link 127.0.0.1:0 --shards {SHARDS} --workers 2"));
        let mut parent = Self { site, running: None, line: Line::new().expect("a free port") };
        parent.go_on();
        parent
    }

    /// Starts it, again.
    fn go_on(&mut self) {
        let running = self.site.start();
        self.line.aim(running.link.expect("it has a link"));
        self.running = Some(running);
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs")
    }

    fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    fn value(&self, key: &str) -> i64 {
        self.running().client().call(&format!("GET {key}")).count()
    }

    fn wait_for(&self, key: &str, value: i64) {
        wait(&format!("{key} = {value}"), || self.value(key) == value);
    }
}

/// A relay of these parents.
fn relay(parents: &[&Parent], flags: &str) -> Site {
    let addresses: Vec<String> = parents.iter().map(|parent| parent.line.address.to_string()).collect();
    let parents = addresses.join(",");
    Site::new(&format!("--tier 1 --parents {parents} --shards {SHARDS} --workers 2 {flags}"))
}

fn info(running: &Running, section: &str) -> String {
    match running.client().call(&format!("INFO {section}")) {
        Value::Bulk(text) => String::from_utf8(text).expect("text"),
        other => panic!("no text: {other:?}"),
    }
}

fn wait_for_info(running: &Running, section: &str, part: &str) {
    wait(&format!("{part:?}"), || info(running, section).contains(part));
}

/// What a node keeps of others: open slots, copies of tokens, last words.
fn keeps(running: &Running) -> Vec<String> {
    let text = info(running, "handoff");
    let names = ["slots:", "tokens:", "tokens_for_others:", "last_words:"];
    let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    lines.filter(|line| !line.ends_with(":0")).map(str::to_owned).collect()
}

/// For so long nothing may change.
fn stays_so(for_so_long: Duration, is_so: impl Fn() -> bool) {
    let until = Instant::now() + for_so_long;
    while Instant::now() < until {
        assert!(is_so());
        std::thread::sleep(Duration::from_millis(50));
    }
}
