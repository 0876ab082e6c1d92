//! Reading and unpacking of archives within limits: zip, 7z and tar, plain or compressed with gzip,
//! bzip2, xz or zstd.
//!
//! An archive is an open file: no path from an archive is opened, and files are only written
//! beneath a root. Names, sizes and links of an archive are never trusted.

mod archive_entry;
mod archive_file;
mod extraction_limits;
mod seven_zip;
mod tar;
mod unpack;
mod zip;

pub use archive_entry::{ArchiveEntry, EntryKind};
pub use archive_file::{Archive, EntryVisitor, VisitControl};
pub use extraction_limits::ArchiveError;
pub use unpack::unpack_all;
