//! Errors as `application/problem+json` (RFC 9457), and which status each refusal has.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use quipu_engine::{Refusal, SiteId};
use serde_json::{Map, Value, json};

use super::decode::Numbers;

/// Why a request was not done, for programs and for people.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    /// The last part of `type`; programs tell problems apart by it.
    kind: &'static str,
    title: &'static str,
    detail: String,
    /// What the problem is about, by name.
    members: Map<String, Value>,
    header: Option<(&'static str, &'static str)>,
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, kind, title, detail: detail.into(), members: Map::new(), header: None }
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    fn with_members<const N: usize>(mut self, members: [(&str, Value); N]) -> Self {
        self.members = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "The request cannot be read", detail)
    }

    pub(super) fn no_such_counter() -> Self {
        let detail = "there is no counter of this name; the first add makes one";
        Self::new(StatusCode::NOT_FOUND, "no-such-counter", "There is no such counter", detail)
    }

    /// The answer to a command does not belong to it: a mistake of ours, not of the client.
    pub(super) fn unexpected_reply() -> Self {
        let detail = "the server gave itself an answer that it did not ask for; whether anything was counted is not known";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server is at fault", detail)
    }

    pub(super) fn refused(refusal: &Refusal, numbers: Numbers) -> Self {
        let (status, kind, title) = kind(refusal);
        let problem = Self::new(status, kind, title, refusal.to_string());
        let show = |number: i128| match numbers {
            Numbers::Text => json!(number.to_string()),
            Numbers::Number => {
                u64::try_from(number).map_or(json!(i64::try_from(number).ok()), |it| json!(it))
            }
        };
        match *refusal {
            Refusal::OutOfBounds { amount, limit, value, available, ref elsewhere, in_all } => {
                let in_all = in_all.map_or(Value::Null, |in_all| show(in_all.into()));
                problem.with_members([
                    ("in_all", in_all),
                    ("amount", show(amount.into())),
                    ("limit", show(limit.into())),
                    ("value", show(value.into())),
                    ("available", show(available.into())),
                    (
                        "elsewhere",
                        elsewhere.iter().map(|(site, rights)| rights_at(*site, *rights, numbers)).collect(),
                    ),
                ])
            }
            Refusal::OtherAmount { first, now } => {
                problem.with_members([("first", show(first.into())), ("now", show(now.into()))])
            }
            Refusal::TooOld { age_ms, window_ms } => {
                problem.with_members([("age_ms", show(age_ms.into())), ("window_ms", show(window_ms.into()))])
            }
            Refusal::Reserved { by } => {
                problem.with_members([("by", json!(by.to_string()))]).with_header("retry-after", "1")
            }
            Refusal::Unsettled { ref waiting_for, .. } => {
                let sites: Vec<_> = waiting_for.iter().map(SiteId::to_string).collect();
                problem.with_members([("waiting_for", json!(sites))]).with_header("retry-after", "1")
            }
            Refusal::NotStored(_)
            | Refusal::InDoubt(_)
            | Refusal::NoSite(_)
            | Refusal::NotHere
            | Refusal::JoinedLately { .. }
            | Refusal::NotMovedYet { .. }
            | Refusal::Joining => problem.with_header("retry-after", "1"),
            _ => problem,
        }
    }
}

/// What another site may count. Rights beyond 64 bits are more than anybody can ask for.
fn rights_at(site: SiteId, rights: u128, numbers: Numbers) -> Value {
    let rights = u64::try_from(rights).unwrap_or(u64::MAX);
    let rights = match numbers {
        Numbers::Number => json!(rights),
        Numbers::Text => json!(rights.to_string()),
    };
    json!({ "site": site.to_string(), "rights": rights })
}

/// 409: it may go through once something has changed. 410: what was known is gone. 422: understood, and not possible.
fn kind(refusal: &Refusal) -> (StatusCode, &'static str, &'static str) {
    match refusal {
        Refusal::Overflow => {
            (StatusCode::UNPROCESSABLE_ENTITY, "overflow", "The number would not fit into 64 bits")
        }
        Refusal::OutOfBounds { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "out-of-bounds", "The counter would cross a limit")
        }
        Refusal::OtherAmount { .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "other-amount",
            "The operation was counted with another amount",
        ),
        Refusal::TooOld { .. } => {
            (StatusCode::GONE, "too-old", "The operation is older than what is remembered")
        }
        Refusal::FromTheFuture { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "from-the-future", "The operation's id is from the future")
        }
        Refusal::Exists => (StatusCode::CONFLICT, "exists", "The counter exists"),
        // Whoever creates is told so by another answer; see `counters::create`.
        Refusal::Creating { .. } => {
            (StatusCode::CONFLICT, "creating", "Not all sites have the definition yet")
        }
        Refusal::Reserved { .. } => (StatusCode::CONFLICT, "reserved", "The counter is being created"),
        Refusal::UsedBefore => (StatusCode::CONFLICT, "used-before", "The key was counted on without bounds"),
        Refusal::Unsettled { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "unsettled", "Too many operations wait for another site")
        }
        Refusal::JoinedLately { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "joined-lately", "This site does not know all operations yet")
        }
        Refusal::Joining => (StatusCode::SERVICE_UNAVAILABLE, "joining", "This site is joining the cluster"),
        Refusal::BoundedReset => (StatusCode::CONFLICT, "bounded", "A bounded counter is not reset"),
        Refusal::OnlyAtSites => (StatusCode::CONFLICT, "only-at-sites", "Only sites do this"),
        Refusal::TooManyPending { .. } | Refusal::Leaving => {
            (StatusCode::SERVICE_UNAVAILABLE, "not-handed-over", "Nothing more can wait here")
        }
        Refusal::NoSite(_) => (StatusCode::SERVICE_UNAVAILABLE, "no-site", "No site can be reached"),
        Refusal::CannotRetire(_) => (StatusCode::CONFLICT, "cannot-retire", "The relay cannot retire so"),
        Refusal::BadVisit(_) => (StatusCode::BAD_REQUEST, "bad-visit", "This is not what an edge says"),
        Refusal::OtherServer { .. } => {
            (StatusCode::CONFLICT, "other-server", "This was meant for another server")
        }
        Refusal::Copy { .. } => (StatusCode::CONFLICT, "copy", "Two use one state"),
        Refusal::BadDefinition(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "bad-definition", "The limits contradict each other")
        }
        Refusal::NotBounded | Refusal::CannotMove(_) => {
            (StatusCode::CONFLICT, "cannot-move", "The rights cannot be moved so")
        }
        Refusal::NotMovedYet { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "not-moved", "The site that holds the rights has not answered")
        }
        Refusal::BadKey { .. } => (StatusCode::BAD_REQUEST, "bad-key", "The key is too long or empty"),
        Refusal::NotStored(_) => (StatusCode::SERVICE_UNAVAILABLE, "not-stored", "The store failed"),
        Refusal::NotHere => (StatusCode::SERVICE_UNAVAILABLE, "moving", "The counter moves to another node"),
        Refusal::Removed(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "removed", "This site was removed from the cluster")
        }
        Refusal::OldCopy(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "old-copy", "This site runs from an old copy of its folder")
        }
        Refusal::NotTold { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "not-told", "Other sites have to hear of it first")
        }
        Refusal::SiteLeaves => {
            (StatusCode::SERVICE_UNAVAILABLE, "leaving", "This site is about to leave the cluster")
        }
        Refusal::InDoubt(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "in-doubt", "It is not known whether this was stored")
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = self.members;
        body.insert("type".to_owned(), json!(format!("urn:quipu:problem:{}", self.kind)));
        body.insert("title".to_owned(), json!(self.title));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("detail".to_owned(), json!(self.detail));
        let body = Value::Object(body).to_string();
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, content_type, body).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
