//! One file for each command: its flags, and what it does.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod edge;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod storage;
