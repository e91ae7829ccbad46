//! Shards run by a host over stored data in memory: what clients are told, crashes, and wrong ways that are caught.

mod checker;
mod crashes;
mod far;
mod listing;
mod model;
mod nodes;
mod operations;
mod oracle;
mod recovery;
mod rules;
mod saving;
mod settling;
mod stored;
mod table;
mod world;
