//! The HTTP front end over counters in memory, for tools that check it from outside. It forgets everything.
//!
//! `cargo run -p quipu-server --example http_in_memory [ADDRESS] [PASSWORD]`; the first line that it prints is its address.

use quipu_server::{auth::Users, http::serve_http, metrics::Metrics};
use std::{error::Error, net::TcpListener};

#[path = "../tests/http/memory.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod memory;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind(arguments.next().as_deref().unwrap_or("127.0.0.1:0"))?;
    let users =
        arguments.next().map(|password| Users::with_password(&password)).transpose()?.unwrap_or_default();
    println!("http://{}", listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let counters = memory::Memory::default();
    runtime.block_on(serve_http(listener, counters, users, Metrics::new(), std::future::pending()))?;
    Ok(())
}
