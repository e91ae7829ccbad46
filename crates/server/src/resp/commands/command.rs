//! `COMMAND [COUNT|DOCS|GETKEYS|HELP|INFO|LIST]`: the commands about the commands. `redis-cli` asks for help texts this
//! way, and clients of clusters for the positions of keys.

use super::{
    Access, Arity, Call, Gate, Group, Handler, KeyPositions, Spec, all, by_name_in, client::help,
    connection::about,
};
use crate::resp::{
    Arguments, Mode, Reply, RequestError,
    glob::{self, Case},
    request::check_pattern,
};

pub(super) static COMMAND: Spec = about(
    Group::Server,
    "command",
    Arity::AtLeast(1),
    "Is about the commands.",
    Handler::Container { alone: Some(every), subcommands: &SUBCOMMANDS },
);

static SUBCOMMANDS: [Spec; 6] = [
    about(
        Group::Server,
        "command|count",
        Arity::Exactly(2),
        "Says how many commands there are.",
        Handler::Connection(|call, _| {
            let count = i64::try_from(all(call.session.mode()).count()).unwrap_or(i64::MAX);
            call.reply().integer(count);
            Ok(())
        }),
    ),
    about(
        Group::Server,
        "command|docs",
        Arity::AtLeast(2),
        "Describes commands: [name…].",
        Handler::Connection(docs),
    ),
    about(
        Group::Server,
        "command|getkeys",
        Arity::AtLeast(4),
        "Gives the keys of a command.",
        Handler::Connection(get_keys),
    ),
    about(
        Group::Server,
        "command|help",
        Arity::Exactly(2),
        "Says this.",
        Handler::Connection(|call, _| {
            help(call, "COMMAND", &SUBCOMMANDS);
            Ok(())
        }),
    ),
    about(
        Group::Server,
        "command|info",
        Arity::AtLeast(2),
        "Gives details of commands: [name…].",
        Handler::Connection(info),
    ),
    about(
        Group::Server,
        "command|list",
        Arity::AtLeast(2),
        "Lists commands: [FILTERBY MODULE|ACLCAT|PATTERN x].",
        Handler::Connection(list),
    ),
];

fn every(call: &mut Call<'_>, _: Arguments<'_>) -> Result<(), RequestError> {
    let all = all(call.session.mode());
    let mut reply = call.reply();
    reply.array(all.clone().count());
    for spec in all {
        details(&mut reply, spec);
    }
    Ok(())
}

fn info(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let names = arguments.skip(2);
    if names.is_empty() {
        return every(call, arguments);
    }
    let mode = call.session.mode();
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names.iter() {
        match by_full_name(mode, name) {
            Some(spec) => details(&mut reply, spec),
            None => reply.null(),
        }
    }
    Ok(())
}

fn docs(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let names = arguments.skip(2);
    let mode = call.session.mode();
    let specs: Vec<&Spec> = match names.is_empty() {
        true => all(mode).collect(),
        false => names.iter().filter_map(|name| by_full_name(mode, name)).collect(),
    };
    let version = call.server.version();
    let mut reply = call.reply();
    reply.map(specs.len());
    for spec in specs {
        describe(&mut reply, spec, version);
    }
    Ok(())
}

fn list(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let all = all(call.session.mode());
    let chosen: Vec<&Spec> = match (arguments.get(2), arguments.get(3), arguments.get(4)) {
        (None, ..) => all.collect(),
        (Some(filter), Some(by), Some(value))
            if filter.eq_ignore_ascii_case(b"FILTERBY") && arguments.len() == 5 =>
        {
            if by.eq_ignore_ascii_case(b"PATTERN") {
                check_pattern(value)?;
                let like = |spec: &&Spec| glob::matches(value, spec.name.as_bytes(), Case::Insensitive);
                all.filter(like).collect()
            } else if by.eq_ignore_ascii_case(b"ACLCAT") {
                let in_category = |spec: &&Spec| {
                    categories(spec)
                        .iter()
                        .any(|category| category.as_bytes()[1..].eq_ignore_ascii_case(value))
                };
                all.filter(in_category).collect()
            } else if by.eq_ignore_ascii_case(b"MODULE") {
                Vec::new()
            } else {
                return Err(RequestError::Syntax);
            }
        }
        _ => return Err(RequestError::Syntax),
    };
    let mut reply = call.reply();
    reply.array(chosen.len());
    for spec in chosen {
        reply.bulk(spec.name.as_bytes());
    }
    Ok(())
}

fn get_keys(call: &mut Call<'_>, arguments: Arguments<'_>) -> Result<(), RequestError> {
    let command = arguments.skip(2);
    let spec = by_name_in(call.session.mode(), command.name()).ok_or(RequestError::InvalidCommand)?;
    if spec.keys == KeyPositions::None {
        return Err(RequestError::NoKeys);
    }
    if !spec.arity.takes(command) {
        return Err(RequestError::InvalidArity);
    }
    let keys = spec.keys_of(command);
    let mut reply = call.reply();
    reply.array(keys.len());
    for key in keys.iter() {
        reply.bulk(key);
    }
    Ok(())
}

/// A command, or a second word after a bar.
fn by_full_name(mode: Mode, name: &[u8]) -> Option<&'static Spec> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let spec = by_name_in(mode, parts.next()?)?;
    match (parts.next(), &spec.handler) {
        (None, _) => Some(spec),
        (Some(word), Handler::Container { subcommands, .. }) => spec.subcommand(subcommands, word),
        (Some(_), _) => None,
    }
}

/// Ten things about a command, in the order of Redis 7: name, arity, flags, positions of keys, categories, tips, key
/// specifications (left out: the positions say it all) and second words.
fn details(reply: &mut Reply<'_>, spec: &Spec) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.number());
    let flags = flags(spec);
    reply.set(flags.len());
    for flag in flags {
        reply.simple(flag);
    }
    let (first, last, step) = match spec.keys {
        KeyPositions::None => (0, 0, 0),
        KeyPositions::First => (1, 1, 1),
        KeyPositions::All => (1, -1, 1),
    };
    for position in [first, last, step] {
        reply.integer(position);
    }
    let categories = categories(spec);
    reply.set(categories.len());
    for category in categories {
        reply.simple(category);
    }
    reply.array(0);
    reply.array(0);
    match &spec.handler {
        Handler::Container { subcommands, .. } => {
            reply.array(subcommands.len());
            for subcommand in *subcommands {
                details(reply, subcommand);
            }
        }
        _ => reply.array(0),
    }
}

fn flags(spec: &Spec) -> Vec<&'static str> {
    let access = match spec.access {
        Access::None => None,
        Access::Read => Some("readonly"),
        Access::Write => Some("write"),
    };
    let gate = match spec.gate {
        Gate::Authenticated => None,
        Gate::Anyone => Some("no_auth"),
    };
    access.into_iter().chain(gate).collect()
}

fn categories(spec: &Spec) -> Vec<&'static str> {
    let access = match spec.access {
        Access::None => None,
        Access::Read => Some("@read"),
        Access::Write => Some("@write"),
    };
    let group = match spec.group {
        Group::Counter => "@string",
        Group::Keys => "@keyspace",
        Group::Connection => "@connection",
        Group::Server => "@admin",
        Group::Transaction => "@transaction",
    };
    access.into_iter().chain([group]).collect()
}

fn describe(reply: &mut Reply<'_>, spec: &Spec, version: &str) {
    let group = match spec.group {
        Group::Counter => "string",
        Group::Keys => "generic",
        Group::Connection => "connection",
        Group::Server => "server",
        Group::Transaction => "transactions",
    };
    reply.bulk(spec.name.as_bytes());
    reply.map(3);
    for (name, value) in [("summary", spec.summary), ("since", version), ("group", group)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

impl Arity {
    /// As Redis gives it: negative if more arguments may follow.
    fn number(self) -> i64 {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        match self {
            Self::Exactly(count) => number(count),
            Self::AtLeast(count) | Self::OrWithOptions(count) => -number(count),
        }
    }
}
