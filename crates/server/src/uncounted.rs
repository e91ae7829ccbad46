//! What an old copy of a site's folder has counted and nobody else knows of, as a file: `quipu restore` writes it, `quipu
//! import` reads it. A line of JSON says whose it is, and each after it what was counted under a key.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use quipu_engine::{SiteId, Uncounted};
use serde::{Deserialize, Serialize};

use crate::random::random;

/// The form of the file.
pub const FORMAT: u16 = 1;
/// So many operations go into one line, so that a line fits into a request.
const OPERATIONS_MAX: usize = 50;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u16,
    /// Random: what is counted from this file is recognised by it.
    pub export: String,
    /// The cluster.
    pub cluster: String,
    /// Who has counted it.
    pub site: String,
    /// And goes on under this id.
    pub restored_as: String,
    /// When it was first imported, as a UUID of version 7: after the window nobody knows what of it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
}

impl Header {
    /// The file is about to be imported, if it was not before.
    pub fn begin(&mut self, unix_ms: u64) -> Option<&str> {
        let digits = self.export.get(..18)?;
        let (high, low) = (unix_ms >> 16, unix_ms & 0xffff);
        let (version, variant, rest) = (&digits[..3], &digits[3..6], &digits[6..]);
        let begun = || format!("{high:08x}-{low:04x}-7{version}-8{variant}-{rest}");
        Some(self.begun.get_or_insert_with(begun))
    }
}

/// What was counted under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The key, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key in base64, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// What was added without ids.
    pub added: u64,
    /// What was subtracted without ids.
    pub subtracted: u64,
    /// What was counted with ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Counted>,
    /// It was set or deleted first: that is not counted by anybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
}

/// What was counted with an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// What is stored of the id, in hexadecimal digits.
    pub id: String,
    /// What it has counted.
    pub amount: i64,
}

impl Counted {
    /// What is stored of the id.
    pub fn stored_id(&self) -> Option<[u8; 16]> {
        let is_id = self.id.len() == 32 && self.id.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(&self.id, 16).ok().filter(|_| is_id).map(u128::to_be_bytes)
    }
}

impl Line {
    /// The bytes of the key.
    pub fn key_bytes(&self) -> Option<Vec<u8>> {
        match (&self.key, &self.key_base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(text)) => STANDARD.decode(text).ok(),
            _ => None,
        }
    }

    /// The lines of a key.
    fn of(uncounted: &Uncounted) -> Vec<Self> {
        let Uncounted { key, counted, operations, was_reset } = uncounted;
        let text = std::str::from_utf8(key).ok();
        let first = Self {
            key: text.map(str::to_owned),
            key_base64: text.is_none().then(|| STANDARD.encode(key)),
            added: counted.added,
            subtracted: counted.subtracted,
            operations: Vec::new(),
            reset: *was_reset,
        };
        let written = |(id, amount): &([u8; 16], i64)| Counted {
            id: format!("{:032x}", u128::from_be_bytes(*id)),
            amount: *amount,
        };
        let chunks = operations.chunks(OPERATIONS_MAX).map(|chunk| chunk.iter().map(written).collect());
        let mut lines: Vec<Self> = chunks
            .map(|operations| Self { added: 0, subtracted: 0, reset: false, operations, ..first.clone() })
            .collect();
        match lines.first_mut() {
            Some(line) => *line = Self { operations: std::mem::take(&mut line.operations), ..first },
            None => lines.push(first),
        }
        lines
    }
}

/// Writes what a copy has counted.
pub(crate) fn write(
    file: &Path,
    cluster: &str,
    old: SiteId,
    new: SiteId,
    all: &[Uncounted],
) -> io::Result<()> {
    let header = Header {
        format: FORMAT,
        export: format!("{:016x}{:016x}", random(), random()),
        cluster: cluster.to_owned(),
        site: old.to_string(),
        restored_as: new.to_string(),
        begun: None,
    };
    let lines: Vec<Line> = all.iter().flat_map(Line::of).collect();
    write_lines(file, &header, &lines)
}

/// Writes the file, durably, in place of what is there.
pub fn write_lines(file: &Path, header: &Header, lines: &[Line]) -> io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    let mut to = BufWriter::new(File::create(&unfinished)?);
    serde_json::to_writer(&mut to, header)?;
    writeln!(to)?;
    for line in lines {
        serde_json::to_writer(&mut to, line)?;
        writeln!(to)?;
    }
    to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&unfinished, file)?;
    // The name of the file, too.
    match file.parent() {
        Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_begun_once() {
        let export = "0123456789abcdef0123456789abcdef".to_owned();
        let text = |text: &str| text.to_owned();
        let (cluster, site, restored_as) = (text("quipu"), text("2"), text("2.1"));
        let mut header = Header { format: FORMAT, export, cluster, site, restored_as, begun: None };
        let begun = header.begin(0x017f_22e2_79b0).map(str::to_owned);
        assert_eq!(begun.as_deref(), Some("017f22e2-79b0-7012-8345-6789abcdef01"));
        assert_eq!(header.begin(0x018f_22e2_79b0), begun.as_deref());
    }

    #[test]
    fn many_operations_go_into_several_lines_and_the_rest_into_one() {
        let operations: Vec<_> = (0..120_u128).map(|id| (id.to_be_bytes(), -1)).collect();
        let mut all = Uncounted {
            key: vec![0xff, 1],
            counted: Default::default(),
            operations: operations.clone(),
            was_reset: true,
        };
        (all.counted.added, all.counted.subtracted) = (7, 2);
        let lines = Line::of(&all);
        assert_eq!(lines.iter().map(|line| line.added).collect::<Vec<_>>(), [7, 0, 0]);
        let text: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        let read: Vec<Line> = text.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, lines);
        assert!(read.iter().all(|line| line.key_bytes().as_deref() == Some(&[0xff, 1])));
        let ids = read.iter().flat_map(|line| &line.operations);
        let ids: Vec<_> = ids.map(|counted| (counted.stored_id().unwrap(), counted.amount)).collect();
        assert_eq!(ids, operations);
    }
}
