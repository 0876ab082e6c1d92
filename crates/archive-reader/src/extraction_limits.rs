//! Limits of archive extraction, with the research registry's values: sizes, counts and compression
//! ratio. Its readers enforce them.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// Largest archive, in bytes.
pub(crate) const MAX_ARCHIVE_BYTES: u64 = 500 << 20;
/// Largest total of extracted bytes.
pub(crate) const MAX_TOTAL_BYTES: u64 = 1 << 30;
/// Largest extracted file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 100 << 20;
/// Largest number of files.
pub(crate) const MAX_FILES: usize = 1_000;
/// Largest number of entries of any type.
pub(crate) const MAX_ENTRIES: usize = 5_000;
/// Maximum compression ratio: bytes out per byte in.
pub(crate) const MAX_RATIO: u64 = 100;
/// Output below this size is exempt, because short repetitive files compress well.
pub(crate) const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Largest directory of a zip or header of a 7z, in bytes.
pub(crate) const MAX_DIRECTORY_BYTES: u64 = 2 << 20;
/// Memory limit of a decoder, in KiB.
pub(crate) const MAX_DECODER_KIB: u32 = 48 << 10;

/// Reason why an archive is rejected, with its status in the research registry's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveError {
    /// Status in the research registry's terms.
    pub status: &'static str,
    /// Message for people.
    pub message: String,
}

impl ArchiveError {
    /// Creates the error for an invalid archive.
    pub fn invalid(problem: impl fmt::Display) -> Self {
        let problem: String =
            problem.to_string().chars().take(300).flat_map(char::escape_debug).collect();
        Self { status: "invalid", message: problem }
    }
    /// Creates the error for too many bytes.
    pub fn too_large(subject: impl Into<String>) -> Self {
        Self { status: "too_large", message: subject.into() }
    }
    /// Creates the error for too many entries.
    pub fn too_many() -> Self {
        let what = format!("the archive has more than {MAX_FILES} files, or {MAX_ENTRIES} entries");
        Self { status: "too_many_files", message: what }
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.status)
    }
}

impl std::error::Error for ArchiveError {}

impl From<ArchiveError> for io::Error {
    fn from(fault: ArchiveError) -> Self {
        Self::other(fault)
    }
}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).cloned();
        own.unwrap_or_else(|| Self::invalid(&error))
    }
}

/// Counts the bytes read from a file, and fails above `limit`.
#[derive(Debug)]
pub(crate) struct MeteredReader<R> {
    pub(crate) inner: R,
    pub(crate) bytes_read: Rc<Cell<u64>>,
    pub(crate) limit: Rc<Cell<u64>>,
}

impl<R> MeteredReader<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        Self { inner, bytes_read: Rc::default(), limit: Rc::new(Cell::new(limit)) }
    }
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let all = self.bytes_read.get().saturating_add(read as u64);
        self.bytes_read.set(all);
        if all > self.limit.get() {
            return Err(ArchiveError::too_large("the archive's directory is too large").into());
        }
        Ok(read)
    }
}

impl<R: Seek> Seek for MeteredReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Budget of extracted bytes, relative to the bytes that were read.
#[derive(Debug, Clone)]
pub(crate) struct ExtractionBudget {
    bytes_out: Rc<Cell<u64>>,
    /// Bytes read so far, or the size of the archive.
    bytes_in: Rc<Cell<u64>>,
}

impl ExtractionBudget {
    pub(crate) fn new(bytes_in: Rc<Cell<u64>>) -> Self {
        Self { bytes_out: Rc::default(), bytes_in }
    }

    fn charge_bytes(&self, more: u64) -> Result<(), ArchiveError> {
        let came = self.bytes_out.get().saturating_add(more);
        self.bytes_out.set(came);
        check_ratio(came, self.bytes_in.get())
    }
}

/// Checks total size and compression ratio.
pub(crate) fn check_ratio(unpacked_bytes: u64, packed_bytes: u64) -> Result<(), ArchiveError> {
    if unpacked_bytes > MAX_TOTAL_BYTES {
        let what = format!("the archive unpacks to more than {} MiB", MAX_TOTAL_BYTES >> 20);
        return Err(ArchiveError::too_large(what));
    }
    if unpacked_bytes > RATIO_FREE_BYTES && unpacked_bytes / MAX_RATIO > packed_bytes.max(1) {
        let what = format!("the archive unpacks to more than {MAX_RATIO} times its size");
        return Err(ArchiveError { status: "suspicious", message: what });
    }
    Ok(())
}

/// Reads the content of an entry within the budget and the file limit.
pub(crate) struct EntryReader<'a> {
    inner: &'a mut dyn Read,
    left: u64,
    budget: ExtractionBudget,
}

impl<'a> EntryReader<'a> {
    pub(crate) fn for_file(inner: &'a mut dyn Read, budget: &ExtractionBudget) -> Self {
        Self { inner, left: MAX_FILE_BYTES, budget: budget.clone() }
    }
}

impl Read for EntryReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.budget.charge_bytes(read as u64)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            ArchiveError::too_large(format!(
                "a file of the archive is larger than {} MiB",
                MAX_FILE_BYTES >> 20
            ))
        })?;
        Ok(read)
    }
}

/// Reads the decompressed tar stream within the budget.
#[derive(Debug)]
pub(crate) struct DecompressedReader<R> {
    pub(crate) inner: R,
    pub(crate) budget: ExtractionBudget,
}

impl<R: Read> Read for DecompressedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.budget.charge_bytes(read as u64)?;
        Ok(read)
    }
}
