//! Where servers are.

use std::{fmt, str::FromStr};

/// The address of a server's HTTP front end, such as `http://127.0.0.1:7380`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

/// A text that is no address. Nothing was opened or sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {why}; an address is like http://127.0.0.1:7380")]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| Err(BadAddress { text: text.to_owned(), why });
        let trimmed = text.trim().trim_end_matches('/');
        if trimmed.starts_with("https://") {
            return bad("needs TLS, which is not known here");
        }
        let Some(rest) = trimmed.strip_prefix("http://") else { return bad("is no address of a server") };
        let uri = trimmed.parse::<ureq::http::Uri>();
        if rest.is_empty() || rest.contains(['/', '?', '#', '@']) || uri.is_err() {
            return bad("is more, or less, than a host and a port");
        }
        Ok(Self(trimmed.to_owned()))
    }
}

impl Address {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where exchanges are sent.
    pub(crate) fn exchange(&self) -> String {
        format!("{}/v1/exchange", self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["http://127.0.0.1:7380", "http://[::1]:7380", "http://counters.example", " http://a:1/ "]
        {
            assert_eq!(text.parse::<Address>().unwrap().as_str(), text.trim().trim_end_matches('/'));
        }
        for text in [
            "",
            "127.0.0.1:7380",
            "https://a:1",
            "http://",
            "http://a/b",
            "http://a b",
            "ftp://a",
            "http://u@a",
        ] {
            let why = text.parse::<Address>().unwrap_err().to_string();
            assert!(why.contains("http://127.0.0.1:7380"), "{why}");
        }
    }
}
