//! Reading and unpacking of archives within limits: zip, 7z and tar, plain or compressed with gzip,
//! bzip2, xz or zstd.
//!
//! An archive is an open file: no path from an archive is opened, and files are only written
//! beneath a root. Names, sizes and links of an archive are never trusted.

mod entry;
mod limits;
mod read;
mod seven;
mod tar;
mod unpack;
mod zip;

pub use entry::{Entry, Kind};
pub use limits::Fault;
pub use read::{Archive, Go, Visit};
pub use unpack::unpack;
