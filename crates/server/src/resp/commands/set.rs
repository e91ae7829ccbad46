//! `SET key n`: the counter goes on from `n`. A counter holds whole numbers, and has no options.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec, increx::NO_EXPIRY};
use crate::resp::{Arguments, Request, RequestError, integer, request::check_key};

pub(super) static SET: Spec = Spec {
    name: "set",
    arity: Arity::AtLeast(3),
    gate: Gate::Authenticated,
    access: Access::Write,
    keys: KeyPositions::First,
    group: Group::Counter,
    summary: "Lets a counter go on from a whole number.",
    handler: Handler::Keyed(set),
};

fn set(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    if let Some(option) = arguments.get(3) {
        return Err(refuse(option));
    }
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    let value = integer::parse(arguments.get(2).unwrap_or_default()).ok_or(RequestError::NotACount)?;
    Ok(Request::Set { key, value })
}

fn refuse(option: &[u8]) -> RequestError {
    const OPTIONS: [(&str, &str); 8] = [
        ("NX", "to create a counter only if there is none, use COUNTER.CREATE key VALUE n"),
        (
            "XX",
            "a counter that there is not counts as 0; use EXISTS to see whether there is one, then SET key n",
        ),
        ("GET", "use GET, then SET key n; to change a counter and learn its value in one step, use INCRBY"),
        ("EX", NO_EXPIRY),
        ("PX", NO_EXPIRY),
        ("EXAT", NO_EXPIRY),
        ("PXAT", NO_EXPIRY),
        ("KEEPTTL", NO_EXPIRY),
    ];
    match OPTIONS.iter().find(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes())) {
        Some((_, instead)) => RequestError::option_not_supported("SET", option, instead),
        None => RequestError::Syntax,
    }
}
