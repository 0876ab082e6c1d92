//! Tools for archives: zip, 7z, and tar, either plain or compressed with gzip, bzip2, xz or zstd.
//!
//! Reads go through [`archive_reader`], with the limits of spec 3, and writes through `rooted-fs`.
//! Names, sizes and links of an archive are never trusted.

pub(crate) mod archive_extract;
pub(crate) mod archive_file;
pub(crate) mod archive_open;
pub(crate) mod archive_search;
pub(crate) mod opened;
mod sections;

#[cfg(test)]
mod tests;
