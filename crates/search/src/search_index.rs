//! Index of the tools of one view: segments, with statistics of these tools alone.

use std::sync::Arc;

use crate::analyzed_tool::AnalyzedTool;
use crate::field_counts::FieldCounts;
use crate::field_scales::FieldScales;
use crate::index_segment::{IndexSegment, LengthSums};
use crate::ranking_weights::RankingWeights;
use crate::tokenization::TermHash;

/// Number of tools in the segments of an index that is built as a whole.
const SEGMENT_TOOLS: usize = 1_024;

/// A segment with the position of its first tool.
#[derive(Debug)]
pub(crate) struct PlacedSegment {
    pub(crate) begin: usize,
    pub(crate) segment: Arc<IndexSegment>,
}

/// Index of the tools of one view. Immutable; a changed view gets another index, which shares all
/// segments whose tools are the same. Statistics are sums over the segments, so that the division
/// into segments changes no result.
#[derive(Debug)]
pub struct SearchIndex {
    pub(crate) segments: Vec<PlacedSegment>,
    pub(crate) weights: RankingWeights,
    pub(crate) scales: FieldScales,
    /// Number of tools.
    size: usize,
}

impl SearchIndex {
    /// Builds the index of the tools of a view, in the view's order.
    pub fn build(tools: &[Arc<AnalyzedTool>]) -> Self {
        Self::build_with(tools, RankingWeights::default())
    }

    /// Builds an index with other weights than the default.
    pub fn build_with(tools: &[Arc<AnalyzedTool>], weights: RankingWeights) -> Self {
        let segments =
            tools.chunks(SEGMENT_TOOLS).map(|tools| Arc::new(IndexSegment::build(tools)));
        Self::with_weights(segments, weights)
    }

    /// Joins the segments of a view, in the view's order.
    pub fn from_segments(segments: impl IntoIterator<Item = Arc<IndexSegment>>) -> Self {
        Self::with_weights(segments, RankingWeights::default())
    }

    pub(crate) fn with_weights(
        segments: impl IntoIterator<Item = Arc<IndexSegment>>,
        weights: RankingWeights,
    ) -> Self {
        let (mut size, mut lengths) = (0, LengthSums::default());
        let placed = segments.into_iter().map(|segment| {
            let begin = size;
            size += segment.len();
            lengths.add(&segment.length_sums);
            PlacedSegment { begin, segment }
        });
        let segments = placed.collect();
        let scales = FieldScales::new(&weights, lengths.means());
        Self { segments, weights, scales, size }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.size
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Returns the number of the segment with the tool at a position, and its position there.
    pub fn locate_tool(&self, position: usize) -> Option<(usize, usize)> {
        let number = self.segments.partition_point(|it| it.begin <= position).checked_sub(1)?;
        Some((number, position - self.segments.get(number)?.begin))
    }

    /// Returns the counts of a term in the tool at a position.
    pub(crate) fn counts_at(&self, position: usize, term: TermHash) -> Option<FieldCounts> {
        let (number, tool) = self.locate_tool(position)?;
        let postings = self.segments.get(number)?.segment.terms.postings_of(term);
        let found = postings.binary_search_by_key(&tool, |posting| posting.tool()).ok()?;
        postings.get(found).map(|posting| posting.counts())
    }

    /// Returns the number of tools that have a term.
    pub(crate) fn tools_with(&self, term: TermHash) -> usize {
        self.segments.iter().map(|it| it.segment.terms.postings_of(term).len()).sum()
    }

    /// Returns the inverse document frequency of a term that occurs in a number of tools.
    #[expect(clippy::cast_precision_loss, reason = "numbers of tools, far below 2^24")]
    pub(crate) fn rarity(&self, tools: usize) -> f32 {
        let (all, with) = (self.size as f32, tools as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln().powf(self.weights.rarity_exponent)
    }
}
