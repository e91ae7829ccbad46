//! Lets a relay retire. A request that says it again tells how far it is.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{App, Counters, problem::Problem, show::Json};

/// How far a relay is that retires.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retiring {
    /// Its name.
    pub relay: String,
    /// It may be stopped for good.
    pub is_done: bool,
    /// Counters with counts that it has not handed over.
    pub counters: u64,
    /// Counters with counts that are on their way, and not known to have arrived.
    pub tokens: u64,
    /// Shards whose slots nobody has taken over yet.
    pub estates: u64,
    /// Who has taken over.
    pub heirs: Vec<String>,
    /// Whom it waits for.
    pub waits_for: Vec<String>,
    /// What is in the way.
    pub trouble: Option<String>,
}

/// Why a relay does not retire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetireTrouble {
    /// It is none.
    #[error(
        "this is no relay, and stays as it is. A site leaves with `quipu site drain` and `quipu site remove`"
    )]
    NoRelay,
    /// That it retires could not be stored.
    #[error("it could not be stored: {0}; nothing was changed. Try again")]
    NotStored(String),
    /// The server goes down.
    #[error("the server is stopping; it goes on with it when it is started again")]
    Stopping,
}

/// What is answered.
#[derive(Serialize)]
struct Body {
    status: &'static str,
    relay: String,
    counters: u64,
    tokens: u64,
    estates: u64,
    heirs: Vec<String>,
    waits_for: Vec<String>,
    trouble: Option<String>,
}

pub(super) async fn retire<C: Counters>(State(app): State<App<C>>) -> Result<Response, Problem> {
    let retiring = app.counters.retire().await.map_err(|trouble| problem(&trouble))?;
    let Retiring { relay, is_done, counters, tokens, estates, heirs, waits_for, trouble } = retiring;
    let (code, status) = if is_done { (StatusCode::OK, "done") } else { (StatusCode::ACCEPTED, "waiting") };
    let body = Body { status, relay, counters, tokens, estates, heirs, waits_for, trouble };
    Ok((code, Json(body)).into_response())
}

fn problem(trouble: &RetireTrouble) -> Problem {
    let detail = trouble.to_string();
    match trouble {
        RetireTrouble::NoRelay => Problem::new(StatusCode::CONFLICT, "no-relay", "This is no relay", detail),
        RetireTrouble::NotStored(_) | RetireTrouble::Stopping => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-now", "The relay cannot retire now", detail)
        }
    }
}
