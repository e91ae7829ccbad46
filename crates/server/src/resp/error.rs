//! Why something was refused, in the words of Redis 7.0 wherever Redis has words for it.
//!
//! A text is what goes over the wire after the minus sign, code included. Texts that repeat what the client sent
//! repeat little of it, and always as valid UTF-8.

use super::{
    ARGUMENTS_MAX, CLIENT_NAME_BYTES_MAX, COMMAND_BYTES_MAX, EXEC_REPLY_BYTES_MAX, Endpoint, KEY_BYTES_MAX,
    OPERATION_ID_BYTES_MAX, PATTERN_BYTES_MAX, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX,
};
use crate::SITES_WAIT_MS_MAX;

/// At most this many bytes of a name or of arguments are repeated.
const ECHO_BYTES_MAX: usize = 128;

/// The stream makes no sense any more, or is too large: reply with this and close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// After `*` comes no number, or one that Redis refuses too.
    #[error("ERR Protocol error: invalid multibulk length")]
    InvalidArrayLength,
    /// After `*` comes something far too long for a number.
    #[error("ERR Protocol error: too big mbulk count string")]
    ArrayLengthTooLong,
    /// More than a client may send that has not authenticated.
    #[error("ERR Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    /// More arguments than one command may have.
    #[error("ERR Protocol error: {arguments} arguments in one command, at most {ARGUMENTS_MAX} are taken")]
    TooManyArguments {
        /// How many were announced.
        arguments: usize,
    },
    /// An argument that is not a bulk string.
    #[error("ERR Protocol error: expected '$', got '{got}'")]
    ExpectedBulk {
        /// The byte in its place.
        got: char,
    },
    /// After `$` comes no number, or one that Redis refuses too.
    #[error("ERR Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// After `$` comes something far too long for a number.
    #[error("ERR Protocol error: too big bulk count string")]
    BulkLengthTooLong,
    /// Longer than a client may send that has not authenticated.
    #[error("ERR Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The argument is longer or shorter than was announced.
    #[error("ERR Protocol error: expected CR and LF after a bulk string")]
    UnterminatedBulk,
    /// The command as a whole is too long.
    #[error("ERR Protocol error: a command has at most {COMMAND_BYTES_MAX} bytes")]
    CommandTooLong,
    /// A line without an end.
    #[error("ERR Protocol error: too big inline request")]
    InlineTooLong,
    /// A quote that is not closed, or closed within a word.
    #[error("ERR Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
}

/// One command was refused; nothing was done, and the connection goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Neither Redis nor we know it.
    #[error("ERR unknown command '{name}', with args beginning with: {arguments}")]
    UnknownCommand {
        /// Its name, as sent.
        name: String,
        /// The first of its arguments, quoted.
        arguments: String,
    },
    /// The command is known, its second word is not.
    #[error("ERR unknown subcommand '{subcommand}'. Try {} HELP.", command.to_ascii_uppercase())]
    UnknownSubcommand {
        /// The command.
        command: &'static str,
        /// The second word, as sent.
        subcommand: String,
    },
    /// Too few arguments or too many.
    #[error("ERR wrong number of arguments for '{command}' command")]
    WrongArity {
        /// The command, with its second word if it has one.
        command: &'static str,
    },
    /// Redis does this, a counter database does not.
    #[error("ERR {command} is not supported: {instead}")]
    NotSupported {
        /// The command or the option.
        command: String,
        /// Why, and what to use instead.
        instead: &'static str,
    },
    /// One of the commands of a Redis Cluster.
    #[error("ERR This instance has cluster support disabled")]
    ClusterDisabled,
    /// In a cluster: keys of several hash slots in one command or transaction.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    CrossSlot,
    /// In a cluster: another node has the hash slot.
    #[error("MOVED {slot} {to}")]
    Moved {
        /// The slot.
        slot: u16,
        /// Where it is.
        to: Endpoint,
    },
    /// In a cluster: no node has this name.
    #[error("ERR Unknown node {0}")]
    UnknownNode(String),
    /// In a cluster: another database than the one that there is.
    #[error("ERR SELECT is not allowed in cluster mode")]
    SelectInCluster,
    /// The arguments make no sense together.
    #[error("ERR syntax error")]
    Syntax,
    /// Not a whole number, or not one of 64 bits.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// Not a whole number of 32 bits.
    #[error("ERR value is out of range, value must between {} and {}", i32::MIN, i32::MAX)]
    NotAnIndex,
    /// `SET` with something that is not a number.
    #[error(
        "ERR value is not an integer or out of range: this is a counter database, and SET takes a whole number from {} \
         to {}; the counter was left as it is. To add to it use INCRBY",
        i64::MIN,
        i64::MAX
    )]
    NotACount,
    /// The negated amount does not fit.
    #[error("ERR decrement would overflow")]
    DecrementOverflow,
    /// `WAIT` with a time that is no number.
    #[error("ERR timeout is not an integer or out of range")]
    TimeoutNotAnInteger,
    /// `WAIT` with a time before now.
    #[error("ERR timeout is negative")]
    NegativeTimeout,
    /// A time to wait for other sites that is too long.
    #[error("ERR {option} takes 0 to {SITES_WAIT_MS_MAX} milliseconds, not {given}; nothing was done")]
    WaitTime {
        /// The option.
        option: &'static str,
        /// What was given.
        given: i64,
    },
    /// An option by which a command waits for other sites, after `MULTI`.
    #[error(
        "ERR {0} waits for other sites, and a transaction does not wait; EXEC will discard this one. Leave {0} out, or \
         send the command alone"
    )]
    WaitsInsideMulti(&'static str),
    /// A cursor that `SCAN` never gave.
    #[error("ERR invalid cursor")]
    InvalidCursor,
    /// No such database.
    #[error("ERR DB index is out of range")]
    NoSuchDatabase,
    /// The key is empty or too long.
    #[error("ERR a key has 1 to {KEY_BYTES_MAX} bytes, not {bytes}; nothing was done")]
    KeyLength {
        /// Its length.
        bytes: usize,
    },
    /// The pattern is too long.
    #[error("ERR a pattern has at most {PATTERN_BYTES_MAX} bytes, not {bytes}; nothing was done")]
    PatternLength {
        /// Its length.
        bytes: usize,
    },
    /// One half of an operation's id is empty or too long.
    #[error(
        "ERR a producer and an id have 1 to {OPERATION_ID_BYTES_MAX} bytes each, not {bytes}; nothing was done"
    )]
    OperationIdLength {
        /// Its length.
        bytes: usize,
    },
    /// The shares of `SPREAD`, or a site of `COUNTER.MOVE`, cannot be read.
    #[error("ERR {0}; nothing was done")]
    BadSites(String),
    /// Bounds that no value fits between, or a first value outside of them.
    #[error("ERR {value} does not lie from {lower} to {upper}; nothing was done. Correct {what}")]
    OutOfBounds {
        /// The value.
        value: i64,
        /// The least that is allowed.
        lower: i64,
        /// The most that is allowed.
        upper: i64,
        /// The options to look at.
        what: &'static str,
    },
    /// The name of a connection or a library has bytes that would spoil a list of clients.
    #[error("ERR {what} cannot contain spaces, newlines or special characters.")]
    NameBytes {
        /// Whose name.
        what: &'static str,
    },
    /// The name is too long.
    #[error("ERR {what} have at most {CLIENT_NAME_BYTES_MAX} bytes")]
    NameLength {
        /// Whose name.
        what: &'static str,
    },
    /// `CLIENT LIST` with a type of client that there is not.
    #[error("ERR Unknown client type '{0}'")]
    UnknownClientType(String),
    /// `CLIENT LIST` with something that is not the number of a client.
    #[error("ERR Invalid client ID")]
    InvalidClientId,
    /// `CLIENT SETINFO` with an attribute that there is not.
    #[error("ERR Unrecognized option '{0}'")]
    UnrecognizedOption(String),
    /// A version of the protocol that is not a number.
    #[error("ERR Protocol version is not an integer or out of range")]
    ProtocolVersion,
    /// A version of the protocol that there is not.
    #[error("NOPROTO unsupported protocol version")]
    UnknownProtocol,
    /// `HELLO` with an option that there is not, or that lacks its values.
    #[error("ERR Syntax error in HELLO option '{0}'")]
    HelloOption(String),
    /// The client must authenticate first.
    #[error("NOAUTH Authentication required.")]
    NotAuthenticated,
    /// The client must authenticate first, and `HELLO` is a way to do it.
    #[error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
         option can be used to authenticate the client and select the RESP protocol version at the same time"
    )]
    HelloNotAuthenticated,
    /// Wrong password.
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongPassword,
    /// A password where none is asked for.
    #[error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?"
    )]
    NoPassword,
    /// `MULTI` after `MULTI`.
    #[error("ERR MULTI calls can not be nested")]
    NestedMulti,
    /// `WATCH` after `MULTI`.
    #[error("ERR WATCH inside MULTI is not allowed")]
    WatchInsideMulti,
    /// `EXEC` or `DISCARD` alone.
    #[error("ERR {0} without MULTI")]
    WithoutMulti(&'static str),
    /// A command was refused between `MULTI` and `EXEC`.
    #[error("EXECABORT Transaction discarded because of previous errors.")]
    Aborted,
    /// `EXEC` itself was refused.
    #[error("EXECABORT Transaction discarded because of: {0}")]
    AbortedBy(String),
    /// Too much waits for `EXEC`.
    #[error(
        "ERR a transaction has at most {QUEUED_COMMANDS_MAX} commands and {QUEUED_BYTES_MAX} bytes; EXEC will discard \
         this one. Send smaller ones"
    )]
    TransactionTooLarge,
    /// The replies to what waited for `EXEC` are too long already.
    #[error(
        "ERR the replies about the connection in one transaction have at most {EXEC_REPLY_BYTES_MAX} bytes; this command \
         was not run. Send smaller transactions"
    )]
    RepliesTooLarge,
    /// `COMMAND GETKEYS` about a command that there is not.
    #[error("ERR Invalid command specified")]
    InvalidCommand,
    /// `COMMAND GETKEYS` about a command with too few or too many arguments.
    #[error("ERR Invalid number of arguments specified for command")]
    InvalidArity,
    /// `COMMAND GETKEYS` about a command without keys.
    #[error("ERR The command has no key arguments")]
    NoKeys,
}

impl RequestError {
    /// What Redis says about a name it does not know: the name and the first arguments, cut short.
    pub(crate) fn unknown_command(arguments: super::Arguments<'_>) -> Self {
        let mut quoted = String::new();
        for argument in arguments.skip(1).iter() {
            let Some(room) = ECHO_BYTES_MAX.checked_sub(quoted.len()).filter(|room| *room > 0) else { break };
            quoted.push('\'');
            quoted.push_str(&echo(argument, room));
            quoted.push_str("' ");
        }
        Self::UnknownCommand { name: quote(arguments.name()), arguments: quoted }
    }

    /// An option that Redis has and a counter database has not.
    pub(crate) fn option_not_supported(command: &str, option: &[u8], instead: &'static str) -> Self {
        let option = quote(&option.to_ascii_uppercase());
        Self::NotSupported { command: format!("{command} {option}"), instead }
    }
}

/// The beginning of what a client sent, to be repeated in an error.
pub(crate) fn quote(sent: &[u8]) -> String {
    echo(sent, ECHO_BYTES_MAX)
}

/// As C would print it: up to a NUL. An error is one line, so ends of lines become spaces.
fn echo(sent: &[u8], bytes_max: usize) -> String {
    let shown = &sent[..sent.len().min(bytes_max)];
    let shown = shown.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(shown).replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_little_and_on_one_line() {
        assert_eq!(quote(b"NO\r\nSUCH"), "NO  SUCH");
        assert_eq!(quote(b"GE\0T"), "GE");
        assert_eq!(quote(&[b'x'; 1000]).len(), ECHO_BYTES_MAX);
        assert_eq!(quote(b"a\xff"), "a\u{fffd}");
    }
}
