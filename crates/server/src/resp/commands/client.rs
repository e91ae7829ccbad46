//! `CLIENT`: what a client says of itself, and who else is there.

use std::fmt::Write as _;

use super::{Arity, Call, Group, Handler, Spec, connection::about};
use crate::resp::{Arguments, CLIENT_NAME_BYTES_MAX, ClientFacts, RequestError, error::quote, integer};

pub(super) static CLIENT: Spec = about(
    Group::Connection,
    "client",
    Arity::AtLeast(2),
    "Is about this connection and the others.",
    Handler::Container { alone: None, subcommands: &SUBCOMMANDS },
);

const fn word(
    name: &'static str,
    arity: Arity,
    summary: &'static str,
    run: for<'a> fn(&mut Call<'_>, Arguments<'a>) -> Result<(), RequestError>,
) -> Spec {
    about(Group::Connection, name, arity, summary, Handler::Connection(run))
}

static SUBCOMMANDS: [Spec; 10] = [
    word("client|getname", Arity::Exactly(2), "Gives the name of this connection.", |call, _| {
        get_name(call);
        Ok(())
    }),
    word("client|help", Arity::Exactly(2), "Says this.", |call, _| {
        help(call, "CLIENT", &SUBCOMMANDS);
        Ok(())
    }),
    word("client|id", Arity::Exactly(2), "Gives the number of this connection.", |call, _| {
        let id = i64::try_from(call.session.client_id()).unwrap_or(i64::MAX);
        call.reply().integer(id);
        Ok(())
    }),
    word("client|info", Arity::Exactly(2), "Says what is known of this connection.", |call, _| {
        info(call);
        Ok(())
    }),
    word("client|list", Arity::AtLeast(2), "Lists connections: [TYPE type] [ID id…].", list),
    word("client|no-evict", Arity::Exactly(3), "ON or OFF; nothing is ever evicted.", on_or_off),
    word("client|no-touch", Arity::Exactly(3), "ON or OFF; nothing remembers when it was read.", on_or_off),
    word("client|reply", Arity::Exactly(3), "ON; every command is answered.", reply),
    word(
        "client|setinfo",
        Arity::Exactly(4),
        "Names the library: LIB-NAME name or LIB-VER version.",
        set_info,
    ),
    word("client|setname", Arity::Exactly(3), "Names this connection.", set_name),
];

/// What a container says about its second words.
pub(super) fn help(call: &mut Call<'_>, command: &str, subcommands: &[Spec]) {
    let mut reply = call.reply();
    reply.array(1 + 2 * subcommands.len());
    reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for subcommand in subcommands {
        reply.simple(&subcommand.name[command.len() + 1..].to_ascii_uppercase());
        reply.simple(&format!("    {}", subcommand.summary));
    }
}

/// A name that does not spoil a list of clients.
pub(super) fn checked_name(what: &'static str, name: &[u8]) -> Result<String, RequestError> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return Err(RequestError::NameLength { what });
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(RequestError::NameBytes { what });
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn get_name(call: &mut Call<'_>) {
    let name = call.session.identity().name.clone();
    if name.is_empty() { call.reply().null() } else { call.reply().bulk(name.as_bytes()) }
}

fn set_name(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let name = checked_name("Client names", arguments.get(2).unwrap_or_default())?;
    call.session.identity_mut().name = name;
    call.reply().ok();
    Ok(())
}

fn set_info(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let (attribute, value) = (arguments.get(2).unwrap_or_default(), arguments.get(3).unwrap_or_default());
    if attribute.eq_ignore_ascii_case(b"LIB-NAME") {
        call.session.identity_mut().library_name = checked_name("lib-name", value)?;
    } else if attribute.eq_ignore_ascii_case(b"LIB-VER") {
        call.session.identity_mut().library_version = checked_name("lib-ver", value)?;
    } else {
        return Err(RequestError::UnrecognizedOption(quote(attribute)));
    }
    call.reply().ok();
    Ok(())
}

fn on_or_off(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let mode = arguments.get(2).unwrap_or_default();
    if !mode.eq_ignore_ascii_case(b"ON") && !mode.eq_ignore_ascii_case(b"OFF") {
        return Err(RequestError::Syntax);
    }
    call.reply().ok();
    Ok(())
}

fn reply(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let mode = arguments.get(2).unwrap_or_default();
    if mode.eq_ignore_ascii_case(b"ON") {
        call.reply().ok();
        return Ok(());
    }
    if mode.eq_ignore_ascii_case(b"OFF") || mode.eq_ignore_ascii_case(b"SKIP") {
        let instead = "every command is answered; a count without an answer may or may not be there. Pipeline the \
             commands and read the replies together";
        return Err(RequestError::option_not_supported("CLIENT REPLY", mode, instead));
    }
    Err(RequestError::Syntax)
}

fn info(call: &mut Call<'_>) {
    let id = call.session.client_id();
    let mut facts = call.server.client(id).unwrap_or_else(|| ClientFacts {
        id,
        address: String::new(),
        local_address: String::new(),
        age_seconds: 0,
        idle_seconds: 0,
        identity: call.session.identity().clone(),
    });
    // The server may not have heard yet what this connection said a moment ago.
    facts.identity.clone_from(call.session.identity());
    let line = describe(&facts);
    call.reply().text(&line);
}

fn list(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    const NORMAL: &str = "normal";
    const OTHER_TYPES: [&str; 4] = ["master", "replica", "slave", "pubsub"];
    let mut wanted: Option<Vec<i64>> = None;
    match (arguments.get(2), arguments.get(3)) {
        (None, _) => {}
        (Some(option), Some(kind)) if option.eq_ignore_ascii_case(b"TYPE") && arguments.len() == 4 => {
            if OTHER_TYPES.iter().any(|other| kind.eq_ignore_ascii_case(other.as_bytes())) {
                wanted = Some(Vec::new());
            } else if !kind.eq_ignore_ascii_case(NORMAL.as_bytes()) {
                return Err(RequestError::UnknownClientType(quote(kind)));
            }
        }
        (Some(option), Some(_)) if option.eq_ignore_ascii_case(b"ID") => {
            let ids: Option<Vec<i64>> = arguments.skip(3).iter().map(integer::parse).collect();
            let mut ids = ids.ok_or(RequestError::InvalidClientId)?;
            ids.sort_unstable();
            wanted = Some(ids);
        }
        _ => return Err(RequestError::Syntax),
    }
    let mut text = String::new();
    for client in call.server.clients() {
        let is_wanted =
            |ids: &Vec<i64>| i64::try_from(client.id).is_ok_and(|id| ids.binary_search(&id).is_ok());
        if wanted.as_ref().is_none_or(is_wanted) {
            text += &describe(&client);
        }
    }
    call.reply().text(&text);
    Ok(())
}

/// One line as Redis has it, of what we know.
fn describe(client: &ClientFacts) -> String {
    let ClientFacts { id, address, local_address, age_seconds, idle_seconds, identity } = client;
    let mut line = String::new();
    let written = writeln!(
        line,
        "id={id} addr={address} laddr={local_address} name={} age={age_seconds} idle={idle_seconds} flags=N db=0 sub=0 \
         psub=0 ssub=0 user={} resp={} lib-name={} lib-ver={}",
        identity.name,
        identity.user,
        identity.protocol.number(),
        identity.library_name,
        identity.library_version,
    );
    debug_assert!(written.is_ok(), "a string takes everything");
    line
}
