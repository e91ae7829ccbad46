//! What the log must get right, and the wrong ways that tests choose to see themselves catch them.
//!
//! Without the feature `testing` each of these types has one value, and choosing costs nothing.

use super::frame::Checksum;
#[cfg(feature = "testing")]
use super::frame::find_frames;
use super::frame::{Frame, SegmentId};

/// What to do where frames do not follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// Stop there, and tell a torn tail from damage.
    #[default]
    Refused,
    /// Wrong: go on with the next sound frame.
    #[cfg(feature = "testing")]
    Accepted,
}

impl Gaps {
    #[cfg(not(feature = "testing"))]
    pub(super) fn skip(
        self,
        _: &[u8],
        _: usize,
        _: u64,
        _: SegmentId,
        _: Checksum,
    ) -> Option<(usize, Frame<'_>)> {
        None
    }

    #[cfg(feature = "testing")]
    pub(super) fn skip(
        self,
        bytes: &[u8],
        at: usize,
        expected: u64,
        id: SegmentId,
        checksum: Checksum,
    ) -> Option<(usize, Frame<'_>)> {
        match self {
            Self::Refused => None,
            Self::Accepted => find_frames(bytes, at, expected..=u64::MAX, id, checksum).next(),
        }
    }
}

/// When a segment may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reclaim {
    /// When the checkpoints of all its shards have passed it.
    #[default]
    AllPassed,
    /// Wrong: when the checkpoint of any of its shards has.
    #[cfg(feature = "testing")]
    AnyPassed,
}

/// In which order a segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// Its first frames are flushed before the header that takes them out of force elsewhere.
    #[default]
    FramesFirst,
    /// Wrong: the header is flushed before the frames.
    #[cfg(feature = "testing")]
    HeaderFirst,
}

/// Which frames are noted to belong to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Noting {
    /// Those that have been flushed.
    #[default]
    Flushed,
    /// Wrong: those that have been written. A crash may take them back.
    #[cfg(feature = "testing")]
    Written,
}

/// When the file of a segment that nobody needs any more goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Letting {
    /// When no note names it.
    #[default]
    NotedFirst,
    /// Wrong: before that is noted.
    #[cfg(feature = "testing")]
    FileFirst,
}

/// When a folder is said to have notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Promise {
    /// When it has them.
    #[default]
    NotesFirst,
    /// Wrong: before.
    #[cfg(feature = "testing")]
    FormatFirst,
}

/// What to do when something is not there that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Name it, and do nothing.
    #[default]
    Refused,
    /// Wrong: start without it.
    #[cfg(feature = "testing")]
    Ignored,
}

/// How the log is made to be wrong; not at all, by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flaws {
    /// The checksum of a frame.
    pub checksum: Checksum,
    /// Frames that are missing.
    pub gaps: Gaps,
    /// Segments that are let go.
    pub reclaim: Reclaim,
    /// Segments that begin.
    pub begin: Begin,
    /// Frames that are noted.
    pub noting: Noting,
    /// Files that go.
    pub letting: Letting,
    /// Folders that are made.
    pub promise: Promise,
    /// What is gone.
    pub missing: Missing,
}
