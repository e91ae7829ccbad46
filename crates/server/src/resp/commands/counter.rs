//! `COUNTER.CREATE key [MIN n] [MAX n] [VALUE n] [SPREAD CREATOR|EVEN|site=n,…] [WAIT ms]`,
//! `COUNTER.MOVE key n FROM site TO site [RIGHTS SUBTRACT|ADD] [WAIT ms]`, `COUNTER.INFO key`, `COUNTER.RIGHTS key`,
//! `COUNTER.OUTCOME key producer id`: what counters have and Redis has not.

use quipu_engine::{Move, Right, SiteId};

use super::{
    Access, Arity, Gate, Group, Handler, KeyPositions, Spec,
    add::{amount, wait_ms},
    increx::once,
};
use crate::resp::{
    Arguments, Request, RequestError,
    error::quote,
    request::{SpreadWord, check_key, operation_id, read_shares},
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
pub(super) static MOVE: Spec = own(
    "counter.move",
    Arity::AtLeast(7),
    Access::Write,
    "Lets one site pass rights of a bounded counter on to another.",
    Handler::Keyed(move_rights),
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
    let (mut minimum, mut maximum, mut value, mut spread, mut wait) = (None, None, None, None, None);
    let mut rest = arguments.skip(2);
    while let Some(option) = rest.get(0) {
        let number = || rest.get(1).ok_or(RequestError::Syntax).and_then(amount);
        let taken = if option.eq_ignore_ascii_case(b"MIN") {
            once(&mut minimum, number()?)?
        } else if option.eq_ignore_ascii_case(b"MAX") {
            once(&mut maximum, number()?)?
        } else if option.eq_ignore_ascii_case(b"VALUE") {
            once(&mut value, number()?)?
        } else if option.eq_ignore_ascii_case(b"SPREAD") {
            once(&mut spread, spread_word(rest.get(1).ok_or(RequestError::Syntax)?)?)?
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
    let spread = spread.unwrap_or(SpreadWord::Creator);
    Ok(Request::Create { key, minimum, maximum, value, spread, wait_ms: wait })
}

fn spread_word(word: &[u8]) -> Result<SpreadWord<'_>, RequestError> {
    if word.eq_ignore_ascii_case(b"CREATOR") {
        return Ok(SpreadWord::Creator);
    }
    if word.eq_ignore_ascii_case(b"EVEN") {
        return Ok(SpreadWord::Even);
    }
    read_shares(word).map_err(RequestError::BadSites)?;
    Ok(SpreadWord::Shares(word))
}

fn move_rights(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    let number = amount(arguments.get(2).unwrap_or_default())?;
    let number = u64::try_from(number).map_err(|_| RequestError::NotAnInteger)?;
    let (mut from, mut to, mut right, mut wait) = (None, None, None, None);
    let mut rest = arguments.skip(3);
    while let Some(option) = rest.get(0) {
        let given = rest.get(1).ok_or(RequestError::Syntax)?;
        let taken = if option.eq_ignore_ascii_case(b"FROM") {
            once(&mut from, site(given)?)?
        } else if option.eq_ignore_ascii_case(b"TO") {
            once(&mut to, site(given)?)?
        } else if option.eq_ignore_ascii_case(b"RIGHTS") {
            once(&mut right, kind_of_right(given)?)?
        } else if option.eq_ignore_ascii_case(b"WAIT") {
            once(&mut wait, wait_ms("WAIT", rest.get(1))?)?
        } else {
            return Err(RequestError::Syntax);
        };
        rest = rest.skip(taken);
    }
    let (Some(from), Some(to)) = (from, to) else { return Err(RequestError::Syntax) };
    let rights = Move { amount: number, right, from, to, wait_ms: wait.unwrap_or(0) };
    Ok(Request::Move { key, rights, wait_said: wait.is_some() })
}

fn site(word: &[u8]) -> Result<SiteId, RequestError> {
    let site: Result<SiteId, _> = quote(word).parse();
    site.map_err(|error| RequestError::BadSites(error.to_string()))
}

fn kind_of_right(word: &[u8]) -> Result<Right, RequestError> {
    match word {
        word if word.eq_ignore_ascii_case(b"SUBTRACT") => Ok(Right::ToSubtract),
        word if word.eq_ignore_ascii_case(b"ADD") => Ok(Right::ToAdd),
        _ => Err(RequestError::Syntax),
    }
}

fn outcome(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let key = check_key(arguments.get(1).unwrap_or_default())?;
    let (producer, id) = (arguments.get(2).unwrap_or_default(), arguments.get(3).unwrap_or_default());
    Ok(Request::Outcome { key, operation: operation_id(producer, id)? })
}
