//! Extraction limits (spec 3's numbers): sizes, counts and compression ratio, and the readers that
//! enforce them.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// Largest archive, in bytes.
pub(crate) const ARCHIVE: u64 = 500 << 20;
/// Largest total of extracted bytes.
pub(crate) const TOTAL: u64 = 1 << 30;
/// Largest extracted file, in bytes.
pub(crate) const FILE: u64 = 100 << 20;
/// Largest number of files.
pub(crate) const FILES: usize = 1_000;
/// Largest number of entries of any type.
pub(crate) const ENTRIES: usize = 5_000;
/// Maximum compression ratio.
pub(crate) const RATIO: u64 = 100;
/// Output below this size is exempt, because short repetitive files compress well.
pub(crate) const FREE: u64 = 1 << 20;
/// Largest directory of a zip or header of a 7z, in bytes.
pub(crate) const DIRECTORY: u64 = 2 << 20;
/// Memory limit of a decoder, in KiB.
pub(crate) const MEMORY_KIB: u32 = 48 << 10;

/// Reason why an archive is rejected, with its status in spec 3's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Status in spec 3's terms.
    pub status: &'static str,
    /// Message for people.
    pub what: String,
}

impl Fault {
    /// Creates the error for an invalid archive.
    pub fn invalid(what: impl fmt::Display) -> Self {
        let what: String =
            what.to_string().chars().take(300).flat_map(char::escape_debug).collect();
        Self { status: "invalid", what }
    }
    /// Creates the error for too many bytes.
    pub fn too_large(what: impl Into<String>) -> Self {
        Self { status: "too_large", what: what.into() }
    }
    /// Creates the error for too many entries.
    pub fn too_many() -> Self {
        let what = format!("the archive has more than {FILES} files, or {ENTRIES} entries");
        Self { status: "too_many_files", what }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.what, self.status)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::other(fault)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).cloned();
        own.unwrap_or_else(|| Self::invalid(&error))
    }
}

/// Counts the bytes read from a file, and fails above `limit`.
#[derive(Debug)]
pub(crate) struct Metered<R> {
    pub(crate) inner: R,
    pub(crate) read: Rc<Cell<u64>>,
    pub(crate) limit: Rc<Cell<u64>>,
}

impl<R> Metered<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        Self { inner, read: Rc::default(), limit: Rc::new(Cell::new(limit)) }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let all = self.read.get().saturating_add(read as u64);
        self.read.set(all);
        if all > self.limit.get() {
            return Err(Fault::too_large("the archive's directory is too large").into());
        }
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Budget of extracted bytes, relative to the bytes that were read.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    came: Rc<Cell<u64>>,
    /// Bytes read so far, or the size of the archive.
    went: Rc<Cell<u64>>,
}

impl Budget {
    pub(crate) fn new(went: Rc<Cell<u64>>) -> Self {
        Self { came: Rc::default(), went }
    }

    fn count(&self, more: u64) -> Result<(), Fault> {
        let came = self.came.get().saturating_add(more);
        self.came.set(came);
        within(came, self.went.get())
    }
}

/// Checks total size and compression ratio.
pub(crate) fn within(came: u64, went: u64) -> Result<(), Fault> {
    if came > TOTAL {
        let what = format!("more than {} MiB come out of the archive", TOTAL >> 20);
        return Err(Fault::too_large(what));
    }
    if came > FREE && came / RATIO > went.max(1) {
        let what = format!("what comes out of the archive is over {RATIO} times what went in");
        return Err(Fault { status: "suspicious", what });
    }
    Ok(())
}

/// Reads the content of an entry within the budget and the file limit.
pub(crate) struct Counted<'a> {
    inner: &'a mut dyn Read,
    left: u64,
    budget: Budget,
}

impl<'a> Counted<'a> {
    pub(crate) fn file(inner: &'a mut dyn Read, budget: &Budget) -> Self {
        Self { inner, left: FILE, budget: budget.clone() }
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.budget.count(read as u64)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            Fault::too_large(format!("a file of the archive has more than {} MiB", FILE >> 20))
        })?;
        Ok(read)
    }
}

/// Reads the decompressed tar stream within the budget.
#[derive(Debug)]
pub(crate) struct Unpacked<R> {
    pub(crate) inner: R,
    pub(crate) budget: Budget,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.budget.count(read as u64)?;
        Ok(read)
    }
}
