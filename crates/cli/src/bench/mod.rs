//! `quipu bench`: a load generator for any server that speaks the Redis protocol.
//!
//! [`args`] are the flags, [`session`] runs the rounds; [`round`] is the event loop in which they run, and
//! [`compare`] and [`output`] say what they have shown.

mod args;
mod bars;
mod commands;
mod compare;
mod connection;
mod endpoint;
mod error;
mod keys;
mod load;
mod output;
mod replies;
mod round;
mod session;
mod verify;

pub(crate) use args::Args;

use crate::failure::Failure;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    session::run(&args.plan()?)
}
