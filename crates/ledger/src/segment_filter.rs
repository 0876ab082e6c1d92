//! Filter of a sealed segment, `WRITER-NNNNNNNNNN.filter`: the parts that can hold a call, an organisation or a tool.
//!
//! A segment has up to 64 parts of about equal size. The filter is one Bloom filter for each part, stored bit-sliced: bit `n` of
//! a row belongs to part `n`. A key selects one page and some of its rows; the conjunction of these rows has a bit for each part
//! that can hold the key. So one read of one page answers for all parts of a segment.
//!
//! ```text
//! page 0
//!    0  [8]    "tkfilter"
//!    8  u16    version, 1
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
//! 4092  u32    CRC-32 of bytes 0..4092
//! each page of rows
//!    0  [511]  u64 row
//! 4088  u32    zero
//! 4092  u32    CRC-32 of the CRC-32 of page 0, the page's index as u32, and bytes 0..4092
//! ```
//!
//! A filter has false positives and no false negatives. It is derived from the segment, can be removed at any time, and is not part of
//! the record: `verify` does not read it.

mod build;
mod file;

use tool::CallId;
use uuid::Uuid;

use sha2::{Digest as _, Sha256};

use crate::frame::{array, put};
use crate::slice::prefix;

pub(crate) use build::{Surroundings, build};
use file::source;
pub(crate) use file::{Source, load, probe, write};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4_096;
/// Parts of a segment at most: the bits of a row.
pub(crate) const PARTS: usize = 64;
const ROWS: usize = 511;
/// Where in a page its checksum is.
const SUM: usize = PAGE - 4;
const MAGIC: [u8; 8] = *b"tkfilter";
/// Changes with everything that changes which keys a record has, so that filters of another version are built anew.
const VERSION: u16 = 2;
const PARTS_AT: usize = 96;
/// Rows of a part for each key: with [`HASHES`], a part admits about one foreign key in 50,000.
const ROWS_PER_KEY: usize = 24;
/// Rows that a key selects.
const HASHES: usize = 10;

/// One part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where its first record begins.
    pub(crate) offset: u64,
    /// The number of that record.
    pub(crate) first: u64,
}

/// What a record can be found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key<'k> {
    Call(CallId),
    Org(&'k str),
    Tool(&'k str),
    OrgAndTool(&'k str, &'k str),
    Caller(&'k str),
}

impl<'k> Key<'k> {
    /// The key of records that have these; `None` where any record does.
    pub(crate) fn of_names(org: Option<&'k str>, tool: Option<&'k str>) -> Option<Self> {
        match (org, tool) {
            (Some(org), Some(tool)) => Some(Self::OrgAndTool(org, tool)),
            (Some(org), None) => Some(Self::Org(org)),
            (None, Some(tool)) => Some(Self::Tool(tool)),
            (None, None) => None,
        }
    }

    /// Its hash. The salt of the file keeps names from being chosen to collide.
    pub(crate) fn hash(self, salt: u64) -> u64 {
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
        }
        array(&hash.finalize(), 0).map_or(0, u64::from_le_bytes)
    }
}

/// Page 0: for which segment the filter is, and what it says of the whole segment. It is kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterHead {
    pub(crate) number: u32,
    /// Pages of rows.
    pub(crate) pages: u32,
    /// The segment that the filter was built from.
    pub(crate) source: Source,
    pub(crate) salt: u64,
    /// Parts that may hold any key.
    pub(crate) unreadable: u64,
    /// Parts that may hold records of any organisation and tool.
    pub(crate) unnamed: u64,
    /// The lowest and the highest call id; `None` where no record belongs to a call.
    pub(crate) calls: Option<(CallId, CallId)>,
    pub(crate) parts: Vec<Part>,
    /// Checksum of the page as it was read; 0 where it was not.
    sum: u32,
}

impl FilterHead {
    /// Of the segment `number`, without pages.
    fn empty(number: u32, source: Source, salt: u64) -> Self {
        Self {
            number,
            pages: 0,
            source,
            salt,
            unreadable: 0,
            unnamed: 0,
            calls: None,
            parts: Vec::new(),
            sum: 0,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        put(&mut page, 0, MAGIC);
        put(&mut page, 8, VERSION.to_le_bytes());
        put(&mut page, 10, u16::try_from(self.parts.len()).unwrap_or(u16::MAX).to_le_bytes());
        put(&mut page, 12, self.number.to_le_bytes());
        put(&mut page, 16, self.pages.to_le_bytes());
        put(&mut page, 20, self.source.sum.to_le_bytes());
        put(&mut page, 24, self.source.nonce.to_le_bytes());
        put(&mut page, 32, self.source.size.to_le_bytes());
        put(&mut page, 40, self.salt.to_le_bytes());
        put(&mut page, 48, self.unreadable.to_le_bytes());
        put(&mut page, 56, self.unnamed.to_le_bytes());
        let none = (CallId(Uuid::max()), CallId(Uuid::nil()));
        let (low, high) = self.calls.unwrap_or(none);
        put(&mut page, 64, *low.0.as_bytes());
        put(&mut page, 80, *high.0.as_bytes());
        for (at, part) in self.parts.iter().take(PARTS).enumerate() {
            put(&mut page, PARTS_AT + at * 16, part.offset.to_le_bytes());
            put(&mut page, PARTS_AT + at * 16 + 8, part.first.to_le_bytes());
        }
        let sum = crc32fast::hash(prefix(&page, SUM));
        put(&mut page, SUM, sum.to_le_bytes());
        page
    }

    /// `None` where the page is not one of this version, or was damaged.
    fn decode(page: &[u8]) -> Option<Self> {
        let page = page.get(..PAGE)?;
        let sum = crc32fast::hash(page.get(..SUM)?);
        let u32_at = |at| array(page, at).map(u32::from_le_bytes);
        let u64_at = |at| array(page, at).map(u64::from_le_bytes);
        let call = |at| array(page, at).map(|id| CallId(Uuid::from_bytes(id)));
        let version = array(page, 8).map(u16::from_le_bytes);
        if array(page, 0) != Some(MAGIC) || version != Some(VERSION) || u32_at(SUM) != Some(sum) {
            return None;
        }
        let many = usize::from(array(page, 10).map(u16::from_le_bytes)?);
        let part = |at: usize| {
            let at = PARTS_AT + at * 16;
            Some(Part { offset: u64_at(at)?, first: u64_at(at + 8)? })
        };
        let parts = (0..many.min(PARTS)).map(part).collect::<Option<Vec<_>>>()?;
        let pages = u32_at(16)?;
        if parts.is_empty() || pages == 0 {
            return None;
        }
        Some(Self {
            number: u32_at(12)?,
            pages,
            source: Source { sum: u32_at(20)?, nonce: u64_at(24)?, size: u64_at(32)? },
            salt: u64_at(40)?,
            unreadable: u64_at(48)?,
            unnamed: u64_at(56)?,
            calls: Some((call(64)?, call(80)?)).filter(|(low, high)| low <= high),
            parts,
            sum,
        })
    }

    /// A bit for each part.
    fn all(&self) -> u64 {
        u64::MAX >> (PARTS - self.parts.len().clamp(1, PARTS))
    }

    /// Which parts can hold the key without a look at the rows; `None` where the rows tell.
    fn parts_without_rows(&self, key: Key<'_>) -> Option<u64> {
        let Key::Call(call) = key else { return None };
        let inside = self.calls.is_some_and(|(low, high)| (low..=high).contains(&call));
        (!inside).then_some(self.unreadable & self.all())
    }

    /// Where the key's page is, and which rows of it are the key's.
    fn rows(&self, key: Key<'_>) -> (u32, [usize; HASHES]) {
        let hash = key.hash(self.salt);
        (page_of(hash, self.pages), rows_of(hash))
    }
}

/// Which page of rows a key is in.
fn page_of(hash: u64, pages: u32) -> u32 {
    u32::try_from((u128::from(hash) * u128::from(pages)) >> 64).unwrap_or(u32::MAX)
}

/// Which rows of its page a key selects: nine bits of a mixed hash for each.
fn rows_of(hash: u64) -> [usize; HASHES] {
    let (one, two) = (mix(hash), mix(hash ^ 0x5851_f42d_4c95_7f2d));
    let mut rows = [0; HASHES];
    for (at, row) in rows.iter_mut().enumerate() {
        let word = if at < 5 { one } else { two };
        *row = usize::try_from((word >> (at % 5 * 9)) & 511).unwrap_or(usize::MAX) % ROWS;
    }
    rows
}

/// The finaliser of SplitMix64.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A filter in memory, before it is written.
#[derive(Debug)]
pub(crate) struct SegmentFilter {
    pub(crate) head: FilterHead,
    /// [`ROWS`] for each page.
    rows: Vec<u64>,
}

impl SegmentFilter {
    /// `keys`: of each part, the hashes of its keys, made with the salt of `head`, whose number of pages is set here.
    pub(crate) fn new(mut head: FilterHead, keys: &[Vec<u64>]) -> Self {
        let most = keys.iter().map(Vec::len).max().unwrap_or(0);
        let pages = (most * ROWS_PER_KEY).div_ceil(ROWS).max(1);
        head.pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let mut rows = vec![0; pages * ROWS];
        for (part, keys) in keys.iter().take(PARTS).enumerate() {
            for hash in keys {
                let page = page_of(*hash, head.pages) as usize * ROWS;
                for row in rows_of(*hash) {
                    if let Some(row) = rows.get_mut(page + row) {
                        *row |= 1 << part;
                    }
                }
            }
        }
        Self { head, rows }
    }

    /// The bytes of its file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.head.encode();
        let head = array(&bytes, SUM).map_or(0, u32::from_le_bytes);
        for (index, rows) in (1..).zip(self.rows.chunks(ROWS)) {
            let mut page: Vec<_> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
            page.resize(PAGE, 0);
            let sum = page_sum(head, index, &page);
            put(&mut page, SUM, sum.to_le_bytes());
            bytes.append(&mut page);
        }
        bytes
    }
}

/// The checksum of a page of rows, which holds in its place and in its file only.
pub(crate) fn page_sum(head: u32, index: u32, page: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head.to_le_bytes());
    sum.update(&index.to_le_bytes());
    sum.update(prefix(page, SUM));
    sum.finalize()
}

#[cfg(test)]
mod tests;
