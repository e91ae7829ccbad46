//! The server beside Debian's Redis, and under its tools. What needs a program that is not there says so and, with
//! `QUIPU_REQUIRE_CLIENTS=1`, fails.

#[path = "../harness/mod.rs"]
mod harness;

mod cases;
mod compare;
mod programs;
