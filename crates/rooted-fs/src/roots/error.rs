//! Errors of file access. An error does not reveal whether a path exists outside the root.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use tool::Code;

/// Longest displayed path, in characters.
const MOST_SHOWN: usize = 200;

/// Error of reading, writing or listing a file. Paths are escaped and truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The root itself cannot be used.
    #[error("the folder `{path}` cannot be used: {what}")]
    Root {
        /// As configured.
        path: String,
        /// Reason reported by the system.
        what: String,
    },
    /// Missing, outside, behind a link, hidden, or not permitted; deliberately not distinguished.
    #[error(
        "there is no `{path}` in the folder; a path begins in the folder, and no link that leads out of it is followed"
    )]
    NoSuch {
        /// Path as requested.
        path: String,
    },
    /// A folder, pipe, socket or device.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// As asked for.
        path: String,
    },
    /// The file is over the size limit.
    #[error("`{path}` is over {limit} bytes; read less of it, or raise the limit")]
    TooLarge {
        /// As asked for.
        path: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The root is read-only.
    #[error("`{path}` cannot be written: the folder is configured for reading only")]
    ReadOnly {
        /// As asked for.
        path: String,
    },
    /// The path already exists.
    #[error("`{path}` is there already; choose another name, or ask to replace it")]
    Exists {
        /// As asked for.
        path: String,
    },
    /// The file has more than one hard link, so that the other name would keep the old content.
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

    /// Returns the error code.
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

/// Returns the system's message for an error number.
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
