//! `quipu edge status`.

use super::state::State;
use crate::{commands::client::say, failure::Failure};
use quipu_edge::{InFlight, Status};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  quipu edge status --state counts.quipu
  quipu edge status --state counts.quipu --json

Asks no server. Exit code 0 whatever it says.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: State,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    args.state.must_exist()?;
    let edge = args.state.open()?;
    let status = edge.status().ok_or_else(|| Failure::failed("the state was closed"))?;
    if args.json {
        return say(as_json(&status));
    }
    let cluster = status.cluster.as_deref().unwrap_or("none yet: it has met no server");
    say(format_args!("edge       {}", status.name))?;
    say(format_args!("cluster    {cluster}"))?;
    say(format_args!("openings   {}", status.openings))?;
    say(format_args!("waiting    {}", counters(status.waiting)))?;
    for InFlight { server, address, counters: carried, .. } in &status.in_flight {
        let address = address.as_deref().unwrap_or("its address is not known");
        say(format_args!("in flight  {} for {server}, {address}", counters(*carried)))?;
    }
    if let Some(why) = &status.copy {
        say(format_args!("copy       nothing is handed over: {why}"))?;
    }
    if status.is_retiring {
        say("retiring   it counts no more; run `quipu edge retire` again")?;
    }
    Ok(())
}

fn counters(count: usize) -> String {
    format!("{count} counter{}", if count == 1 { "" } else { "s" })
}

fn as_json(status: &Status) -> Value {
    let in_flight = status
        .in_flight
        .iter()
        .map(|it| json!({"server": it.server, "address": it.address, "counters": it.counters}));
    json!({
        "edge": status.name,
        "cluster": status.cluster,
        "openings": status.openings,
        "waiting": status.waiting,
        "in_flight": in_flight.collect::<Vec<_>>(),
        "retiring": status.is_retiring,
        "copy": status.copy,
    })
}
