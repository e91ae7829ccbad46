//! Those who only look: at counters with bounds, which no site may ever show beyond them, and at values as they change.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use super::{
    checks::{self, Watched},
    clients::{BOUNDED, Shared},
};
use crate::harness::{Client, Value};

const LOOK_EVERY: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_millis(700);

/// Looks at the counters with bounds at all sites, again and again. Returns how often.
pub(crate) fn look_at_bounds(shared: &Shared<'_>) -> u64 {
    let mut looks = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        for site in 1..=shared.sites {
            let Some(addresses) = shared.directory.find(site) else { continue };
            let Ok(mut client) = Client::connect_within(addresses.resp, PATIENCE) else { continue };
            for key in BOUNDED {
                let Ok(value @ (Value::Bulk(_) | Value::Integer(_))) = client.ask(&format!("GET {key}"))
                else {
                    break;
                };
                looks += 1;
                shared.holds(checks::bounds(site, key, value.integer()));
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    looks
}

/// Watches a counter at a site over HTTP, from one life of the site to the next.
pub(crate) fn watch(shared: &Shared<'_>, site: u16, key: &'static str, may_fall: bool) -> Watched {
    let mut watched = Watched::default();
    while !shared.stop.load(Ordering::Relaxed) {
        // A value that the site had told before, to any client, is durable.
        if !may_fall {
            watched.at_least(shared.floor(site, key));
        }
        for value in Stream::open(shared, site, key).into_iter().flatten() {
            shared.holds(watched.sees(site, key, value, may_fall));
            if !may_fall {
                shared.floors[&(site, key)].fetch_max(value, Ordering::SeqCst);
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    watched
}

/// The events of one connection, as long as it lasts.
struct Stream<'a> {
    shared: &'a Shared<'a>,
    reader: BufReader<TcpStream>,
    line: String,
}

impl<'a> Stream<'a> {
    fn open(shared: &'a Shared<'a>, site: u16, key: &str) -> Option<Self> {
        let addresses = shared.directory.find(site)?;
        let mut stream = TcpStream::connect_timeout(&addresses.http, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let head = format!("GET /v1/counters/{key}/watch HTTP/1.1\r\nHost: {}\r\n\r\n", addresses.http);
        stream.write_all(head.as_bytes()).ok()?;
        Some(Self { shared, reader: BufReader::new(stream), line: String::new() })
    }
}

impl Iterator for Stream<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return None;
            }
            match self.reader.read_line(&mut self.line) {
                Ok(0) => return None,
                Ok(_) => {
                    let line = std::mem::take(&mut self.line);
                    let body = line.strip_prefix("data: ").map(serde_json::from_str::<serde_json::Value>);
                    if let Some(Ok(body)) = body
                        && let Some(value) = body["value"].as_i64()
                    {
                        return Some(value);
                    }
                }
                // Nothing for a while: what was read of a line stays.
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) => {}
                Err(_) => return None,
            }
        }
    }
}
