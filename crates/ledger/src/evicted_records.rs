//! Set of the records that were evicted from the index and lie in the active segment, which has no
//! filter yet.
//!
//! A Bloom filter of call ids, callers and parents, and sets of labels, kinds and statuses, in
//! memory. All have false positives, but no false negatives.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash, RandomState};

use tool::CallId;
use tool::call_outcome::CallStatus;
use tool::ledger::RecordKind;

use crate::record_index::{IndexEntry, SearchKey, parent_tag};

/// Bytes of a segment for each 64 bits of the filter: some 32 bits for each call, and so 16 for each
/// key if each call has another caller.
const BYTES_PER_WORD: u64 = 1_024;
/// Bits that a call sets.
const BITS_PER_CALL: u32 = 4;
/// Maximum number of distinct pairs of organisation and tool; a segment with more may contain any.
const MAX_LABELS: usize = 1_024;

/// Parts of the evicted records that are not known, so that a search for them must read the segment.
#[derive(Debug, Default)]
struct UnknownParts {
    /// Organisation, tool and caller of some records.
    names: bool,
    /// Status and parent of some records.
    facts: bool,
    /// Some records altogether.
    records: bool,
}

/// The records of one segment that left the index.
#[derive(Debug)]
pub(crate) struct EvictedRecords {
    number: u32,
    calls: Vec<u64>,
    /// A power of two.
    words: usize,
    labels: HashSet<SearchKey>,
    last_label: Option<SearchKey>,
    /// Whether there are more labels than are stored.
    has_other_labels: bool,
    /// Kinds and statuses that occur, one bit each.
    kinds: u32,
    statuses: u32,
    unknown: UnknownParts,
    hasher: RandomState,
}

impl EvictedRecords {
    /// Creates the set for segments of this size.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let words = usize::try_from(segment_bytes / BYTES_PER_WORD).unwrap_or(1);
        Self {
            number: 0,
            calls: Vec::new(),
            words: words.max(8).next_power_of_two(),
            labels: HashSet::new(),
            last_label: None,
            has_other_labels: false,
            kinds: 0,
            statuses: 0,
            unknown: UnknownParts::default(),
            hasher: RandomState::new(),
        }
    }

    /// Starts at segment `number`, from which no record has been evicted.
    pub(crate) fn begin_segment(&mut self, number: u32) {
        self.number = number;
        self.calls.clear();
        self.labels.clear();
        (self.last_label, self.has_other_labels) = (None, false);
        (self.kinds, self.statuses) = (0, 0);
        self.unknown = UnknownParts::default();
    }

    /// Records that the segment holds records that were never in the index.
    pub(crate) fn add_unknown(&mut self) {
        self.unknown.records = true;
    }

    /// Adds an entry that left the index.
    pub(crate) fn add_entry(&mut self, entry: &IndexEntry) {
        if entry.position.segment_number != self.number {
            return;
        }
        entry.call_id.into_iter().for_each(|call| self.set_bits(call));
        self.kinds |= bit_of(entry.kind as u32);
        match entry.facts {
            None => self.unknown.facts = true,
            Some(facts) => {
                self.statuses |= facts.status().map_or(0, |status| bit_of(status as u32));
                facts.parent_tag().into_iter().for_each(|parent| self.set_bits(parent));
            }
        }
        match entry.search_key {
            None => self.unknown.names |= entry.call_id.is_some(),
            Some(label) if self.last_label == Some(label) => {}
            Some(label) => {
                self.last_label = Some(label);
                // There are too many callers to store each one with its labels.
                self.set_bits(label.caller);
                let label = SearchKey { caller: 0, ..label };
                if self.labels.len() < MAX_LABELS {
                    self.labels.insert(label);
                } else {
                    self.has_other_labels |= !self.labels.contains(&label);
                }
            }
        }
    }

    fn set_bits(&mut self, key: impl Hash) {
        if self.calls.is_empty() {
            self.calls.resize(self.words, 0);
        }
        for (word, bit) in self.filter_bits(key) {
            self.calls.get_mut(word).into_iter().for_each(|word| *word |= bit);
        }
    }

    fn may_have_bits(&self, key: impl Hash) -> bool {
        self.filter_bits(key)
            .all(|(word, bit)| self.calls.get(word).is_some_and(|word| word & bit != 0))
    }

    fn filter_bits<K: Hash>(&self, key: K) -> impl Iterator<Item = (usize, u64)> + use<K> {
        let (hash, words) = (self.hasher.hash_one(key), self.words);
        (0..BITS_PER_CALL).map(move |at| {
            let hash = hash.rotate_left(at * 16);
            let word = usize::try_from(hash >> 6).unwrap_or(usize::MAX) & (words - 1);
            (word, 1 << (hash & 63))
        })
    }

    /// Returns whether the segment `number` may hold evicted records of the call.
    pub(crate) fn may_hold_call(&self, number: u32, call: CallId) -> bool {
        self.may_be_unknown(number) || self.may_have_bits(call)
    }

    /// Returns whether the segment `number` may hold evicted records of the kind.
    pub(crate) fn may_hold_kind(&self, number: u32, kind: RecordKind) -> bool {
        self.may_be_unknown(number) || self.kinds & bit_of(kind as u32) != 0
    }

    /// Returns whether the segment `number` may hold evicted records that report the status.
    pub(crate) fn may_hold_status(&self, number: u32, status: CallStatus) -> bool {
        self.may_be_unknown(number)
            || self.unknown.facts
            || self.statuses & bit_of(status as u32) != 0
    }

    /// Returns whether the segment `number` may hold evicted records of the caller with this hash.
    pub(crate) fn may_hold_caller(&self, number: u32, caller: u64) -> bool {
        self.may_be_unknown(number) || self.unknown.names || self.may_have_bits(caller)
    }

    /// Returns whether the segment `number` may hold evicted intents of calls that `parent` made.
    pub(crate) fn may_hold_parent(&self, number: u32, parent: CallId) -> bool {
        self.may_be_unknown(number) || self.unknown.facts || self.may_have_bits(parent_tag(parent))
    }

    fn may_be_unknown(&self, number: u32) -> bool {
        number != self.number || self.unknown.records
    }

    /// Returns whether the segment `number` may hold evicted records with a matching label.
    pub(crate) fn may_hold_label(&self, number: u32, matches: impl Fn(&SearchKey) -> bool) -> bool {
        number != self.number
            || self.unknown.records
            || self.has_other_labels
            || self.unknown.names
            || self.labels.iter().any(matches)
    }
}

/// The bit of a kind or of a status; their numbers are small.
fn bit_of(number: u32) -> u32 {
    1_u32.checked_shl(number).unwrap_or(1 << 31)
}

#[cfg(test)]
mod tests {
    use tool::CallId;
    use tool::ledger::RecordKind;
    use uuid::Uuid;

    use super::{EvictedRecords, IndexEntry, MAX_LABELS, SearchKey};
    use crate::record_index::{FramePosition, IndexFacts};
    use crate::search_fields::SearchFacts;

    fn entry(number: u32, call: u64, label: Option<SearchKey>) -> IndexEntry {
        let place = FramePosition { segment_number: number, offset: 0 };
        IndexEntry {
            seq: call,
            position: place,
            kind: RecordKind::Intent,
            call_id: Some(id(call)),
            search_key: label,
            facts: Some(IndexFacts::new(SearchFacts::default())),
        }
    }

    fn id(call: u64) -> CallId {
        CallId(Uuid::from_u128(u128::from(call) + 1))
    }

    #[test]
    fn what_left_the_index_may_be_there_and_little_else() {
        let mut evicted = EvictedRecords::new(64 << 20);
        evicted.begin_segment(3);
        let label = |tool| SearchKey { org: 1, tool, caller: tool };
        (0..100_000).for_each(|call| evicted.add_entry(&entry(3, call, Some(label(call % 5)))));
        evicted.add_entry(&entry(2, 200_000, None));
        assert!((0..100_000).all(|call| evicted.may_hold_call(3, id(call))));
        let others = (200_000..210_000).filter(|call| evicted.may_hold_call(3, id(*call))).count();
        assert!(others < 200, "{others} of 10,000");
        let fits = |wanted: u64| move |label: &SearchKey| label.tool == wanted;
        assert!(evicted.may_hold_label(3, fits(4)) && !evicted.may_hold_label(3, fits(5)));
        assert!(
            evicted.may_hold_call(2, id(1 << 40)) && evicted.may_hold_label(2, fits(5)),
            "another segment"
        );
        evicted.begin_segment(4);
        assert!(!evicted.may_hold_call(4, id(1)) && !evicted.may_hold_label(4, fits(4)));
        evicted.add_entry(&entry(4, 1, None));
        assert!(evicted.may_hold_label(4, fits(9)), "it does not say whose it is");
        evicted.begin_segment(5);
        (0..=MAX_LABELS as u64).for_each(|at| evicted.add_entry(&entry(5, at, Some(label(at)))));
        assert!(evicted.may_hold_label(5, fits(1 << 40)), "there are too many");
        evicted.begin_segment(6);
        evicted.add_unknown();
        assert!(evicted.may_hold_call(6, id(1)) && evicted.may_hold_label(6, fits(1)));
    }
}
