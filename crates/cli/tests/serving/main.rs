//! A running server as its clients see it: bounds under a race, an orderly end, and clients that behave badly.

#[path = "../harness/mod.rs"]
mod harness;

mod bounded;
mod closing;
mod crowds;
mod output;
mod slow;
mod stopping;
