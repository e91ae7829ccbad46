//! Which cluster somebody belongs to.

use std::fmt;

use minicbor::{Decode, Encode};

/// Drawn by the first site of a cluster, and taken over by all others: names are often left at what they are without
/// anybody's choice.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct ClusterId(#[cbor(with = "minicbor::bytes")] pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// A cluster, as somebody knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Given by people.
    pub name: String,
    /// `None`: not heard yet.
    pub id: Option<ClusterId>,
}

impl Cluster {
    /// Is it certain that these are two? Whoever does not know the id goes by the name.
    pub fn is_other(&self, other: &Self) -> bool {
        self.name != other.name || self.id.zip(other.id).is_some_and(|(one, other)| one != other)
    }

    /// For people, who must be able to tell it from the other one.
    pub fn beside(&self, other: &Self) -> String {
        match self.id.filter(|_| self.name == other.name) {
            Some(id) => format!("{}/{id}", self.name),
            None => self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, id: Option<u8>) -> Cluster {
        Cluster { name: name.to_owned(), id: id.map(|byte| ClusterId([byte; 16])) }
    }

    #[test]
    fn clusters_of_one_name_are_told_apart_by_their_ids() {
        let known = cluster("quipu", Some(1));
        assert!(!known.is_other(&cluster("quipu", Some(1))));
        assert!(!known.is_other(&cluster("quipu", None)), "nobody knows");
        assert!(known.is_other(&cluster("quipu", Some(2))));
        assert!(known.is_other(&cluster("eu", None)) && known.is_other(&cluster("eu", Some(1))));
        assert_eq!(known.beside(&cluster("eu", Some(2))), "quipu");
        assert_eq!(known.beside(&cluster("quipu", Some(2))), format!("quipu/{}", "01".repeat(16)));
    }
}
