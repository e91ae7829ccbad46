//! The settings by name, where each value comes from, and what is said about a bad one.
//!
//! All sources (flags, environment, file, defaults) give text; [`Config`](super::Config) turns it into values. So a
//! value is read by the same rules wherever it stands.

use std::{collections::BTreeMap, fmt, path::PathBuf};

/// A setting that exists.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// As it is called in a file.
    pub name: &'static str,
    /// As it is called on the command line.
    pub flag: &'static str,
    /// As it is called in the environment.
    pub variable: &'static str,
    /// What it is if nobody says.
    pub default: Option<&'static str>,
    /// Is it never to be shown?
    pub secret: bool,
}

macro_rules! settings {
    ($($constant:ident $name:literal $default:expr;)*) => {
        $(
            #[doc = concat!("`--", $name, "`")]
            pub const $constant: Known = Known {
                name: $name,
                flag: concat!("--", $name),
                variable: concat!("QUIPU_", stringify!($constant)),
                default: $default,
                secret: matches!($name.as_bytes(), b"requirepass" | b"storage-password"),
            };
        )*
        /// All of them, in the order in which they are shown.
        pub const ALL: &[Known] = &[$($constant),*];
    };
}

settings! {
    DATA "data" Some("./quipu-data");
    STORAGE "storage" None;
    STORAGE_USER "storage-user" None;
    STORAGE_PASSWORD "storage-password" None;
    STORAGE_TLS "storage-tls" None;
    STORAGE_DEADLINE "storage-deadline" Some("5s");
    RESP "resp" Some("127.0.0.1:7379");
    RESP_CLUSTER "resp-cluster" Some("off");
    HTTP "http" Some("127.0.0.1:7380");
    SITE "site" None;
    LINK "link" Some("127.0.0.1:7381");
    ADVERTISE "advertise" None;
    TAKEOVER_AFTER "takeover-after" Some("5s");
    PEERS "peers" None;
    JOIN "join" None;
    TIER "tier" Some("0");
    PARENTS "parents" None;
    CLUSTER "cluster" None;
    DURABILITY "durability" Some("always");
    MEMORY "memory" Some("1GiB");
    WORKERS "workers" None;
    SHARDS "shards" None;
    IDMP_WINDOW "idmp-window" Some("10min");
    IDMP_MODE "idmp-mode" Some("exact");
    IDMP_FPP "idmp-fpp" Some("0.000001");
    EDGE_TTL "edge-ttl" Some("30d");
    MAX_CLIENTS "max-clients" Some("10000");
    TCP_KEEPALIVE "tcp-keepalive" Some("300");
    REQUIREPASS "requirepass" None;
    ACL_FILE "acl-file" None;
    INSECURE "insecure" Some("false");
    LOG_LEVEL "log-level" Some("info");
    LOG_FORMAT "log-format" Some("text");
}

/// Where a value comes from. A later one takes precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody gave one.
    Default,
    /// The configuration file of this name.
    File(PathBuf),
    /// A variable of the environment.
    Environment,
    /// The command line.
    Flag,
}

/// A value as it was given.
#[derive(Clone, PartialEq, Eq)]
struct Given {
    text: String,
    origin: Origin,
}

/// The values that were given, by the name of their setting.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, Given>);

impl Settings {
    /// Remembers a value, unless a source that takes precedence has given one.
    pub fn give(&mut self, known: &Known, text: impl Into<String>, origin: Origin) {
        if self.origin(known) <= origin {
            self.0.insert(known.name, Given { text: text.into(), origin });
        }
    }

    /// Where the value of a setting comes from.
    pub fn origin(&self, known: &Known) -> Origin {
        self.0.get(known.name).map_or(Origin::Default, |given| given.origin.clone())
    }

    /// The value as text: as given, or the default.
    pub fn text(&self, known: &Known) -> Option<&str> {
        self.0.get(known.name).map(|given| given.text.as_str()).or(known.default)
    }

    /// The value, if one was given or there is a default. `parse` says what is wrong with a bad one.
    pub(super) fn optional<T>(
        &self,
        known: &Known,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        self.text(known).map(|text| parse(text).map_err(|problem| self.refuse(known, problem))).transpose()
    }

    /// The value of a setting that must have one.
    pub(super) fn required<T>(
        &self,
        known: &Known,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        self.optional(known, parse)?.ok_or_else(|| self.refuse(known, "was given; one is needed"))
    }

    /// The error that a value of this setting is bad.
    pub(super) fn refuse(&self, known: &Known, problem: impl fmt::Display) -> ConfigError {
        let value = match self.text(known) {
            Some(_) if known.secret => "the value".to_owned(),
            Some(text) => format!("{text:?}"),
            None => "no value".to_owned(),
        };
        let from = match self.origin(known) {
            Origin::Flag => String::new(),
            Origin::Default => " (the default)".to_owned(),
            Origin::Environment => format!(" (from the environment variable {})", known.variable),
            Origin::File(path) => format!(" (from {})", path.display()),
        };
        ConfigError { flag: known.flag, problem: format!("{value}{from} {problem}") }
    }
}

/// Why the settings are not taken. Nothing was started or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {problem}")]
pub struct ConfigError {
    /// The setting, as a flag.
    pub flag: &'static str,
    /// The value, where it comes from, what is wrong with it, and the remedy.
    pub problem: String,
}
