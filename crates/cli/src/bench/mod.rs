//! `quipu bench`: a load generator for any server that speaks the Redis protocol.
//!
//! [`args`] are the flags, [`session`] runs the rounds; [`round`] is the event loop in which they run, and
//! [`compare`] and [`output`] say what they have shown. [`retries`], [`sites`], [`edges`] and
//! [`cassandra`] are experiments of their own.

mod args;
mod bars;
mod cassandra;
mod commands;
mod compare;
mod connection;
mod edges;
mod endpoint;
mod error;
mod keys;
mod load;
mod output;
mod replies;
mod retries;
mod round;
mod session;
mod sites;
mod verify;

pub(crate) use args::Args;

use crate::failure::Failure;

/// What else can be measured.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    // Without a doc comment: all it says stands on its `Args`.
    Retries(retries::Args),
    // The same.
    Sites(sites::Args),
    // The same.
    Edges(edges::Args),
    // The same.
    Cassandra(cassandra::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Some(Command::Retries(args)) => retries::run(args),
        Some(Command::Sites(args)) => sites::run(args),
        Some(Command::Edges(args)) => edges::run(args),
        Some(Command::Cassandra(args)) => cassandra::run(args),
        None => session::run(&args.plan()?),
    }
}
