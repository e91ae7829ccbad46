//! The small file layer under the log, so that a test can put a disk of its own there.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use super::lock::FolderLock;

/// How much is zeroed at once when space is reserved.
const ZEROS_BYTES: usize = 1024 * 1024;

/// One folder of files, addressed by name.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// An open file.
    type File: DiskFile;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new, empty file. Its name is durable after [`Disk::sync_names`].
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// An existing file, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all names durable, as they are now.
    fn sync_names(&self) -> io::Result<()>;
    /// What to call a file in an error.
    fn describe(&self, name: &str) -> String;
}

/// One open file.
pub trait DiskFile: Send + std::fmt::Debug {
    /// Writes all bytes at an offset.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written so far durable. After an error nothing is known of what was written since the last
    /// success, and trying again proves nothing: the system may have dropped the pages.
    fn sync(&mut self) -> io::Result<()>;
    /// Extends the file to `bytes` with zeros that are really written, so that later writes within them change
    /// no metadata and find their space reserved. Returns how many it has then: a longer file stays as it is.
    fn reserve(&mut self, bytes: u64) -> io::Result<u64>;
    /// The first `bytes` of the content, or all of it if there is less.
    fn read_start(&mut self, bytes: usize) -> io::Result<Vec<u8>>;
    /// How long the content is, in bytes.
    fn length(&mut self) -> io::Result<u64>;
}

/// A folder of the file system.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    /// Held for as long as anybody can write here.
    _lock: Option<Arc<FolderLock>>,
}

impl Folder {
    /// The folder at `path`, created if it does not exist.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        Ok(Self { path, _lock: None })
    }

    /// The same folder, which now keeps the lock.
    #[must_use]
    pub(super) fn under(self, lock: Arc<FolderLock>) -> Self {
        Self { _lock: Some(lock), ..self }
    }
}

impl Disk for Folder {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl DiskFile for File {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<u64> {
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = self.metadata()?.len();
        while at < bytes {
            let step = usize::try_from(bytes - at).map_or(ZEROS_BYTES, |left| left.min(ZEROS_BYTES));
            self.write_all_at(&zeros[..step], at)?;
            at += step as u64;
        }
        Ok(at)
    }

    fn read_start(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.metadata()?.len()).map_err(io::Error::other)?;
        let mut content = vec![0; length.min(bytes)];
        self.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
