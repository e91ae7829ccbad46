//! Settings that are a choice between a few words.

use std::{fmt, str::FromStr, time::Duration};

use super::{FLUSH_INTERVAL_MAX, values::within};

/// When a count is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once it is on disk.
    Always,
    /// Once it is with the operating system; it is on disk after this time. A crash of the machine loses what was
    /// acknowledged within it.
    Interval(Duration),
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const REMEDY: &str = "is no durability; give always, or interval:<milliseconds> such as interval:100";
        if text == "always" {
            return Ok(Self::Always);
        }
        let interval = text.strip_prefix("interval:").ok_or(REMEDY)?;
        let interval = Duration::from_millis(interval.parse().map_err(|_| REMEDY)?);
        within(interval, Duration::from_millis(1), FLUSH_INTERVAL_MAX, |it| it.as_millis().to_string())
            .map(Self::Interval)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => write!(f, "always"),
            Self::Interval(interval) => write!(f, "interval:{}", interval.as_millis()),
        }
    }
}

/// A choice between a few words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("is not one of: {}", [$($word),*].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word,)* })
            }
        }
    };
}

choice! {
    /// How repeated operations are recognised.
    IdmpMode {
        /// A filter in front of stored ids: never wrong.
        Exact = "exact",
        /// The filter alone: smaller, and wrong as often as it was allowed to be.
        Filter = "filter",
    }
}

choice! {
    /// What is logged, and everything above it.
    LogLevel {
        /// What cannot be done.
        Error = "error",
        /// What somebody should look at.
        Warn = "warn",
        /// What an operator wants to know.
        Info = "info",
        /// What a developer wants to know.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choice! {
    /// How a line of the log looks.
    LogFormat {
        /// For people.
        Text = "text",
        /// For programs: a JSON object in each line.
        Json = "json",
    }
}
