//! Edges hand over what they have counted: one request, one answer, in the format of `docs/protocol.md`.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use quipu_engine::handoff::exchange::{self, Exchange, Exchanged};

use super::{App, Counters, problem::Problem, request::CborBody};

/// Why an exchange was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeTrouble {
    /// The edge belongs to another cluster.
    #[error(
        "the edge belongs to the cluster {theirs:?}, and this is a server of {ours:?}; nothing was done, and what the edge \
         has counted stays where it is. Use a server of its own cluster"
    )]
    OtherCluster {
        /// The edge's.
        theirs: String,
        /// The server's.
        ours: String,
    },
    /// It speaks of what is not here.
    #[error("{0}; nothing was done")]
    Impossible(String),
    /// It cannot be done now.
    #[error("{0}")]
    NotNow(String),
}

pub(super) async fn exchange<C: Counters>(
    State(app): State<App<C>>,
    CborBody(body): CborBody,
) -> Result<Response, Problem> {
    let exchange: Exchange = exchange::decode(&body).map_err(|why| {
        Problem::bad_request(format!("{why}; nothing was done. docs/protocol.md says what is expected"))
    })?;
    let exchanged: Exchanged = app.counters.exchange(exchange).await.map_err(|trouble| problem(&trouble))?;
    let body = exchange::encode(&exchanged);
    Ok(([(header::CONTENT_TYPE, "application/cbor")], body).into_response())
}

fn problem(trouble: &ExchangeTrouble) -> Problem {
    let detail = trouble.to_string();
    match trouble {
        ExchangeTrouble::OtherCluster { .. } => {
            Problem::new(StatusCode::CONFLICT, "other-cluster", "The edge belongs to another cluster", detail)
        }
        ExchangeTrouble::Impossible(_) => Problem::bad_request(detail),
        ExchangeTrouble::NotNow(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-now", "Nothing can be handed over now", detail)
        }
    }
}
