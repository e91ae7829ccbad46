//! One request, one answer.

use std::time::Duration;

use quipu_engine::handoff::exchange::{self, EXCHANGE_MESSAGE_BYTES_MAX, Exchange, Exchanged};
use ureq::{Agent, Body, http::Response};

use crate::{Address, SyncError};

/// Of an error's text so much is read, in bytes.
const PROBLEM_BYTES_MAX: u64 = 64 * 1024;

/// How servers are asked.
#[derive(Debug)]
pub(crate) struct Http {
    agent: Agent,
    answer_max: Duration,
    authorization: Option<String>,
}

impl Http {
    pub(crate) fn new(connect_max: Duration, answer_max: Duration, authorization: Option<String>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(connect_max));
        Self { agent: config.build().into(), answer_max, authorization }
    }

    /// Asks, and reads the answer, within this time.
    pub(crate) fn exchange(
        &self,
        server: &Address,
        exchange: &Exchange,
        within: Duration,
    ) -> Result<Exchanged, SyncError> {
        let request = self.agent.post(server.exchange()).config();
        let request = request.timeout_global(Some(within.min(self.answer_max))).build();
        let mut request = request.header("content-type", "application/cbor");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let unreachable =
            |error: ureq::Error| SyncError::Unreachable { server: server.clone(), why: error.to_string() };
        let mut response = request.send(&exchange::encode(exchange)[..]).map_err(unreachable)?;
        if response.status() != 200 {
            return Err(refusal(server, &mut response));
        }
        let limit = EXCHANGE_MESSAGE_BYTES_MAX as u64;
        let nonsense = |why: String| SyncError::Nonsense { server: server.clone(), why };
        let body = response.body_mut().with_config().limit(limit).read_to_vec();
        let body = body.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(limit) => nonsense(format!("more than {limit} bytes")),
            other => unreachable(other),
        })?;
        exchange::decode(&body).map_err(|why| nonsense(why.to_string()))
    }
}

/// A problem is an error that tells what it is; anything else is told as it came.
fn refusal(server: &Address, response: &mut Response<Body>) -> SyncError {
    let (server, status) = (server.clone(), response.status().as_u16());
    let text = response.body_mut().with_config().limit(PROBLEM_BYTES_MAX).read_to_string();
    let problem: serde_json::Value =
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    match problem["detail"].as_str() {
        Some(detail) => SyncError::Refused { server, why: detail.to_owned() },
        None => SyncError::Nonsense { server, why: format!("the status {status}; is it a Quipu server?") },
    }
}
