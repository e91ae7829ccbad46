//! About the server itself: health, numbers, the description of the routes.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{App, Counters, problem::Problem, show::Json};

const OPENAPI: &str = include_str!("openapi.json");

/// The process runs.
pub(super) async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

/// Commands can be run.
pub(super) async fn ready<C: Counters>(State(app): State<App<C>>) -> Result<Response, Problem> {
    match app.counters.ready() {
        Ok(()) => Ok(Json(json!({ "status": "ready" })).into_response()),
        Err(why) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "The server is not ready", why))
        }
    }
}

pub(super) async fn metrics<C: Counters>(State(app): State<App<C>>) -> Response {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], app.metrics.encode()).into_response()
}

pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Counts every answer, by the pattern of its route.
pub(super) async fn count<C: Counters>(State(app): State<App<C>>, request: Request, next: Next) -> Response {
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    app.metrics.http_request(method, route, response.status().as_u16());
    response
}
