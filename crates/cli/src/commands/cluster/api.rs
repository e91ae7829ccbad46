//! What a running site is asked, over HTTP like any client.

use crate::commands::client::{key_of, parse_answer};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use ureq::{Agent, http};

/// A site that takes longer than this is shown as one that does not answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// How many counters of a site are looked at, the first by their keys.
const COUNTERS_MAX: usize = 500;

/// One site's server.
#[derive(Debug)]
pub(crate) struct Api {
    agent: Agent,
    url: String,
}

/// How a site sees its link to another.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PeerLink {
    pub(crate) is_up: bool,
    /// How long nothing has come; unknown if nothing ever has.
    pub(super) heard_seconds: Option<f64>,
    /// To the other site, since this one was started.
    pub(crate) sent_bytes: u64,
    /// From the other site.
    pub(crate) received_bytes: u64,
}

/// How far a site has got with the streams of all, by the name of the site and the number of the shard.
pub(super) type Positions = BTreeMap<(String, u64), u64>;

/// What a site knows about a counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) is_bounded: bool,
    /// By the name of the site that has counted.
    pub(super) sites: BTreeMap<String, SiteInfo>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SiteInfo {
    pub(super) rights_to_add: Option<u128>,
    pub(super) rights_to_subtract: Option<u128>,
}

impl Api {
    pub(super) fn new(address: SocketAddr) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(ANSWER_TIME_MAX));
        Self { agent: config.build().into(), url: format!("http://{address}") }
    }

    /// The counters of this site with their values.
    pub(super) fn values(&self) -> Result<BTreeMap<Vec<u8>, i64>, String> {
        let answer = self.get(&format!("/v1/counters?limit={COUNTERS_MAX}&values=string"))?;
        let counters = answer["counters"].as_array().ok_or_else(|| bad("counters"))?;
        let counter = |counter: &Value| {
            let key = key_of(counter).map_err(|_| bad("key"))?;
            Ok((key, number(&counter["value"]).ok_or_else(|| bad("value"))?))
        };
        counters.iter().map(counter).collect()
    }

    /// What this site knows about a counter.
    pub(super) fn info(&self, key: &[u8]) -> Result<Info, String> {
        let key = percent_encode(key, NON_ALPHANUMERIC);
        let answer = self.get(&format!("/v1/counters/{key}/info?values=string"))?;
        let sites = answer["sites"].as_array().ok_or_else(|| bad("sites"))?;
        let site = |site: &Value| {
            let name = site["site"].as_str().ok_or_else(|| bad("site"))?;
            let info = SiteInfo {
                rights_to_add: number(&site["rights_to_add"]),
                rights_to_subtract: number(&site["rights_to_subtract"]),
            };
            Ok((name.to_owned(), info))
        };
        let sites = sites.iter().map(site).collect::<Result<_, String>>()?;
        Ok(Info { is_bounded: !answer["bounds"].is_null(), sites })
    }

    /// How far this site has got with every stream, its own among them.
    pub(super) fn positions(&self) -> Result<Positions, String> {
        let answer = self.get("/v1/audit?values=string")?;
        let shards = answer["shards"].as_array().ok_or_else(|| bad("shards"))?;
        let mut positions = Positions::new();
        for shard in shards {
            let number_of_shard = shard["shard"].as_u64().ok_or_else(|| bad("shard"))?;
            for site in shard["sites"].as_array().ok_or_else(|| bad("sites"))? {
                let name = site["site"].as_str().ok_or_else(|| bad("site"))?;
                let position = number(&site["position"]).ok_or_else(|| bad("position"))?;
                positions.insert((name.to_owned(), number_of_shard), position);
            }
        }
        Ok(positions)
    }

    /// This site's links, by the number of the other site.
    pub(crate) fn links(&self) -> Result<BTreeMap<u16, PeerLink>, String> {
        Ok(read_metrics(&self.metrics()?))
    }

    /// A metric that has labels, this one among them if it is not empty; of all others together, such as workers.
    pub(crate) fn metric_of(&self, name: &str, label: &str) -> Result<u64, String> {
        let text = self.metrics()?;
        let lines =
            text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
        let lines = lines.filter(|(labels, _)| labels.contains(label));
        let values: Vec<f64> = lines.filter_map(|(_, value)| value.parse().ok()).collect();
        if values.is_empty() { Err(bad(name)) } else { Ok(whole(values.iter().sum())) }
    }

    /// A metric without labels.
    pub(crate) fn metric(&self, name: &str) -> Result<u64, String> {
        let text = self.metrics()?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.map(whole).ok_or_else(|| bad(name))
    }

    fn metrics(&self) -> Result<String, String> {
        let response = self.agent.get(format!("{}/metrics", self.url)).call();
        let text = response.and_then(|mut it| it.body_mut().read_to_string());
        text.map_err(|error| error.to_string())
    }

    /// All that was added at a site, in all counters, as far as this one knows.
    pub(crate) fn added_at(&self, site: u16) -> Result<u64, String> {
        let answer = self.get("/v1/audit?values=string")?;
        let sites = answer["total"]["sites"].as_array().ok_or_else(|| bad("sites"))?;
        let name = site.to_string();
        let known = sites.iter().find(|known| known["site"].as_str() == Some(&*name));
        known.map_or(Ok(0), |known| number(&known["counted"]["added"]).ok_or_else(|| bad("added")))
    }

    /// Adds, and says what the value is then.
    pub(super) fn add(&self, key: &str, amount: i64) -> Result<i64, String> {
        let key = percent_encode(key.as_bytes(), NON_ALPHANUMERIC);
        let request = http::Request::post(format!("{}/v1/counters/{key}/add?values=string", self.url))
            .header("content-type", "application/json")
            .body(json!({ "amount": amount.to_string() }).to_string());
        let answer = self.ask(request.map_err(|error| error.to_string())?)?;
        number(&answer["value"]).ok_or_else(|| bad("value"))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        let request = http::Request::get(format!("{}{path}", self.url)).body(String::new());
        self.ask(request.map_err(|error| error.to_string())?)
    }

    fn ask(&self, request: http::Request<String>) -> Result<Value, String> {
        let mut response = self.agent.run(request).map_err(|error| error.to_string())?;
        let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let answer = parse_answer(&text).map_err(|_| format!("no JSON: {text:?}"))?;
        if response.status().is_success() {
            return Ok(answer);
        }
        Err(answer["detail"].as_str().unwrap_or(&text).to_owned())
    }
}

fn number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

fn bad(name: &str) -> String {
    format!("the answer has no {name:?}")
}

/// What metrics say of links.
fn read_metrics(text: &str) -> BTreeMap<u16, PeerLink> {
    let mut links = BTreeMap::<u16, PeerLink>::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once("{peer=\"") else { continue };
        let Some((peer, value)) = rest.split_once("\"} ") else { continue };
        let (Ok(peer), Ok(value)) = (peer.parse(), value.parse::<f64>()) else { continue };
        match name {
            "quipu_link_up" => links.entry(peer).or_default().is_up = value > 0.0,
            "quipu_link_last_heard_seconds" => {
                links.entry(peer).or_default().heard_seconds = Some(value).filter(|value| value.is_finite());
            }
            "quipu_link_sent_bytes_total" => links.entry(peer).or_default().sent_bytes = whole(value),
            "quipu_link_received_bytes_total" => links.entry(peer).or_default().received_bytes = whole(value),
            _ => {}
        }
    }
    links
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_metrics() {
        let text = "# TYPE quipu_link_up gauge\nquipu_link_up{peer=\"2\"} 1\nquipu_link_up{peer=\"3\"} 0\n\
                    quipu_link_last_heard_seconds{peer=\"2\"} 0.25\nquipu_link_last_heard_seconds{peer=\"3\"} NaN\n\
                    quipu_link_messages_sent_total{peer=\"2\"} 9\nquipu_up 1\n\
                    quipu_link_sent_bytes_total{peer=\"2\"} 700\nquipu_link_received_bytes_total{peer=\"2\"} 80\n";
        let expected = [
            (2, PeerLink { is_up: true, heard_seconds: Some(0.25), sent_bytes: 700, received_bytes: 80 }),
            (3, PeerLink::default()),
        ];
        assert_eq!(read_metrics(text), BTreeMap::from(expected));
    }
}
