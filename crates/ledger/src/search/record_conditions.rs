//! Conditions on what a record itself says, and the part of the record that a time can be in.

use std::ops::Range;

use tool::Wall;
use tool::ledger::{Record, RecordFacts};

use crate::disk::Open;
use crate::frame::Frame;
use crate::segment::Header;

use super::Search;

/// What a record of the index that has to be read counts among the bytes that are read for a page.
const READ_BYTES: u64 = 1 << 10;
/// How far, in milliseconds, the times of records and of the segment that they are in may be apart: a record can have waited for
/// the disk, and a clock can have been set back.
const SLACK: u64 = 60 * 60 * 1_000;

/// Facts of a record whose body cannot be read: it fits no condition on them.
const UNREADABLE: RecordFacts = RecordFacts { at: None, status: None, step: None };

/// What a frame says of its time and status.
fn frame_facts(frame: &Frame<'_>) -> RecordFacts {
    frame.read().unwrap_or(UNREADABLE)
}

impl Search<'_> {
    /// Whether a frame fits by what it says itself: its names and those of its call are no part of that.
    pub(super) fn fits_itself(&self, frame: &Frame<'_>) -> bool {
        let query = &self.query;
        query.fits_head(frame.kind, frame.call)
            && (!query.needs_facts() || query.fits_facts(frame.kind, frame_facts(frame)))
    }

    /// The same of a record that was read.
    pub(super) fn fits_record(&self, record: &Record) -> bool {
        let facts = || record.body.read().unwrap_or(UNREADABLE);
        !self.query.needs_facts() || self.query.fits_facts(record.kind, facts())
    }

    /// Counts a record of the index that was read, where it was read to see whether it fits.
    pub(super) fn charge_read(&mut self) {
        if self.query.needs_facts() {
            self.budget = self.budget.saturating_sub(READ_BYTES);
            self.has_progressed = true;
        }
    }

    /// The numbers that records of the queried time can have, by when segments were begun. The search goes from each end of the
    /// record as far as all segments are out of that time, so that a clock that was wrong for a while hides nothing beyond it.
    pub(super) fn seqs_in_time(&self) -> Range<u64> {
        let (since, until) = (self.query.since, self.query.until);
        if since.is_none() && until.is_none() {
            return 0..u64::MAX;
        }
        let spans = self.inner.index().spans_before(u64::MAX);
        let is_later = |until: Wall, number| {
            self.begun(number).is_some_and(|at| at.0 > until.0.saturating_add(SLACK))
        };
        let is_earlier = |since: Wall, number| {
            self.begun(number).is_some_and(|at| at.0.saturating_add(SLACK) < since.0)
        };
        let later = until.and_then(|until| {
            spans.iter().take_while(|(span, _)| is_later(until, span.number)).last()
        });
        let earlier = since.and_then(|since| {
            spans.iter().rev().take_while(|(span, _)| is_earlier(since, span.number)).last()
        });
        earlier.map_or(0, |(span, _)| span.first)..later.map_or(u64::MAX, |(span, _)| span.first)
    }

    /// When a segment was begun; `None` where that cannot be read.
    fn begun(&self, number: u32) -> Option<Wall> {
        if let Some(at) = self.inner.index().begun(number) {
            return Some(at);
        }
        let file = self.inner.site.open(number, Open::Read).ok()?;
        let at = Header::read(file.as_ref()).ok()?.ok()?.at;
        self.inner.index().set_begun(number, at);
        Some(at)
    }
}
