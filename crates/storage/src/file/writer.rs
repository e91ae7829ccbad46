//! The file: frames are appended and flushed one by one; when anything is in doubt it is written anew.
//!
//! No frame is written before the one before it is on the device, so that a crash leaves at most one that is torn. What
//! a failed write or flush has left in a file cannot be known, and is not asked: nothing more is written to such a file.

use super::{
    entry::{self, Entry, HEADER_BYTES, Header, MARK_BYTES},
    image::Image,
    reader::{self, Ending, RESERVE_BYTES, Read},
};
use crate::{
    StorageError,
    embedded::{
        Disk, DiskFile,
        frame::{self, Checksum},
    },
};
use std::{
    hash::{BuildHasher, RandomState},
    io,
};

/// A new file is divided into frames of about this many bytes.
const FRAME_BYTES_AIM: usize = 1024 * 1024;
/// Smaller files are not written anew to make them smaller, in bytes.
const TIDY_BYTES_MIN: u64 = 4 * RESERVE_BYTES;

#[derive(Debug)]
pub(super) struct Writer<D: Disk> {
    disk: D,
    name: String,
    file: D::File,
    header: Header,
    /// Where the next frame goes.
    end: u64,
    /// Up to here the file is there.
    reserved: u64,
    /// How long the file was when it was written.
    first_bytes: u64,
    /// The last frame.
    sequence: u64,
    /// What stands in the file, or under its name, is not known: it has to be written anew.
    doubtful: bool,
}

impl<D: Disk> Writer<D> {
    /// Opens the file and reads it all; makes it if there is none.
    pub(super) fn open(disk: D, name: &str, ending: Ending) -> Result<(Self, Image), StorageError> {
        let failed = |doing: &str, error| failed(&disk, doing, name, error);
        let (mut file, is_new) = open_or_create(&disk, name).map_err(|error| failed("opening", error))?;
        let bytes = file.read_start(usize::MAX).map_err(|error| failed("reading", error))?;
        if bytes.is_empty() {
            let names = disk.list().map_err(|error| failed("opening", error))?;
            if !is_new && !names.contains(&notice_of(name)) {
                let why = "it is empty, and was not when it was made".to_owned();
                return Err(StorageError::Corrupt { file: disk.describe(name), offset: 0, why });
            }
            return Self::make(disk, name, file, Image::default());
        }
        let Read { header, mut image, end, first_bytes, sequence, unsure_from, is_torn } =
            reader::read(&bytes, ending).map_err(|why| why.of(&disk.describe(name)))?;
        // What was read may be in the system's memory only: it is written again before anyone acts on it.
        if !is_torn && header.has_marks && unsure_from < end {
            let again = &bytes[unsure_from..end];
            let flushed = file.write_at(unsure_from as u64, again).and_then(|()| file.sync());
            flushed.map_err(|error| failed("writing to", error))?;
        }
        let mut writer = Self {
            disk,
            name: name.to_owned(),
            file,
            header,
            end: end as u64,
            reserved: bytes.len() as u64,
            first_bytes: first_bytes as u64,
            sequence,
            // A file of an earlier version gets marks.
            doubtful: is_torn || !header.has_marks,
        };
        writer.ready(&mut image)?;
        writer.remove_notice()?;
        Ok((writer, image))
    }

    /// Makes a state with this content, in place of the file that was opened.
    pub(super) fn make(
        disk: D,
        name: &str,
        file: D::File,
        mut image: Image,
    ) -> Result<(Self, Image), StorageError> {
        let state = RandomState::new().hash_one(std::process::id());
        let header = Header { state, number: 0, first_frames: 0, has_marks: true };
        let mut writer = Self {
            disk,
            name: name.to_owned(),
            file,
            header,
            end: 0,
            reserved: 0,
            first_bytes: 0,
            sequence: 0,
            doubtful: true,
        };
        writer.write_anew(&mut image)?;
        writer.remove_notice()?;
        Ok((writer, image))
    }

    /// The file has been made: from now on it is not empty.
    fn remove_notice(&self) -> Result<(), StorageError> {
        remove_if_there(&self.disk, &notice_of(&self.name)).map_err(|error| self.failed("making", error))
    }

    /// Makes sure that the file can be appended to. After an error nothing has changed.
    pub(super) fn ready(&mut self, image: &mut Image) -> Result<(), StorageError> {
        if self.doubtful { self.write_anew(image) } else { Ok(()) }
    }

    /// Appends entries as one frame, on the device when this returns.
    pub(super) fn append(&mut self, payload: &[u8]) -> Result<(), AppendError> {
        let mut bytes = Vec::with_capacity(frame::frame_bytes(payload.len()) + MARK_BYTES);
        let sequence = self.sequence + 1;
        let id = self.header.id();
        frame::encode_frame(&mut bytes, id, sequence, self.sequence, payload, Checksum::Whole);
        bytes.extend_from_slice(&entry::mark(payload.len()));
        let end = self.end + bytes.len() as u64;
        self.reserve(end).map_err(AppendError::NotStored)?;
        // Whatever fails from here on may have stored it.
        let written = self.file.write_at(self.end, &bytes).and_then(|()| self.file.sync());
        if let Err(error) = written {
            self.doubtful = true;
            return Err(AppendError::InDoubt(self.failed("writing to", error)));
        }
        (self.end, self.sequence) = (end, sequence);
        Ok(())
    }

    /// Is a good part of the file not needed any more?
    pub(super) fn is_untidy(&self) -> bool {
        self.end > TIDY_BYTES_MIN && self.end > 2 * self.first_bytes
    }

    /// Writes all that there is to a new file, which takes the name of the old one. After an error the old one is what
    /// it was; if even that is not known, it is [tried again](Self::ready) before anything else.
    pub(super) fn write_anew(&mut self, image: &mut Image) -> Result<(), StorageError> {
        let number = self.header.number.wrapping_add(1);
        let mut header = Header { number, first_frames: 0, has_marks: true, ..self.header };
        let mut bytes = vec![0; HEADER_BYTES];
        for payload in payloads(image.entries()) {
            let told = header.first_frames;
            header.first_frames += 1;
            let id = header.id();
            frame::encode_frame(&mut bytes, id, header.first_frames, told, &payload, Checksum::Whole);
            bytes.extend_from_slice(&entry::mark(payload.len()));
        }
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        let draft = format!("{}.new", self.name);
        let (file, reserved) = self.write_draft(&draft, &bytes).map_err(|error| {
            // Whatever is left of it is removed before the next one is written.
            let _ = self.disk.remove(&draft);
            self.failed("writing anew", error)
        })?;
        // From here on either may have the name, until that is on the device.
        self.doubtful = true;
        self.disk.rename(&draft, &self.name).map_err(|error| self.failed("renaming", error))?;
        (self.file, self.header, self.reserved) = (file, header, reserved);
        (self.end, self.first_bytes) = (bytes.len() as u64, bytes.len() as u64);
        self.sequence = header.first_frames;
        self.disk.sync_names().map_err(|error| self.failed("naming", error))?;
        self.doubtful = false;
        image.settle_doubts()
    }

    /// Removes the file.
    pub(super) fn remove(&mut self) -> Result<(), StorageError> {
        let removed = self.disk.remove(&self.name).and_then(|()| self.disk.sync_names());
        removed.map_err(|error| self.failed("removing", error))
    }

    fn write_draft(&self, draft: &str, bytes: &[u8]) -> io::Result<(D::File, u64)> {
        remove_if_there(&self.disk, draft)?;
        let mut file = self.disk.create(draft)?;
        let reserved = file.reserve((bytes.len() as u64).next_multiple_of(RESERVE_BYTES))?;
        file.write_at(0, bytes)?;
        file.sync()?;
        Ok((file, reserved))
    }

    /// Makes sure that the file goes up to `end`. After an error it is as good as before.
    fn reserve(&mut self, end: u64) -> Result<(), StorageError> {
        if end <= self.reserved {
            return Ok(());
        }
        let reserved = self.file.reserve(end.next_multiple_of(RESERVE_BYTES));
        let reserved = reserved.map_err(|error| self.failed("reserving space in", error))?;
        self.file.sync().map_err(|error| {
            // What a later flush says of this part of the file cannot be relied on.
            self.doubtful = true;
            self.failed("reserving space in", error)
        })?;
        self.reserved = reserved;
        Ok(())
    }

    fn failed(&self, doing: &str, error: io::Error) -> StorageError {
        failed(&self.disk, doing, &self.name, error)
    }
}

/// Why a frame was not appended.
pub(super) enum AppendError {
    /// Nothing of it is stored.
    NotStored(StorageError),
    /// It may be stored.
    InDoubt(StorageError),
}

impl From<AppendError> for StorageError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::NotStored(error) | AppendError::InDoubt(error) => error,
        }
    }
}

fn failed<D: Disk>(disk: &D, doing: &str, name: &str, error: io::Error) -> StorageError {
    let file = disk.describe(name);
    match error.kind() {
        io::ErrorKind::WouldBlock => StorageError::Locked {
            folder: file,
            holder: "another process, or by this one already".to_owned(),
        },
        _ => StorageError::io(format!("{doing} {file}"), error),
    }
}

/// While this file is there, the one beside it is being made, and may be empty.
fn notice_of(name: &str) -> String {
    format!("{name}.making")
}

fn remove_if_there<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The file, and whether it is made now. A notice of that is on the device first: a file that is empty without one was
/// emptied.
fn open_or_create<D: Disk>(disk: &D, name: &str) -> io::Result<(D::File, bool)> {
    match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map(|file| (file, false)),
    }
    match disk.create(&notice_of(name)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => disk.sync_names()?,
    }
    match disk.create(name) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.open(name).map(|file| (file, false))
        }
        made => made.map(|file| (file, true)),
    }
}

/// Divides entries into payloads.
fn payloads<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<Vec<u8>> {
    // At least one, so that a file that has nothing but a header has lost something.
    let (mut payloads, mut last) = (Vec::new(), Vec::new());
    for entry in entries {
        if last.len() >= FRAME_BYTES_AIM {
            payloads.push(std::mem::take(&mut last));
        }
        entry.encode(&mut last);
    }
    payloads.push(last);
    payloads
}
