//! Errors of file access. An error does not reveal whether a path exists outside the root.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use tool::ErrorCode;
use tool::display_text::truncate_and_escape_debug;

/// Longest displayed path, in characters.
const MAX_DISPLAY_CHARS: usize = 200;

/// Error of reading, writing or listing a file. Paths are escaped and truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileAccessError {
    /// The root itself cannot be used.
    #[error("cannot use the folder `{path}`: {what}")]
    InvalidRoot {
        /// As configured.
        path: String,
        /// Reason reported by the system.
        what: String,
    },
    /// Missing, outside, behind a link, hidden, or not permitted; deliberately not distinguished.
    #[error(
        "there is no `{path}` in the folder; a path begins in the folder, and no link that leads out of it is followed"
    )]
    NotFound {
        /// Path as requested.
        path: String,
    },
    /// A folder, pipe, socket or device.
    #[error("`{path}` is not a regular file")]
    NotRegularFile {
        /// As asked for.
        path: String,
    },
    /// The file is over the size limit.
    #[error("`{path}` is larger than {limit} bytes; read less of it, or raise the limit")]
    TooLarge {
        /// As asked for.
        path: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The root is read-only.
    #[error("cannot write `{path}`: the folder is configured as read-only")]
    ReadOnly {
        /// As asked for.
        path: String,
    },
    /// The path already exists.
    #[error("`{path}` already exists; choose another name, or allow replacing it")]
    AlreadyExists {
        /// As asked for.
        path: String,
    },
    /// The file has more than one hard link, so that the other name would keep the old content.
    #[error("cannot write `{path}`, because it has several hard links")]
    HardLinked {
        /// As asked for.
        path: String,
    },
    /// The system failed: disk full, too many open files, or a broken disk.
    #[error("`{path}`: {what}")]
    Io {
        /// As asked for.
        path: String,
        /// Error of the operating system.
        what: String,
    },
}

impl FileAccessError {
    pub(super) fn from_errno(error: Errno, path: &Path) -> Self {
        let path = display_path(path);
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
            | Errno::NODEV => Self::NotFound { path },
            Errno::ISDIR => Self::NotRegularFile { path },
            Errno::EXIST | Errno::NOTEMPTY => Self::AlreadyExists { path },
            Errno::ROFS => Self::ReadOnly { path },
            Errno::AGAIN => Self::Io {
                path,
                what: "the folder changed during the operation; try \
                    again"
                    .to_owned(),
            },
            other => Self::Io { path, what: errno_message(other) },
        }
    }

    pub(super) fn from_io(error: &io::Error, path: &Path) -> Self {
        match Errno::from_io_error(error) {
            Some(error) => Self::from_errno(error, path),
            None => Self::Io { path: display_path(path), what: error.to_string() },
        }
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidRoot { .. } => ErrorCode::InvalidConfig,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::NotRegularFile { .. } | Self::ReadOnly { .. } | Self::HardLinked { .. } => {
                ErrorCode::Blocked
            }
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::AlreadyExists { .. } => ErrorCode::Conflict,
            Self::Io { .. } => ErrorCode::Internal,
        }
    }
}

/// Returns the system's message for an error number.
pub(super) fn errno_message(error: Errno) -> String {
    io::Error::from(error).to_string()
}

pub(super) fn display_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut shown = truncate_and_escape_debug(&text, MAX_DISPLAY_CHARS);
    if text.chars().nth(MAX_DISPLAY_CHARS).is_some() {
        shown.push('…');
    }
    shown
}
