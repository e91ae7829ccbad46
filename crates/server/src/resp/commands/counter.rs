//! `COUNTER.CREATE key [MIN n] [MAX n] [VALUE n] [WAIT ms]`, `COUNTER.INFO key`, `COUNTER.RIGHTS key`,
//! `COUNTER.OUTCOME key producer id`: what counters have and Redis has not.

use super::{
    Access, Arity, Gate, Group, Handler, KeyPositions, Spec,
    add::{amount, wait_ms},
    increx::once,
};
use crate::resp::{
    Arguments, Request, RequestError,
    request::{check_key, operation_id},
};

const fn own(
    name: &'static str,
    arity: Arity,
    access: Access,
    summary: &'static str,
    handler: Handler,
) -> Spec {
    let (gate, keys, group) = (Gate::Authenticated, KeyPositions::First, Group::Counter);
    Spec { name, arity, gate, access, keys, group, summary, handler }
}

pub(super) static CREATE: Spec = own(
    "counter.create",
    Arity::AtLeast(2),
    Access::Write,
    "Creates a counter whose value never leaves its bounds.",
    Handler::Keyed(create),
);
pub(super) static INFO: Spec = own(
    "counter.info",
    Arity::Exactly(2),
    Access::Read,
    "Says all that is known about a counter.",
    Handler::Keyed(|arguments| {
        Ok(Request::Inspect { key: check_key(arguments.get(1).unwrap_or_default())? })
    }),
);
pub(super) static RIGHTS: Spec = own(
    "counter.rights",
    Arity::Exactly(2),
    Access::Read,
    "Says how much each site may still add to a bounded counter and subtract from it.",
    Handler::Keyed(|arguments| Ok(Request::Rights { key: check_key(arguments.get(1).unwrap_or_default())? })),
);
pub(super) static OUTCOME: Spec = own(
    "counter.outcome",
    Arity::Exactly(4),
    Access::Read,
    "Says what became of an operation that was sent with IDMP.",
    Handler::Keyed(outcome),
);

fn create(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    let (mut minimum, mut maximum, mut value, mut wait) = (None, None, None, None);
    let mut rest = arguments.skip(2);
    while let Some(option) = rest.get(0) {
        let number = || rest.get(1).ok_or(RequestError::Syntax).and_then(amount);
        let taken = if option.eq_ignore_ascii_case(b"MIN") {
            once(&mut minimum, number()?)?
        } else if option.eq_ignore_ascii_case(b"MAX") {
            once(&mut maximum, number()?)?
        } else if option.eq_ignore_ascii_case(b"VALUE") {
            once(&mut value, number()?)?
        } else if option.eq_ignore_ascii_case(b"WAIT") {
            once(&mut wait, wait_ms("WAIT", rest.get(1))?)?
        } else {
            return Err(RequestError::Syntax);
        };
        rest = rest.skip(taken);
    }
    let value = value.unwrap_or(0);
    let (lower, upper) = (minimum.unwrap_or(i64::MIN), maximum.unwrap_or(i64::MAX));
    if value < lower || value > upper {
        return Err(RequestError::OutOfBounds { value, lower, upper, what: "VALUE, MIN and MAX" });
    }
    Ok(Request::Create { key, minimum, maximum, value, wait_ms: wait })
}

fn outcome(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    let (producer, id) = (arguments.get(2).unwrap_or_default(), arguments.get(3).unwrap_or_default());
    Ok(Request::Outcome { key, operation: operation_id(producer, id)? })
}
