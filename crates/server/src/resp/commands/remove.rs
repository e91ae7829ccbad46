//! `DEL key…`, `UNLINK key…`, `FLUSHDB [ASYNC|SYNC]`, `FLUSHALL [ASYNC|SYNC]`.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec};
use crate::resp::{Arguments, Keys, Request, RequestError};

const fn removing(
    name: &'static str,
    arity: usize,
    keys: KeyPositions,
    summary: &'static str,
    handler: Handler,
) -> Spec {
    let (gate, access, group) = (Gate::Authenticated, Access::Write, Group::Keys);
    Spec { name, arity: Arity::AtLeast(arity), gate, access, keys, group, summary, handler }
}

pub(super) static DEL: Spec =
    removing("del", 2, KeyPositions::All, "Deletes counters.", Handler::Keyed(delete));
pub(super) static UNLINK: Spec =
    removing("unlink", 2, KeyPositions::All, "Deletes counters, as DEL does.", Handler::Keyed(delete));
pub(super) static FLUSHDB: Spec =
    removing("flushdb", 1, KeyPositions::None, "Deletes all counters.", Handler::Keyed(flush));
pub(super) static FLUSHALL: Spec =
    removing("flushall", 1, KeyPositions::None, "Deletes all counters.", Handler::Keyed(flush));

fn delete(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    Ok(Request::Delete { keys: Keys::new(arguments.skip(1))? })
}

fn flush(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    match (arguments.len(), arguments.get(1)) {
        (1, _) => Ok(Request::Flush),
        (2, Some(how)) if how.eq_ignore_ascii_case(b"ASYNC") || how.eq_ignore_ascii_case(b"SYNC") => {
            Ok(Request::Flush)
        }
        _ => Err(RequestError::Syntax),
    }
}
