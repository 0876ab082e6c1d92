//! Archives, read and unpacked within limits: zip, 7z, and tar as it is or packed with gzip, bzip2, xz or zstd.
//!
//! An archive is an open file: nothing here opens a path by the word of an archive, and what is written goes
//! beneath a root. No name, size or link of an archive is trusted.

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
