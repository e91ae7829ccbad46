//! The nodes that share this site: who is there, who has which shard, and whether a node is to give its shards away.

use axum::{
    extract::State,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{App, Counters, decode, problem::Problem, request::JsonBody, show::Json};

/// Where the node stands in `/v1/nodes/{node}`, between the slashes.
const NODE_PLACE: usize = 3;

/// A site's nodes, as one of them sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nodes {
    /// The node that says this.
    pub node: String,
    /// Those that are there.
    pub nodes: Vec<NodeFacts>,
    /// The shards.
    pub shards: Vec<ShardFacts>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// Its id: another one after each start.
    pub node: String,
    /// Where other nodes reach it.
    pub link: String,
    /// Where Redis clients do.
    pub resp: Option<String>,
    /// Where HTTP clients do.
    pub http: Option<String>,
    /// The version that it runs.
    pub version: String,
    /// Does it give its shards away?
    pub drains: bool,
    /// Does it speak for the site to other sites?
    pub speaks: bool,
    /// How many shards it has, or is about to have.
    pub shards: u64,
}

/// One shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShardFacts {
    /// Its number.
    pub shard: u16,
    /// Who has it, or is about to.
    pub node: Option<String>,
    /// The newest record of its log, as it was last seen.
    pub position: u64,
}

/// Why a node is not asked to drain. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeTrouble {
    /// Nobody shares this site.
    #[error(
        "this site has one node, in a folder of its own; nothing was changed. Sites on a database (--storage) have several"
    )]
    Alone,
    /// No such node.
    #[error("no node {0:?} is there, or several begin so; nothing was changed. `quipu node list` shows them")]
    Unknown(String),
    /// The store failed.
    #[error("it could not be stored: {0}; nothing was changed. Try again")]
    NotStored(String),
}

/// What is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    drain: bool,
}

pub(super) async fn list<C: Counters>(State(app): State<App<C>>) -> Result<Response, Problem> {
    let nodes = app.counters.nodes().ok_or(NodeTrouble::Alone).map_err(|trouble| problem(&trouble))?;
    Ok(Json(nodes).into_response())
}

pub(super) async fn drain<C: Counters>(
    State(app): State<App<C>>,
    parts: Parts,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let node = parts.uri.path().split('/').nth(NODE_PLACE).map(decode::segment).unwrap_or_default();
    let node = String::from_utf8_lossy(&node).into_owned();
    let Body { drain } = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!("the body says nothing of a node: {error}; give {{\"drain\": true}}"))
    })?;
    let facts = app.counters.drain_node(&node, drain).await.map_err(|trouble| problem(&trouble))?;
    Ok((StatusCode::ACCEPTED, Json(facts)).into_response())
}

fn problem(trouble: &NodeTrouble) -> Problem {
    let detail = trouble.to_string();
    match trouble {
        NodeTrouble::Alone => Problem::new(StatusCode::CONFLICT, "alone", "There are no nodes", detail),
        NodeTrouble::Unknown(_) => {
            Problem::new(StatusCode::NOT_FOUND, "no-such-node", "There is no such node", detail)
        }
        NodeTrouble::NotStored(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-now", "The nodes cannot be told now", detail)
        }
    }
}
