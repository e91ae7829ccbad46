//! How much of anything a client may send. Each limit is checked before memory is spent on what exceeds it.

pub use quipu_engine::{KEY_BYTES_MAX, OPERATION_ID_BYTES_MAX};

/// The most arguments of one command, its name included.
pub const ARGUMENTS_MAX: usize = 65_536;
/// The longest command, framing included.
pub const COMMAND_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest inline command.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// The most arguments of one command of a client that has not authenticated, as in Redis.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// The longest argument of a client that has not authenticated, as in Redis.
pub const UNAUTHENTICATED_ARGUMENT_BYTES_MAX: usize = 16 * 1024;
/// The most commands that wait for one `EXEC`.
pub const QUEUED_COMMANDS_MAX: usize = 65_536;
/// The most memory that commands waiting for one `EXEC` take.
pub const QUEUED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest name that a connection, or the library behind it, may give itself.
pub const CLIENT_NAME_BYTES_MAX: usize = 512;
/// The most bytes of replies about the connection itself (`COMMAND`, `CLIENT LIST`, …) that one `EXEC` gathers.
pub const EXEC_REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest pattern. What it costs to compare one with a key grows with both lengths.
pub const PATTERN_BYTES_MAX: usize = 1024;
/// The most keys that one `SCAN` looks at: a larger `COUNT` means this. (`COUNT` is a hint in Redis too.)
pub const SCAN_COUNT_MAX: u32 = 65_536;
/// How many keys a `SCAN` without `COUNT` looks at, as in Redis.
pub const SCAN_COUNT_DEFAULT: u32 = 10;
