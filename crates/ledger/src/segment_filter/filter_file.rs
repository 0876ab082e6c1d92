//! The file of a filter: written beside its segment, loaded, and probed page by page. It has the
//! segment's summary behind its pages.

use std::io;
use std::sync::Arc;

use crate::disk::{DiskFile, OpenMode, append_all, read_fully};
use crate::frame::read_array;
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, WriterDir};
use crate::segment_summary::SegmentSummary;
use crate::slice::prefix;

use super::{CHECKSUM_OFFSET, FilterHeader, FilterKey, PAGE_BYTES, SegmentFilter, page_checksum};

/// Longest summary that is read: more than [`SegmentSummary`] ever has.
const MAX_SUMMARY_BYTES: usize = 1 << 20;

/// The state of a segment's file that a filter was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterSource {
    /// Checksum of its header.
    pub(crate) header_checksum: u32,
    /// Nonce of its header.
    pub(crate) nonce: u64,
    /// Bytes of the file.
    pub(crate) size_bytes: u64,
}

/// Returns the identity of a segment's file; `None` if its header is unreadable or belongs to
/// another segment.
pub(crate) fn read_source(file: &dyn DiskFile, number: u32) -> io::Result<Option<FilterSource>> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let have = read_fully(file, 0, &mut bytes)?;
    let header = SegmentHeader::decode_header(prefix(&bytes, have));
    let sum = read_array(&bytes, SEGMENT_HEADER_BYTES - 4).map_or(0, u32::from_le_bytes);
    let size = file.file_size()?;
    let header = header.ok().filter(|header| header.number == number);
    Ok(header.map(|header| FilterSource {
        header_checksum: sum,
        nonce: header.nonce,
        size_bytes: size,
    }))
}

/// Writes the filter beside its segment, unsynced: checksums detect what a power failure damages.
pub(crate) fn write_filter(writer_dir: &WriterDir, filter: &SegmentFilter) -> io::Result<()> {
    let (path, unnamed) = writer_dir.filter_paths(filter.head.number);
    let file = writer_dir.disk.open_file(&unnamed, OpenMode::Truncate)?;
    // Release the space that a full disk still granted.
    append_all(file.as_ref(), &filter.encode_file()).inspect_err(|_| drop(file.truncate_to(0)))?;
    writer_dir.disk.rename_file(&unnamed, &path)
}

/// Removes the filter of a segment, with its summary, if there is one.
pub(crate) fn remove_filter(writer_dir: &WriterDir, number: u32) -> io::Result<()> {
    match writer_dir.disk.remove_file(&writer_dir.filter_paths(number).0) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Loads the header of the segment's filter; `None` if it is missing, damaged, or of another state
/// of the segment.
pub(crate) fn load_header(writer_dir: &WriterDir, number: u32) -> io::Result<Option<FilterHeader>> {
    Ok(open_filter(writer_dir, number)?.map(|(head, _)| head))
}

/// Loads the summary of the segment, and the size of the segment's file; `None` if the filter has
/// none, or is missing, damaged, or of another state of the segment.
pub(crate) fn load_summary(
    writer_dir: &WriterDir,
    number: u32,
) -> io::Result<Option<(SegmentSummary, u64)>> {
    let Some((head, file)) = open_filter(writer_dir, number)? else { return Ok(None) };
    let length = usize::try_from(head.summary_bytes).unwrap_or(usize::MAX);
    if !(1..=MAX_SUMMARY_BYTES).contains(&length) {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    let have = read_fully(file.as_ref(), head.summary_offset(), &mut bytes)?;
    if have < length || crc32fast::hash(&bytes) != head.summary_checksum {
        return Ok(None);
    }
    let summary = SegmentSummary::decode_summary(&bytes);
    Ok(summary.map(|summary| (summary, head.source.size_bytes)))
}

/// Opens the filter of the segment as it is now.
fn open_filter(
    writer_dir: &WriterDir,
    number: u32,
) -> io::Result<Option<(FilterHeader, Arc<dyn DiskFile>)>> {
    let file = match writer_dir.disk.open_file(&writer_dir.filter_paths(number).0, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut page = [0; PAGE_BYTES];
    let have = read_fully(file.as_ref(), 0, &mut page)?;
    let head = FilterHeader::decode_page(prefix(&page, have));
    let Some(head) = head.filter(|head| head.number == number) else { return Ok(None) };
    if file.file_size()? != head.summary_offset() + u64::from(head.summary_bytes) {
        return Ok(None);
    }
    let segment = writer_dir.open_segment(number, OpenMode::Read)?;
    let source = read_source(segment.as_ref(), number)?;
    Ok(source.filter(|source| *source == head.source).map(|_| (head, file)))
}

/// Returns the parts of the segment that can hold the key, as one bit each. Reads at most one page.
///
/// # Errors
/// Errors of the disk, and [`io::ErrorKind::InvalidData`] if the page is damaged.
pub(crate) fn probe_keys(
    writer_dir: &WriterDir,
    head: &FilterHeader,
    keys: &[FilterKey<'_>],
) -> io::Result<u64> {
    let (mut found, mut file) = (0, None);
    for key in keys {
        if let Some(parts) = head.parts_without_rows(*key) {
            found |= parts;
            continue;
        }
        let opened = match file.take() {
            Some(opened) => opened,
            None => writer_dir
                .disk
                .open_file(&writer_dir.filter_paths(head.number).0, OpenMode::Read)?,
        };
        found |= read_rows(opened.as_ref(), head, *key)? | head.unreadable_parts;
        if key.is_name() {
            found |= head.unnamed_parts;
        }
        file = Some(opened);
    }
    Ok(found & head.all_parts())
}

/// The conjunction of the key's rows.
fn read_rows(file: &dyn DiskFile, head: &FilterHeader, key: FilterKey<'_>) -> io::Result<u64> {
    let (index, rows) = head.key_rows(key);
    let index = index + 1;
    let mut page = [0; PAGE_BYTES];
    let have = read_fully(file, u64::from(index) * PAGE_BYTES as u64, &mut page)?;
    let sum = page_checksum(head.checksum, index, &page);
    if have < PAGE_BYTES || read_array(&page, CHECKSUM_OFFSET).map(u32::from_le_bytes) != Some(sum)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let row = |row: usize| read_array(&page, row * 8).map_or(u64::MAX, u64::from_le_bytes);
    Ok(rows.into_iter().fold(u64::MAX, |parts, at| parts & row(at)))
}
