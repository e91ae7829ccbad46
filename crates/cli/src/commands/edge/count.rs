//! `quipu edge add` and `quipu edge subtract`.

use super::state::{State, try_to_hand_over};
use crate::failure::Failure;
use quipu_edge::SyncError;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  quipu edge add hits --state counts.quipu --servers http://127.0.0.1:7380
  quipu edge add bytes 4096 --state counts.quipu --offline      asks nobody
  quipu edge subtract stock 2 --state counts.quipu

Exit code 0: it is counted, in the file at least. A server that cannot be reached is nothing to speak of; one that refuses
is, on standard error. Exit code 1: nothing was counted, and the text says why.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The counter
    key: OsString,
    /// How much
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(i64).range(0..))]
    amount: i64,
    /// Count in the file only, and hand over another time
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    state: State,
}

pub(super) fn run(args: &Args, sign: i64) -> Result<(), Failure> {
    let edge = args.state.open()?;
    edge.add(args.key.as_encoded_bytes(), sign * args.amount).map_err(Failure::failed)?;
    if args.offline || !args.state.has_servers() {
        return Ok(());
    }
    match try_to_hand_over(&edge) {
        Ok(()) | Err(SyncError::Unreachable { .. }) => {}
        Err(why) => eprintln!("counted, and not handed over yet: {why}"),
    }
    Ok(())
}
