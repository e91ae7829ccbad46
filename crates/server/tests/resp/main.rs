//! The Redis protocol, tested from outside: bytes in, bytes and requests out.

mod cluster;
mod redis;
mod session;
mod stream;
mod support;
