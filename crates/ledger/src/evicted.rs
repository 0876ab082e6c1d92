//! Membership of evicted records in the segment that is written, which has no filter yet.
//!
//! A Bloom filter of call ids and a set of labels, in memory: both have false positives and no false negatives.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use tool::CallId;

use crate::index::{Entry, Label};

/// Bytes of a segment for each 64 bits of the filter: some 16 bits for each call.
const BYTES_PER_WORD: u64 = 2_048;
/// Bits that a call sets.
const HASHES: u32 = 4;
/// So many pairs of organisation and tool are told apart; a segment with more may hold any.
const LABELS: usize = 1_024;

/// The records of one segment that left the index.
#[derive(Debug)]
pub(crate) struct Evicted {
    number: u32,
    calls: Vec<u64>,
    /// A power of two.
    words: usize,
    labels: HashSet<Label>,
    last: Option<Label>,
    /// Whether records of any organisation and tool may be among them.
    has_other_labels: bool,
    /// Whether any records may be.
    has_others: bool,
    hasher: RandomState,
}

impl Evicted {
    /// For segments of so many bytes.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let words = usize::try_from(segment_bytes / BYTES_PER_WORD).unwrap_or(1);
        Self {
            number: 0,
            calls: Vec::new(),
            words: words.max(8).next_power_of_two(),
            labels: HashSet::new(),
            last: None,
            has_other_labels: false,
            has_others: false,
            hasher: RandomState::new(),
        }
    }

    /// Begins with the segment `number`, of which nothing has left the index.
    pub(crate) fn begin(&mut self, number: u32) {
        self.number = number;
        self.calls.clear();
        self.labels.clear();
        (self.last, self.has_other_labels, self.has_others) = (None, false, false);
    }

    /// The segment holds records that were never in the index.
    pub(crate) fn add_unknown(&mut self) {
        self.has_others = true;
    }

    /// An entry left the index.
    pub(crate) fn add(&mut self, entry: &Entry) {
        if entry.place.number != self.number {
            return;
        }
        if let Some(call) = entry.call {
            if self.calls.is_empty() {
                self.calls.resize(self.words, 0);
            }
            for (word, bit) in self.bits(call) {
                self.calls.get_mut(word).into_iter().for_each(|word| *word |= bit);
            }
        }
        match entry.label {
            None => self.has_other_labels |= entry.call.is_some(),
            Some(label) if self.last == Some(label) => {}
            Some(label) => {
                self.last = Some(label);
                // Callers are too many to be told apart here.
                let label = Label { caller: 0, ..label };
                if self.labels.len() < LABELS {
                    self.labels.insert(label);
                } else {
                    self.has_other_labels |= !self.labels.contains(&label);
                }
            }
        }
    }

    fn bits(&self, call: CallId) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (hash, words) = (self.hasher.hash_one(call), self.words);
        (0..HASHES).map(move |at| {
            let hash = hash.rotate_left(at * 16);
            let word = usize::try_from(hash >> 6).unwrap_or(usize::MAX) & (words - 1);
            (word, 1 << (hash & 63))
        })
    }

    /// Whether records of the call may be among those of the segment `number`.
    pub(crate) fn may_hold(&self, number: u32, call: CallId) -> bool {
        let all = || {
            self.bits(call)
                .all(|(word, bit)| self.calls.get(word).is_some_and(|word| word & bit != 0))
        };
        number != self.number || self.has_others || all()
    }

    /// Whether records with such a label may be.
    pub(crate) fn may_hold_label(&self, number: u32, fits: impl Fn(&Label) -> bool) -> bool {
        number != self.number
            || self.has_others
            || self.has_other_labels
            || self.labels.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use tool::CallId;
    use tool::ledger::Kind;
    use uuid::Uuid;

    use super::{Entry, Evicted, LABELS, Label};
    use crate::index::Place;

    fn entry(number: u32, call: u64, label: Option<Label>) -> Entry {
        let place = Place { number, offset: 0 };
        Entry { seq: call, place, kind: Kind::Intent, call: Some(id(call)), label }
    }

    fn id(call: u64) -> CallId {
        CallId(Uuid::from_u128(u128::from(call) + 1))
    }

    #[test]
    fn what_left_the_index_may_be_there_and_little_else() {
        let mut evicted = Evicted::new(64 << 20);
        evicted.begin(3);
        let label = |tool| Label { org: 1, tool, caller: tool };
        (0..100_000).for_each(|call| evicted.add(&entry(3, call, Some(label(call % 5)))));
        evicted.add(&entry(2, 200_000, None));
        assert!((0..100_000).all(|call| evicted.may_hold(3, id(call))));
        let others = (200_000..210_000).filter(|call| evicted.may_hold(3, id(*call))).count();
        assert!(others < 200, "{others} of 10,000");
        let fits = |wanted: u64| move |label: &Label| label.tool == wanted;
        assert!(evicted.may_hold_label(3, fits(4)) && !evicted.may_hold_label(3, fits(5)));
        assert!(
            evicted.may_hold(2, id(1 << 40)) && evicted.may_hold_label(2, fits(5)),
            "another segment"
        );
        evicted.begin(4);
        assert!(!evicted.may_hold(4, id(1)) && !evicted.may_hold_label(4, fits(4)));
        evicted.add(&entry(4, 1, None));
        assert!(evicted.may_hold_label(4, fits(9)), "it does not say whose it is");
        evicted.begin(5);
        (0..=LABELS as u64).for_each(|at| evicted.add(&entry(5, at, Some(label(at)))));
        assert!(evicted.may_hold_label(5, fits(1 << 40)), "there are too many");
        evicted.begin(6);
        evicted.add_unknown();
        assert!(evicted.may_hold(6, id(1)) && evicted.may_hold_label(6, fits(1)));
    }
}
