//! Counters over HTTP and JSON.
//!
//! [`serve_http`] runs it; the routes stand in [`router`], each with its own small handler. The description for programs is
//! `openapi.json` beside this file, served at `/v1/openapi.json`.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{
    Router,
    http::StatusCode,
    middleware::from_fn_with_state,
    routing::{get, post},
};
use quipu_engine::{
    Command, Refusal, Reply, SiteId,
    handoff::exchange::{Exchange, Exchanged},
};
use tokio::sync::{Semaphore, watch};

use crate::{auth::Users, metrics::Metrics};
use problem::Problem;

mod access;
mod audit;
mod counters;
pub mod decode;
mod exchange;
mod import;
mod limits;
mod list;
pub mod nodes;
mod problem;
mod request;
pub mod retire;
mod running;
mod serve;
mod show;
pub mod sites;
mod stall;
mod status;
mod watching;

pub use audit::Audit;
pub use decode::ListRequest;
pub use exchange::ExchangeTrouble;
pub use limits::HttpLimits;
pub use quipu_engine::Listing;
pub use serve::{serve_http, serve_http_within};

/// What the front end needs of a node.
pub trait Counters: Clone + Send + Sync + 'static {
    /// Runs a command; the answer comes when it is durable. The command runs even if nobody waits for its answer any
    /// more: a client may have gone.
    fn call(&self, command: Command<'_>) -> impl Future<Output = Reply> + Send;
    /// Counters in the order of their keys.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Listing, Refusal>> + Send;
    /// How many counters there are.
    fn size(&self) -> impl Future<Output = u64> + Send;
    /// The changes of a counter from now on, coalesced; `None` where there is no such counter. A change is published no
    /// later than any reply that tells of it, and after it is durable.
    fn watch(&self, key: &[u8]) -> watch::Receiver<Option<i64>>;
    /// The books of this site.
    fn audit(&self) -> impl Future<Output = Result<Audit, Refusal>> + Send;
    /// How long ago another site was heard from; `None`: not since the start, or it is this one.
    fn last_heard(&self, site: SiteId) -> Option<Duration>;
    /// Can commands be run? If not, why not.
    fn ready(&self) -> Result<(), String>;
    /// Takes in what an edge says; the answer comes when it is durable.
    fn exchange(
        &self,
        _exchange: Exchange,
    ) -> impl Future<Output = Result<Exchanged, ExchangeTrouble>> + Send {
        async { Err(ExchangeTrouble::NotNow("nothing can be handed over to this node".to_owned())) }
    }
    /// Lets a relay retire, and tells how far it is.
    fn retire(&self) -> impl Future<Output = Result<retire::Retiring, retire::RetireTrouble>> + Send {
        async { Err(retire::RetireTrouble::NoRelay) }
    }
    /// Who belongs to the cluster; the error is why this node cannot tell.
    fn cluster(&self) -> Result<sites::Cluster, String> {
        Err("this node belongs to no cluster".to_owned())
    }
    /// The nodes that share this site; `None`: it has one of its own.
    fn nodes(&self) -> Option<nodes::Nodes> {
        None
    }
    /// Asks a node to give its shards away, or to take some again.
    fn drain_node(
        &self,
        _node: &str,
        _drains: bool,
    ) -> impl Future<Output = Result<nodes::NodeFacts, nodes::NodeTrouble>> + Send {
        async { Err(nodes::NodeTrouble::Alone) }
    }
    /// Brings about a change of who belongs to the cluster. Saying it again tells how far it is.
    fn grant(
        &self,
        _wish: sites::Wish,
    ) -> impl Future<Output = Result<sites::Progress, sites::SiteTrouble>> + Send {
        let text = "this node belongs to no cluster; nothing was changed".to_owned();
        async { Err(sites::SiteTrouble::Conflict(text)) }
    }
}

/// What every handler can reach.
#[derive(Clone)]
struct App<C> {
    counters: C,
    users: Users,
    metrics: Metrics,
    running: running::Running,
    watches: Arc<Semaphore>,
    limits: HttpLimits,
}

/// All routes over a node.
pub fn router<C: Counters>(counters: C, users: Users, metrics: Metrics, limits: HttpLimits) -> Router {
    let watches = Arc::new(Semaphore::new(limits.watches));
    let app = App { counters, users, metrics, running: running::Running::default(), watches, limits };
    let protected = Router::new()
        .route("/v1/counters", get(list::list::<C>))
        .route(
            "/v1/counters/{key}",
            get(counters::get::<C>).put(counters::create::<C>).delete(counters::delete::<C>),
        )
        .route("/v1/counters/{key}/add", post(counters::add::<C>))
        .route("/v1/counters/{key}/reset", post(counters::reset::<C>))
        .route("/v1/counters/{key}/move", post(counters::move_rights::<C>))
        .route("/v1/counters/{key}/info", get(counters::info::<C>))
        .route("/v1/counters/{key}/watch", get(watching::watch::<C>))
        .route("/v1/counters/{key}/operations/{producer}/{id}", get(counters::outcome::<C>))
        .route("/v1/exchange", post(exchange::exchange::<C>))
        .route("/v1/retire", post(retire::retire::<C>))
        .route("/v1/import", post(import::import::<C>))
        .route("/v1/audit", get(audit::audit::<C>))
        .route("/v1/sites", get(sites::list::<C>).post(sites::change::<C>))
        .route("/v1/sites/{site}", axum::routing::delete(sites::remove::<C>))
        .route("/v1/nodes", get(nodes::list::<C>))
        .route("/v1/nodes/{node}", post(nodes::drain::<C>))
        .route("/metrics", get(status::metrics::<C>))
        .route_layer(from_fn_with_state(app.clone(), access::check::<C>));
    let open = Router::new()
        .route("/health/live", get(status::live))
        .route("/health/ready", get(status::ready::<C>))
        .route("/v1/openapi.json", get(status::openapi));
    open.merge(protected)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), status::count::<C>))
        .with_state(app)
}

async fn no_such_path() -> Problem {
    let detail = "there is nothing at this path; /v1/openapi.json describes what there is";
    Problem::new(StatusCode::NOT_FOUND, "no-such-path", "There is nothing here", detail)
}

async fn no_such_method() -> Problem {
    let detail = "this path does not know the method; the header `allow` names those that it knows";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no-such-method", "The method is not allowed here", detail)
}
