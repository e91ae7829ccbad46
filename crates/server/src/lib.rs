//! The node.

pub mod resp;
