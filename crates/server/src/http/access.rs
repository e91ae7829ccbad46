//! Who is asking: `Authorization: Basic` or `Bearer user:password`.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::{App, Counters, problem::Problem};
use crate::auth::Users;

/// The producer of operations where nobody says who they are.
pub(super) const ANYBODY: &str = "http";

/// The user who asks.
#[derive(Clone)]
pub(super) struct Caller(pub(super) Arc<str>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self(ANYBODY.into())))
    }
}

/// Lets a request through if its user is known, or if nobody needs to be.
pub(super) async fn check<C: Counters>(
    State(app): State<App<C>>,
    mut request: Request,
    next: Next,
) -> Response {
    if app.users.required() {
        match caller(&app.users, request.headers()) {
            Some(user) => request.extensions_mut().insert(Caller(user)),
            None => return unknown_user().into_response(),
        };
    }
    next.run(request).await
}

fn unknown_user() -> Problem {
    let detail = "this server has users; send `Authorization: Basic` with a name and a password, or `Authorization: \
                  Bearer name:password`";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "The user or the password is not known", detail)
        .with_header("www-authenticate", "Basic realm=\"quipu\", charset=\"UTF-8\", Bearer realm=\"quipu\"")
}

fn caller(users: &Users, headers: &HeaderMap) -> Option<Arc<str>> {
    let header = headers.get(header::AUTHORIZATION)?.as_bytes();
    let space = header.iter().position(|byte| *byte == b' ')?;
    let (scheme, credentials) = (&header[..space], header[space..].trim_ascii());
    let credentials = match scheme {
        _ if scheme.eq_ignore_ascii_case(b"basic") => STANDARD.decode(credentials).ok()?,
        _ if scheme.eq_ignore_ascii_case(b"bearer") => credentials.to_vec(),
        _ => return None,
    };
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    users.check(&credentials[..colon], &credentials[colon + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn user(header: &[u8]) -> Option<String> {
        let users = "user alice on >won:der +@all".parse().expect("users");
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(header).expect("a header"));
        caller(&users, &headers).map(|name| name.to_string())
    }

    #[test]
    fn two_schemes_are_known_and_a_password_may_have_a_colon() {
        assert_eq!(user(b"Bearer alice:won:der").as_deref(), Some("alice"));
        let basic = format!("basic {}", STANDARD.encode("alice:won:der"));
        assert_eq!(user(basic.as_bytes()).as_deref(), Some("alice"));
    }

    #[test]
    fn nothing_else_is() {
        for header in [
            &b""[..],
            b"Bearer",
            b"Bearer ",
            b"Bearer alice",
            b"Bearer alice:wrong",
            b"Bearer :won:der",
            b"Basic alice:won:der",
            b"Basic !!!",
            b"Digest alice:won:der",
            b"Bearer \xff\xfe:won:der",
        ] {
            assert_eq!(user(header), None, "{header:?}");
        }
        let basic = format!("Basic {}", STANDARD.encode("alice"));
        assert_eq!(user(basic.as_bytes()), None, "no colon");
    }
}
