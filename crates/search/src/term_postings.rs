//! Postings of a segment: for each term the tools that have it, with the counts in their fields.

use crate::analyzed_tool::AnalyzedTool;
use crate::field_counts::FieldCounts;
use crate::tokenization::TermHash;

/// Maximum number of tools whose postings are together: their positions take the bits that the
/// counts leave.
pub(crate) const MAX_TOOLS: usize = 1 << (u32::BITS - FieldCounts::BITS);
/// Mean number of terms in a bucket.
const BUCKET_TERMS: usize = 4;

/// Occurrence of a term in a tool: the tool's position in the upper bits, the counts in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting(u32);

impl Posting {
    fn new(tool: u32, counts: FieldCounts) -> Self {
        Self((tool << FieldCounts::BITS) | counts.to_bits())
    }

    /// Returns the position of the tool in its segment.
    pub(crate) fn tool(self) -> usize {
        (self.0 >> FieldCounts::BITS) as usize
    }

    /// Returns the counts in the fields of the tool.
    pub(crate) fn counts(self) -> FieldCounts {
        FieldCounts::from_bits(self.0)
    }
}

/// The terms of some tools in the order of their hashes, each with its postings.
#[derive(Debug)]
pub(crate) struct TermPostings {
    terms: Box<[TermHash]>,
    /// Beginning of each term's postings, and the end of the last one's.
    begins: Box<[u32]>,
    /// First term of each bucket, and the number of terms. Hashes are spread evenly, so a term is
    /// found in its bucket in a few steps.
    buckets: Box<[u32]>,
    postings: Box<[Posting]>,
}

impl TermPostings {
    /// Creates the postings of at most [`MAX_TOOLS`] tools.
    pub(crate) fn from_tools<'a>(tools: impl Iterator<Item = &'a AnalyzedTool> + Clone) -> Self {
        let size = tools.clone().map(|tool| tool.terms.len()).sum();
        let mut all: Vec<(TermHash, Posting)> = Vec::with_capacity(size);
        for (tool, position) in tools.zip(0..) {
            all.extend(tool.terms.iter().map(|it| (it.term, Posting::new(position, it.counts))));
        }
        all.sort_unstable();
        let rows = || all.chunk_by(|one, other| one.0 == other.0);
        let count = rows().count();
        let (mut terms, mut begins) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
        let mut begin = 0;
        for row in rows() {
            terms.extend(row.first().map(|it| it.0));
            begins.push(begin);
            begin += to_u32(row.len());
        }
        begins.push(begin);
        Self {
            buckets: first_terms(&terms),
            terms: terms.into(),
            begins: begins.into(),
            postings: all.into_iter().map(|it| it.1).collect(),
        }
    }

    /// Returns the occurrences of a term, in the order of the tools.
    pub(crate) fn postings_of(&self, term: TermHash) -> &[Posting] {
        self.find_row(term).unwrap_or_default()
    }

    fn find_row(&self, term: TermHash) -> Option<&[Posting]> {
        let bucket = term.bucket_of(self.buckets.len() - 1);
        let (first, end) = range_at(&self.buckets, bucket)?;
        let row = first + self.terms.get(first..end)?.binary_search(&term).ok()?;
        let (begin, end) = range_at(&self.begins, row)?;
        self.postings.get(begin..end)
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let numbers = self.begins.len() + self.buckets.len() + self.postings.len();
        size_of_val(&*self.terms) + size_of::<u32>() * numbers
    }
}

/// Returns the first term of each bucket, and the number of terms.
fn first_terms(terms: &[TermHash]) -> Box<[u32]> {
    let buckets = terms.len().div_ceil(BUCKET_TERMS);
    let mut first = vec![to_u32(terms.len()); buckets + 1];
    let (mut next, all) = (0, terms.iter().zip(0..));
    for (term, row) in all {
        let bucket = term.bucket_of(buckets);
        for place in first.iter_mut().take(bucket + 1).skip(next) {
            *place = row;
        }
        next = next.max(bucket + 1);
    }
    first.into()
}

fn range_at(begins: &[u32], at: usize) -> Option<(usize, usize)> {
    Some((*begins.get(at)? as usize, *begins.get(at + 1)? as usize))
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
