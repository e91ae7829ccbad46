//! The file: frames are appended and flushed one by one; when anything is in doubt it is written anew.
//!
//! No frame is written before the one before it is on the device, so that a crash leaves at most one that is torn. What
//! a failed write or flush has left in a file cannot be known, and is not asked: nothing more is written to such a file.

use super::{
    entry::{self, Entry, FORMAT, HEADER_BYTES, Header, NoHeader},
    image::Image,
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

/// So much is reserved at a time, in bytes: what is written within has its place on the disk.
const RESERVE_BYTES: u64 = 16 * 1024;
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

/// A file that was read.
struct Read {
    header: Header,
    image: Image,
    end: usize,
    first_bytes: usize,
    sequence: u64,
    /// Where frames begin that nothing tells to be on the device.
    unsure_from: usize,
    is_torn: bool,
}

impl<D: Disk> Writer<D> {
    /// Opens the file and reads it all; makes it if there is none.
    pub(super) fn open(disk: D, name: &str) -> Result<(Self, Image), StorageError> {
        let failed = |doing: &str, error| failed(&disk, doing, name, error);
        let mut file = open_or_create(&disk, name).map_err(|error| failed("opening", error))?;
        let bytes = file.read_start(usize::MAX).map_err(|error| failed("reading", error))?;
        if bytes.is_empty() {
            let state = RandomState::new().hash_one(std::process::id());
            let header = Header { state, number: 0, first_frames: 0 };
            let name = name.to_owned();
            let mut writer = Self {
                disk,
                name,
                file,
                header,
                end: 0,
                reserved: 0,
                first_bytes: 0,
                sequence: 0,
                doubtful: true,
            };
            let mut image = Image::default();
            writer.write_anew(&mut image)?;
            return Ok((writer, image));
        }
        let Read { header, mut image, end, first_bytes, sequence, unsure_from, is_torn } =
            read(&bytes).map_err(|why| why.of(&disk.describe(name)))?;
        // What was read may be in the system's memory only: it is written again before anyone acts on it.
        if !is_torn && unsure_from < end {
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
            doubtful: is_torn,
        };
        writer.ready(&mut image)?;
        Ok((writer, image))
    }

    /// Makes sure that the file can be appended to. After an error nothing has changed.
    pub(super) fn ready(&mut self, image: &mut Image) -> Result<(), StorageError> {
        if self.doubtful { self.write_anew(image) } else { Ok(()) }
    }

    /// Appends entries as one frame, on the device when this returns.
    pub(super) fn append(&mut self, payload: &[u8]) -> Result<(), AppendError> {
        let mut bytes = Vec::with_capacity(frame::frame_bytes(payload.len()));
        let sequence = self.sequence + 1;
        let id = self.header.id();
        frame::encode_frame(&mut bytes, id, sequence, self.sequence, payload, Checksum::Whole);
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
        let mut header =
            Header { number: self.header.number.wrapping_add(1), first_frames: 0, ..self.header };
        let mut bytes = vec![0; HEADER_BYTES];
        for payload in payloads(image.entries()) {
            let told = header.first_frames;
            header.first_frames += 1;
            let id = header.id();
            frame::encode_frame(&mut bytes, id, header.first_frames, told, &payload, Checksum::Whole);
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
        match self.disk.remove(draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
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

fn open_or_create<D: Disk>(disk: &D, name: &str) -> io::Result<D::File> {
    match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match disk.create(name) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(name),
            other => other,
        },
        other => other,
    }
}

/// Divides entries into payloads.
fn payloads<'a>(entries: impl Iterator<Item = Entry<'a>>) -> Vec<Vec<u8>> {
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    for entry in entries {
        match payloads.last_mut() {
            Some(last) if last.len() < FRAME_BYTES_AIM => entry.encode(last),
            _ => {
                let mut first = Vec::new();
                entry.encode(&mut first);
                payloads.push(first);
            }
        }
    }
    payloads
}

/// Why a file cannot be read.
enum Unreadable {
    Corrupt { offset: usize, why: String },
    Format(u32),
    Image(StorageError),
}

impl Unreadable {
    fn of(self, file: &str) -> StorageError {
        let file = file.to_owned();
        match self {
            Self::Corrupt { offset, why } => StorageError::Corrupt { file, offset: offset as u64, why },
            Self::Format(found) => StorageError::UnknownFormat { file, found, known: FORMAT },
            Self::Image(error) => error,
        }
    }
}

fn read(bytes: &[u8]) -> Result<Read, Unreadable> {
    let corrupt = |offset, why: String| Unreadable::Corrupt { offset, why };
    let header = Header::decode(bytes).map_err(|why| match why {
        NoHeader::Format(found) => Unreadable::Format(found),
        NoHeader::Damaged => corrupt(0, "its header is not sound".to_owned()),
        NoHeader::OtherFile => corrupt(0, "it is no state file: it begins with something else".to_owned()),
    })?;
    let id = header.id();
    let mut image = Image::default();
    let (mut end, mut sequence) = (HEADER_BYTES, 0);
    let (mut first_bytes, mut last_from) = (HEADER_BYTES, HEADER_BYTES);
    while let Some(frame) = frame::decode_frame(bytes, end, id, Checksum::Whole) {
        if frame.sequence != sequence + 1 {
            break;
        }
        let entries = entry::decode_entries(frame.payload)
            .ok_or_else(|| corrupt(end, "a sound frame holds something that is not an entry".to_owned()))?;
        entries.iter().try_for_each(|entry| image.apply(entry)).map_err(Unreadable::Image)?;
        last_from = end;
        (end, sequence) = (end + frame.bytes, frame.sequence);
        if sequence <= header.first_frames {
            first_bytes = end;
        }
    }
    if sequence < header.first_frames {
        return Err(corrupt(end, format!("frame {} was stored and is not sound", sequence + 1)));
    }
    let later = sequence + 1..=sequence.saturating_add(bytes.len() as u64);
    let told =
        frame::find_frames(bytes, end, later, id, Checksum::Whole).map(|(_, frame)| frame.synced).max();
    if told.is_some_and(|told| told > sequence) {
        let why = format!("frame {} is not sound, but a later one tells that it was stored", sequence + 1);
        return Err(corrupt(end, why));
    }
    // Only the last frame may not have been flushed, unless it is one of those that the file began with.
    let unsure_from = if sequence > header.first_frames { last_from } else { end };
    let is_torn = bytes[end..].iter().any(|byte| *byte != 0);
    Ok(Read { header, image, end, first_bytes, sequence, unsure_from, is_torn })
}
