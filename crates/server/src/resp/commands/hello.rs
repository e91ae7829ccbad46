//! `AUTH [user] password`, `HELLO [2|3 [AUTH user password] [SETNAME name]]`: who the client is, and which version of
//! the protocol it speaks.

use super::{
    Arity, Call, Group, Handler, Spec,
    client::checked_name,
    connection::{about, for_anyone},
};
use crate::resp::{Arguments, DEFAULT_USER, Mode, Protocol, RequestError, error::quote, integer};

/// What the server calls itself.
const SERVER_NAME: &str = "quipu";

pub(super) static AUTH: Spec = for_anyone(about(
    Group::Connection,
    "auth",
    Arity::AtLeast(2),
    "Authenticates the connection.",
    Handler::Connection(auth),
));
pub(super) static HELLO: Spec = for_anyone(about(
    Group::Connection,
    "hello",
    Arity::AtLeast(1),
    "Chooses the version of the protocol, and says who the server is.",
    Handler::Connection(hello),
));

fn auth(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    match (arguments.get(1), arguments.get(2)) {
        _ if arguments.len() > 3 => return Err(RequestError::Syntax),
        (Some(user), Some(password)) => authenticate(call, user, password)?,
        _ if !call.server.password_required() => return Err(RequestError::NoPassword),
        (password, _) => authenticate(call, DEFAULT_USER.as_bytes(), password.unwrap_or_default())?,
    }
    call.reply().ok();
    Ok(())
}

fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), RequestError> {
    if !call.server.authenticate(user, password) {
        return Err(RequestError::WrongPassword);
    }
    call.session.authenticated_as(&String::from_utf8_lossy(user));
    Ok(())
}

fn hello(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let protocol = arguments.get(1).map(version).transpose()?;
    let mut rest = arguments.skip(2);
    // As in Redis, options take effect one by one, also if a later one is wrong.
    while let Some(option) = rest.get(0) {
        rest = match (rest.get(1), rest.get(2)) {
            (Some(user), Some(password)) if option.eq_ignore_ascii_case(b"AUTH") => {
                authenticate(call, user, password)?;
                rest.skip(3)
            }
            (Some(name), _) if option.eq_ignore_ascii_case(b"SETNAME") => {
                call.session.identity_mut().name = checked_name("Client names", name)?;
                rest.skip(2)
            }
            _ => return Err(RequestError::HelloOption(quote(option))),
        };
    }
    if !call.session.is_authenticated() {
        return Err(RequestError::HelloNotAuthenticated);
    }
    if let Some(protocol) = protocol {
        call.session.identity_mut().protocol = protocol;
    }
    introduce(call);
    Ok(())
}

fn version(argument: &[u8]) -> Result<Protocol, RequestError> {
    match integer::parse(argument).ok_or(RequestError::ProtocolVersion)? {
        2 => Ok(Protocol::Resp2),
        3 => Ok(Protocol::Resp3),
        _ => Err(RequestError::UnknownProtocol),
    }
}

fn introduce(call: &mut Call<'_>) {
    let server = call.server;
    let (protocol, id, mode) = (call.session.protocol(), call.session.client_id(), call.session.mode());
    let mut reply = call.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(SERVER_NAME.as_bytes());
    reply.bulk(b"version");
    reply.bulk(server.version().as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol.number());
    reply.bulk(b"id");
    reply.integer(i64::try_from(id).unwrap_or(i64::MAX));
    reply.bulk(b"mode");
    reply.bulk(match mode {
        Mode::Alone => b"standalone",
        Mode::Cluster => b"cluster",
    });
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
