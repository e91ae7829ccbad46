//! `quipu edge flush` and `quipu edge retire`.

use super::state::State;
use crate::failure::Failure;
use quipu_server::config::parse_duration;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  quipu edge flush --state counts.quipu --servers http://a:7380,http://b:7380 --deadline 10s
  quipu edge retire --state counts.quipu --servers http://a:7380

Exit code 1 if it does not succeed by the deadline: standard error says what is open, and everything that is stays in the
file, for the next command. `retire` removes the file only when everything is handed over and a server has promised to tell
the others that this edge will not come again; what counted once here counts no more then, so run it when you are done.
What is on its way to a relay only that relay can confirm. If its disk is lost, nobody can tell whether that was counted: the
command fails and names the amounts, until --give-up.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Give up after so long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    deadline: Duration,
    #[command(flatten)]
    state: State,
}

pub(super) fn flush(args: &Args) -> Result<(), Failure> {
    args.state.must_exist()?;
    let edge = args.state.open_online()?;
    edge.flush(args.deadline).map_err(Failure::failed)
}

#[derive(clap::Args)]
pub(crate) struct RetireArgs {
    #[command(flatten)]
    args: Args,
    /// At the deadline, give up what is on its way to a relay that has not confirmed it: it may never be counted
    #[arg(long)]
    give_up: bool,
}

pub(super) fn retire(RetireArgs { args, give_up }: &RetireArgs) -> Result<(), Failure> {
    args.state.must_exist()?;
    let edge = args.state.open_online()?;
    if !give_up {
        return edge.retire(args.deadline).map_err(Failure::failed);
    }
    for given_up in edge.retire_giving_up(args.deadline).map_err(Failure::failed)? {
        eprintln!("given up, on its way to the relay {}: {}", given_up.server, given_up.list());
    }
    Ok(())
}
