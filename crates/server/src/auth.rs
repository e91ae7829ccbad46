//! Who may connect, and how a password is checked.
//!
//! Users come from one password (`--requirepass`, for the user `default`) or from a file, which `acl` reads.

use std::{fmt, hint::black_box, sync::Arc};

mod acl;

pub use acl::AclError;

/// The user of clients that give a password and no name, as in Redis.
pub const DEFAULT_USER: &str = "default";
/// The longest name and the longest password.
pub const SECRET_BYTES_MAX: usize = 512;

/// Everybody who may connect. With nobody in it, everybody may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users(Arc<[User]>);

/// Somebody who may connect.
#[derive(Clone, PartialEq, Eq)]
struct User {
    name: Arc<str>,
    /// Any of them will do. With none, the user is known and cannot connect.
    passwords: Vec<String>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?}, {} passwords)", self.name, self.passwords.len())
    }
}

impl Users {
    /// The user `default` with this password.
    pub fn with_password(password: &str) -> Result<Self, AclError> {
        acl::check_password(password)?;
        Ok(Self(Arc::new([User { name: DEFAULT_USER.into(), passwords: vec![password.to_owned()] }])))
    }

    /// Must a client say who it is?
    pub fn required(&self) -> bool {
        !self.0.is_empty()
    }

    /// The user of this name and password, if there is one. How long this takes depends on what is asked, and not on
    /// how much of it is right.
    pub fn check(&self, name: &[u8], password: &[u8]) -> Option<Arc<str>> {
        let mut found = None;
        for user in self.0.iter() {
            let named = equal(user.name.as_bytes(), name);
            for known in &user.passwords {
                let right = equal(known.as_bytes(), password);
                if black_box(named & right) {
                    found = Some(&user.name);
                }
            }
        }
        found.cloned()
    }

    /// The names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|user| &*user.name)
    }
}

/// Compares without stopping at the first difference.
pub(crate) fn equal(known: &[u8], given: &[u8]) -> bool {
    let mut difference = known.len() ^ given.len();
    for (position, byte) in given.iter().enumerate() {
        let expected = known.get(position).copied().unwrap_or(0);
        difference |= usize::from(black_box(byte ^ expected));
    }
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_is_equality() {
        let samples: [&[u8]; 7] = [b"", b"\0", b"a", b"ab", b"abc", b"abd", b"abc\0"];
        for known in samples {
            for given in samples {
                assert_eq!(equal(known, given), known == given, "{known:?} {given:?}");
            }
        }
    }

    #[test]
    fn one_password_makes_the_default_user() {
        let users = Users::with_password("secret").expect("a password");
        assert!(users.required());
        assert_eq!(users.check(b"default", b"secret").as_deref(), Some("default"));
        for (name, password) in [
            (&b"default"[..], &b"secre"[..]),
            (b"default", b"secrets"),
            (b"default", b""),
            (b"other", b"secret"),
            (b"", b"secret"),
        ] {
            assert_eq!(users.check(name, password), None);
        }
    }

    #[test]
    fn nobody_named_means_everybody() {
        assert!(!Users::default().required());
        assert_eq!(Users::default().check(b"default", b""), None);
    }

    #[test]
    fn an_empty_password_is_refused() {
        let error = Users::with_password("").expect_err("no password");
        assert!(error.to_string().contains("empty"), "{error}");
    }

    #[test]
    fn passwords_are_never_shown() {
        let users = Users::with_password("hunter2").expect("a password");
        assert!(!format!("{users:?}").contains("hunter2"));
    }
}
