//! `INCREX key [BYINT n] [LBOUND l] [UBOUND u] [SATURATE] [REMOTE ms] [IDMP producer id]`: adds unless the value would end
//! outside of the bounds; then it adds nothing or, with `SATURATE`, as much as fits.

use super::{
    Access, Arity, Gate, Group, Handler, KeyPositions, Spec,
    add::{amount, names_an_operation, names_remote, operation, wait_ms},
};
use crate::resp::{Arguments, Excess, Request, RequestError, request::check_key};

/// Said of every option by which Redis lets a key expire.
pub(super) const NO_EXPIRY: &str = "counters do not expire; use one counter per period, such as hits:2026-05-01, and DEL \
     when it is done with";

pub(super) static INCREX: Spec = Spec {
    name: "increx",
    arity: Arity::AtLeast(2),
    gate: Gate::Authenticated,
    access: Access::Write,
    keys: KeyPositions::First,
    group: Group::Counter,
    summary: "Adds a whole number to a counter unless the value would leave the given bounds.",
    handler: Handler::Keyed(increx),
};

fn increx(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let key = arguments.get(1).unwrap_or_default();
    let (mut by, mut lower, mut upper, mut excess) = (None, None, None, None);
    let (mut remote_ms, mut operation_id) = (None, None);
    let mut rest = arguments.skip(2);
    while let Some(option) = rest.get(0) {
        let value = || rest.get(1).ok_or(RequestError::Syntax).and_then(amount);
        let taken = if option.eq_ignore_ascii_case(b"BYINT") {
            once(&mut by, value()?)?
        } else if option.eq_ignore_ascii_case(b"LBOUND") {
            once(&mut lower, value()?)?
        } else if option.eq_ignore_ascii_case(b"UBOUND") {
            once(&mut upper, value()?)?
        } else if option.eq_ignore_ascii_case(b"SATURATE") {
            once(&mut excess, Excess::Saturate)?;
            1
        } else if names_remote(option) {
            once(&mut remote_ms, wait_ms("REMOTE", rest.get(1))?)?
        } else if names_an_operation(option) {
            operation_id = operation(rest)?;
            rest.len()
        } else {
            return Err(unknown_option(option));
        };
        rest = rest.skip(taken);
    }
    if let (Some(lower), Some(upper)) = (lower, upper)
        && lower > upper
    {
        return Err(RequestError::OutOfBounds {
            value: lower,
            lower: i64::MIN,
            upper,
            what: "LBOUND and UBOUND",
        });
    }
    Ok(Request::AddWithin {
        key: check_key(key)?,
        amount: by.unwrap_or(1),
        lower,
        upper,
        excess: excess.unwrap_or(Excess::Skip),
        remote_ms: remote_ms.unwrap_or(0),
        operation: operation_id,
    })
}

/// An option with its value, which may be given once. Returns how many arguments the two are.
pub(super) fn once<T>(option: &mut Option<T>, value: T) -> Result<usize, RequestError> {
    match option.replace(value) {
        None => Ok(2),
        Some(_) => Err(RequestError::Syntax),
    }
}

fn unknown_option(option: &[u8]) -> RequestError {
    let is_one_of = |names: &[&str]| names.iter().any(|name| option.eq_ignore_ascii_case(name.as_bytes()));
    if is_one_of(&["EX", "PX", "EXAT", "PXAT", "PERSIST", "ENX"]) {
        RequestError::option_not_supported("INCREX", option, NO_EXPIRY)
    } else if is_one_of(&["BYFLOAT"]) {
        RequestError::option_not_supported("INCREX", option, super::refused::WHOLE_NUMBERS)
    } else {
        RequestError::Syntax
    }
}
