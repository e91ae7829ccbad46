//! How long it takes until a count at one site is seen at another, beside one link delay and two commits.

use super::args::Args;
use super::group::{Group, PATIENCE};
use super::line::{self, Line};
use crate::bench::commands::encode;
use crate::bench::endpoint::{Conversation, Endpoint};
use crate::bench::error::BenchError;
use crate::bench::replies::Reply;
use crate::failure::Failure;
use crate::interrupt::go_on;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The counter that is watched.
const KEY: &str = "seen";
/// A pause before each add: what was sent for the one before is acknowledged, and everybody rests.
const PAUSE: Duration = Duration::from_millis(5);
/// How often a byte goes over the link and back in a round.
const PINGS: usize = 20;

/// What was measured with one delay of the link.
pub(super) struct Sight {
    pub(super) delay_ms: u64,
    pub(super) rounds: Vec<Round>,
}

/// One round, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// One way over the link.
    pub(super) link: Samples,
    /// A client's question and its answer, with nothing to store.
    pub(super) ask: Samples,
    /// The same with an add at a server that is alone.
    pub(super) alone: Samples,
    /// From when an add is sent to when it is acknowledged.
    pub(super) acknowledged: Samples,
    /// And to when it is seen at the other site.
    pub(super) seen: Samples,
}

impl Round {
    /// Storing an add.
    pub(super) fn commit_ms(&self) -> f64 {
        (self.alone.quantile(0.5) - self.ask.quantile(0.5)).max(0.0)
    }

    /// One link delay and two commits, and what clients need to ask and to be told.
    pub(super) fn expected_ms(&self) -> f64 {
        self.link.quantile(0.5) + 2.0 * self.commit_ms() + self.ask.quantile(0.5)
    }
}

/// Times in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1_000.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest that is not below this share of them; of none there is none.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number")]
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

pub(super) fn measure(args: &Args, folder: &Path, step: &mut dyn FnMut()) -> Result<Vec<Sight>, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("no line between the sites: {error}"));
    let alone = Group::start("sight-alone", folder, 1)?;
    let mut group = Group::new("sight", folder, 2)?;
    group.start_next(|link| link)?;
    let between = Line::to(group.link(1)).map_err(failed)?;
    group.start_next(|_| between.address)?;
    let beside = Line::to(line::echo().map_err(failed)?).map_err(failed)?;
    let endpoints = [group.endpoint(1), alone.endpoint(1)];
    let mut scene = Scene {
        writer: endpoints[0].open().map_err(Failure::failed)?,
        alone: endpoints[1].open().map_err(Failure::failed)?,
        link: TcpStream::connect(beside.address).map_err(failed)?,
        watched: watch(group.site(2).http)?,
        endpoints: &endpoints,
    };
    scene.link.set_nodelay(true).map_err(failed)?;

    let mut sights: Vec<Sight> =
        args.delay_ms.iter().map(|&delay_ms| Sight { delay_ms, rounds: Vec::new() }).collect();
    let count = sights.len();
    for round in 0..args.rounds {
        for turn in 0..count {
            let sight = &mut sights[if round % 2 == 0 { turn } else { count - 1 - turn }];
            let delay = Duration::from_millis(sight.delay_ms);
            [&between, &beside].iter().for_each(|line| line.set_delay(delay));
            sight.rounds.push(scene.round(args.samples)?);
            step();
        }
    }
    group.wait_until_known(args.samples * (args.rounds * count) as u64)?;
    drop(scene);
    group.stop()?;
    alone.stop()?;
    Ok(sights)
}

/// All that takes part.
struct Scene<'a> {
    writer: Conversation<'a>,
    alone: Conversation<'a>,
    /// A byte comes back as late as one over the link and back.
    link: TcpStream,
    /// The values that are seen at the other site, and when.
    watched: Receiver<(i64, Instant)>,
    /// Of the writer, and of the one that is alone.
    endpoints: &'a [Endpoint; 2],
}

impl Scene<'_> {
    fn round(&mut self, samples: u64) -> Result<Round, Failure> {
        let mut round = Round::default();
        for _ in 0..PINGS {
            round.link.push(self.ping_link().map_err(Failure::failed)? / 2);
        }
        for _ in 0..samples {
            go_on()?;
            thread::sleep(PAUSE);
            let (ask, _) = timed(&mut self.writer, &self.endpoints[0], &["GET", KEY])?;
            round.ask.push(ask);
            thread::sleep(PAUSE);
            let (alone, _) = timed(&mut self.alone, &self.endpoints[1], &["INCRBY", KEY, "1"])?;
            round.alone.push(alone);
            thread::sleep(PAUSE);
            let sent = Instant::now();
            let (acknowledged, value) = timed(&mut self.writer, &self.endpoints[0], &["INCRBY", KEY, "1"])?;
            round.acknowledged.push(acknowledged);
            round.seen.push(self.seen(value)?.saturating_duration_since(sent));
        }
        Ok(round)
    }

    fn ping_link(&mut self) -> std::io::Result<Duration> {
        let sent = Instant::now();
        self.link.write_all(b"?")?;
        self.link.read_exact(&mut [0])?;
        Ok(sent.elapsed())
    }

    /// When this value was seen.
    fn seen(&self, value: i64) -> Result<Instant, Failure> {
        loop {
            match self.watched.recv_timeout(PATIENCE) {
                Ok((seen, at)) if seen == value => return Ok(at),
                Ok((seen, _)) if seen < value => {}
                Ok((seen, _)) => {
                    return Err(Failure::failed(format!("{seen} was seen, and the counter was at {value}")));
                }
                Err(error) => return Err(Failure::failed(format!("{value} was not seen: {error}"))),
            }
        }
    }
}

/// One command: how long it takes, and the number that it is answered with, if it is one.
fn timed(
    conversation: &mut Conversation<'_>,
    endpoint: &Endpoint,
    command: &[&str],
) -> Result<(Duration, i64), Failure> {
    let bytes = encode(command);
    let sent = Instant::now();
    conversation.send(&bytes).map_err(Failure::failed)?;
    let reply = conversation.receive(1).map_err(Failure::failed)?;
    let time = sent.elapsed();
    let value = match reply {
        Reply::Integer(digits) => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        Reply::Bulk(_) | Reply::Nil => Some(0),
        _ => None,
    };
    let value = value.ok_or_else(|| {
        let (address, text) = (endpoint.name.clone(), reply.text());
        Failure::failed(BenchError::Answer { address, text, remedy: "" })
    })?;
    Ok((time, value))
}

/// Tells every value of the counter at a site. The thread ends with the site.
fn watch(http: SocketAddr) -> Result<Receiver<(i64, Instant)>, Failure> {
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().into();
    let response = agent.get(format!("http://{http}/v1/counters/{KEY}/watch?values=string")).call();
    let body = response.map_err(|error| Failure::failed(format!("nothing can be watched: {error}")))?;
    let lines = BufReader::new(body.into_body().into_reader()).lines();
    let (value, values) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let at = Instant::now();
            let Some(data) = line.strip_prefix("data:") else { continue };
            let data: Option<Value> = serde_json::from_str(data).ok();
            let seen = data.and_then(|data| data["value"].as_str()?.parse().ok());
            // Of a counter that is not there yet there is no value.
            if seen.is_some_and(|seen| value.send((seen, at)).is_err()) {
                return;
            }
        }
    });
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples = Samples(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            [0.0, 0.25, 0.5, 0.51, 0.99].map(|share| samples.quantile(share)),
            [1.0, 1.0, 2.0, 3.0, 4.0]
        );
        assert!(Samples::default().quantile(0.5).is_nan());
    }

    #[test]
    fn what_clients_need_is_not_taken_for_storing() {
        let round = Round {
            link: Samples(vec![10.0]),
            ask: Samples(vec![0.5]),
            alone: Samples(vec![2.5]),
            ..Round::default()
        };
        assert_eq!((round.commit_ms(), round.expected_ms()), (2.0, 14.5));
    }
}
