//! Conditions on the fields of a record, and the part of the ledger that a time range covers.

use std::ops::Range;

use tool::WallTime;
use tool::ledger::LedgerRecord;

use crate::frame::Frame;
use crate::search_fields::{UNREADABLE_FACTS, frame_facts};

use super::RecordSearch;

/// Cost of reading one indexed record in the byte budget of a page: about 3 µs, in which a segment is
/// read for some 1.5 KiB.
const BYTES_PER_INDEX_READ: u64 = 3 << 9;
/// Tolerance in milliseconds between the times of records and of their segment. A record can be
/// delayed by the disk, and a clock can be set back.
const MAX_CLOCK_SKEW_MS: u64 = 60 * 60 * 1_000;

impl RecordSearch<'_> {
    /// Returns whether the frame's own facts match, without the search fields of the frame or its
    /// call.
    pub(super) fn frame_facts_match(&self, frame: &Frame<'_>) -> bool {
        let query = &self.query;
        query.matches_header(frame.kind, frame.call_id)
            && (!query.needs_facts() || query.matches_facts(frame.kind, frame_facts(frame)))
    }

    /// Returns whether a decoded record matches.
    pub(super) fn record_matches(&self, record: &LedgerRecord) -> bool {
        let facts = || record.body.decode().unwrap_or(UNREADABLE_FACTS);
        !self.query.needs_facts() || self.query.matches_facts(record.kind, facts())
    }

    /// Charges the read of an index entry that was necessary to test it.
    pub(super) fn charge_read(&mut self) {
        if self.query.needs_facts() {
            self.byte_budget = self.byte_budget.saturating_sub(BYTES_PER_INDEX_READ);
            self.has_progressed = true;
        }
    }

    /// Returns the numbers that records of the queried time can have, from the start times of
    /// segments. The search runs from both ends of the record while segments lie outside of that
    /// time, so that a temporarily wrong clock hides nothing.
    pub(super) fn seqs_in_time(&self) -> Range<u64> {
        let (since, until) = (self.query.since, self.query.until);
        if since.is_none() && until.is_none() {
            return 0..u64::MAX;
        }
        let ranges = self.inner.lock_index().ranges_before(u64::MAX);
        let is_later = |until: WallTime, number| {
            self.segment_started_at(number)
                .is_some_and(|at| at.0 > until.0.saturating_add(MAX_CLOCK_SKEW_MS))
        };
        let is_earlier = |since: WallTime, number| {
            self.segment_started_at(number)
                .is_some_and(|at| at.0.saturating_add(MAX_CLOCK_SKEW_MS) < since.0)
        };
        let later = until.and_then(|until| {
            ranges.iter().take_while(|range| is_later(until, range.number)).last()
        });
        let earlier = since.and_then(|since| {
            ranges.iter().rev().take_while(|range| is_earlier(since, range.number)).last()
        });
        earlier.map_or(0, |range| range.first_seq)..later.map_or(u64::MAX, |range| range.first_seq)
    }

    /// Returns the start time of a segment; `None` if it cannot be read.
    fn segment_started_at(&self, number: u32) -> Option<WallTime> {
        if let Some(at) = self.inner.lock_index().segment_started_at(number) {
            return Some(at);
        }
        let at = self.inner.writer_dir.read_header(number).ok()??.created_at;
        self.inner.lock_index().set_segment_started_at(number, at);
        Some(at)
    }
}
