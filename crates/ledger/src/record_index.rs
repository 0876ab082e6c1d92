//! In-memory index of the newest records, and of the segments that contain the older ones.
//!
//! Every start rebuilds it from the segments; it holds no other data.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tool::call_outcome::CallStatus;
use tool::ledger::{RecordKind, RecordQuery};
use tool::{CallId, WallTime};

use crate::evicted_records::EvictedRecords;
use crate::frame::Frame;
use crate::search_fields::SearchFacts;
use crate::segment_filter::FilterHeader;

/// Location of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramePosition {
    pub(crate) segment_number: u32,
    pub(crate) offset: u64,
}

/// Search key of a record: organisation, tool and caller, hashed with a key of this process, so
/// that collisions cannot be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct SearchKey {
    pub(crate) org: u64,
    pub(crate) tool: u64,
    pub(crate) caller: u64,
}

/// The names that a query asks for, hashed as those of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WantedSearchKey {
    pub(crate) org: Option<u64>,
    pub(crate) tool: Option<u64>,
    pub(crate) caller: Option<u64>,
}

impl SearchKey {
    /// Returns whether the key has all requested values.
    pub(crate) fn matches_wanted(self, wanted: WantedSearchKey) -> bool {
        wanted.org.is_none_or(|org| org == self.org)
            && wanted.tool.is_none_or(|tool| tool == self.tool)
            && wanted.caller.is_none_or(|caller| caller == self.caller)
    }
}

/// Index entry of one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexEntry {
    pub(crate) seq: u64,
    pub(crate) position: FramePosition,
    pub(crate) kind: RecordKind,
    pub(crate) call_id: Option<CallId>,
    /// `None` if only the intent has it and the intent was unavailable.
    pub(crate) search_key: Option<SearchKey>,
    /// `None` if the record was not read.
    pub(crate) facts: Option<IndexFacts>,
}

/// [`SearchFacts`] of a record in little memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexFacts {
    status: Option<CallStatus>,
    /// The end of the parent's ID, which is random; 0 if there is none.
    parent_tag: u32,
}

impl IndexFacts {
    pub(crate) fn new(facts: SearchFacts) -> Self {
        Self { status: facts.status, parent_tag: facts.parent.map_or(0, parent_tag) }
    }

    /// Returns false if the record certainly does not match. Different parents may have one tag.
    pub(crate) fn may_match(self, query: &RecordQuery) -> bool {
        query.status.is_none_or(|wanted| self.status == Some(wanted))
            && query.parent.is_none_or(|wanted| self.parent_tag == parent_tag(wanted))
    }

    pub(crate) fn status(self) -> Option<CallStatus> {
        self.status
    }

    pub(crate) fn parent_tag(self) -> Option<u32> {
        Some(self.parent_tag).filter(|tag| *tag != 0)
    }
}

/// Returns the tag of a parent.
pub(crate) fn parent_tag(parent: CallId) -> u32 {
    let [.., a, b, c, d] = *parent.0.as_bytes();
    u32::from_le_bytes([a, b, c, d]) | 1
}

/// A segment and the number of its first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentSpan {
    pub(crate) number: u32,
    pub(crate) first_seq: u64,
}

/// A segment and the range of its record numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentRange {
    pub(crate) number: u32,
    pub(crate) first_seq: u64,
    /// The number that the next segment begins with; `u64::MAX` for the newest.
    pub(crate) end_seq: u64,
}

/// The newest records, oldest first, and all segments.
#[derive(Debug)]
pub(crate) struct RecordIndex {
    entries: VecDeque<IndexEntry>,
    spans: Vec<SegmentSpan>,
    /// Filter headers of sealed segments, by number.
    filters: BTreeMap<u32, Arc<FilterHeader>>,
    /// Segments with a damaged filter.
    damaged_filters: BTreeSet<u32>,
    /// Start times of segments, as far as they were requested.
    started_at: BTreeMap<u32, WallTime>,
    /// Evicted records of the newest segment.
    evicted: EvictedRecords,
    max_entries: usize,
}

impl RecordIndex {
    /// Creates an index of at most `max` records, for segments of this size.
    pub(crate) fn new(max: usize, segment_bytes: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            spans: Vec::new(),
            filters: BTreeMap::new(),
            damaged_filters: BTreeSet::new(),
            started_at: BTreeMap::new(),
            evicted: EvictedRecords::new(segment_bytes),
            max_entries: max.max(1),
        }
    }

    /// Adds a segment after the others, whose records are not in the index yet.
    pub(crate) fn begin_segment(&mut self, span: SegmentSpan) {
        self.spans.push(span);
        self.evicted.begin_segment(span.number);
    }

    /// Adds a segment whose records are not added. Earlier entries go: the index is one range without gaps, and
    /// records before it are read from their segments.
    pub(crate) fn skip_segment(&mut self, span: SegmentSpan) {
        self.entries.clear();
        self.begin_segment(span);
    }

    pub(crate) fn push_entry(&mut self, entry: IndexEntry) {
        if self.spans.last().is_none_or(|span| span.number != entry.position.segment_number) {
            self.begin_segment(SegmentSpan {
                number: entry.position.segment_number,
                first_seq: entry.seq,
            });
        }
        if self.entries.len() >= self.max_entries
            && let Some(oldest) = self.entries.pop_front()
        {
            self.evicted.add_entry(&oldest);
        }
        self.entries.push_back(entry);
    }

    /// Updates the entries of the frames in `frames`, which were rewritten in order at `position`.
    pub(crate) fn relocate_frames<'b>(
        &mut self,
        mut position: FramePosition,
        frames: impl Iterator<Item = Frame<'b>>,
    ) {
        let mut index = None;
        for frame in frames {
            if index.is_none() {
                let at = self.entries.partition_point(|entry| entry.seq < frame.seq);
                index = Some(at);
                self.spans.retain(|span| span.first_seq < frame.seq);
                self.spans
                    .push(SegmentSpan { number: position.segment_number, first_seq: frame.seq });
                self.evicted.begin_segment(position.segment_number);
            }
            // Entries have consecutive numbers, except where records were damaged.
            let entry = index.and_then(|at| self.entries.get_mut(at));
            if let Some(entry) = entry.filter(|entry| entry.seq == frame.seq) {
                entry.position = position;
                index = index.map(|at| at + 1);
            } else {
                self.evicted.add_unknown();
            }
            position.offset += frame.bytes.len() as u64;
        }
    }

    /// Removes the entries of segment `number` and of all earlier ones.
    pub(crate) fn remove_segments_through(&mut self, number: u32) {
        self.spans.retain(|span| span.number > number);
        self.filters.retain(|of, _| *of > number);
        self.damaged_filters.retain(|of| *of > number);
        self.started_at.retain(|of, _| *of > number);
        while self.entries.front().is_some_and(|entry| entry.position.segment_number <= number) {
            self.entries.pop_front();
        }
    }

    /// Returns whether the index has the segment.
    pub(crate) fn contains_segment(&self, number: u32) -> bool {
        self.spans.iter().any(|span| span.number == number)
    }

    /// Returns up to `max_entries` entries before `before`, newest first.
    pub(crate) fn newest_before(&self, before: u64, max_entries: usize) -> Vec<IndexEntry> {
        let end = self.entries.partition_point(|entry| entry.seq < before);
        self.entries.range(..end).rev().take(max_entries).copied().collect()
    }

    /// Scans up to `max_entries` entries before `before`, newest first. Returns those that match,
    /// and the lowest scanned number; `None` if there are no such entries.
    pub(crate) fn scan_entries(
        &self,
        before: u64,
        max_entries: usize,
        matches: impl Fn(&IndexEntry) -> bool,
    ) -> (Vec<IndexEntry>, Option<u64>) {
        let end = self.entries.partition_point(|entry| entry.seq < before);
        let all = self.entries.range(end.saturating_sub(max_entries)..end);
        let lowest = all.clone().map(|entry| entry.seq).min();
        (all.rev().filter(|entry| matches(entry)).copied().collect(), lowest)
    }

    /// Returns the evicted records of the newest segment.
    pub(crate) fn evicted_records(&self) -> &EvictedRecords {
        &self.evicted
    }

    /// Returns the cached start time of a segment.
    pub(crate) fn segment_started_at(&self, number: u32) -> Option<WallTime> {
        self.started_at.get(&number).copied()
    }

    /// Caches the start time of a segment.
    pub(crate) fn set_segment_started_at(&mut self, number: u32, started_at: WallTime) {
        if self.contains_segment(number) {
            self.started_at.insert(number, started_at);
        }
    }

    /// Returns the filter of a segment, if it has one.
    pub(crate) fn segment_filter(&self, number: u32) -> Option<Arc<FilterHeader>> {
        self.filters.get(&number).map(Arc::clone)
    }

    /// Sets the filter of a segment. Returns `false` if the segment no longer exists.
    pub(crate) fn set_filter(&mut self, head: FilterHeader) -> bool {
        let number = head.number;
        let is_there = self.contains_segment(number);
        if is_there {
            self.damaged_filters.remove(&number);
            self.filters.insert(number, Arc::new(head));
        }
        is_there
    }

    /// Marks the filter of a segment as damaged. It is ignored and rebuilt.
    pub(crate) fn reject_filter(&mut self, number: u32) {
        self.filters.remove(&number);
        self.damaged_filters.insert(number);
    }

    /// Returns the segments below `active` without a filter, oldest first: the number, the first
    /// record, and whether the filter was damaged.
    pub(crate) fn segments_without_filter(&self, active: u32) -> Vec<(u32, u64, bool)> {
        let without =
            |span: &&SegmentSpan| span.number < active && !self.filters.contains_key(&span.number);
        let all = self.spans.iter().filter(without);
        let damaged = |number| self.damaged_filters.contains(number);
        all.map(|span| (span.number, span.first_seq, damaged(&span.number))).collect()
    }

    /// Returns the segments with sequence numbers below `before`, newest first.
    pub(crate) fn ranges_before(&self, before: u64) -> Vec<SegmentRange> {
        let ends = self.spans.iter().skip(1).map(|span| span.first_seq).chain([u64::MAX]);
        let all = self.spans.iter().zip(ends).filter(|(span, _)| span.first_seq < before);
        let mut all = all
            .map(|(span, end_seq)| SegmentRange {
                number: span.number,
                first_seq: span.first_seq,
                end_seq,
            })
            .collect::<Vec<_>>();
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{FramePosition, IndexEntry, RecordIndex, RecordKind, SegmentRange};
    use crate::frame::{FrameBuilder, iter_frames};

    fn entry(seq: u64, number: u32) -> IndexEntry {
        let place = FramePosition { segment_number: number, offset: seq * 100 };
        IndexEntry {
            seq,
            position: place,
            kind: RecordKind::Gap,
            call_id: None,
            search_key: None,
            facts: None,
        }
    }

    #[test]
    fn the_newest_stay_and_spans_know_the_rest() {
        let mut index = RecordIndex::new(4, 1 << 20);
        (1..=10).for_each(|seq| index.push_entry(entry(seq, u32::try_from(seq).unwrap() / 4)));
        assert_eq!(index.scan_entries(u64::MAX, 9, |_| true).1, Some(7));
        let seqs = index.newest_before(10, 2).iter().map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(seqs, [9, 8]);
        let range = |number, first_seq, end_seq| SegmentRange { number, first_seq, end_seq };
        assert_eq!(index.ranges_before(8), [range(1, 4, 8), range(0, 1, 4)]);
    }

    #[test]
    fn what_was_written_again_is_found_in_its_new_place() {
        let mut index = RecordIndex::new(10, 1 << 20);
        (1..=6).for_each(|seq| index.push_entry(entry(seq, if seq < 4 { 1 } else { 2 })));
        let carried = (3..=6)
            .flat_map(|seq| {
                FrameBuilder::json(RecordKind::Gap, None, &0).unwrap().finish(seq).to_vec()
            })
            .collect::<Vec<_>>();
        index.relocate_frames(
            FramePosition { segment_number: 3, offset: 128 },
            iter_frames(&carried),
        );
        let places =
            index.newest_before(u64::MAX, 9).iter().map(|e| e.position).collect::<Vec<_>>();
        let place = |number, offset| FramePosition { segment_number: number, offset };
        let length = carried.len() as u64 / 4;
        assert_eq!(places[0], place(3, 128 + 3 * length));
        assert_eq!(places[3..], [place(3, 128), place(1, 200), place(1, 100)]);
        assert_eq!(index.ranges_before(9).len(), 2);
    }
}
