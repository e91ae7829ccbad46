//! `INCR key`, `DECR key`, `INCRBY key n`, `DECRBY key n`; each may end in `IDMP producer id`, by which a retry is
//! recognised.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec};
use crate::resp::{
    Arguments, OperationId, Request, RequestError, integer,
    request::{check_key, operation_id},
};

/// `IDMP producer id`.
pub(super) const OPERATION_ARGUMENTS: usize = 3;

const fn adding(name: &'static str, arity: usize, summary: &'static str, handler: Handler) -> Spec {
    Spec {
        name,
        arity: Arity::OrWithOperation(arity),
        gate: Gate::Authenticated,
        access: Access::Write,
        keys: KeyPositions::First,
        group: Group::Counter,
        summary,
        handler,
    }
}

pub(super) static INCR: Spec =
    adding("incr", 2, "Adds one to a counter.", Handler::Keyed(|arguments| one(arguments, 1)));
pub(super) static DECR: Spec =
    adding("decr", 2, "Subtracts one from a counter.", Handler::Keyed(|arguments| one(arguments, -1)));
pub(super) static INCRBY: Spec = adding(
    "incrby",
    3,
    "Adds a whole number to a counter.",
    Handler::Keyed(|arguments| many(arguments, amount)),
);
pub(super) static DECRBY: Spec = adding(
    "decrby",
    3,
    "Subtracts a whole number from a counter.",
    Handler::Keyed(|arguments| many(arguments, negated)),
);

/// Is this the word before a producer and an id?
pub(super) fn names_an_operation(argument: &[u8]) -> bool {
    argument.eq_ignore_ascii_case(b"IDMP")
}

#[inline]
fn one(arguments: Arguments<'_>, amount: i64) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    Ok(Request::Add { key, amount, operation: operation(arguments.skip(2))? })
}

#[inline]
fn many<'a>(
    arguments: Arguments<'a>,
    read: impl Fn(&[u8]) -> Result<i64, RequestError>,
) -> Result<Request<'a>, RequestError> {
    let amount = read(arguments.get(2).unwrap_or_default())?;
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    Ok(Request::Add { key, amount, operation: operation(arguments.skip(3))? })
}

/// A whole number of 64 bits.
#[inline]
pub(super) fn amount(argument: &[u8]) -> Result<i64, RequestError> {
    integer::parse(argument).ok_or(RequestError::NotAnInteger)
}

#[inline]
fn negated(argument: &[u8]) -> Result<i64, RequestError> {
    amount(argument)?.checked_neg().ok_or(RequestError::DecrementOverflow)
}

/// `IDMP producer id`, or nothing.
#[inline]
pub(super) fn operation(arguments: Arguments<'_>) -> Result<Option<OperationId<'_>>, RequestError> {
    if arguments.is_empty() {
        return Ok(None);
    }
    match (arguments.get(0), arguments.get(1), arguments.get(2)) {
        (Some(word), Some(producer), Some(id))
            if arguments.len() == OPERATION_ARGUMENTS && names_an_operation(word) =>
        {
            operation_id(producer, id).map(Some)
        }
        _ => Err(RequestError::Syntax),
    }
}
