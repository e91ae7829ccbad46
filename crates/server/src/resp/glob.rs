//! Patterns as `SCAN`, `KEYS` and `CONFIG GET` take them: `*` any bytes, `?` any one byte, `[a-c]` one of a class,
//! `[^a]` one outside of it, and a backslash before a byte that stands for itself.
//!
//! A pattern takes at most the product of both lengths in steps, however many stars it has.

/// Does upper case matter?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// It does.
    Sensitive,
    /// It does not, for ASCII letters.
    Insensitive,
}

/// Is all of `text` like `pattern`?
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Only the last star needs another try: what an earlier one took can be left to the later one.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', after @ ..] = pattern {
            pattern = after;
            retry = Some((pattern, text));
            continue;
        }
        let step = match (pattern, text) {
            ([], []) => return true,
            (_, []) => return false, // a star cannot give back what is not there
            ([], _) => None,
            (_, [byte, after @ ..]) => one(pattern, *byte, case).map(|rest| (rest, after)),
        };
        match (step, retry) {
            (Some((rest, after)), _) => (pattern, text) = (rest, after),
            (None, Some((from, [_, shorter @ ..]))) => {
                (pattern, text) = (from, shorter);
                retry = Some((from, shorter));
            }
            (None, _) => return false,
        }
    }
}

/// Is there anything in `pattern` that does not stand for itself?
pub fn is_pattern(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Takes one byte by the first element of a pattern that is not empty; the rest of the pattern if it fits.
fn one(pattern: &[u8], byte: u8, case: Case) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => {
            let (fits, rest) = class_of(class, fold(byte, case), case);
            fits.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            (fold(*literal, case) == fold(byte, case)).then_some(rest)
        }
        [] => None,
    }
}

/// Does the class, which begins after its `[`, take the byte? And what follows the class? One without an end ends
/// with the pattern.
fn class_of(class: &[u8], byte: u8, case: Case) -> (bool, &[u8]) {
    let (negated, mut class) = match class {
        [b'^', class @ ..] => (true, class),
        class => (false, class),
    };
    let mut found = false;
    loop {
        let (low, high, rest) = match class {
            [] => return (found != negated, class),
            [b']', rest @ ..] => return (found != negated, rest),
            [b'\\', literal, rest @ ..] => (*literal, *literal, rest),
            [low, b'-', high, rest @ ..] => (*low, *high, rest),
            [literal, rest @ ..] => (*literal, *literal, rest),
        };
        let (low, high) = (fold(low.min(high), case), fold(low.max(high), case));
        found |= (low..=high).contains(&byte);
        class = rest;
    }
}

fn fold(byte: u8, case: Case) -> u8 {
    match case {
        Case::Sensitive => byte,
        Case::Insensitive => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn like(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Sensitive)
    }

    /// Each was asked of Redis 7.0.15 with `KEYS`.
    #[test]
    fn as_redis_has_it() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "a"),
            ("**", "abc"),
            ("a*c", "abbc"),
            ("a*b*c", "a1b2bc"),
            ("?", "a"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hbllo"),
            ("a\\*", "a*"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("a\\", "a\\"),
            ("[^]", "x"),
            ("[a-]", "a"),
            ("[a-]", "]"),
            ("[a-", "-"),
            ("[\\", "\\"),
            ("*a", "aaa"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a*c", "ab"),
            ("h[^e]llo", "hello"),
            ("a\\*", "ab"),
            ("[]", "a"),
            ("[", "a"),
            ("a", "A"),
            ("*b", "ba"),
            ("abc", "ab"),
            ("ab", "abc"),
            ("[a-]", "-"),
            ("[a-]]", "a]"),
        ] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
        assert!(matches(b"AP*", b"appendonly", Case::Insensitive));
        assert!(matches(b"[A-C]x", b"bX", Case::Insensitive));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!like(&pattern, &"a".repeat(2000)));
    }

    /// The definition: a star takes nothing, or one byte and then as much again.
    fn plain(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => plain(rest, text) || (!text.is_empty() && plain(pattern, &text[1..])),
            (_, []) => false,
            (_, [byte, after @ ..]) => {
                one(pattern, *byte, Case::Sensitive).is_some_and(|rest| plain(rest, after))
            }
        }
    }

    proptest! {
        #[test]
        fn stars_take_what_they_can(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(like(&pattern, &text), plain(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn never_panics(pattern: Vec<u8>, text: Vec<u8>) {
            matches(&pattern, &text, Case::Sensitive);
            matches(&pattern, &text, Case::Insensitive);
        }
    }
}
