//! A running server as its clients see it: bounds under a race, an orderly end, and clients that behave badly.

#[path = "../harness/mod.rs"]
mod harness;

mod books;
mod bounded;
mod closing;
mod crowds;
mod files;
#[cfg(target_os = "linux")]
mod full;
mod output;
mod slow;
mod stopping;
#[cfg(target_os = "linux")]
mod vanished;
mod waiting;
