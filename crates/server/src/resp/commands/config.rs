//! `CONFIG GET|SET|RESETSTAT|REWRITE`, `INFO [section…]`.

use super::{Arity, Call, Group, Handler, Spec, client::help, connection::about};
use crate::resp::{
    Arguments, RequestError,
    glob::{self, Case},
    request::check_pattern,
};

/// Said of every way to change settings while the server runs.
const NOT_WHILE_RUNNING: &str = "settings do not change while the server runs; set it by flag, environment or file and start the server again";

pub(super) static CONFIG: Spec = about(
    Group::Server,
    "config",
    Arity::AtLeast(2),
    "Is about the settings of the server.",
    Handler::Container { alone: None, subcommands: &SUBCOMMANDS },
);

pub(super) static INFO: Spec =
    about(Group::Server, "info", Arity::AtLeast(1), "Says how the server is.", Handler::Connection(info));

static SUBCOMMANDS: [Spec; 5] = [
    about(
        Group::Server,
        "config|get",
        Arity::AtLeast(3),
        "Gives the settings that are like a pattern.",
        Handler::Connection(get),
    ),
    about(
        Group::Server,
        "config|help",
        Arity::Exactly(2),
        "Says this.",
        Handler::Connection(|call, _| {
            help(call, "CONFIG", &SUBCOMMANDS);
            Ok(())
        }),
    ),
    about(
        Group::Server,
        "config|resetstat",
        Arity::Exactly(2),
        "Lets what INFO counts begin again at zero.",
        Handler::Connection(|call, _| {
            call.server.reset_statistics();
            call.reply().ok();
            Ok(())
        }),
    ),
    about(
        Group::Server,
        "config|rewrite",
        Arity::Exactly(2),
        "Is refused: edit the file.",
        Handler::Connection(|_, _| Err(refuse("CONFIG REWRITE"))),
    ),
    about(
        Group::Server,
        "config|set",
        Arity::AtLeast(4),
        "Is refused: settings do not change while the server runs.",
        Handler::Connection(|_, _| Err(refuse("CONFIG SET"))),
    ),
];

fn refuse(command: &str) -> RequestError {
    RequestError::NotSupported { command: command.to_owned(), instead: NOT_WHILE_RUNNING }
}

fn get(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let patterns = arguments.skip(2);
    for pattern in patterns.iter() {
        check_pattern(pattern)?;
    }
    let settings = call.server.settings();
    let found: Vec<_> = settings
        .iter()
        .filter_map(|setting| {
            let name = setting.name.as_bytes();
            let pattern = patterns.iter().find(|pattern| glob::matches(pattern, name, Case::Insensitive))?;
            // As in Redis, a name that was asked for comes back as it was sent.
            let name = if glob::is_pattern(pattern) { name } else { pattern };
            Some((name, setting.value.as_bytes()))
        })
        .collect();
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(())
}

fn info(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let sections: Vec<String> = arguments
        .skip(1)
        .iter()
        .map(|section| String::from_utf8_lossy(section).to_ascii_lowercase())
        .collect();
    let sections: Vec<&str> = sections.iter().map(String::as_str).collect();
    let text = call.server.info(&sections, call.session.mode());
    call.reply().text(&text);
    Ok(())
}
