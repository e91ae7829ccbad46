//! The file that says what a folder is: its format, and the number that ties its files together.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    path::Path,
};

use super::frame::FORMAT;
use crate::StorageError;

const FORMAT_FILE: &str = "FORMAT";
const FIRST_WORD: &str = "quipu-storage";

/// The number of the store in this folder; made, at random, if the folder is new.
pub(super) fn open(folder: &Path) -> Result<u64, StorageError> {
    let path = folder.join(FORMAT_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text, &path.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let store = RandomState::new().hash_one(std::process::id());
            create(folder, store)
                .map_err(|error| StorageError::io(format!("creating {}", path.display()), error))?;
            Ok(store)
        }
        Err(error) => Err(StorageError::io(format!("reading {}", path.display()), error)),
    }
}

fn parse(text: &str, file: &str) -> Result<u64, StorageError> {
    let corrupt = || StorageError::Corrupt {
        file: file.to_owned(),
        offset: 0,
        why: format!("expected \"{FIRST_WORD} {FORMAT}\" and \"store\" with 16 hex digits"),
    };
    let mut words = text.split_whitespace();
    let found = match (words.next(), words.next()) {
        (Some(FIRST_WORD), Some(format)) => format.parse::<u32>().map_err(|_| corrupt())?,
        _ => return Err(corrupt()),
    };
    if found != FORMAT {
        return Err(StorageError::UnknownFormat { file: file.to_owned(), found, known: FORMAT });
    }
    match (words.next(), words.next(), words.next()) {
        (Some("store"), Some(store), None) => u64::from_str_radix(store, 16).map_err(|_| corrupt()),
        _ => Err(corrupt()),
    }
}

/// Under another name first, so that the file is never there in part.
fn create(folder: &Path, store: u64) -> io::Result<()> {
    let draft = folder.join("FORMAT.new");
    let mut file = File::create(&draft)?;
    write!(file, "{FIRST_WORD} {FORMAT}\nstore {store:016x}\n")?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(FORMAT_FILE))?;
    File::open(folder)?.sync_all()
}
