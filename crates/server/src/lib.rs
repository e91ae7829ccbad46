//! The node.

pub mod auth;
pub mod config;
pub mod http;
pub mod metrics;
