//! `INCR key`, `DECR key`, `INCRBY key n`, `DECRBY key n`; each may end in `REMOTE ms`, for how long to wait for rights of
//! other sites, and then `IDMP producer id`, by which a retry is recognised.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec};
use crate::{
    SITES_WAIT_MS_MAX,
    resp::{
        Arguments, OperationId, Request, RequestError, integer,
        request::{check_key, operation_id},
    },
};

/// `REMOTE ms`.
const REMOTE_ARGUMENTS: usize = 2;
/// `IDMP producer id`.
const OPERATION_ARGUMENTS: usize = 3;

const fn adding(name: &'static str, arity: usize, summary: &'static str, handler: Handler) -> Spec {
    Spec {
        name,
        arity: Arity::OrWithOptions(arity),
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

/// Is this the word before the time to wait for rights of other sites?
pub(super) fn names_remote(argument: &[u8]) -> bool {
    argument.eq_ignore_ascii_case(b"REMOTE")
}

/// Are there as many arguments as `[REMOTE ms] [IDMP producer id]` has?
pub(super) fn are_options(arguments: Arguments<'_>) -> bool {
    let is_remote = arguments.get(0).is_some_and(names_remote);
    let rest = if is_remote { arguments.skip(REMOTE_ARGUMENTS) } else { arguments };
    let is_operation = rest.len() == OPERATION_ARGUMENTS && rest.get(0).is_some_and(names_an_operation);
    is_operation || (is_remote && arguments.len() == REMOTE_ARGUMENTS)
}

#[inline]
fn one(arguments: Arguments<'_>, amount: i64) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    add(key, amount, arguments.skip(2))
}

/// An add with its options.
#[inline]
fn add<'a>(key: &'a [u8], amount: i64, options: Arguments<'a>) -> Result<Request<'a>, RequestError> {
    let (mut remote_ms, mut rest) = (0, options);
    if rest.get(0).is_some_and(names_remote) {
        remote_ms = wait_ms("REMOTE", rest.get(1))?;
        rest = rest.skip(REMOTE_ARGUMENTS);
    }
    Ok(Request::Add { key, amount, remote_ms, operation: operation(rest)? })
}

#[inline]
fn many<'a>(
    arguments: Arguments<'a>,
    read: impl Fn(&[u8]) -> Result<i64, RequestError>,
) -> Result<Request<'a>, RequestError> {
    let amount = read(arguments.get(2).unwrap_or_default())?;
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    add(key, amount, arguments.skip(3))
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

/// For how long a command waits for other sites, in milliseconds.
pub(super) fn wait_ms(option: &'static str, argument: Option<&[u8]>) -> Result<u64, RequestError> {
    let given = amount(argument.ok_or(RequestError::Syntax)?)?;
    let wait_ms = u64::try_from(given).ok().filter(|wait_ms| *wait_ms <= SITES_WAIT_MS_MAX);
    wait_ms.ok_or(RequestError::WaitTime { option, given })
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
