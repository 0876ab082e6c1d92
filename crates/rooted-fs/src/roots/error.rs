//! Why a file was not read or written. Uniform: an answer tells nothing of what is outside.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use tool::Code;

/// Longest path in a message, in characters.
const MOST_SHOWN: usize = 200;

/// Why a file was not read, written or listed. Paths are shown escaped and cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The root itself cannot be used.
    #[error("the folder `{path}` cannot be used: {what}")]
    Root {
        /// As configured.
        path: String,
        /// What the system said.
        what: String,
    },
    /// Not there, outside, behind a link, hidden, or not permitted: which of these is not told.
    #[error(
        "there is no `{path}` in the folder; a path begins in the folder, and no link that leads out of it is followed"
    )]
    NoSuch {
        /// As asked for.
        path: String,
    },
    /// A folder, pipe, socket or device.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// As asked for.
        path: String,
    },
    /// Over the limit.
    #[error("`{path}` is over {limit} bytes; read less of it, or raise the limit")]
    TooLarge {
        /// As asked for.
        path: String,
        /// In bytes.
        limit: usize,
    },
    /// The root is for reading.
    #[error("`{path}` cannot be written: the folder is configured for reading only")]
    ReadOnly {
        /// As asked for.
        path: String,
    },
    /// Something is there already.
    #[error("`{path}` is there already; choose another name, or ask to replace it")]
    Exists {
        /// As asked for.
        path: String,
    },
    /// The file has more than one name, so that the other would keep the old content.
    #[error("`{path}` has several names (hard links), and is not written for that")]
    Linked {
        /// As asked for.
        path: String,
    },
    /// The system failed: disk full, too many open files, or a broken disk.
    #[error("`{path}`: {what}")]
    Io {
        /// As asked for.
        path: String,
        /// What the system said.
        what: String,
    },
}

impl RootError {
    pub(super) fn of(error: Errno, path: &Path) -> Self {
        let path = shown(path);
        match error {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::ACCESS
            | Errno::PERM
            | Errno::INVAL
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV => Self::NoSuch { path },
            Errno::ISDIR => Self::NotAFile { path },
            Errno::EXIST | Errno::NOTEMPTY => Self::Exists { path },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::AGAIN => {
                Self::Io { path, what: "the folder changes too fast; try again".to_owned() }
            }
            other => Self::Io { path, what: told(other) },
        }
    }

    pub(super) fn io(error: &io::Error, path: &Path) -> Self {
        match Errno::from_io_error(error) {
            Some(error) => Self::of(error, path),
            None => Self::Io { path: shown(path), what: error.to_string() },
        }
    }

    /// The code that goes with it.
    pub fn code(&self) -> Code {
        match self {
            Self::Root { .. } => Code::InvalidConfig,
            Self::NoSuch { .. } => Code::NotFound,
            Self::NotAFile { .. } | Self::ReadOnly { .. } | Self::Linked { .. } => Code::Blocked,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Exists { .. } => Code::Conflict,
            Self::Io { .. } => Code::Internal,
        }
    }
}

/// The system's words for an error.
pub(super) fn told(error: Errno) -> String {
    io::Error::from(error).to_string()
}

pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut shown: String = text.chars().take(MOST_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
