//! The HTTP front end over real connections: every route and every error.

mod client;
mod counters;
mod errors;
mod limits;
mod memory;
mod sites;
mod status;
mod watching;
