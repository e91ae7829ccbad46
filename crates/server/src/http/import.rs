//! Counts once what an old copy of a site had counted and nobody else knew of.

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use quipu_engine::{Action, Add, Added, Command, OperationId, Outcome, Refusal, Reply, STORED_SINCE_BYTES};
use serde::{Deserialize, Serialize};

use super::{App, Counters, decode::Numbers, problem::Problem, request::JsonBody, show::Json};
use crate::uncounted::Line;

/// Who counts what has no id of its own. Clients name themselves otherwise.
const PRODUCER: &[u8] = b"quipu import";

/// A line of a file, which file it is, and when its import was begun. All that is counted from it is remembered, and refused,
/// as ids are that tell that time: a file that was begun longer ago than ids are remembered counts nothing, whatever the clocks
/// of the sites and of the host that imports it say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Import {
    export: String,
    begun: String,
    line: Line,
}

/// What was done.
#[derive(Serialize)]
struct Imported {
    /// Counted by this request.
    counted: u64,
    /// Counted before, by whomever.
    repeated: u64,
}

pub(super) async fn import<C: Counters>(
    State(app): State<App<C>>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let Import { export, begun, line } =
        serde_json::from_slice(&body).map_err(|error| unreadable(&error.to_string()))?;
    let wrong = |what: &str| unreadable(what);
    let key = line.key_bytes().ok_or_else(|| wrong("it needs one key"))?;
    let begun: [u8; 36] = begun.into_bytes().try_into().map_err(|_| wrong("`begun` is no UUID"))?;
    let first = OperationId { producer: PRODUCER, id: &begun };
    if first.made_ms().is_none() {
        return Err(wrong("`begun` is no UUID of version 7"));
    }
    let action = Action::Outcome(first);
    if let Reply::Outcome(Outcome::TooOld) = app.counters.call(Command { key: &key, action }).await {
        return Err(too_old());
    }
    let mut done = Imported { counted: 0, repeated: 0 };
    for counted in &line.operations {
        let id = counted.stored_id().ok_or_else(|| wrong("an id has 32 hexadecimal digits"))?;
        done.add(&app, &key, counted.amount, id, begun).await?;
    }
    for (amount, sign) in [(line.added, 1), (line.subtracted, -1)] {
        // A total may be larger than what can be added at a time.
        let most = amount.min(i64::MAX.unsigned_abs());
        let parts = [most, (amount - most).min(most), (amount - most).saturating_sub(most)];
        for (part, amount) in parts.into_iter().enumerate().filter(|(_, amount)| *amount > 0) {
            let amount = sign * i64::try_from(amount).unwrap_or(i64::MAX);
            let id = format!("{export}/{sign}/{part}");
            let id = OperationId { producer: PRODUCER, id: id.as_bytes() }.to_stored(&key);
            done.add(&app, &key, amount, id, begun).await?;
        }
    }
    Ok(Json(done).into_response())
}

fn unreadable(what: &str) -> Problem {
    let detail = format!("this is no line of an export: {what}; nothing was counted");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-export", "This is no line of an export", detail)
}

fn too_old() -> Problem {
    let detail = "the import of this file was begun longer ago than ids are remembered, so what of it was counted is not known any \
                  more; nothing was counted. Compare the counters with the file, and add what is missing by hand";
    Problem::new(StatusCode::CONFLICT, "import-too-old", "The import was begun too long ago", detail)
}

impl Imported {
    async fn add<C: Counters>(
        &mut self,
        app: &App<C>,
        key: &[u8],
        amount: i64,
        id: [u8; 16],
        begun: [u8; 36],
    ) -> Result<(), Problem> {
        let mut since = [0; STORED_SINCE_BYTES];
        since[..id.len()].copy_from_slice(&id);
        since[id.len()..].copy_from_slice(&begun);
        let operation = OperationId::stored_since(&since);
        let action = Action::Add { add: Add::of(amount), operation: Some(operation) };
        match app.counters.call(Command { key, action }).await {
            Reply::Added(Added { repeated: false, .. }) => self.counted += 1,
            // Somebody has tried the same operation elsewhere, and there it counted another amount.
            Reply::Added(_) | Reply::Refused(Refusal::OtherAmount { .. }) => self.repeated += 1,
            Reply::Refused(Refusal::TooOld { .. }) => return Err(too_old()),
            Reply::Refused(refusal) => return Err(Problem::refused(&refusal, Numbers::Number)),
            _ => return Err(Problem::unexpected_reply()),
        }
        Ok(())
    }
}
