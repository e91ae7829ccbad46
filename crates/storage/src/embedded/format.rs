//! The file that says what a folder is: its format, the number that ties its files together, and whether it is whole.

use std::{
    hash::{BuildHasher, RandomState},
    io,
};

use super::disk::{Disk, DiskFile};
use crate::StorageError;

const NAME: &str = "FORMAT";
const DRAFT: &str = "FORMAT.new";
const FIRST_WORD: &str = "quipu-storage";

/// A folder without notes: as earlier versions left it, or one that is being made.
const WITHOUT_NOTES: u32 = 1;
/// A folder whose notes are true, and whose table says which store it belongs to.
pub(super) const NOTED: u32 = 2;

/// Whether all that was ever committed is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wholeness {
    Whole,
    /// A repair has begun and not ended.
    Repairing,
    /// A repair has left out what could not be read.
    Repaired,
}

impl Wholeness {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Repairing => Some("repairing"),
            Self::Repaired => Some("repaired"),
        }
    }
}

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    number: u32,
    pub store: u64,
    pub wholeness: Wholeness,
}

impl Format {
    /// A folder without notes.
    pub(super) fn without_notes(store: u64, wholeness: Wholeness) -> Self {
        Self { number: WITHOUT_NOTES, store, wholeness }
    }

    /// The same folder, with notes.
    pub(super) fn with_notes(self) -> Self {
        Self { number: NOTED, ..self }
    }

    pub(super) fn has_notes(self) -> bool {
        self.number == NOTED
    }

    /// What the folder says; `None`: there is no such file.
    pub(super) fn read<D: Disk>(root: &D) -> Result<Option<Self>, StorageError> {
        let file = root.describe(NAME);
        match root.open(NAME).and_then(|mut file| file.read_start(usize::MAX)) {
            Ok(bytes) => parse(&String::from_utf8_lossy(&bytes), &file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StorageError::io(format!("reading {file}"), error)),
        }
    }

    /// Makes a folder: the number of its store is drawn at random.
    pub(super) fn create<D: Disk>(root: &D) -> Result<Self, StorageError> {
        let store = RandomState::new().hash_one(std::process::id());
        let format = Self::without_notes(store, Wholeness::Whole);
        format.write(root)?;
        Ok(format)
    }

    /// Durable when it returns. Under another name first, so that the file is never there in part.
    pub(super) fn write<D: Disk>(self, root: &D) -> Result<(), StorageError> {
        let Self { number, store, wholeness } = self;
        let word = wholeness.word().map(|word| format!("{word}\n")).unwrap_or_default();
        let text = format!("{FIRST_WORD} {number}\nstore {store:016x}\n{word}");
        let write = || {
            match root.remove(DRAFT) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = root.create(DRAFT)?;
            file.write_at(0, text.as_bytes())?;
            file.sync()?;
            root.rename(DRAFT, NAME)?;
            root.sync_names()
        };
        write().map_err(|error| StorageError::io(format!("writing {}", root.describe(NAME)), error))
    }
}

fn parse(text: &str, file: &str) -> Result<Format, StorageError> {
    let corrupt = || StorageError::Corrupt {
        file: file.to_owned(),
        offset: 0,
        why: format!("expected \"{FIRST_WORD} {NOTED}\" and \"store\" with 16 hex digits"),
    };
    let mut words = text.split_whitespace();
    let number = match (words.next(), words.next()) {
        (Some(FIRST_WORD), Some(format)) => format.parse::<u32>().map_err(|_| corrupt())?,
        _ => return Err(corrupt()),
    };
    if !(WITHOUT_NOTES..=NOTED).contains(&number) {
        return Err(StorageError::UnknownFormat { file: file.to_owned(), found: number, known: NOTED });
    }
    let store = match (words.next(), words.next()) {
        (Some("store"), Some(store)) => u64::from_str_radix(store, 16).map_err(|_| corrupt())?,
        _ => return Err(corrupt()),
    };
    let all = [Wholeness::Whole, Wholeness::Repairing, Wholeness::Repaired];
    let word = words.next();
    let wholeness = all.into_iter().find(|it| it.word() == word).ok_or_else(corrupt)?;
    if words.next().is_some() { Err(corrupt()) } else { Ok(Format { number, store, wholeness }) }
}
