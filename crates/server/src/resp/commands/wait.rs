//! `WAIT numreplicas timeout`: how many other sites have what this connection has written.

use super::{Arity, Group, Handler, Spec, add::amount, connection::about};
use crate::resp::{Arguments, Request, RequestError, integer};

pub(super) static WAIT: Spec = about(
    Group::Connection,
    "wait",
    Arity::Exactly(3),
    "Waits until so many other sites have what this connection has written, and says how many have.",
    Handler::Keyed(wait),
);

fn wait(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let sites = amount(arguments.get(1).unwrap_or_default())?;
    let timeout = integer::parse(arguments.get(2).unwrap_or_default());
    let timeout_ms = u64::try_from(timeout.ok_or(RequestError::TimeoutNotAnInteger)?);
    let timeout_ms = timeout_ms.map_err(|_| RequestError::NegativeTimeout)?;
    // Fewer than none is none: then it is only asked how many there are.
    Ok(Request::Wait { sites: u64::try_from(sites).unwrap_or(0), timeout_ms })
}
