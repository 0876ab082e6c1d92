//! A filter in memory that is not written yet, and the bytes of its file.

use crate::frame::{read_array, write_array};

use super::{
    CHECKSUM_OFFSET, FilterHeader, MAX_PARTS, PAGE_BYTES, ROWS_PER_KEY, ROWS_PER_PAGE, hash_rows,
    key_page, page_checksum,
};

/// A filter in memory that is not written yet.
#[derive(Debug)]
pub(crate) struct SegmentFilter {
    pub(crate) head: FilterHeader,
    /// [`ROWS_PER_PAGE`] for each page.
    pub(super) rows: Vec<u64>,
    /// Encoded summary of the segment, or nothing.
    summary: Vec<u8>,
}

impl SegmentFilter {
    /// Creates a filter. `keys` are the hashes per part, computed with the salt of `head`, whose
    /// page count is set here.
    pub(crate) fn new(mut head: FilterHeader, keys: &[Vec<u64>]) -> Self {
        let most = keys.iter().map(Vec::len).max().unwrap_or(0);
        let pages = (most * ROWS_PER_KEY).div_ceil(ROWS_PER_PAGE).max(1);
        head.pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let mut rows = vec![0; pages * ROWS_PER_PAGE];
        for (part, keys) in keys.iter().take(MAX_PARTS).enumerate() {
            for hash in keys {
                let page = key_page(*hash, head.pages) as usize * ROWS_PER_PAGE;
                for row in hash_rows(*hash) {
                    if let Some(row) = rows.get_mut(page + row) {
                        *row |= 1 << part;
                    }
                }
            }
        }
        Self { head, rows, summary: Vec::new() }
    }

    /// Adds the encoded summary of the segment.
    pub(super) fn with_summary(mut self, summary: Vec<u8>) -> Self {
        self.head.summary_bytes = u32::try_from(summary.len()).unwrap_or(u32::MAX);
        self.head.summary_checksum = crc32fast::hash(&summary);
        self.summary = summary;
        self
    }

    /// Returns the bytes of the filter's file.
    pub(crate) fn encode_file(&self) -> Vec<u8> {
        let mut bytes = self.head.encode_page();
        let head = read_array(&bytes, CHECKSUM_OFFSET).map_or(0, u32::from_le_bytes);
        for (index, rows) in (1..).zip(self.rows.chunks(ROWS_PER_PAGE)) {
            let mut page: Vec<_> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
            page.resize(PAGE_BYTES, 0);
            let sum = page_checksum(head, index, &page);
            write_array(&mut page, CHECKSUM_OFFSET, sum.to_le_bytes());
            bytes.append(&mut page);
        }
        bytes.extend_from_slice(&self.summary);
        bytes
    }
}
