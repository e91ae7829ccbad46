//! Shards run by a host over stored data in memory: what clients are told, crashes, and wrong ways that are caught.

mod checker;
mod crashes;
mod model;
mod oracle;
mod rules;
mod table;
mod world;
