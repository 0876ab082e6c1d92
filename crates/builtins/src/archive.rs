//! Tools for archives: zip, 7z, and tar as it is or packed with gzip, bzip2, xz or zstd.
//!
//! What is read goes through [`read`], with the limits of spec 3, and what is written through guard's
//! roots. Nothing here trusts a name, a size or a link of an archive.

pub(crate) mod archive_extract;
pub(crate) mod archive_file;
pub(crate) mod archive_open;
pub(crate) mod archive_search;
mod entry;
mod limits;
pub(crate) mod opened;
mod read;
mod sections;
mod seven;
mod tar;
pub(crate) mod unpack;
mod zip;

#[cfg(test)]
mod tests;
