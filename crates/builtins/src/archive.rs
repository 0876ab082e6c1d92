//! Tools for archives: zip, 7z, and tar as it is or packed with gzip, bzip2, xz or zstd.
//!
//! What is read goes through [`archive_reader`], with the limits of spec 3, and what is written through guard's
//! roots. Nothing here trusts a name, a size or a link of an archive.

pub(crate) mod archive_extract;
pub(crate) mod archive_file;
pub(crate) mod archive_open;
pub(crate) mod archive_search;
pub(crate) mod opened;
mod sections;

#[cfg(test)]
mod tests;
