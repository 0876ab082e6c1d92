//! Filter of a sealed segment, `WRITER-NNNNNNNNNN.filter`: the parts that can hold a call, an
//! organisation, a tool, a caller, a kind, a status, or a call that another one made.
//!
//! A segment has up to 64 parts of about equal size. The filter is one Bloom filter for each part, stored bit-sliced: bit `n` of
//! a row belongs to part `n`. A key selects one page and some of its rows; the conjunction of these rows has a bit for each part
//! that can hold the key. So one read of one page answers for all parts of a segment.
//!
//! ```text
//! page 0
//!    0  [8]    "tkfilter"
//!    8  u16    version, 4
//!   10  u16    number of parts, 1 to 64
//!   12  u32    number of the segment
//!   16  u32    number of pages of rows
//!   20  u32    checksum of the segment's header
//!   24  u64    nonce of the segment's header
//!   32  u64    size of the segment
//!   40  u64    salt of the keys
//!   48  u64    parts that may hold any key
//!   56  u64    parts that may hold records of any organisation and tool
//!   64  [16]   lowest call id
//!   80  [16]   highest call id
//!   96  [64]   of each part: u64 offset of its first record, u64 number of that record
//! 1120  u32    length of the summary; 0 if there is none
//! 1124  u32    CRC-32 of the summary
//! 4092  u32    CRC-32 of bytes 0..4092
//! each page of rows
//!    0  [511]  u64 row
//! 4088  u32    zero
//! 4092  u32    CRC-32 of the CRC-32 of page 0, the page's index as u32, and bytes 0..4092
//! behind the pages
//!    0         summary of the segment for a start, in MessagePack
//! ```
//!
//! A filter has false positives, but no false negatives. It is derived from the segment, can be
//! removed at any time, and is not part of the record: `verify` does not read it.

mod filter_build;
mod filter_file;
mod unwritten_filter;

use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordQuery};
use tool::{CallId, FormatSupport, Org};
use uuid::Uuid;

use sha2::{Digest as _, Sha256};

use crate::frame::{read_array, write_array};
use crate::slice::prefix;

pub(crate) use filter_build::{FilterBuildContext, build_filter};
use filter_file::read_source;
pub(crate) use filter_file::{
    FilterSource, load_header, load_summary, probe_keys, remove_filter, write_filter,
};
pub(crate) use unwritten_filter::SegmentFilter;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4_096;
/// Parts of a segment at most: the bits of a row.
pub(crate) const MAX_PARTS: usize = 64;
const ROWS_PER_PAGE: usize = 511;
/// Offset of the checksum in a page.
const CHECKSUM_OFFSET: usize = PAGE_BYTES - 4;
const MAGIC: [u8; 8] = *b"tkfilter";
/// Version of the key derivation and of the summary. A change makes all filters of other versions obsolete, and they
/// are rebuilt.
pub(crate) const FORMAT: FormatSupport = FormatSupport { oldest_readable: 4, written: 4 };
const PARTS_OFFSET: usize = 96;
const SUMMARY_OFFSET: usize = PARTS_OFFSET + MAX_PARTS * 16;
/// Rows of a part for each key: with [`ROWS_PER_LOOKUP`], a part admits about one foreign key in
/// 50,000.
const ROWS_PER_KEY: usize = 24;
/// Rows that a key selects.
const ROWS_PER_LOOKUP: usize = 10;

/// One part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterPart {
    /// Offset of its first record.
    pub(crate) offset: u64,
    /// The number of that record.
    pub(crate) first_seq: u64,
}

/// Search key of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FilterKey<'k> {
    Call(CallId),
    Org(&'k str),
    Tool(&'k str),
    OrgAndTool(&'k str, &'k str),
    Caller(&'k str),
    Kind(RecordKind),
    /// Status that a record reports of its call.
    Status(CallStatus),
    /// Call that made the call of an intent.
    Parent(CallId),
}

impl<'k> FilterKey<'k> {
    /// Returns the key for records with these names; `None` if every record matches.
    pub(crate) fn from_names(org: Option<&'k str>, tool: Option<&'k str>) -> Option<Self> {
        match (org, tool) {
            (Some(org), Some(tool)) => Some(Self::OrgAndTool(org, tool)),
            (Some(org), None) => Some(Self::Org(org)),
            (None, Some(tool)) => Some(Self::Tool(tool)),
            (None, None) => None,
        }
    }

    /// Returns the keys of which each must match for a record to match the query.
    pub(crate) fn from_query(query: &'k RecordQuery) -> Vec<Self> {
        let org = query.org.as_ref().map(Org::as_str);
        let names = Self::from_names(org, query.tool.as_deref());
        let others = [
            query.caller.as_deref().map(Self::Caller),
            query.call.map(Self::Call),
            query.kind.map(Self::Kind),
            query.status.map(Self::Status),
            query.parent.map(Self::Parent),
        ];
        names.into_iter().chain(others.into_iter().flatten()).collect()
    }

    /// Returns true if the key is a name, which a record may have only through its intent.
    fn is_name(self) -> bool {
        match self {
            Self::Org(_) | Self::Tool(_) | Self::OrgAndTool(..) | Self::Caller(_) => true,
            Self::Call(_) | Self::Kind(_) | Self::Status(_) | Self::Parent(_) => false,
        }
    }

    /// Returns the hash of the key. The salt of the file keeps names from being chosen to collide.
    pub(crate) fn key_hash(self, salt: u64) -> u64 {
        let mut hash = Sha256::new();
        hash.update(salt.to_le_bytes());
        match self {
            Self::Call(call) => {
                hash.update([1]);
                hash.update(call.0.as_bytes());
            }
            Self::Org(org) => {
                hash.update([2]);
                hash.update(org);
            }
            Self::Tool(tool) => {
                hash.update([3]);
                hash.update(tool);
            }
            Self::OrgAndTool(org, tool) => {
                hash.update([4]);
                hash.update((org.len() as u64).to_le_bytes());
                hash.update(org);
                hash.update(tool);
            }
            Self::Caller(caller) => {
                hash.update([5]);
                hash.update(caller);
            }
            Self::Kind(kind) => {
                hash.update([6]);
                hash.update(kind.as_str());
            }
            Self::Status(status) => {
                hash.update([7]);
                hash.update(status.as_str());
            }
            Self::Parent(parent) => {
                hash.update([8]);
                hash.update(parent.0.as_bytes());
            }
        }
        read_array(&hash.finalize(), 0).map_or(0, u64::from_le_bytes)
    }
}

/// Page 0: the identity of the segment and facts of the whole segment. It is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterHeader {
    pub(crate) number: u32,
    /// Pages of rows.
    pub(crate) pages: u32,
    /// The segment that the filter was built from.
    pub(crate) source: FilterSource,
    pub(crate) salt: u64,
    /// Parts that may hold any key.
    pub(crate) unreadable_parts: u64,
    /// Parts that may hold records of any organisation and tool.
    pub(crate) unnamed_parts: u64,
    /// The lowest and the highest call ID; `None` if no record belongs to a call.
    pub(crate) call_range: Option<(CallId, CallId)>,
    pub(crate) parts: Vec<FilterPart>,
    /// Length of the segment's summary; 0 if there is none.
    summary_bytes: u32,
    summary_checksum: u32,
    /// Checksum of the page as read; 0 if it was not read.
    checksum: u32,
}

impl FilterHeader {
    /// Of the segment `number`, without pages.
    fn new_empty(number: u32, source: FilterSource, salt: u64) -> Self {
        Self {
            number,
            pages: 0,
            source,
            salt,
            unreadable_parts: 0,
            unnamed_parts: 0,
            call_range: None,
            parts: Vec::new(),
            summary_bytes: 0,
            summary_checksum: 0,
            checksum: 0,
        }
    }

    fn encode_page(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        write_array(&mut page, 0, MAGIC);
        let [low, high, ..] = FORMAT.written.to_le_bytes();
        write_array(&mut page, 8, [low, high]);
        write_array(
            &mut page,
            10,
            u16::try_from(self.parts.len()).unwrap_or(u16::MAX).to_le_bytes(),
        );
        write_array(&mut page, 12, self.number.to_le_bytes());
        write_array(&mut page, 16, self.pages.to_le_bytes());
        write_array(&mut page, 20, self.source.header_checksum.to_le_bytes());
        write_array(&mut page, 24, self.source.nonce.to_le_bytes());
        write_array(&mut page, 32, self.source.size_bytes.to_le_bytes());
        write_array(&mut page, 40, self.salt.to_le_bytes());
        write_array(&mut page, 48, self.unreadable_parts.to_le_bytes());
        write_array(&mut page, 56, self.unnamed_parts.to_le_bytes());
        let none = (CallId(Uuid::max()), CallId(Uuid::nil()));
        let (low, high) = self.call_range.unwrap_or(none);
        write_array(&mut page, 64, *low.0.as_bytes());
        write_array(&mut page, 80, *high.0.as_bytes());
        for (at, part) in self.parts.iter().take(MAX_PARTS).enumerate() {
            write_array(&mut page, PARTS_OFFSET + at * 16, part.offset.to_le_bytes());
            write_array(&mut page, PARTS_OFFSET + at * 16 + 8, part.first_seq.to_le_bytes());
        }
        write_array(&mut page, SUMMARY_OFFSET, self.summary_bytes.to_le_bytes());
        write_array(&mut page, SUMMARY_OFFSET + 4, self.summary_checksum.to_le_bytes());
        let sum = crc32fast::hash(prefix(&page, CHECKSUM_OFFSET));
        write_array(&mut page, CHECKSUM_OFFSET, sum.to_le_bytes());
        page
    }

    /// Decodes the version of a filter, which this program need not support.
    pub(crate) fn decode_version(start: &[u8]) -> Option<u16> {
        let is_filter = read_array(start, 0) == Some(MAGIC);
        read_array(start, 8).map(u16::from_le_bytes).filter(|_| is_filter)
    }

    /// Decodes page 0; `None` if it is damaged or of another version.
    fn decode_page(page: &[u8]) -> Option<Self> {
        let page = page.get(..PAGE_BYTES)?;
        let sum = crc32fast::hash(page.get(..CHECKSUM_OFFSET)?);
        let u32_at = |at| read_array(page, at).map(u32::from_le_bytes);
        let u64_at = |at| read_array(page, at).map(u64::from_le_bytes);
        let call = |at| read_array(page, at).map(|id| CallId(Uuid::from_bytes(id)));
        if !Self::decode_version(page).is_some_and(|version| FORMAT.can_read(version.into()))
            || u32_at(CHECKSUM_OFFSET) != Some(sum)
        {
            return None;
        }
        let many = usize::from(read_array(page, 10).map(u16::from_le_bytes)?);
        let part = |at: usize| {
            let at = PARTS_OFFSET + at * 16;
            Some(FilterPart { offset: u64_at(at)?, first_seq: u64_at(at + 8)? })
        };
        let parts = (0..many.min(MAX_PARTS)).map(part).collect::<Option<Vec<_>>>()?;
        let pages = u32_at(16)?;
        if parts.is_empty() || pages == 0 {
            return None;
        }
        Some(Self {
            number: u32_at(12)?,
            pages,
            source: FilterSource {
                header_checksum: u32_at(20)?,
                nonce: u64_at(24)?,
                size_bytes: u64_at(32)?,
            },
            salt: u64_at(40)?,
            unreadable_parts: u64_at(48)?,
            unnamed_parts: u64_at(56)?,
            call_range: Some((call(64)?, call(80)?)).filter(|(low, high)| low <= high),
            parts,
            summary_bytes: u32_at(SUMMARY_OFFSET)?,
            summary_checksum: u32_at(SUMMARY_OFFSET + 4)?,
            checksum: sum,
        })
    }

    /// Returns whether the file has a summary of the segment.
    pub(crate) fn has_summary(&self) -> bool {
        self.summary_bytes > 0
    }

    /// Offset of the summary in the file, behind all pages.
    fn summary_offset(&self) -> u64 {
        (u64::from(self.pages) + 1) * PAGE_BYTES as u64
    }

    /// A bit for each part.
    fn all_parts(&self) -> u64 {
        u64::MAX >> (MAX_PARTS - self.parts.len().clamp(1, MAX_PARTS))
    }

    /// Returns the parts that can hold the key, if the header alone decides that; `None` if rows
    /// must be read.
    fn parts_without_rows(&self, key: FilterKey<'_>) -> Option<u64> {
        let FilterKey::Call(call) = key else { return None };
        let inside = self.call_range.is_some_and(|(low, high)| (low..=high).contains(&call));
        (!inside).then_some(self.unreadable_parts & self.all_parts())
    }

    /// Returns the page of the key and its rows in that page.
    fn key_rows(&self, key: FilterKey<'_>) -> (u32, [usize; ROWS_PER_LOOKUP]) {
        let hash = key.key_hash(self.salt);
        (key_page(hash, self.pages), hash_rows(hash))
    }
}

/// Returns the page with the rows of a key.
fn key_page(hash: u64, pages: u32) -> u32 {
    u32::try_from((u128::from(hash) * u128::from(pages)) >> 64).unwrap_or(u32::MAX)
}

/// Returns the rows of its page that a key selects: nine bits of a mixed hash for each.
fn hash_rows(hash: u64) -> [usize; ROWS_PER_LOOKUP] {
    let (one, two) = (mix_hash(hash), mix_hash(hash ^ 0x5851_f42d_4c95_7f2d));
    let mut rows = [0; ROWS_PER_LOOKUP];
    for (at, row) in rows.iter_mut().enumerate() {
        let word = if at < 5 { one } else { two };
        *row = usize::try_from((word >> (at % 5 * 9)) & 511).unwrap_or(usize::MAX) % ROWS_PER_PAGE;
    }
    rows
}

/// The finaliser of SplitMix64.
fn mix_hash(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the checksum of a page of rows, which is valid only for its index and its file.
pub(crate) fn page_checksum(head: u32, index: u32, page: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head.to_le_bytes());
    sum.update(&index.to_le_bytes());
    sum.update(prefix(page, CHECKSUM_OFFSET));
    sum.finalize()
}

#[cfg(test)]
mod tests;
