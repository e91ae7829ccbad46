//! What can be done to a cluster while it runs, by a key or by a line of text.

use super::cable::Cable;

/// What is said of lines that are no order.
pub(super) const ORDERS: &str =
    "cut 1 2, heal 1 2, silence 1 2, add 1 KEY AMOUNT, kill 1, start 1 (with the numbers of sites), or quit";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// What the connection between two sites does from now on.
    Link { one: u16, other: u16, cable: Cable },
    /// Counts at a site.
    Add { site: u16, key: String, amount: i64 },
    /// Ends a site without any warning.
    Kill { site: u16 },
    /// Starts a site again that was killed.
    Start { site: u16 },
    /// Stops all sites in an orderly way.
    Quit,
}

/// An order as text. `sites` is how many there are.
pub(super) fn parse(line: &str, sites: u16) -> Result<Order, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let site = |word: &str| {
        let number = word.parse().ok().filter(|number| (1..=sites).contains(number));
        number.ok_or_else(|| format!("{word:?} is no site; there are 1 to {sites}; nothing was done"))
    };
    let link = |one: &str, other: &str, cable| match (site(one)?, site(other)?) {
        (one, other) if one == other => Err(format!("site {one} has no link to itself; nothing was done")),
        (one, other) => Ok(Order::Link { one, other, cable }),
    };
    match words[..] {
        ["cut", one, other] => link(one, other, Cable::Cut),
        ["heal", one, other] => link(one, other, Cable::Whole),
        ["silence", one, other] => link(one, other, Cable::Silent),
        ["add", at, key, amount] => {
            let wrong = |_| format!("{amount:?} is no whole number of 64 bits; nothing was counted");
            Ok(Order::Add { site: site(at)?, key: key.to_owned(), amount: amount.parse().map_err(wrong)? })
        }
        ["kill", number] => Ok(Order::Kill { site: site(number)? }),
        ["start", number] => Ok(Order::Start { site: site(number)? }),
        ["quit"] => Ok(Order::Quit),
        _ => Err(format!("{line:?} is no order; say {ORDERS}; nothing was done")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        let link = |cable| Ok(Order::Link { one: 1, other: 3, cable });
        assert_eq!(parse("cut 1 3", 3), link(Cable::Cut));
        assert_eq!(parse("  heal  1 3\r\n", 3), link(Cable::Whole));
        assert_eq!(parse("silence 1 3", 3), link(Cable::Silent));
        assert_eq!(parse("add 2 hits -5", 3), Ok(Order::Add { site: 2, key: "hits".to_owned(), amount: -5 }));
        assert_eq!(parse("kill 3", 3), Ok(Order::Kill { site: 3 }));
        assert_eq!(parse("start 3", 3), Ok(Order::Start { site: 3 }));
        assert_eq!(parse("quit", 3), Ok(Order::Quit));
    }

    #[test]
    fn what_is_no_order_is_refused_with_what_is_possible() {
        for (line, part) in [
            ("", "is no order"),
            ("cut 1", "is no order"),
            ("cut 1 4", "\"4\" is no site; there are 1 to 3"),
            ("heal 0 1", "\"0\" is no site"),
            ("cut 2 2", "no link to itself"),
            ("kill all", "\"all\" is no site"),
            ("add 1 hits 9223372036854775808", "no whole number"),
            ("add 1 hits", "add 1 KEY AMOUNT"),
        ] {
            let refused = parse(line, 3).expect_err(line);
            assert!(refused.contains(part), "{line}: {refused}");
        }
    }
}
