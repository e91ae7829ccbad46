//! `quipu node demo`: a Cassandra and several nodes on it, in this terminal.

use crate::{
    commands::{
        client::say,
        cluster::site::{Database, Site},
    },
    failure::Failure,
    interrupt,
};
use quipu_storage_cassandra::{
    Access, Cassandra, Schema,
    local::{Nodes, Program, Setup},
};
use serde_json::Value;
use std::{
    io::BufRead as _,
    sync::{
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// How often is looked who is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SHARDS: &str = "8";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// How many nodes of Cassandra, with as many copies of everything: 1 or 3
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
    cassandra_nodes: u32,
}

/// What somebody types.
enum Order {
    Kill(usize),
    Start(usize),
    Stop(usize),
    Quit,
    Unknown(String),
}

impl Order {
    fn parse(line: &str, nodes: usize) -> Self {
        let mut words = line.split_whitespace();
        let (verb, number) = (words.next().unwrap_or_default(), words.next());
        let number = number.and_then(|it| it.parse().ok()).filter(|number| (1..=nodes).contains(number));
        match (verb, number) {
            ("kill", Some(number)) => Self::Kill(number - 1),
            ("start", Some(number)) => Self::Start(number - 1),
            ("stop", Some(number)) => Self::Stop(number - 1),
            ("quit", None) => Self::Quit,
            _ => Self::Unknown(line.to_owned()),
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    // From here on Ctrl-C ends it in order.
    interrupt::flag();
    say("a Cassandra is started (the first time it is fetched with Maven, some 70 MB) …")?;
    let setup = Setup { nodes: args.cassandra_nodes, ..Setup::default() };
    let database =
        Program::find().and_then(|program| Nodes::start(&program, setup)).map_err(Failure::failed)?;
    let address = database.address("demo");
    let schema = Schema { replication: args.cassandra_nodes, ..Schema::default() };
    Cassandra::init(&address, &Access::default(), &schema).map_err(Failure::failed)?;
    say(format_args!("--storage {address}"))?;
    let folder =
        tempfile::tempdir().map_err(|error| Failure::failed(format!("no folder for logs: {error}")))?;
    let mut sites = Vec::new();
    for number in 1..=args.nodes {
        interrupt::go_on()?;
        let own = folder.path().join(number.to_string());
        std::fs::create_dir(&own).map_err(|error| Failure::failed(format!("{}: {error}", own.display())))?;
        let mut site = Site::on(Database { address: address.to_string(), variables: Vec::new() }, 1, own);
        site.set_flags(&["--shards", SHARDS]);
        site.start().map_err(Failure::failed)?;
        say(format_args!("node {number} resp={} http={}", site.resp, site.http))?;
        sites.push(site);
    }
    say(format_args!(
        "count with any Redis client, at any node: redis-cli -p {} INCR hits\n\
         say `kill 2`, `start 2`, `stop 2`, or `quit` (Ctrl-C)",
        sites[0].resp.port()
    ))?;
    conduct(&mut sites)?;
    // In order, the last ones at once: nobody is left to hand over to.
    sites.iter().for_each(Site::ask_to_stop);
    sites.iter_mut().try_for_each(|site| site.wait().map_err(Failure::failed))
}

/// Does what is typed, and says whenever shards have moved.
fn conduct(sites: &mut [Site]) -> Result<(), Failure> {
    let (sender, orders) = mpsc::channel();
    let count = sites.len();
    // Not joined: it may wait for input for ever.
    thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines.filter(|line| !line.trim().is_empty()) {
            if sender.send(Order::parse(&line, count)).is_err() {
                return;
            }
        }
        let _ = sender.send(Order::Quit);
    });
    let mut said = String::new();
    while !interrupt::flag().load(Ordering::Relaxed) {
        match orders.recv_timeout(LOOK_EVERY) {
            Ok(Order::Kill(number)) => drop(sites[number].kill()),
            Ok(Order::Start(number)) => drop(sites[number].start().map_err(Failure::failed)?),
            Ok(Order::Stop(number)) => {
                sites[number].ask_to_stop();
                sites[number].wait().map_err(Failure::failed)?;
            }
            Ok(Order::Quit) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Order::Unknown(line)) => {
                say(format_args!("{line:?} is no order: kill N, start N, stop N, quit"))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = shares(sites);
        if now != said && !now.is_empty() {
            say(&now)?;
            said = now;
        }
    }
    Ok(())
}

/// Who has how many shards, as the first node sees it that answers.
fn shares(sites: &[Site]) -> String {
    let nodes = sites.iter().find_map(|site| site.api()?.get("/v1/nodes").ok());
    let Some(nodes) = nodes else { return String::new() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let share = |(number, site): (usize, &Site)| {
        let all = nodes["nodes"].as_array().into_iter().flatten();
        let own = { all }.find(|node| text(&node["http"]) == site.http.to_string());
        let shards = own.map_or_else(|| "gone".to_owned(), |node| format!("{} shards", node["shards"]));
        format!("node {}: {shards}", number + 1)
    };
    sites.iter().enumerate().map(share).collect::<Vec<_>>().join(", ")
}
