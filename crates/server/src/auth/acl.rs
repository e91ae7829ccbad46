//! The file of users.
//!
//! A line is `user NAME PASSWORD`, or a line of a Redis ACL file as far as it says who may connect:
//! `user alice on >secret ~* +@all`. What each user may do is not restricted yet, so a line that restricts it is
//! refused rather than half obeyed. `#` begins a comment line.

use std::str::FromStr;

use super::{SECRET_BYTES_MAX, User, Users};

/// The most users in a file: each check of a password looks at all of them.
const USERS_MAX: usize = 1_000;

/// Why a file of users is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// A line that is no user.
    #[error("line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// With it nobody could connect.
    #[error("it has no user who is on and has a password; add a line such as `user alice SECRET`")]
    Nobody,
    /// A file that is too long.
    #[error("it has more than {USERS_MAX} users")]
    TooMany,
    /// A password that cannot be.
    #[error("{0}")]
    Password(String),
}

impl FromStr for Users {
    type Err = AclError;

    fn from_str(text: &str) -> Result<Self, AclError> {
        let mut users: Vec<User> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |problem| AclError::Line { line: index + 1, problem };
            let user = parse_line(line).map_err(refuse)?;
            if users.iter().any(|other| other.name == user.name) {
                return Err(refuse(format!("the user {:?} stands in the file already; keep one", user.name)));
            }
            users.push(user);
        }
        if users.len() > USERS_MAX {
            return Err(AclError::TooMany);
        }
        if users.iter().all(|user| user.passwords.is_empty()) {
            return Err(AclError::Nobody);
        }
        Ok(Self(users.into()))
    }
}

fn parse_line(line: &str) -> Result<User, String> {
    let mut words = line.split_whitespace();
    if words.next() != Some("user") {
        return Err("a line begins with `user`: `user NAME PASSWORD`, or `#` for a comment".to_owned());
    }
    let name = words.next().ok_or("the name is missing: `user NAME PASSWORD`")?;
    check_name(name)?;
    let rules: Vec<&str> = words.collect();
    let passwords = match rules[..] {
        [] => return Err(format!("the user {name:?} has no password: `user {name} PASSWORD`")),
        [password] if !is_rule(password) => vec![checked(password)?],
        _ => parse_rules(&rules)?,
    };
    Ok(User { name: name.into(), passwords })
}

/// A name must fit into HTTP's `user:password`.
fn check_name(name: &str) -> Result<(), String> {
    if name.contains(':') {
        return Err(format!(
            "the name {name:?} has a colon, by which HTTP parts it from the password; leave it out"
        ));
    }
    if name.len() > SECRET_BYTES_MAX {
        return Err(format!("the name has {} bytes, at most {SECRET_BYTES_MAX} are allowed", name.len()));
    }
    Ok(())
}

/// Is this word a rule of Redis, and no password of the short form?
fn is_rule(word: &str) -> bool {
    const WORDS: [&str; 8] =
        ["on", "off", "nopass", "resetpass", "reset", "allkeys", "allchannels", "allcommands"];
    WORDS.contains(&word) || word.starts_with(['>', '<', '#', '!', '~', '%', '&', '+', '-', '@'])
}

fn parse_rules(rules: &[&str]) -> Result<Vec<String>, String> {
    let mut on = false; // As in Redis: a user is off until it is said to be on.
    let mut passwords = Vec::new();
    for rule in rules {
        match *rule {
            "on" => on = true,
            "off" => on = false,
            "~*" | "allkeys" | "&*" | "allchannels" | "+@all" | "allcommands" | "sanitize-payload" => {}
            "resetchannels" => {} // There are no channels.
            "nopass" => {
                return Err("`nopass`: users without a password are not known here; give one with >PASSWORD"
                    .to_owned());
            }
            rule if rule.starts_with('#') => {
                return Err(
                    "hashed passwords (#…) are not known here; give the password itself with >PASSWORD"
                        .to_owned(),
                );
            }
            rule => match rule.strip_prefix('>') {
                Some(password) => passwords.push(checked(password)?),
                None => {
                    return Err(format!(
                        "the rule {rule:?} is not known here: users may do everything (`on >PASSWORD ~* +@all`), or \
                         nothing (`off`)"
                    ));
                }
            },
        }
    }
    match on {
        true if passwords.is_empty() => {
            Err("the user is on and has no password; give one with >PASSWORD".to_owned())
        }
        true => Ok(passwords),
        false => Ok(Vec::new()),
    }
}

fn checked(password: &str) -> Result<String, String> {
    check_password(password).map_err(|error| error.to_string())?;
    Ok(password.to_owned())
}

pub(super) fn check_password(password: &str) -> Result<(), AclError> {
    if password.is_empty() {
        return Err(AclError::Password("is empty; give a password, or leave it out".to_owned()));
    }
    if password.len() > SECRET_BYTES_MAX {
        let problem = format!("has {} bytes, at most {SECRET_BYTES_MAX} are allowed", password.len());
        return Err(AclError::Password(problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_and_comments_are_read() {
        let text = "# who may connect\n\nuser alice wonderland\n  user bob on >one >two ~* &* +@all\nuser default off\n";
        let users: Users = text.parse().expect("a good file");
        assert_eq!(users.names().collect::<Vec<_>>(), ["alice", "bob", "default"]);
        assert_eq!(users.check(b"alice", b"wonderland").as_deref(), Some("alice"));
        assert_eq!(users.check(b"bob", b"one").as_deref(), Some("bob"));
        assert_eq!(users.check(b"bob", b"two").as_deref(), Some("bob"));
        assert_eq!(users.check(b"bob", b"wonderland"), None);
        assert_eq!(users.check(b"default", b""), None, "off");
    }

    #[test]
    fn bad_lines_are_named_with_a_remedy() {
        for (text, line, part) in [
            ("alice secret", 1, "begins with `user`"),
            ("\nuser", 2, "the name is missing"),
            ("#\n\nuser alice", 3, "has no password"),
            ("user alice on", 1, "give one with >PASSWORD"),
            ("user alice on >", 1, "empty"),
            ("user alice on nopass ~* +@all", 1, "nopass"),
            ("user alice on #c0ffee ~* +@all", 1, "hashed"),
            ("user alice on >secret ~app:* +@all", 1, "~app:*"),
            ("user alice on >secret ~* -@all", 1, "-@all"),
            ("user alice secret word", 1, "secret"),
            ("user a:b secret", 1, "colon"),
            ("user alice one\nuser alice two", 2, "already"),
        ] {
            let error = text.parse::<Users>().expect_err(text);
            let AclError::Line { line: found, .. } = &error else { panic!("{text}: {error}") };
            assert_eq!(*found, line, "{text}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_with_which_nobody_could_connect_is_refused() {
        for text in ["", "# nobody", "user alice off >secret"] {
            assert_eq!(text.parse::<Users>(), Err(AclError::Nobody), "{text}");
        }
    }

    #[test]
    fn a_file_has_a_limit() {
        let text: String = (0..=USERS_MAX).map(|number| format!("user u{number} secret\n")).collect();
        assert_eq!(text.parse::<Users>(), Err(AclError::TooMany));
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        assert!(format!("user alice {long}").parse::<Users>().is_err());
        assert!(format!("user {long} secret").parse::<Users>().is_err());
    }
}
