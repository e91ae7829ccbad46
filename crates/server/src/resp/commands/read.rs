//! `GET key`, `MGET key…`, `EXISTS key…`, `TYPE key`.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec};
use crate::resp::{Keys, Request, request::check_key};

const fn reading(
    name: &'static str,
    arity: Arity,
    keys: KeyPositions,
    summary: &'static str,
    handler: Handler,
) -> Spec {
    let (gate, access, group) = (Gate::Authenticated, Access::Read, Group::Counter);
    Spec { name, arity, gate, access, keys, group, summary, handler }
}

pub(super) static GET: Spec = reading(
    "get",
    Arity::Exactly(2),
    KeyPositions::First,
    "Gives the value of a counter.",
    Handler::Keyed(|arguments| Ok(Request::Get { key: check_key(arguments.get(1).unwrap_or_default())? })),
);
pub(super) static MGET: Spec = reading(
    "mget",
    Arity::AtLeast(2),
    KeyPositions::All,
    "Gives the values of several counters.",
    Handler::Keyed(|arguments| Ok(Request::GetAll { keys: Keys::new(arguments.skip(1))? })),
);
pub(super) static EXISTS: Spec = reading(
    "exists",
    Arity::AtLeast(2),
    KeyPositions::All,
    "Says how many of the given counters there are.",
    Handler::Keyed(|arguments| Ok(Request::Exists { keys: Keys::new(arguments.skip(1))? })),
);
pub(super) static TYPE: Spec = reading(
    "type",
    Arity::Exactly(2),
    KeyPositions::First,
    "Says what is stored under a key.",
    Handler::Keyed(|arguments| Ok(Request::Type { key: check_key(arguments.get(1).unwrap_or_default())? })),
);
