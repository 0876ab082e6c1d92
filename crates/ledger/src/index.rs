//! Where the newest records are, in memory, and which segments hold the older ones.
//!
//! It is made again at every start, from the segments, and holds nothing that they do not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tool::ledger::Kind;
use tool::{CallId, Wall};

use crate::evicted::Evicted;
use crate::frame::Frame;
use crate::segment_filter::FilterHead;

/// Where a frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u32,
    pub(crate) offset: u64,
}

/// What a record can be found by: organisation, tool and caller, hashed with a key of this process, so that
/// nobody can choose names that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Label {
    pub(crate) org: u64,
    pub(crate) tool: u64,
    pub(crate) caller: u64,
}

/// The names that a query asks for, hashed as those of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WantedLabel {
    pub(crate) org: Option<u64>,
    pub(crate) tool: Option<u64>,
    pub(crate) caller: Option<u64>,
}

impl Label {
    /// Whether it has the names that are wanted.
    pub(crate) fn fits(self, wanted: WantedLabel) -> bool {
        wanted.org.is_none_or(|org| org == self.org)
            && wanted.tool.is_none_or(|tool| tool == self.tool)
            && wanted.caller.is_none_or(|caller| caller == self.caller)
    }
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) call: Option<CallId>,
    /// `None` where it stands in the intent only, and that was not at hand.
    pub(crate) label: Option<Label>,
}

/// A segment, and the first number it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) number: u32,
    pub(crate) first: u64,
}

/// The newest records, oldest first, and all segments.
#[derive(Debug)]
pub(crate) struct Index {
    entries: VecDeque<Entry>,
    spans: Vec<Span>,
    /// What is known of sealed segments, by number.
    filters: BTreeMap<u32, Arc<FilterHead>>,
    /// Segments whose filter was found damaged.
    damaged_filters: BTreeSet<u32>,
    /// When segments were begun, of those that were asked for it.
    begun: BTreeMap<u32, Wall>,
    /// What left it of the newest segment.
    evicted: Evicted,
    max: usize,
}

impl Index {
    /// For so many records, of segments of so many bytes.
    pub(crate) fn new(max: usize, segment_bytes: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            spans: Vec::new(),
            filters: BTreeMap::new(),
            damaged_filters: BTreeSet::new(),
            begun: BTreeMap::new(),
            evicted: Evicted::new(segment_bytes),
            max: max.max(1),
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if self.spans.last().is_none_or(|span| span.number != entry.place.number) {
            self.spans.push(Span { number: entry.place.number, first: entry.seq });
            self.evicted.begin(entry.place.number);
        }
        if self.entries.len() >= self.max
            && let Some(oldest) = self.entries.pop_front()
        {
            self.evicted.add(&oldest);
        }
        self.entries.push_back(entry);
    }

    /// The frames that `carried` begins with were written again at `to`, one behind the other.
    pub(crate) fn relocate<'b>(&mut self, mut to: Place, carried: impl Iterator<Item = Frame<'b>>) {
        let mut index = None;
        for frame in carried {
            if index.is_none() {
                let at = self.entries.partition_point(|entry| entry.seq < frame.seq);
                index = Some(at);
                self.spans.retain(|span| span.first < frame.seq);
                self.spans.push(Span { number: to.number, first: frame.seq });
                self.evicted.begin(to.number);
            }
            // Numbers have no holes among entries but where records were damaged.
            let entry = index.and_then(|at| self.entries.get_mut(at));
            if let Some(entry) = entry.filter(|entry| entry.seq == frame.seq) {
                entry.place = to;
                index = index.map(|at| at + 1);
            } else {
                self.evicted.add_unknown();
            }
            to.offset += frame.whole.len() as u64;
        }
    }

    /// Forgets what the segment `number` and those before it hold.
    pub(crate) fn forget(&mut self, number: u32) {
        self.spans.retain(|span| span.number > number);
        self.filters.retain(|of, _| *of > number);
        self.damaged_filters.retain(|of| *of > number);
        self.begun.retain(|of, _| *of > number);
        while self.entries.front().is_some_and(|entry| entry.place.number <= number) {
            self.entries.pop_front();
        }
    }

    /// Whether it still speaks of the segment.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.spans.iter().any(|span| span.number == number)
    }

    /// Up to `many` entries before `before`, newest first.
    pub(crate) fn before(&self, before: u64, many: usize) -> Vec<Entry> {
        let end = self.entries.partition_point(|entry| entry.seq < before);
        self.entries.range(..end).rev().take(many).copied().collect()
    }

    /// Goes through up to `many` entries before `before`, newest first. Returns those that fit, and the lowest number that was
    /// looked at; `None` where there are no such entries.
    pub(crate) fn scan(
        &self,
        before: u64,
        many: usize,
        fits: impl Fn(&Entry) -> bool,
    ) -> (Vec<Entry>, Option<u64>) {
        let end = self.entries.partition_point(|entry| entry.seq < before);
        let all = self.entries.range(end.saturating_sub(many)..end);
        let lowest = all.clone().map(|entry| entry.seq).min();
        (all.rev().filter(|entry| fits(entry)).copied().collect(), lowest)
    }

    /// What left it of the newest segment.
    pub(crate) fn evicted(&self) -> &Evicted {
        &self.evicted
    }

    /// When a segment was begun, where that was read before.
    pub(crate) fn begun(&self, number: u32) -> Option<Wall> {
        self.begun.get(&number).copied()
    }

    /// Keeps when a segment was begun.
    pub(crate) fn set_begun(&mut self, number: u32, at: Wall) {
        if self.knows(number) {
            self.begun.insert(number, at);
        }
    }

    /// The filter of a segment, where it has one.
    pub(crate) fn filter(&self, number: u32) -> Option<Arc<FilterHead>> {
        self.filters.get(&number).map(Arc::clone)
    }

    /// Keeps the filter of a segment. `false` where the segment is not there any more.
    pub(crate) fn set_filter(&mut self, head: FilterHead) -> bool {
        let number = head.number;
        let is_there = self.knows(number);
        if is_there {
            self.damaged_filters.remove(&number);
            self.filters.insert(number, Arc::new(head));
        }
        is_there
    }

    /// The filter of a segment was found damaged: it counts no more, and is to be built anew.
    pub(crate) fn reject_filter(&mut self, number: u32) {
        self.filters.remove(&number);
        self.damaged_filters.insert(number);
    }

    /// The segments below `active` without a filter, oldest first: the number, the first record, and whether the filter was found
    /// damaged.
    pub(crate) fn without_filter(&self, active: u32) -> Vec<(u32, u64, bool)> {
        let without =
            |span: &&Span| span.number < active && !self.filters.contains_key(&span.number);
        let all = self.spans.iter().filter(without);
        let damaged = |number| self.damaged_filters.contains(number);
        all.map(|span| (span.number, span.first, damaged(&span.number))).collect()
    }

    /// The segments that hold numbers before `before`, newest first, each with the number that
    /// the next one begins with.
    pub(crate) fn spans_before(&self, before: u64) -> Vec<(Span, u64)> {
        let ends = self.spans.iter().skip(1).map(|span| span.first).chain([u64::MAX]);
        let all = self.spans.iter().copied().zip(ends).filter(|(span, _)| span.first < before);
        let mut all = all.collect::<Vec<_>>();
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Index, Kind, Place, Span};
    use crate::frame::{Draft, frames};

    fn entry(seq: u64, number: u32) -> Entry {
        let place = Place { number, offset: seq * 100 };
        Entry { seq, place, kind: Kind::Gap, call: None, label: None }
    }

    #[test]
    fn the_newest_stay_and_spans_know_the_rest() {
        let mut index = Index::new(4, 1 << 20);
        (1..=10).for_each(|seq| index.push(entry(seq, u32::try_from(seq).unwrap() / 4)));
        assert_eq!(index.scan(u64::MAX, 9, |_| true).1, Some(7));
        let seqs = index.before(10, 2).iter().map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(seqs, [9, 8]);
        let spans = index.spans_before(8);
        let span = |number, first| Span { number, first };
        assert_eq!(spans, [(span(1, 4), 8), (span(0, 1), 4)]);
    }

    #[test]
    fn what_was_written_again_is_found_in_its_new_place() {
        let mut index = Index::new(10, 1 << 20);
        (1..=6).for_each(|seq| index.push(entry(seq, if seq < 4 { 1 } else { 2 })));
        let carried = (3..=6)
            .flat_map(|seq| Draft::new(Kind::Gap, None, &0).unwrap().seal(seq).to_vec())
            .collect::<Vec<_>>();
        index.relocate(Place { number: 3, offset: 128 }, frames(&carried));
        let places = index.before(u64::MAX, 9).iter().map(|e| e.place).collect::<Vec<_>>();
        let place = |number, offset| Place { number, offset };
        let length = carried.len() as u64 / 4;
        assert_eq!(places[0], place(3, 128 + 3 * length));
        assert_eq!(places[3..], [place(3, 128), place(1, 200), place(1, 100)]);
        assert_eq!(index.spans_before(9).len(), 2);
    }
}
