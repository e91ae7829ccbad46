//! Sites as real processes: they agree in the end, whatever happens to the links between them, and refuse whoever would
//! spoil a count.

#[path = "../harness/mod.rs"]
mod harness;

mod clients;
mod converging;
mod copies;
mod members;
mod refused;
mod silent;

use harness::cluster;
