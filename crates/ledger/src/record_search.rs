//! Searches of the ledger: lists of records, and the records of one call. The newest come from the
//! index in memory, older ones from the segment parts that can hold them.

mod call_search;
mod record_conditions;
mod segment_parts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use tool::ledger::{LedgerRecord, RecordKind, RecordPage, RecordQuery};
use tool::{CallId, LedgerError};

use crate::disk::{DiskFile, OpenMode, read_fully};
use crate::error_messages::io_failure;
use crate::frame::{FRAME_HEADER_BYTES, Frame, FrameError, MAX_BODY_BYTES, decode_frame};
use crate::ledger_inner::LedgerInner;
use crate::record_index::{IndexEntry, WantedSearchKey};
use crate::record_reader::decode_record;
use crate::search_fields::{SearchFields, has_search_fields, search_fields};
use crate::segment_filter::FilterKey;
use crate::slice::prefix;
use segment_parts::{SegmentPart, VisitFlow};

/// Number of index entries examined under the index's lock at a time.
const INDEX_CHUNK_ENTRIES: usize = 4_096;
/// Maximum bytes of segments read for one page; at least one part of a segment is read.
const PAGE_BYTE_BUDGET: u64 = 32 << 20;

pub(crate) struct RecordSearch<'a> {
    inner: &'a LedgerInner,
    query: RecordQuery,
    wanted_key: WantedSearchKey,
    /// Bytes of segments that may still be read for this page.
    byte_budget: u64,
    /// Whether a part of a segment, or a whole one, is done.
    has_progressed: bool,
    /// The segment that was read last, for its neighbours.
    open_segment: Option<(u32, Arc<dyn DiskFile>)>,
}

/// A record that fits.
struct MatchedRecord {
    seq: u64,
    offset: u64,
    /// Call whose intent decides whether the record matches.
    undecided_call: Option<CallId>,
}

impl<'a> RecordSearch<'a> {
    pub(crate) fn new(inner: &'a LedgerInner, query: RecordQuery) -> Self {
        let wanted = inner.wanted_search_key(&query);
        Self {
            inner,
            query,
            wanted_key: wanted,
            byte_budget: PAGE_BYTE_BUDGET,
            has_progressed: false,
            open_segment: None,
        }
    }

    /// Replaces the read budget.
    #[cfg(test)]
    pub(crate) fn with_budget(mut self, budget: u64) -> Self {
        self.byte_budget = budget;
        self
    }

    fn read_error(&self, number: u32, error: &io::Error) -> LedgerError {
        let name = crate::segment::segment_name(&self.inner.writer_dir.writer_name, number);
        io_failure(
            &format!("the segment `{name}` cannot be read"),
            &self.inner.writer_dir.dir,
            error,
        )
    }

    /// Returns one page of records, newest first.
    pub(crate) fn list_page(mut self) -> Result<RecordPage, LedgerError> {
        let limit = self.query.limit;
        if limit == 0 {
            return Ok(RecordPage::default());
        }
        // One more record shows whether there is a next page.
        let mut found = Vec::new();
        let span = self.seqs_in_time();
        let mut before = self.query.before_sequence.unwrap_or(u64::MAX).min(span.end);
        while found.len() <= limit && before > span.start {
            let (entries, lowest) = self.next_entries(before);
            // With damaged records, numbers may not decrease, but each turn must.
            let Some(lowest) = lowest else { break };
            let unnamed = entries.iter().filter(|entry| entry.search_key.is_none());
            let names = self
                .find_search_fields(&unnamed.filter_map(|entry| entry.call_id).collect(), before)?;
            for entry in &entries {
                if found.len() > limit || !self.entry_matches(entry, &names) {
                    continue;
                }
                if self.query.needs_facts() && !self.may_read_more() {
                    return Ok(RecordPage { records: found, next_before: Some(entry.seq + 1) });
                }
                found.extend(self.read_entry(entry).filter(|record| self.record_matches(record)));
                self.charge_read();
            }
            before = lowest.min(before.saturating_sub(1));
        }
        let mut next = self.search_segments(before, span.start, &mut found)?;
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().map(|last| last.sequence);
        }
        Ok(RecordPage { records: found, next_before: next })
    }

    /// The next entries of the index that may fit, newest first.
    fn next_entries(&self, before: u64) -> (Vec<IndexEntry>, Option<u64>) {
        let may_fit = |entry: &IndexEntry| match entry.search_key {
            _ if !self.query.matches_header(entry.kind, entry.call_id) => false,
            _ if !entry.facts.is_none_or(|facts| facts.may_match(&self.query)) => false,
            _ if self.matches_all_names() => true,
            Some(_) => self.entry_matches(entry, &HashMap::new()),
            None => entry.call_id.is_some(),
        };
        self.inner.lock_index().scan_entries(before, INDEX_CHUNK_ENTRIES, may_fit)
    }

    /// Searches segments, newest first. If the read budget of the page is exhausted, returns the
    /// number at which the next page continues.
    fn search_segments(
        &mut self,
        before: u64,
        since: u64,
        found: &mut Vec<LedgerRecord>,
    ) -> Result<Option<u64>, LedgerError> {
        let query = self.query.clone();
        let keys = FilterKey::from_query(&query);
        let ranges = self.inner.lock_index().ranges_before(before);
        for range in ranges {
            if found.len() > self.query.limit || range.end_seq <= since {
                break;
            }
            if !self.may_read_more() {
                return Ok(Some(range.end_seq.min(before)));
            }
            for part in self.find_parts_with_all(range, &keys) {
                if part.first_seq >= before || part.end_seq <= since {
                    continue;
                }
                if !self.may_read_more() {
                    return Ok(Some(part.end_seq.min(before)));
                }
                self.search_part(&part, before, found)?;
                if found.len() > self.query.limit {
                    return Ok(None);
                }
            }
            self.has_progressed = true;
        }
        Ok(None)
    }

    /// Whether more may be read for this page.
    fn may_read_more(&self) -> bool {
        self.byte_budget > 0 || !self.has_progressed
    }

    fn search_part(
        &mut self,
        part: &SegmentPart,
        before: u64,
        found: &mut Vec<LedgerRecord>,
    ) -> Result<(), LedgerError> {
        let need = (self.query.limit + 1).saturating_sub(found.len());
        let (mut newest, mut decided) = (VecDeque::<MatchedRecord>::new(), 0);
        let mut calls = HashMap::new();
        self.visit_frames(part, before, &mut |search, offset, frame| {
            let fits = search.frame_matches(frame, &mut calls);
            if fits == Some(false) || !search.frame_facts_match(frame) {
                return VisitFlow::Continue;
            }
            let undecided = frame.call_id.filter(|_| fits.is_none());
            decided += usize::from(undecided.is_none());
            newest.push_back(MatchedRecord { seq: frame.seq, offset, undecided_call: undecided });
            // The later records suffice, however the undecided ones are decided.
            while decided > need
                && let Some(oldest) = newest.pop_front()
            {
                decided -= usize::from(oldest.undecided_call.is_none());
            }
            VisitFlow::Continue
        })?;
        let calls = newest.iter().filter_map(|found| found.undecided_call).collect();
        let names = self.find_search_fields(&calls, part.first_seq)?;
        newest.retain(|found| {
            found.undecided_call.is_none_or(|call| self.call_matches(call, &names))
        });
        let newest = newest.into_iter().rev().take(need).map(|found| (found.seq, found.offset));
        found.extend(self.read_records(part, newest)?);
        Ok(())
    }

    fn matches_all_names(&self) -> bool {
        self.wanted_key == WantedSearchKey::default()
    }

    fn entry_matches(&self, entry: &IndexEntry, names: &HashMap<CallId, SearchFields>) -> bool {
        match (entry.search_key, entry.call_id) {
            _ if self.matches_all_names() => true,
            (Some(label), _) => label.matches_wanted(self.wanted_key),
            (None, Some(call)) => self.call_matches(call, names),
            (None, None) => false,
        }
    }

    /// Returns whether a frame matches; `None` if its intent is in an earlier part.
    fn frame_matches(&self, frame: &Frame<'_>, calls: &mut HashMap<CallId, bool>) -> Option<bool> {
        if self.matches_all_names() {
            return Some(true);
        }
        if has_search_fields(frame.kind) {
            let fits = search_fields(frame)
                .is_some_and(|it| self.fields_match([&it.org, &it.tool, &it.caller]));
            if let (RecordKind::Intent, Some(call)) = (frame.kind, frame.call_id) {
                calls.insert(call, fits);
            }
            return Some(fits);
        }
        match frame.call_id {
            Some(call) => calls.get(&call).copied(),
            None => Some(false),
        }
    }

    fn fields_match(&self, [org, tool, caller]: [&str; 3]) -> bool {
        self.query.org.as_ref().is_none_or(|wanted| wanted.as_str() == org)
            && self.query.tool.as_ref().is_none_or(|wanted| wanted == tool)
            && self.query.caller.as_ref().is_none_or(|wanted| wanted == caller)
    }

    fn call_matches(&self, call: CallId, names: &HashMap<CallId, SearchFields>) -> bool {
        names.get(&call).is_some_and(|it| self.fields_match([&it.org, &it.tool, &it.caller]))
    }

    /// Returns the search fields of calls whose intents have numbers below `before`. Calls without
    /// a recorded intent are omitted.
    pub(crate) fn search_fields_of(
        inner: &LedgerInner,
        calls: &HashSet<CallId>,
        before: u64,
    ) -> Result<HashMap<CallId, SearchFields>, LedgerError> {
        RecordSearch::new(inner, RecordQuery::default()).find_search_fields(calls, before)
    }

    fn find_search_fields(
        &mut self,
        calls: &HashSet<CallId>,
        before: u64,
    ) -> Result<HashMap<CallId, SearchFields>, LedgerError> {
        let (mut missing, mut found) = (calls.clone(), HashMap::new());
        if missing.is_empty() {
            return Ok(found);
        }
        let ranges = self.inner.lock_index().ranges_before(before);
        for range in ranges {
            let keys: Vec<_> = missing.iter().map(|call| FilterKey::Call(*call)).collect();
            for part in self.find_parts(range, &keys) {
                if missing.is_empty() {
                    return Ok(found);
                }
                self.visit_frames(&part, before, &mut |_, _, frame| {
                    if let (RecordKind::Intent, Some(call)) = (frame.kind, frame.call_id)
                        && missing.remove(&call)
                        && let Some(names) = search_fields(frame)
                    {
                        found.insert(call, names.into_owned_fields());
                    }
                    if missing.is_empty() { VisitFlow::Stop } else { VisitFlow::Continue }
                })?;
            }
        }
        Ok(found)
    }

    /// Opens a segment, unless it is the one that is open.
    fn open_segment(&mut self, number: u32) -> io::Result<&dyn DiskFile> {
        let file = match self.open_segment.take() {
            Some((open, file)) if open == number => file,
            _ => self.inner.writer_dir.open_segment(number, OpenMode::Read)?,
        };
        Ok(self.open_segment.insert((number, file)).1.as_ref())
    }

    /// Reads one record. One that cannot be read does not keep the others from being shown.
    fn read_entry(&mut self, entry: &IndexEntry) -> Option<LedgerRecord> {
        let mut entry = *entry;
        // It may have been carried to another segment since.
        for _ in 0..2 {
            let number = entry.position.segment_number;
            let read = self
                .open_segment(number)
                .and_then(|file| read_record(file, entry.seq, entry.position.offset));
            if let Ok(Some(record)) = read {
                return Some(record);
            }
            self.open_segment = None;
            entry = *self.inner.lock_index().newest_before(entry.seq + 1, 1).first()?;
        }
        let place = entry.position;
        tracing::warn!(
            seq = entry.seq,
            segment = place.segment_number,
            at = place.offset,
            "a record cannot be read; check the record with `toolkeep record verify`"
        );
        None
    }
}

/// Reads the record with this number at this offset, if it exists.
fn read_record(file: &dyn DiskFile, seq: u64, offset: u64) -> io::Result<Option<LedgerRecord>> {
    let bytes = read_frame(file, offset)?;
    let frame = decode_frame(&bytes).ok().filter(|frame| frame.seq == seq);
    Ok(frame.and_then(|frame| decode_record(&frame)))
}

fn read_frame(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    // Nearly all records are shorter than this.
    let mut bytes = vec![0; 1_024];
    loop {
        let have = read_fully(file, offset, &mut bytes)?;
        let short = decode_frame(prefix(&bytes, have)).err() == Some(FrameError::Truncated);
        if !short || have < bytes.len() || bytes.len() > FRAME_HEADER_BYTES + MAX_BODY_BYTES {
            bytes.truncate(have);
            return Ok(bytes);
        }
        bytes = vec![0; FRAME_HEADER_BYTES + MAX_BODY_BYTES];
    }
}
