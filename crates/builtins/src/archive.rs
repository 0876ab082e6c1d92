//! Tools for archives: zip, 7z, and tar, either plain or compressed with gzip, bzip2, xz or zstd.
//!
//! Reads go through [`archive_reader`], with the limits of the research registry, and writes
//! through `rooted-fs`. Names, sizes and links of an archive are never trusted.

pub(crate) mod archive_extract;
pub(crate) mod archive_file;
pub(crate) mod archive_open;
pub(crate) mod archive_search;
mod document_sections;
pub(crate) mod recent_archives;

#[cfg(test)]
mod tests;
