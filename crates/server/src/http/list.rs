//! Many counters, a page at a time.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};

use super::{
    App, Counters, Listing, decode,
    problem::Problem,
    request::{Page, Values},
    show::{CounterBody, Json, ListBody},
};

pub(super) async fn list<C: Counters>(
    State(app): State<App<C>>,
    Page(request): Page,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    let listing = app.counters.list(request).await;
    let Listing { counters, next } = listing.map_err(|refusal| Problem::refused(&refusal, numbers))?;
    let total = app.counters.size().await;
    let show = |(key, value): &(Vec<u8>, i64)| CounterBody::of(key, Some(*value), numbers);
    Ok(Json(ListBody {
        counters: counters.iter().map(show).collect(),
        next: next.map(|key| decode::write_cursor(&key)),
        total: numbers.show(total),
    })
    .into_response())
}
