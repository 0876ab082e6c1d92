//! Parts of segments: selection of those that a search reads, and reading one.

use std::io;
use std::sync::Arc;

use tool::LedgerError;
use tool::ledger::Record;

use crate::disk::{DiskFile, Open};
use crate::frame::Frame;
use crate::index::{Span, WantedLabel};
use crate::segment::HEADER;
use crate::segment_filter::{FilterHead, Key, probe};
use crate::walk::{Step, Walk};

use super::{Search, read_record};

/// What one look at a filter counts among the bytes that are read for a page: about as much work.
const PROBE_BYTES: u64 = 8 << 10;

/// A part of a segment that can hold what is searched for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentPart {
    span: Span,
    /// The number that the next segment begins with.
    span_end: u64,
    /// Where it begins and ends in the file.
    offsets: (u64, u64),
    /// Its first number.
    pub(super) first: u64,
    /// The number that the next part begins with.
    pub(super) end: u64,
}

/// Whether a visit goes on.
#[derive(PartialEq, Eq)]
pub(super) enum Goes {
    On,
    No,
}

impl Search<'_> {
    /// The parts of a segment that can hold records with one of the keys, newest first: all of it where it has no filter.
    /// No keys: each part can.
    pub(super) fn parts(&mut self, (span, end): (Span, u64), keys: &[Key<'_>]) -> Vec<SegmentPart> {
        let filter = self.inner.index().filter(span.number);
        let Some(head) = filter else {
            let can = keys.is_empty() || keys.iter().any(|key| self.may_be_evicted(span, *key));
            return if can { vec![whole(span, end)] } else { Vec::new() };
        };
        let mask = if keys.is_empty() { u64::MAX } else { self.probe(&head, keys) };
        let Some(mask) = Some(mask).filter(|_| self.inner.index().filter(span.number).is_some())
        else {
            return vec![whole(span, end)];
        };
        let ends = head.parts.iter().skip(1).map(|part| (part.offset, part.first));
        let ends = ends.chain([(u64::MAX, end)]);
        let all = head.parts.iter().zip(ends).enumerate();
        let mut parts: Vec<_> = all
            .filter(|(at, _)| mask & (1 << at) != 0)
            .map(|(_, (part, (offset, next)))| SegmentPart {
                span,
                span_end: end,
                offsets: (part.offset, offset),
                first: part.first,
                end: next,
            })
            .collect();
        parts.reverse();
        parts
    }

    /// The parts of a segment that can hold records with all of the keys, newest first.
    pub(super) fn parts_with_all(
        &mut self,
        span: (Span, u64),
        keys: &[Key<'_>],
    ) -> Vec<SegmentPart> {
        let Some((first, others)) = keys.split_first() else { return self.parts(span, &[]) };
        let mut parts = self.parts(span, &[*first]);
        for key in others {
            if parts.is_empty() {
                break;
            }
            let also = self.parts(span, &[*key]);
            // Where the filter went meanwhile, one list is the whole segment: then only that counts which both have.
            let overlaps = |part: &SegmentPart| {
                also.iter().any(|it| it.first < part.end && part.first < it.end)
            };
            parts.retain(overlaps);
        }
        parts
    }

    /// Whether the segment may hold the key among the records that left the index. Of those in the index none is searched for here.
    fn may_be_evicted(&self, span: Span, key: Key<'_>) -> bool {
        let index = self.inner.index();
        let wanted = match key {
            Key::Call(call) => return index.evicted().may_hold(span.number, call),
            Key::Org(_) | Key::Tool(_) | Key::OrgAndTool(..) => {
                WantedLabel { caller: None, ..self.wanted }
            }
            // Of the segment that is written, callers are not told apart.
            Key::Caller(_) => WantedLabel::default(),
        };
        index.evicted().may_hold_label(span.number, |label| label.fits(wanted))
    }

    fn probe(&mut self, head: &Arc<FilterHead>, keys: &[Key<'_>]) -> u64 {
        self.budget = self.budget.saturating_sub(PROBE_BYTES);
        probe(&self.inner.site, head, keys).unwrap_or_else(|error| {
            let mut index = self.inner.index();
            if index.knows(head.number) {
                tracing::warn!(%error, segment = head.number, "the filter of a segment of the record cannot be read; it is built anew");
                index.reject_filter(head.number);
                self.inner.filter_work.want();
            }
            u64::MAX
        })
    }

    /// Shows the frames of a part with numbers before `before`, and where each is.
    pub(super) fn walk(
        &mut self,
        part: &SegmentPart,
        before: u64,
        visit: &mut dyn FnMut(&Self, u64, &Frame<'_>) -> Goes,
    ) -> Result<(), LedgerError> {
        let Some(file) = self.open(part)? else { return Ok(()) };
        let failed = |error: io::Error| self.failed(part.span.number, &error);
        let (from, to) = part.offsets;
        let end = part.span_end.min(before);
        let mut walk = Walk::new(file.as_ref(), from, to).map_err(failed)?;
        let reached = loop {
            match walk.next().map_err(failed)? {
                Step::Frame(at, frame) if frame.seq >= end => break at,
                Step::Frame(at, frame) if frame.seq >= part.span.first => {
                    if visit(self, at, &frame) == Goes::No {
                        break at;
                    }
                }
                Step::Frame(..) | Step::Garbage { .. } => {}
                Step::End(at) => break at,
            }
        };
        self.budget = self.budget.saturating_sub(reached.saturating_sub(from).max(1));
        self.has_progressed = true;
        Ok(())
    }

    /// Its records with these numbers at these places. One that cannot be read is left out.
    pub(super) fn read_all(
        &self,
        part: &SegmentPart,
        places: impl Iterator<Item = (u64, u64)>,
    ) -> Result<Vec<Record>, LedgerError> {
        let Some(file) = self.open(part)? else { return Ok(Vec::new()) };
        let failed = |error: io::Error| self.failed(part.span.number, &error);
        let read = |(seq, offset)| read_record(file.as_ref(), seq, offset).transpose();
        places.filter_map(read).collect::<io::Result<_>>().map_err(failed)
    }

    /// `None`: retention removed it meanwhile.
    fn open(&self, part: &SegmentPart) -> Result<Option<Arc<dyn DiskFile>>, LedgerError> {
        let number = part.span.number;
        match self.inner.site.open(number, Open::Read) {
            Err(_) if !self.inner.index().knows(number) => Ok(None),
            opened => opened.map(Some).map_err(|error| self.failed(number, &error)),
        }
    }
}

fn whole(span: Span, end: u64) -> SegmentPart {
    SegmentPart { span, span_end: end, offsets: (HEADER as u64, u64::MAX), first: span.first, end }
}
