//! Parts of a request, taken so that what is wrong becomes a problem in JSON.

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use quipu_engine::handoff::exchange::EXCHANGE_MESSAGE_BYTES_MAX;
use tokio_stream::StreamExt;

use super::{
    App, Counters,
    decode::{self, ListRequest, Numbers},
    problem::Problem,
};

/// The longest body of JSON. The longest that makes sense has four numbers.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Where parts of `/v1/counters/{key}/operations/{producer}/{id}` stand between the slashes.
const KEY_PLACE: usize = 3;
const PRODUCER_PLACE: usize = 5;
const ID_PLACE: usize = 6;

/// The key in the path. Read from the raw path, because keys are bytes and not always text.
pub(super) struct Key(pub(super) Vec<u8>);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(place(parts, KEY_PLACE)))
    }
}

/// The producer and the id in the path.
pub(super) struct Operation {
    pub(super) producer: Vec<u8>,
    pub(super) id: Vec<u8>,
}

impl<S: Sync> FromRequestParts<S> for Operation {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self { producer: place(parts, PRODUCER_PLACE), id: place(parts, ID_PLACE) })
    }
}

fn place(parts: &Parts, place: usize) -> Vec<u8> {
    parts.uri.path().split('/').nth(place).map(decode::segment).unwrap_or_default()
}

/// How the client wants numbers to be written.
pub(super) struct Values(pub(super) Numbers);

impl<S: Sync> FromRequestParts<S> for Values {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Numbers::of_query(parts.uri.query().unwrap_or_default()).map(Self).map_err(Problem::bad_request)
    }
}

/// Which counters the client wants to see.
pub(super) struct Page(pub(super) ListRequest);

impl<S: Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        ListRequest::of_query(parts.uri.query().unwrap_or_default()).map(Self).map_err(Problem::bad_request)
    }
}

/// The id that a retry is recognised by, if there is one.
pub(super) struct IdempotencyKey(pub(super) Option<Vec<u8>>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut headers = parts.headers.get_all("idempotency-key").iter();
        let first = headers.next().map(|header| decode::operation_id(header.as_bytes())).transpose();
        match headers.next() {
            Some(_) => Err(Problem::bad_request("the header `Idempotency-Key` is given twice; give it once")),
            None => first.map(Self).map_err(Problem::bad_request),
        }
    }
}

/// A body that says that it is JSON. Browsers do not let a foreign page send that type without asking first, so such a
/// page cannot count on a server of this machine.
pub(super) struct JsonBody(pub(super) Vec<u8>);

impl<C: Counters> FromRequest<App<C>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App<C>) -> Result<Self, Problem> {
        check_type(request.headers())?;
        read_in_time(request, BODY_BYTES_MAX, app).await.map(Self)
    }
}

/// A body that says that it is CBOR, as edges send it.
pub(super) struct CborBody(pub(super) Vec<u8>);

impl<C: Counters> FromRequest<App<C>> for CborBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App<C>) -> Result<Self, Problem> {
        if !has_type(request.headers(), b"application/cbor") {
            let detail =
                "send what docs/protocol.md describes, with the header `Content-Type: application/cbor`";
            let title = "The body must be CBOR";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-cbor", title, detail));
        }
        read_in_time(request, EXCHANGE_MESSAGE_BYTES_MAX, app).await.map(Self)
    }
}

async fn read_in_time<C>(request: Request, bytes_max: usize, app: &App<C>) -> Result<Vec<u8>, Problem> {
    let time_max = app.limits.body_time;
    let body = tokio::time::timeout(time_max, read(request.into_body(), bytes_max)).await;
    body.unwrap_or_else(|_| {
        let detail = format!("the body has not arrived within {time_max:?}; nothing was done");
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "slow-body", "The request took too long", detail))
    })
}

fn has_type(headers: &HeaderMap, expected: &[u8]) -> bool {
    let given = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |given| given.as_bytes());
    let essence = given.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(expected)
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    if has_type(headers, b"application/json") {
        return Ok(());
    }
    let detail = "send a JSON object with the header `Content-Type: application/json` (with curl: --json)";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "The body must be JSON", detail))
}

async fn read(body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::bad_request("the body ended too early; nothing was done"))?;
        if bytes.len() + chunk.len() > bytes_max {
            let detail = format!("the body has more than {bytes_max} bytes; nothing was done");
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-large",
                "The body is too large",
                detail,
            ));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
