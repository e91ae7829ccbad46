//! Edges against sites in the same process, over HTTP, with what networks, disks and people do to them.

mod answers;
mod network;
mod programs;
mod state;

use std::time::Duration;

use quipu_edge::{Edge, Options, testing::Site};

/// Long enough for anything that succeeds.
const LONG: Duration = Duration::from_secs(30);

/// Nothing is sent but when a test says so, and nobody waits long.
fn options() -> Options {
    Edge::options()
        .only_when_asked()
        .timeouts(Duration::from_secs(5), Duration::from_millis(500))
        .back_off(Duration::from_millis(1), Duration::from_millis(20))
}

fn site() -> Site {
    Site::start("tests").expect("a free port")
}

fn in_memory(sites: &[&Site]) -> Edge {
    options().in_memory(sites.iter().map(|site| site.url())).expect("it opens")
}

/// An address where nobody is.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("it is bound"))
}
