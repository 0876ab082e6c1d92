//! How much of an archive is read at most (spec 3's numbers), and what counts it.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

/// Bytes of an archive.
pub(crate) const ARCHIVE: u64 = 500 << 20;
/// Bytes of all that comes out of one.
pub(crate) const TOTAL: u64 = 1 << 30;
/// Bytes of one file in it.
pub(crate) const FILE: u64 = 100 << 20;
/// Files in it.
pub(crate) const FILES: usize = 1_000;
/// Files, folders and all else in it.
pub(crate) const ENTRIES: usize = 5_000;
/// How many times larger what comes out may be than what went in,
pub(crate) const RATIO: u64 = 100;
/// once it is more than this: a page of blanks is no attack.
pub(crate) const FREE: u64 = 1 << 20;
/// Bytes of a directory of a zip, or of the header of a 7z.
pub(crate) const DIRECTORY: u64 = 2 << 20;
/// KiB that a decoder may ask for.
pub(crate) const MEMORY_KIB: u32 = 48 << 10;

/// Why an archive is not read on, in spec 3's words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The word of spec 3.
    pub status: &'static str,
    /// What is wrong, for people.
    pub what: String,
}

impl Fault {
    /// It is no archive that can be read.
    pub fn invalid(what: impl fmt::Display) -> Self {
        let what: String =
            what.to_string().chars().take(300).flat_map(char::escape_debug).collect();
        Self { status: "invalid", what }
    }
    /// It has too many bytes.
    pub fn too_large(what: impl Into<String>) -> Self {
        Self { status: "too_large", what: what.into() }
    }
    /// It has too many entries.
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

/// Counts what is read of a file, and stops at `limit`.
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

/// What comes out of an archive: all of it together, against what went in.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    came: Rc<Cell<u64>>,
    /// Bytes that went in so far, or the whole archive.
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

/// That `came` is not too much for `went`.
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

/// Content as it comes out: within the budget, and one file within its own limit.
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

/// All that comes out of what a tar is packed with.
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
