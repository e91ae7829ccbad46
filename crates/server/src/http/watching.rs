//! A counter's value as it changes, as server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use quipu_engine::{Action, Reply};
use tokio_stream::{StreamExt, wrappers::WatchStream};

use super::{
    App, Counters,
    counters::run,
    decode::Numbers,
    problem::Problem,
    request::{Key, Values},
    show::CounterBody,
};

/// A comment is sent this often when nothing changes, so that both ends notice a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// When a client should come back after the connection broke.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// The value now, and then each new one. Values that a slow reader has missed are left out.
pub(super) async fn watch<C: Counters>(
    State(app): State<App<C>>,
    Key(key): Key,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    let place = app.watches.clone().try_acquire_owned().map_err(|_| too_many(app.limits.watches))?;
    // Subscribe first: a change between the two is then told twice at worst, and the repetition is left out below.
    let changes = WatchStream::from_changes(app.counters.watch(&key));
    let Reply::Value(now) = run(&app, &key, Action::Get, numbers).await? else {
        return Err(Problem::unexpected_reply());
    };
    let mut last = None;
    let events = tokio_stream::once(now).chain(changes).filter_map(move |value| {
        let _place = &place; // Held as long as the stream lives.
        (last.replace(value) != Some(value)).then(|| event(&key, value, numbers))
    });
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("still watching");
    Ok(Sse::new(events).keep_alive(heartbeat).into_response())
}

fn event(key: &[u8], value: Option<i64>, numbers: Numbers) -> Result<Event, Infallible> {
    // Texts and numbers can always be written as JSON.
    let body = serde_json::to_string(&CounterBody::of(key, value, numbers)).unwrap_or_default();
    Ok(Event::default().event("value").retry(RECONNECT_AFTER).data(body))
}

fn too_many(watches_max: usize) -> Problem {
    let detail = format!("{watches_max} counters are watched already; come back later");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-watches", "Too many counters are watched", detail)
        .with_header("retry-after", "1")
}
