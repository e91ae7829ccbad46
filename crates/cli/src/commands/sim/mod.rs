//! `quipu sim`: everything that runs in virtual time.

use crate::failure::Failure;
use clap::Subcommand;

mod clients;
mod reconnect;
mod retire;
mod sessions;
mod table;
mod trace;

#[derive(Subcommand)]
pub(crate) enum Command {
    // Without doc comments: each command's own, with all it says, stands on its `Args`.
    Clients(clients::Args),
    Sessions(sessions::Args),
    Reconnect(reconnect::Args),
    Retire(retire::Args),
    Trace(trace::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Clients(args) => clients::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Reconnect(args) => reconnect::run(&args),
        Command::Retire(args) => retire::run(&args),
        Command::Trace(args) => trace::run(&args),
    }
}
