//! The commands: what each is called, how many arguments it takes, and its grammar in a file of its own.
//!
//! A name is looked up in upper or lower case without a copy and with one comparison.

mod add;
mod client;
mod cluster;
mod command;
mod config;
mod connection;
mod counter;
mod hello;
mod increx;
mod read;
mod refused;
mod remove;
mod scan;
mod set;
mod wait;

pub(crate) use refused::watch;

use super::{Arguments, Mode, Reply, Request, RequestError, ServerFacts, Session, error::quote, slot_of};

/// A command, or the second word of one.
pub(crate) struct Spec {
    /// In lower case; a second word follows after a bar: `client|setname`.
    pub(crate) name: &'static str,
    pub(crate) arity: Arity,
    pub(crate) gate: Gate,
    pub(crate) access: Access,
    pub(crate) keys: KeyPositions,
    pub(crate) group: Group,
    /// One line for people who ask for help.
    pub(crate) summary: &'static str,
    pub(crate) handler: Handler,
}

/// How many arguments a command takes, its name included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    Exactly(usize),
    AtLeast(usize),
    /// Exactly so many, or the options of an add behind them: `[REMOTE ms] [IDMP producer id]`.
    OrWithOptions(usize),
}

/// Who may use a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Authenticated,
    Anyone,
}

/// What a command does to counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    None,
    Read,
    Write,
}

/// Which arguments are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPositions {
    None,
    First,
    All,
}

/// What a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Counter,
    Keys,
    Connection,
    Server,
    Transaction,
}

/// The grammar of a command on counters.
type Grammar = for<'a> fn(Arguments<'a>) -> Result<Request<'a>, RequestError>;
/// A command about the connection. It writes its reply, or nothing and an error.
type Action = for<'a> fn(&mut Call<'_>, Arguments<'a>) -> Result<(), RequestError>;

/// What to do with a command.
pub(crate) enum Handler {
    /// For the counters.
    Keyed(Grammar),
    /// For the connection.
    Connection(Action),
    /// For the second word; without one, for the connection if it can be alone.
    Container {
        alone: Option<Action>,
        subcommands: &'static [Spec],
    },
    Multi,
    Exec,
    Discard,
    Watch,
    Reset,
    Quit,
    /// What a browser sends that was tricked into talking to us: hang up without a word.
    HangUp,
}

/// What a command about the connection works on.
pub(crate) struct Call<'c> {
    pub(crate) session: &'c mut Session,
    pub(crate) out: &'c mut Vec<u8>,
    pub(crate) server: &'c dyn ServerFacts,
}

impl Call<'_> {
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.session.protocol())
    }
}

/// In the order in which they are listed.
static COMMANDS: [&Spec; 41] = [
    &hello::AUTH,
    &client::CLIENT,
    &command::COMMAND,
    &config::CONFIG,
    &counter::CREATE,
    &counter::INFO,
    &counter::MOVE,
    &counter::OUTCOME,
    &counter::RIGHTS,
    &scan::DBSIZE,
    &add::DECR,
    &add::DECRBY,
    &remove::DEL,
    &connection::DISCARD,
    &connection::ECHO,
    &connection::EXEC,
    &read::EXISTS,
    &remove::FLUSHALL,
    &remove::FLUSHDB,
    &read::GET,
    &hello::HELLO,
    &connection::HOST,
    &add::INCR,
    &add::INCRBY,
    &increx::INCREX,
    &config::INFO,
    &scan::KEYS,
    &read::MGET,
    &connection::MULTI,
    &connection::PING,
    &connection::POST,
    &connection::QUIT,
    &connection::RESET,
    &scan::SCAN,
    &connection::SELECT,
    &set::SET,
    &read::TYPE,
    &remove::UNLINK,
    &connection::UNWATCH,
    &wait::WAIT,
    &connection::WATCH,
];

/// Where to look for a name, whatever its case: each command has a bucket for itself.
const BUCKETS: usize = 256;

/// The commands by [`bucket`].
static BY_BUCKET: [Option<&Spec>; BUCKETS] = {
    let mut table: [Option<&Spec>; BUCKETS] = [None; BUCKETS];
    let mut index = 0;
    while index < COMMANDS.len() {
        let bucket = bucket(COMMANDS[index].name.as_bytes());
        assert!(table[bucket].is_none(), "two commands in one bucket: change the factors");
        table[bucket] = Some(COMMANDS[index]);
        index += 1;
    }
    table
};

/// The length, the first and the last letter tell all our commands apart. The factors were found by trying.
#[inline]
const fn bucket(name: &[u8]) -> usize {
    let (first, last) = match name {
        [] => return 0,
        [first, ..] => (*first | 0x20, name[name.len() - 1] | 0x20),
    };
    (name.len() + first as usize * 3 + last as usize * 21) % BUCKETS
}

/// A command by its name, whatever its arguments.
#[inline]
pub(crate) fn by_name(name: &[u8]) -> Option<&'static Spec> {
    BY_BUCKET[bucket(name)].filter(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The same, in this mode.
#[inline]
pub(crate) fn by_name_in(mode: Mode, name: &[u8]) -> Option<&'static Spec> {
    by_name(name).or_else(|| {
        let is_it = |spec: &&Spec| spec.name.as_bytes().eq_ignore_ascii_case(name);
        for_clusters(mode).iter().find(is_it)
    })
}

/// What is known in clusters alone.
fn for_clusters(mode: Mode) -> &'static [Spec] {
    match mode {
        Mode::Alone => &[],
        Mode::Cluster => &cluster::COMMANDS,
    }
}

/// All commands that people should know of.
pub(crate) fn all(mode: Mode) -> impl Iterator<Item = &'static Spec> + Clone {
    let shown = COMMANDS.iter().copied().filter(|spec| !matches!(spec.handler, Handler::HangUp));
    shown.chain(for_clusters(mode))
}

/// The command that `arguments` name, if there is one that takes as many.
#[inline]
pub(crate) fn find(mode: Mode, arguments: Arguments<'_>) -> Result<&'static Spec, RequestError> {
    let Some(spec) = by_name_in(mode, arguments.name()) else {
        return Err(refused::why(arguments));
    };
    let spec = match (&spec.handler, arguments.get(1)) {
        (Handler::Container { subcommands, .. }, Some(word)) => {
            spec.subcommand(subcommands, word).ok_or_else(|| spec.unknown(word))?
        }
        _ => spec,
    };
    if spec.arity.takes(arguments) { Ok(spec) } else { Err(RequestError::WrongArity { command: spec.name }) }
}

impl Spec {
    fn subcommand(&self, subcommands: &'static [Self], word: &[u8]) -> Option<&'static Self> {
        let own = |spec: &&Self| spec.name.as_bytes()[self.name.len() + 1..].eq_ignore_ascii_case(word);
        subcommands.iter().find(own)
    }

    #[cold]
    fn unknown(&self, word: &[u8]) -> RequestError {
        let refusal = if self.name == "cluster" { cluster::refusal(word) } else { None };
        refusal.unwrap_or_else(|| RequestError::UnknownSubcommand {
            command: self.name,
            subcommand: quote(word),
        })
    }

    /// Those of its arguments that are keys.
    pub(crate) fn keys_of<'a>(&self, arguments: Arguments<'a>) -> Arguments<'a> {
        match self.keys {
            KeyPositions::None => arguments.skip(arguments.len()),
            KeyPositions::First => arguments.skip(1).without_last(arguments.len().saturating_sub(2)),
            KeyPositions::All => arguments.skip(1),
        }
    }

    /// The hash slot of its keys, if it has any.
    pub(crate) fn slot(&self, arguments: Arguments<'_>) -> Result<Option<u16>, RequestError> {
        one_slot(self.keys_of(arguments).iter().map(slot_of))
    }

    /// Does it wait for `EXEC` after `MULTI`?
    #[inline]
    pub(crate) fn waits_for_exec(&self) -> bool {
        matches!(self.handler, Handler::Keyed(_) | Handler::Connection(_) | Handler::Container { .. })
    }
}

/// The one that all of them are.
pub(crate) fn one_slot(mut slots: impl Iterator<Item = u16>) -> Result<Option<u16>, RequestError> {
    let first = slots.next();
    if slots.all(|slot| Some(slot) == first) { Ok(first) } else { Err(RequestError::CrossSlot) }
}

impl Arity {
    #[inline]
    pub(crate) fn takes(self, arguments: Arguments<'_>) -> bool {
        match self {
            Self::Exactly(count) => arguments.len() == count,
            Self::AtLeast(count) => arguments.len() >= count,
            Self::OrWithOptions(count) => {
                arguments.len() == count
                    || (arguments.len() > count && add::are_options(arguments.skip(count)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        for spec in all(Mode::Cluster) {
            for name in [spec.name.to_owned(), spec.name.to_ascii_uppercase()] {
                assert!(
                    by_name_in(Mode::Cluster, name.as_bytes()).is_some_and(|found| std::ptr::eq(found, spec)),
                    "{name}"
                );
            }
            for longer in [format!("{}\0", spec.name), format!("{}x", spec.name), format!(" {}", spec.name)] {
                assert!(
                    by_name_in(Mode::Cluster, longer.as_bytes()).is_none_or(|found| found.name == longer),
                    "{longer:?}"
                );
            }
        }
        assert!(by_name(b"").is_none());
        assert!(by_name(b"inc").is_none());
        assert!(by_name(b"increment").is_none());
    }

    #[test]
    fn second_words_carry_the_name_of_their_command() {
        for spec in all(Mode::Cluster) {
            if let Handler::Container { subcommands, .. } = &spec.handler {
                for subcommand in *subcommands {
                    let word =
                        subcommand.name.strip_prefix(spec.name).and_then(|rest| rest.strip_prefix('|'));
                    assert!(word.is_some_and(|word| !word.is_empty()), "{}", subcommand.name);
                }
            }
        }
    }
}
