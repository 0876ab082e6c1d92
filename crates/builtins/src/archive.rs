//! Tools for archives: zip, 7z, and tar as it is or packed with gzip, bzip2, xz or zstd.
//!
//! Reads go through [`archive_reader`], with the limits of spec 3, and writes through `rooted-fs`. Nothing here trusts a name, a size or a link of an archive.

pub(crate) mod archive_extract;
pub(crate) mod archive_file;
pub(crate) mod archive_open;
pub(crate) mod archive_search;
pub(crate) mod opened;
mod sections;

#[cfg(test)]
mod tests;
