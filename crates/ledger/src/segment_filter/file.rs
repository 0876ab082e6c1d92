//! The file of a filter: written beside its segment, loaded, and probed page by page.

use std::io;

use crate::disk::{DiskFile, Open, append_all, read_all};
use crate::frame::array;
use crate::segment::{HEADER, Header, Site};
use crate::slice::prefix;

use super::{FilterHead, Key, PAGE, SUM, SegmentFilter, page_sum};

/// The state of a segment's file that a filter was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    /// Checksum of its header.
    pub(crate) sum: u32,
    /// Nonce of its header.
    pub(crate) nonce: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
}

/// What a segment's file is now; `None` where its header cannot be read or is that of another segment.
pub(crate) fn source(file: &dyn DiskFile, number: u32) -> io::Result<Option<Source>> {
    let mut bytes = [0; HEADER];
    let have = read_all(file, 0, &mut bytes)?;
    let header = Header::decode(prefix(&bytes, have));
    let sum = array(&bytes, HEADER - 4).map_or(0, u32::from_le_bytes);
    let size = file.size()?;
    let header = header.ok().filter(|header| header.number == number);
    Ok(header.map(|header| Source { sum, nonce: header.nonce, size }))
}

/// Writes the filter beside its segment. It is not synced: what a loss of power leaves of it is found by its checksums.
pub(crate) fn write(site: &Site, filter: &SegmentFilter) -> io::Result<()> {
    let (path, unnamed) = site.filter(filter.head.number);
    let file = site.disk.open(&unnamed, Open::New)?;
    // What a full disk let through must not stay taken.
    append_all(file.as_ref(), &filter.encode()).inspect_err(|_| drop(file.truncate(0)))?;
    site.disk.rename(&unnamed, &path)
}

/// The head of the segment's filter; `None` where there is none, where it was damaged, or where it is that of another state of the
/// segment.
pub(crate) fn load(site: &Site, number: u32) -> io::Result<Option<FilterHead>> {
    let file = match site.disk.open(&site.filter(number).0, Open::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut page = [0; PAGE];
    let have = read_all(file.as_ref(), 0, &mut page)?;
    let head = FilterHead::decode(prefix(&page, have));
    let Some(head) = head.filter(|head| head.number == number) else { return Ok(None) };
    if file.size()? != (u64::from(head.pages) + 1) * PAGE as u64 {
        return Ok(None);
    }
    let segment = site.open(number, Open::Read)?;
    let source = source(segment.as_ref(), number)?;
    Ok(source.filter(|source| *source == head.source).map(|_| head))
}

/// Which parts of the segment can hold the key, a bit for each. Reads one page at most.
///
/// # Errors
/// The disk's; or [`io::ErrorKind::InvalidData`] where the page was damaged.
pub(crate) fn probe(site: &Site, head: &FilterHead, keys: &[Key<'_>]) -> io::Result<u64> {
    let (mut found, mut file) = (0, None);
    for key in keys {
        if let Some(parts) = head.parts_without_rows(*key) {
            found |= parts;
            continue;
        }
        let opened = match file.take() {
            Some(opened) => opened,
            None => site.disk.open(&site.filter(head.number).0, Open::Read)?,
        };
        found |= rows(opened.as_ref(), head, *key)? | head.unreadable;
        if !matches!(key, Key::Call(_)) {
            found |= head.unnamed;
        }
        file = Some(opened);
    }
    Ok(found & head.all())
}

/// The conjunction of the key's rows.
fn rows(file: &dyn DiskFile, head: &FilterHead, key: Key<'_>) -> io::Result<u64> {
    let (index, rows) = head.rows(key);
    let index = index + 1;
    let mut page = [0; PAGE];
    let have = read_all(file, u64::from(index) * PAGE as u64, &mut page)?;
    let sum = page_sum(head.sum, index, &page);
    if have < PAGE || array(&page, SUM).map(u32::from_le_bytes) != Some(sum) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let row = |row: usize| array(&page, row * 8).map_or(u64::MAX, u64::from_le_bytes);
    Ok(rows.into_iter().fold(u64::MAX, |parts, at| parts & row(at)))
}
