//! One counter: read, add, create, reset, delete, inspect, ask for an outcome.

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use quipu_engine::{Action, Command, OperationId, Refusal, Reply};

use super::{
    App, Counters,
    access::Caller,
    decode::{self, CreateRequest, Numbers},
    problem::Problem,
    request::{IdempotencyKey, JsonBody, Key, Operation, Values},
    running::Name,
    show::{
        AddedBody, CounterBody, CreatingBody, InfoBody, Json, KeyText, MovedBody, OutcomeBody, ResetBody,
    },
};

/// Runs one command; a refusal becomes a problem.
pub(super) async fn run<C: Counters>(
    app: &App<C>,
    key: &[u8],
    action: Action<'_>,
    numbers: Numbers,
) -> Result<Reply, Problem> {
    match app.counters.call(Command { key, action }).await {
        Reply::Refused(refusal) => Err(Problem::refused(&refusal, numbers)),
        reply => Ok(reply),
    }
}

pub(super) async fn get<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    match run(&app, &key, Action::Get, numbers).await? {
        Reply::Value(Some(value)) => Ok(Json(CounterBody::of(&key, Some(value), numbers)).into_response()),
        Reply::Value(None) => Err(Problem::no_such_counter()),
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn add<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
    Caller(producer): Caller,
    IdempotencyKey(id): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let add = decode::add(&body).map_err(Problem::bad_request)?;
    let name = |id: &Vec<u8>| Name { producer: producer.clone(), key: key.clone(), id: id.clone() };
    let _ticket = id.as_ref().map(|id| app.running.begin(name(id))).transpose()?;
    let operation = id.as_deref().map(|id| OperationId { producer: producer.as_bytes(), id });
    let Reply::Added(added) = run(&app, &key, Action::Add { add, operation }, numbers).await? else {
        return Err(Problem::unexpected_reply());
    };
    let mut response = Json(AddedBody::of(&key, added, numbers)).into_response();
    if added.repeated {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

pub(super) async fn create<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let CreateRequest { limits, spread, wait_ms } = decode::create(&body).map_err(Problem::bad_request)?;
    let location = format!("/v1/counters/{}", percent_encode(&key, NON_ALPHANUMERIC));
    let location = [(header::LOCATION, location)];
    let action = Action::Create { limits, spread: spread.get(), wait_ms };
    match app.counters.call(Command { key: &key, action }).await {
        Reply::Created => {
            let body = Json(CounterBody::of(&key, Some(limits.initial), numbers));
            Ok((StatusCode::CREATED, location, body).into_response())
        }
        // No failure: it goes on without anybody waiting for it.
        Reply::Refused(refusal @ Refusal::Creating { .. }) => {
            let body = Json(CreatingBody::of(&key, &refusal));
            Ok((StatusCode::ACCEPTED, location, body).into_response())
        }
        Reply::Refused(refusal) => Err(Problem::refused(&refusal, numbers)),
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn delete<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
) -> Result<Response, Problem> {
    match run(&app, &key, Action::Reset { to: None }, Numbers::Number).await? {
        Reply::Reset { aside: Some(_) } => Ok(StatusCode::NO_CONTENT.into_response()),
        Reply::Reset { aside: None } => Err(Problem::no_such_counter()),
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn reset<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let to = decode::reset(&body).map_err(Problem::bad_request)?;
    match run(&app, &key, Action::Reset { to: Some(to) }, numbers).await? {
        Reply::Reset { aside } => {
            let (value, existed) = (numbers.show(to), aside.is_some());
            let set_aside = aside.map(|aside| numbers.show(aside));
            Ok(Json(ResetBody { key: KeyText::of(&key), value, existed, set_aside }).into_response())
        }
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn move_rights<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let rights = decode::move_rights(&body).map_err(Problem::bad_request)?;
    match run(&app, &key, Action::Move(rights), numbers).await? {
        Reply::Moved(amount) => Ok(Json(MovedBody::of(&key, rights, amount, numbers)).into_response()),
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn info<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    match run(&app, &key, Action::Inspect, numbers).await? {
        Reply::Inspected(Some(inspection)) => {
            let heard = |site| app.counters.last_heard(site);
            Ok(Json(InfoBody::of(&key, &inspection, numbers, heard)).into_response())
        }
        Reply::Inspected(None) => Err(Problem::no_such_counter()),
        _ => Err(Problem::unexpected_reply()),
    }
}

pub(super) async fn outcome<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Operation { producer, id }: Operation,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    let operation = OperationId { producer: &producer, id: &id };
    match run(&app, &key, Action::Outcome(operation), numbers).await? {
        Reply::Outcome(outcome) => Ok(Json(OutcomeBody::of(outcome, numbers)).into_response()),
        _ => Err(Problem::unexpected_reply()),
    }
}
