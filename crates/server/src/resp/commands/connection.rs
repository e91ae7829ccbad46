//! `PING`, `ECHO`, `SELECT`, `UNWATCH`; and by name only, because the session itself runs them: `MULTI`, `EXEC`,
//! `DISCARD`, `WATCH`, `RESET`, `QUIT`.

use super::{Access, Arity, Call, Gate, Group, Handler, KeyPositions, Spec, add::amount};
use crate::resp::{Arguments, Mode, RequestError};

/// A command that touches no counter.
pub(super) const fn about(
    group: Group,
    name: &'static str,
    arity: Arity,
    summary: &'static str,
    handler: Handler,
) -> Spec {
    let (gate, access, keys) = (Gate::Authenticated, Access::None, KeyPositions::None);
    Spec { name, arity, gate, access, keys, group, summary, handler }
}

/// The same for clients that have not authenticated.
pub(super) const fn for_anyone(spec: Spec) -> Spec {
    Spec { gate: Gate::Anyone, ..spec }
}

pub(super) static PING: Spec =
    about(Group::Connection, "ping", Arity::AtLeast(1), "Answers.", Handler::Connection(ping));
pub(super) static ECHO: Spec =
    about(Group::Connection, "echo", Arity::Exactly(2), "Says the same.", Handler::Connection(echo));
pub(super) static SELECT: Spec = about(
    Group::Connection,
    "select",
    Arity::Exactly(2),
    "Chooses a database; there is one, 0.",
    Handler::Connection(select),
);
pub(super) static RESET: Spec = for_anyone(about(
    Group::Connection,
    "reset",
    Arity::Exactly(1),
    "Puts the connection in the state of a new one.",
    Handler::Reset,
));
pub(super) static QUIT: Spec =
    for_anyone(about(Group::Connection, "quit", Arity::AtLeast(1), "Closes the connection.", Handler::Quit));
pub(super) static MULTI: Spec = about(
    Group::Transaction,
    "multi",
    Arity::Exactly(1),
    "Lets the commands that follow wait for EXEC.",
    Handler::Multi,
);
pub(super) static EXEC: Spec =
    about(Group::Transaction, "exec", Arity::Exactly(1), "Runs the commands that wait.", Handler::Exec);
pub(super) static DISCARD: Spec = about(
    Group::Transaction,
    "discard",
    Arity::Exactly(1),
    "Forgets the commands that wait.",
    Handler::Discard,
);
pub(super) static WATCH: Spec =
    about(Group::Transaction, "watch", Arity::AtLeast(2), "Is refused: use INCREX.", Handler::Watch);
pub(super) static UNWATCH: Spec = about(
    Group::Transaction,
    "unwatch",
    Arity::Exactly(1),
    "Does nothing: nothing is watched.",
    Handler::Connection(|call, _| {
        call.reply().ok();
        Ok(())
    }),
);

// What an HTTP request begins with, or contains on a line of its own. A web page can make a browser send one to any
// address that the browser reaches, and the body would be taken for commands.
pub(super) static POST: Spec =
    for_anyone(about(Group::Connection, "post", Arity::AtLeast(1), "Hangs up.", Handler::HangUp));
pub(super) static HOST: Spec =
    for_anyone(about(Group::Connection, "host:", Arity::AtLeast(1), "Hangs up.", Handler::HangUp));

fn ping(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    match (arguments.len(), arguments.get(1)) {
        (1, _) => call.reply().simple("PONG"),
        (2, Some(message)) => call.reply().bulk(message),
        _ => return Err(RequestError::WrongArity { command: "ping" }),
    }
    Ok(())
}

fn echo(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    call.reply().bulk(arguments.get(1).unwrap_or_default());
    Ok(())
}

fn select(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let index = amount(arguments.get(1).unwrap_or_default())?;
    match i32::try_from(index) {
        Ok(0) => {
            call.reply().ok();
            Ok(())
        }
        Ok(_) if call.session.mode() == Mode::Cluster => Err(RequestError::SelectInCluster),
        Ok(_) => Err(RequestError::NoSuchDatabase),
        Err(_) => Err(RequestError::NotAnIndex),
    }
}
