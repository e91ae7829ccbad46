//! `quipu node`: the nodes that share a site.

mod demo;

use super::{
    say,
    server::{Ask, Server, parse},
};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};
use ureq::http::Method;

/// How often it is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  quipu node list                              who is there, and how many shards each has
  quipu node list --shards                     and who has each shard
  quipu node drain 10.0.0.2:7381               that node gives its shards to the others, and takes none
  quipu node drain 019a8d                      the same, by the beginning of its id
  quipu node drain 10.0.0.2:7381 --undo        it takes shards again
  quipu node demo                              a Cassandra and three nodes on it, in this terminal

A node that is stopped by a signal (SIGTERM, Ctrl-C) drains by itself before it ends.";

/// The nodes that share a site on a database: list, drain; a demonstration
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List the nodes: addresses, version, shards
    List {
        /// List the shards, too: who has each, and how far its log is
        #[arg(long)]
        shards: bool,
        #[command(flatten)]
        server: Server,
    },
    /// Let a node give its shards to the others; it goes on passing commands on
    Drain {
        /// Its id or the beginning of it, or one of its addresses
        #[arg(value_name = "NODE")]
        node: String,
        /// Let it take shards again
        #[arg(long)]
        undo: bool,
        /// For how many seconds to wait until it has none
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        #[command(flatten)]
        server: Server,
    },
    /// Start a Cassandra and several nodes on it in this terminal, to count on, kill and start again
    Demo(demo::Args),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List { shards, server } => list(server, *shards),
        Command::Demo(args) => demo::run(args),
        Command::Drain { node, undo: true, server, .. } => {
            ask(server, node, false)?;
            say(format_args!("{node} takes shards again"))
        }
        Command::Drain { node, undo: false, wait, server } => drain(server, node, *wait),
    }
}

fn ask(server: &Server, node: &str, drain: bool) -> Result<Value, Failure> {
    let body = json!({ "drain": drain });
    let (method, path) = (Method::POST, format!("/nodes/{node}"));
    parse(&server.ask(&Ask { method, path, body: Some(&body), id: None, sites_time: Duration::ZERO })?)
}

fn drain(server: &Server, node: &str, seconds: u64) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let id = ask(server, node, true)?["node"].as_str().unwrap_or_default().to_owned();
    loop {
        let nodes = parse(&server.ask(&Ask::get("/nodes".to_owned()))?)?;
        let entry = elements(&nodes["nodes"]).find(|it| it["node"] == *id);
        let left = entry.map_or(0, |it| it["shards"].as_u64().unwrap_or(0));
        let others =
            elements(&nodes["nodes"]).filter(|it| it["node"] != *id && it["drains"] == false).count();
        if left == 0 {
            return say(format_args!(
                "{node} has no shards any more, and passes commands on. It may be stopped"
            ));
        }
        if others == 0 {
            return Err(Failure::failed(format!(
                "{node} keeps its {left} shards: no other node is there that takes shards. Start one, and it gives them away"
            )));
        }
        if Instant::now() >= until {
            return Err(Failure::failed(format!(
                "{node} has {left} shards left after {seconds} s. It goes on by itself; `quipu node list` tells how far it is"
            )));
        }
        thread::sleep(ASK_EVERY);
    }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn list(server: &Server, with_shards: bool) -> Result<(), Failure> {
    let text = server.ask(&Ask::get("/nodes".to_owned()))?;
    if server.json {
        return say(text);
    }
    let nodes = parse(&text)?;
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let columns = ("NODE", "SHARDS", "STATE", "LINK", "REDIS", "HTTP");
    let (node, shards, state, link, resp, http) = columns;
    say(format_args!("{node:<32} {shards:>6} {state:<9} {link:<21} {resp:<21} {http:<21} VERSION"))?;
    for it in elements(&nodes["nodes"]) {
        let [node, link, resp, http, version] =
            ["node", "link", "resp", "http", "version"].map(|name| text(&it[name]));
        let state = if it["drains"] == true { "draining" } else { "serving" };
        let shards = it["shards"].as_u64().unwrap_or(0);
        let own = if nodes["node"] == it["node"] { " (asked)" } else { "" };
        let speaks = if it["speaks"] == true { " (speaks for the site)" } else { "" };
        say(format_args!(
            "{node:<32} {shards:>6} {state:<9} {link:<21} {resp:<21} {http:<21} {version}{own}{speaks}"
        ))?;
    }
    if with_shards {
        say(format_args!("\n{:<8} {:>12} NODE", "SHARD", "LOG"))?;
        for it in elements(&nodes["shards"]) {
            say(format_args!("{:<8} {:>12} {}", it["shard"], it["position"], text(&it["node"])))?;
        }
    }
    Ok(())
}
