//! The file system under a state file: the file is locked for as long as it is open, also after it was renamed.
//!
//! There is no second file for the lock. A new file is locked before it takes the name of the old one, so whoever opens
//! the name finds a locked file; and whoever has opened the old one just before finds, once it has that one's lock, that
//! the name is another file's by now.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    StorageError,
    embedded::{Disk, Folder},
};

/// The folder of a file. Its files are locked when they are opened.
#[derive(Debug, Clone)]
pub struct SingleFile {
    path: PathBuf,
    folder: Folder,
}

impl SingleFile {
    /// For a file at this path, in a folder that exists.
    pub fn at(path: &Path) -> Result<Self, StorageError> {
        let failed = |error| StorageError::io(format!("opening {}", path.display()), error);
        // The file itself, not a link to it: a link would be replaced.
        let path = fs::canonicalize(path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => std::path::absolute(path),
            _ => Err(error),
        });
        let path = path.map_err(failed)?;
        let folder = match (path.file_name(), path.parent()) {
            (Some(_), Some(folder)) if folder.is_dir() && !path.is_dir() => folder,
            (Some(_), Some(folder)) if !folder.is_dir() => {
                return Err(failed(io::Error::new(io::ErrorKind::NotFound, "there is no such folder")));
            }
            _ => return Err(failed(io::ErrorKind::IsADirectory.into())),
        };
        let folder = Folder::create(folder).map_err(failed)?;
        Ok(Self { path, folder })
    }

    /// The file's name in its folder.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn locked(file: File) -> io::Result<File> {
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

impl Disk for SingleFile {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let file = Self::locked(self.folder.create(name)?)?;
        if let Ok(before) = fs::metadata(&self.path)
            && before.permissions() != file.metadata()?.permissions()
        {
            file.set_permissions(before.permissions())?;
        }
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        loop {
            let path = self.path_of(name);
            let file = Self::locked(OpenOptions::new().read(true).write(true).open(&path)?)?;
            let (here, named) = (file.metadata()?, fs::metadata(&path)?);
            if (here.dev(), here.ino()) == (named.dev(), named.ino()) {
                return Ok(file);
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.folder.sync_names()
    }

    fn describe(&self, name: &str) -> String {
        self.path_of(name).display().to_string()
    }
}
