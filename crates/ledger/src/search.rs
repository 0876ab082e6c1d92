//! Lists of records, and the records of one call: the newest by the index in memory, older ones by reading the parts of segments that
//! can hold them.

mod call;
mod parts;
mod record_conditions;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;

use tool::ledger::{Kind, Page, Query, Record};
use tool::{CallId, LedgerError};

use crate::disk::{DiskFile, Open, read_all};
use crate::failure::failed;
use crate::frame::{Bad, Frame, HEAD, MAX_BODY, decode};
use crate::index::{Entry, WantedLabel};
use crate::inner::Inner;
use crate::names::{Names, names};
use crate::records::record;
use crate::segment_filter::Key;
use crate::slice::prefix;
use parts::{Goes, SegmentPart};

/// So many entries are looked at under the index's lock at a time.
const CHUNK: usize = 4_096;
/// So many bytes of segments are read for one page, and at least one part of a segment.
const PAGE_BYTES: u64 = 32 << 20;

pub(crate) struct Search<'a> {
    inner: &'a Inner,
    query: Query,
    wanted: WantedLabel,
    /// Bytes of segments that may still be read for this page.
    budget: u64,
    /// Whether a part of a segment, or a whole one, is done.
    has_progressed: bool,
}

/// A record that fits.
struct Match {
    seq: u64,
    offset: u64,
    /// The call whose intent decides whether it does.
    undecided: Option<CallId>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(inner: &'a Inner, query: Query) -> Self {
        let wanted = inner.wanted(&query);
        Self { inner, query, wanted, budget: PAGE_BYTES, has_progressed: false }
    }

    /// The same with another bound of what is read.
    #[cfg(test)]
    pub(crate) fn within(mut self, budget: u64) -> Self {
        self.budget = budget;
        self
    }

    fn failed(&self, number: u32, error: &io::Error) -> LedgerError {
        let name = crate::segment::name(&self.inner.site.writer, number);
        failed(&format!("the segment `{name}` cannot be read"), &self.inner.site.dir, error)
    }

    /// One page, newest first.
    pub(crate) fn list(mut self) -> Result<Page, LedgerError> {
        let limit = self.query.limit;
        if limit == 0 {
            return Ok(Page::default());
        }
        // One more, which tells whether there is a next page.
        let mut found = Vec::new();
        let span = self.seqs_in_time();
        let mut before = self.query.before.unwrap_or(u64::MAX).min(span.end);
        while found.len() <= limit && before > span.start {
            let (entries, lowest) = self.entries(before);
            // Where records were damaged, their numbers may not fall: each turn must.
            let Some(lowest) = lowest else { break };
            let unnamed = entries.iter().filter(|entry| entry.label.is_none());
            let names =
                self.names_of_calls(&unnamed.filter_map(|entry| entry.call).collect(), before)?;
            for entry in &entries {
                if found.len() > limit || !self.fits_entry(entry, &names) {
                    continue;
                }
                if self.query.needs_facts() && !self.may_go_on() {
                    return Ok(Page { records: found, next: Some(entry.seq + 1) });
                }
                found.extend(self.read(entry).filter(|record| self.fits_record(record)));
                self.charge_read();
            }
            before = lowest.min(before.saturating_sub(1));
        }
        let mut next = self.older(before, span.start, &mut found)?;
        if found.len() > limit {
            found.truncate(limit);
            next = found.last().map(|last| last.seq);
        }
        Ok(Page { records: found, next })
    }

    /// The next entries of the index that may fit, newest first.
    fn entries(&self, before: u64) -> (Vec<Entry>, Option<u64>) {
        let may_fit = |entry: &Entry| match entry.label {
            _ if !self.query.fits_head(entry.kind, entry.call) => false,
            _ if self.any_names() => true,
            Some(_) => self.fits_entry(entry, &HashMap::new()),
            None => entry.call.is_some(),
        };
        self.inner.index().scan(before, CHUNK, may_fit)
    }

    /// Goes through segments, newest first. Where there is more than is read for one page, returns the number from which the
    /// next page goes on.
    fn older(
        &mut self,
        before: u64,
        since: u64,
        found: &mut Vec<Record>,
    ) -> Result<Option<u64>, LedgerError> {
        let query = self.query.clone();
        let org = query.org.as_ref().map(tool::Org::as_str);
        let mut keys: Vec<_> = Key::of_names(org, query.tool.as_deref()).into_iter().collect();
        keys.extend(query.caller.as_deref().map(Key::Caller));
        keys.extend(query.call.map(Key::Call));
        let spans = self.inner.index().spans_before(before);
        for (span, end) in spans {
            if found.len() > self.query.limit || end <= since {
                break;
            }
            if !self.may_go_on() {
                return Ok(Some(end.min(before)));
            }
            for part in self.parts_with_all((span, end), &keys) {
                if part.first >= before || part.end <= since {
                    continue;
                }
                if !self.may_go_on() {
                    return Ok(Some(part.end.min(before)));
                }
                self.list_part(&part, before, found)?;
                if found.len() > self.query.limit {
                    return Ok(None);
                }
            }
            self.has_progressed = true;
        }
        Ok(None)
    }

    /// Whether more may be read for this page.
    fn may_go_on(&self) -> bool {
        self.budget > 0 || !self.has_progressed
    }

    fn list_part(
        &mut self,
        part: &SegmentPart,
        before: u64,
        found: &mut Vec<Record>,
    ) -> Result<(), LedgerError> {
        let need = (self.query.limit + 1).saturating_sub(found.len());
        let (mut newest, mut decided) = (VecDeque::<Match>::new(), 0);
        let mut calls = HashMap::new();
        self.walk(part, before, &mut |search, offset, frame| {
            let fits = search.fits_frame(frame, &mut calls);
            if fits == Some(false) || !search.fits_itself(frame) {
                return Goes::On;
            }
            let undecided = frame.call.filter(|_| fits.is_none());
            decided += usize::from(undecided.is_none());
            newest.push_back(Match { seq: frame.seq, offset, undecided });
            // Those behind it suffice, whatever becomes of the undecided ones.
            while decided > need
                && let Some(oldest) = newest.pop_front()
            {
                decided -= usize::from(oldest.undecided.is_none());
            }
            Goes::On
        })?;
        let calls = newest.iter().filter_map(|found| found.undecided).collect();
        let names = self.names_of_calls(&calls, part.first)?;
        newest.retain(|found| found.undecided.is_none_or(|call| self.fits_call(call, &names)));
        let newest = newest.into_iter().rev().take(need).map(|found| (found.seq, found.offset));
        found.extend(self.read_all(part, newest)?);
        Ok(())
    }

    fn any_names(&self) -> bool {
        self.wanted == WantedLabel::default()
    }

    fn fits_entry(&self, entry: &Entry, names: &HashMap<CallId, Names>) -> bool {
        match (entry.label, entry.call) {
            _ if self.any_names() => true,
            (Some(label), _) => label.fits(self.wanted),
            (None, Some(call)) => self.fits_call(call, names),
            (None, None) => false,
        }
    }

    /// `None`: its intent is in an earlier part.
    fn fits_frame(&self, frame: &Frame<'_>, calls: &mut HashMap<CallId, bool>) -> Option<bool> {
        if self.any_names() {
            return Some(true);
        }
        if matches!(frame.kind, Kind::Intent | Kind::Refused | Kind::Wait | Kind::Event) {
            let fits =
                names(frame).is_some_and(|it| self.fits_names([&it.org, &it.tool, &it.caller]));
            if let (Kind::Intent, Some(call)) = (frame.kind, frame.call) {
                calls.insert(call, fits);
            }
            return Some(fits);
        }
        match frame.call {
            Some(call) => calls.get(&call).copied(),
            None => Some(false),
        }
    }

    fn fits_names(&self, [org, tool, caller]: [&str; 3]) -> bool {
        self.query.org.as_ref().is_none_or(|wanted| wanted.as_str() == org)
            && self.query.tool.as_ref().is_none_or(|wanted| wanted == tool)
            && self.query.caller.as_ref().is_none_or(|wanted| wanted == caller)
    }

    fn fits_call(&self, call: CallId, names: &HashMap<CallId, Names>) -> bool {
        names.get(&call).is_some_and(|it| self.fits_names([&it.org, &it.tool, &it.caller]))
    }

    /// The names of calls whose intents have numbers before `before`. Calls without an intent on record are left out.
    pub(crate) fn names_of(
        inner: &Inner,
        calls: &HashSet<CallId>,
        before: u64,
    ) -> Result<HashMap<CallId, Names>, LedgerError> {
        Search::new(inner, Query::default()).names_of_calls(calls, before)
    }

    fn names_of_calls(
        &mut self,
        calls: &HashSet<CallId>,
        before: u64,
    ) -> Result<HashMap<CallId, Names>, LedgerError> {
        let (mut missing, mut found) = (calls.clone(), HashMap::new());
        if missing.is_empty() {
            return Ok(found);
        }
        let spans = self.inner.index().spans_before(before);
        for (span, end) in spans {
            let keys: Vec<_> = missing.iter().map(|call| Key::Call(*call)).collect();
            for part in self.parts((span, end), &keys) {
                if missing.is_empty() {
                    return Ok(found);
                }
                self.walk(&part, before, &mut |_, _, frame| {
                    if let (Kind::Intent, Some(call)) = (frame.kind, frame.call)
                        && missing.remove(&call)
                        && let Some(names) = names(frame)
                    {
                        found.insert(call, names.into_names());
                    }
                    if missing.is_empty() { Goes::No } else { Goes::On }
                })?;
            }
        }
        Ok(found)
    }

    /// Reads one record. One that cannot be read does not keep the others from being shown.
    fn read(&self, entry: &Entry) -> Option<Record> {
        let mut entry = *entry;
        // It may have been carried to another segment since.
        for _ in 0..2 {
            let opened = self.inner.site.open(entry.place.number, Open::Read);
            let read =
                opened.and_then(|file| read_record(file.as_ref(), entry.seq, entry.place.offset));
            if let Ok(Some(record)) = read {
                return Some(record);
            }
            entry = *self.inner.index().before(entry.seq + 1, 1).first()?;
        }
        let place = entry.place;
        tracing::warn!(
            seq = entry.seq,
            segment = place.number,
            at = place.offset,
            "a record cannot be read; check the record with `toolkeep record verify`"
        );
        None
    }
}

/// The record with this number at this place, if it is there.
fn read_record(file: &dyn DiskFile, seq: u64, offset: u64) -> io::Result<Option<Record>> {
    let bytes = read_frame(file, offset)?;
    let frame = decode(&bytes).ok().filter(|frame| frame.seq == seq);
    Ok(frame.and_then(|frame| record(&frame)))
}

fn read_frame(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    // Nearly all records are shorter than this.
    let mut bytes = vec![0; 1_024];
    loop {
        let have = read_all(file, offset, &mut bytes)?;
        let short = decode(prefix(&bytes, have)).err() == Some(Bad::Short);
        if !short || have < bytes.len() || bytes.len() > HEAD + MAX_BODY {
            bytes.truncate(have);
            return Ok(bytes);
        }
        bytes = vec![0; HEAD + MAX_BODY];
    }
}
