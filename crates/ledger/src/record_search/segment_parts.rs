//! Selection and reading of the segment parts that a search needs.

use std::io;
use std::sync::Arc;

use tool::LedgerError;
use tool::ledger::LedgerRecord;

use crate::disk::{DiskFile, OpenMode};
use crate::frame::Frame;
use crate::frame_reader::{FrameReader, ReadStep};
use crate::record_index::{SegmentRange, WantedSearchKey};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::segment_filter::{FilterHeader, FilterKey, probe_keys};

use super::{RecordSearch, read_record};

/// Cost of one filter probe in the byte budget of a page.
const PROBE_BYTES: u64 = 8 << 10;

/// A part of a segment that can contain matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentPart {
    segment: SegmentRange,
    /// Start and end offset in the file.
    offsets: (u64, u64),
    /// Its first number.
    pub(super) first_seq: u64,
    /// The number that the next part begins with.
    pub(super) end_seq: u64,
}

/// Whether a visitor continues or stops.
#[derive(PartialEq, Eq)]
pub(super) enum VisitFlow {
    Continue,
    Stop,
}

impl RecordSearch<'_> {
    /// Returns the parts of a segment that can hold records with one of the keys, newest first.
    /// Without a filter or without keys, all parts qualify.
    pub(super) fn find_parts(
        &mut self,
        segment: SegmentRange,
        keys: &[FilterKey<'_>],
    ) -> Vec<SegmentPart> {
        let filter = self.inner.lock_index().segment_filter(segment.number);
        let Some(head) = filter else {
            let can = keys.is_empty() || keys.iter().any(|key| self.may_be_evicted(segment, *key));
            return if can { vec![whole_segment(segment)] } else { Vec::new() };
        };
        let mask = if keys.is_empty() { u64::MAX } else { self.probe_filter(&head, keys) };
        let Some(mask) =
            Some(mask).filter(|_| self.inner.lock_index().segment_filter(segment.number).is_some())
        else {
            return vec![whole_segment(segment)];
        };
        let ends = head.parts.iter().skip(1).map(|part| (part.offset, part.first_seq));
        let ends = ends.chain([(u64::MAX, segment.end_seq)]);
        let all = head.parts.iter().zip(ends).enumerate();
        let mut parts: Vec<_> = all
            .filter(|(at, _)| mask & (1 << at) != 0)
            .map(|(_, (part, (offset, next)))| SegmentPart {
                segment,
                offsets: (part.offset, offset),
                first_seq: part.first_seq,
                end_seq: next,
            })
            .collect();
        parts.reverse();
        parts
    }

    /// Returns the parts of a segment that can hold records with all of the keys, newest first.
    pub(super) fn find_parts_with_all(
        &mut self,
        segment: SegmentRange,
        keys: &[FilterKey<'_>],
    ) -> Vec<SegmentPart> {
        let Some((first, others)) = keys.split_first() else {
            return self.find_parts(segment, &[]);
        };
        let mut parts = self.find_parts(segment, &[*first]);
        for key in others {
            if parts.is_empty() {
                break;
            }
            let also = self.find_parts(segment, &[*key]);
            // If the filter disappeared meanwhile, one list is the whole segment, and only the
            // overlap counts.
            let overlaps = |part: &SegmentPart| {
                also.iter().any(|it| it.first_seq < part.end_seq && part.first_seq < it.end_seq)
            };
            parts.retain(overlaps);
        }
        parts
    }

    /// Returns whether evicted records of the segment may have the key. Records in the index are
    /// not searched here.
    fn may_be_evicted(&self, segment: SegmentRange, key: FilterKey<'_>) -> bool {
        let (index, number) = (self.inner.lock_index(), segment.number);
        let evicted = index.evicted_records();
        match key {
            FilterKey::Call(call) => evicted.may_hold_call(number, call),
            FilterKey::Kind(kind) => evicted.may_hold_kind(number, kind),
            FilterKey::Status(status) => evicted.may_hold_status(number, status),
            FilterKey::Parent(parent) => evicted.may_hold_parent(number, parent),
            FilterKey::Org(_) | FilterKey::Tool(_) | FilterKey::OrgAndTool(..) => {
                let wanted = WantedSearchKey { caller: None, ..self.wanted_key };
                evicted.may_hold_label(number, |label| label.matches_wanted(wanted))
            }
            FilterKey::Caller(_) => {
                let caller = self.wanted_key.caller;
                caller.is_none_or(|caller| evicted.may_hold_caller(number, caller))
            }
        }
    }

    fn probe_filter(&mut self, head: &Arc<FilterHeader>, keys: &[FilterKey<'_>]) -> u64 {
        self.byte_budget = self.byte_budget.saturating_sub(PROBE_BYTES);
        probe_keys(&self.inner.writer_dir, head, keys).unwrap_or_else(|error| {
            let mut index = self.inner.lock_index();
            if index.contains_segment(head.number) {
                tracing::warn!(
                    %error,
                    segment = head.number,
                    "cannot read the filter of a segment of the record; it is rebuilt"
                );
                index.reject_filter(head.number);
                self.inner.filter_work.request_refresh();
            }
            u64::MAX
        })
    }

    /// Visits the frames of a part below number `before`, with their offsets.
    pub(super) fn visit_frames(
        &mut self,
        part: &SegmentPart,
        before: u64,
        visit: &mut dyn FnMut(&Self, u64, &Frame<'_>) -> VisitFlow,
    ) -> Result<(), LedgerError> {
        let Some(file) = self.open_part(part)? else { return Ok(()) };
        let failed = |error: io::Error| self.read_error(part.segment.number, &error);
        let (from, to) = part.offsets;
        let end = part.segment.end_seq.min(before);
        let mut walk = FrameReader::new(file.as_ref(), from, to).map_err(failed)?;
        let reached = loop {
            match walk.read_next().map_err(failed)? {
                ReadStep::Frame(at, frame) if frame.seq >= end => break at,
                ReadStep::Frame(at, frame) if frame.seq >= part.segment.first_seq => {
                    if visit(self, at, &frame) == VisitFlow::Stop {
                        break at;
                    }
                }
                ReadStep::Frame(..) | ReadStep::Garbage { .. } => {}
                ReadStep::End(at) => break at,
            }
        };
        self.byte_budget = self.byte_budget.saturating_sub(reached.saturating_sub(from).max(1));
        self.has_progressed = true;
        Ok(())
    }

    /// Reads the records with these numbers and offsets, without unreadable ones.
    pub(super) fn read_records(
        &self,
        part: &SegmentPart,
        positions: impl Iterator<Item = (u64, u64)>,
    ) -> Result<Vec<LedgerRecord>, LedgerError> {
        let Some(file) = self.open_part(part)? else { return Ok(Vec::new()) };
        let failed = |error: io::Error| self.read_error(part.segment.number, &error);
        let read = |(seq, offset)| read_record(file.as_ref(), seq, offset).transpose();
        positions.filter_map(read).collect::<io::Result<_>>().map_err(failed)
    }

    /// Opens the file of a part; `None` if retention removed it meanwhile.
    fn open_part(&self, part: &SegmentPart) -> Result<Option<Arc<dyn DiskFile>>, LedgerError> {
        let number = part.segment.number;
        match self.inner.writer_dir.open_segment(number, OpenMode::Read) {
            Err(_) if !self.inner.lock_index().contains_segment(number) => Ok(None),
            opened => opened.map(Some).map_err(|error| self.read_error(number, &error)),
        }
    }
}

fn whole_segment(segment: SegmentRange) -> SegmentPart {
    SegmentPart {
        segment,
        offsets: (SEGMENT_HEADER_BYTES as u64, u64::MAX),
        first_seq: segment.first_seq,
        end_seq: segment.end_seq,
    }
}
