//! One search through the record.

use std::collections::{HashMap, VecDeque};
use std::io;

use tool::ledger::{Kind, Query, Record};
use tool::{CallId, LedgerError};

use crate::disk::{DiskFile, Open, read_all};
use crate::failure::failed;
use crate::frame::{Bad, Frame, HEAD, MAX_BODY, decode};
use crate::index::{Entry, Span};
use crate::inner::Inner;
use crate::names::names;
use crate::records::{begins, record};
use crate::segment::HEADER;
use crate::walk::{Step, Walk};

/// So many entries are looked at under the index's lock at a time.
const CHUNK: usize = 4_096;
/// A record that does not say whose it is belongs to an intent in an older segment. So many of those
/// are looked up in one search: only calls that run across the end of a segment need it.
const MAX_LOOKUPS: usize = 64;

pub(crate) struct Search<'a> {
    inner: &'a Inner,
    query: Query,
    wanted: (Option<u64>, Option<u64>),
    lookups: usize,
}

impl<'a> Search<'a> {
    pub(crate) fn new(inner: &'a Inner, query: Query) -> Self {
        let wanted = inner.wanted(query.org.as_ref(), query.tool.as_deref());
        Self { inner, query, wanted, lookups: 0 }
    }

    fn told(&self, number: u32, error: &io::Error) -> LedgerError {
        let name = crate::segment::name(&self.inner.site.writer, number);
        failed(&format!("the segment `{name}` cannot be read"), &self.inner.site.dir, error)
    }

    /// Newest first.
    pub(crate) fn list(mut self) -> Result<Vec<Record>, LedgerError> {
        let mut found = Vec::new();
        let mut before = self.query.before.unwrap_or(u64::MAX);
        while found.len() < self.query.limit {
            let entries = self.inner.index().before(before, CHUNK);
            // Where records were damaged, their numbers may not fall: each turn must.
            let Some(lowest) = entries.iter().map(|entry| entry.seq).min() else { break };
            for entry in &entries {
                if found.len() < self.query.limit && self.fits_entry(entry)? {
                    found.extend(self.read(entry));
                }
            }
            before = lowest.min(before.saturating_sub(1));
        }
        self.older(before, &mut found)?;
        Ok(found)
    }

    fn older(&mut self, before: u64, found: &mut Vec<Record>) -> Result<(), LedgerError> {
        let spans = self.inner.index().spans_before(before);
        for (span, end) in spans {
            let need = self.query.limit.saturating_sub(found.len());
            if need == 0 {
                break;
            }
            let mut newest = VecDeque::new();
            let mut fits_call = HashMap::new();
            let mut doubtful = Vec::new();
            self.walk(span, end.min(before), &mut |search, frame| {
                let fits = search.fits_frame(frame, &mut fits_call);
                if fits == Some(false) {
                    return Goes::On;
                }
                if let (None, Some(call)) = (fits, frame.call) {
                    doubtful.push((frame.seq, call));
                }
                newest.extend(record(frame));
                // Those in doubt may fall out again: there are few, and room for them.
                if newest.len() > need + MAX_LOOKUPS {
                    newest.pop_front();
                }
                Goes::On
            })?;
            for (seq, call) in doubtful {
                let stays = newest.iter().any(|record: &Record| record.seq == seq);
                if stays && !self.fits_intent(call, span.first)? {
                    newest.retain(|record| record.seq != seq);
                }
            }
            found.extend(newest.into_iter().rev().take(need));
        }
        Ok(())
    }

    /// All records of a call, oldest first.
    pub(crate) fn of_call(mut self, call: CallId) -> Result<Vec<Record>, LedgerError> {
        let (entries, first) = {
            let index = self.inner.index();
            (index.of_call(call), index.first().unwrap_or(u64::MAX))
        };
        let mut found = entries.iter().filter_map(|entry| self.read(entry)).collect::<Vec<_>>();
        if found.iter().any(|record| begins(record.kind)) {
            return Ok(found);
        }
        let spans = self.inner.index().spans_before(first);
        for (span, end) in spans {
            self.walk(span, end.min(first), &mut |_, frame| {
                if frame.call == Some(call) {
                    found.extend(record(frame));
                }
                Goes::On
            })?;
            if found.iter().any(|record| begins(record.kind)) {
                break;
            }
        }
        found.sort_by_key(|record| record.seq);
        Ok(found)
    }

    fn all(&self) -> bool {
        self.wanted == (None, None)
    }

    fn fits_entry(&mut self, entry: &Entry) -> Result<bool, LedgerError> {
        match (entry.label, entry.call) {
            _ if self.all() => Ok(true),
            (Some(label), _) => Ok(self.wanted.0.is_none_or(|org| org == label.org)
                && self.wanted.1.is_none_or(|tool| tool == label.tool)),
            (None, Some(call)) => self.fits_intent(call, entry.seq),
            (None, None) => Ok(false),
        }
    }

    /// `None`: its intent would have to be looked up.
    fn fits_frame(&self, frame: &Frame<'_>, calls: &mut HashMap<CallId, bool>) -> Option<bool> {
        if self.all() {
            return Some(true);
        }
        if frame.kind == Kind::Event {
            return Some(self.fits_names(frame));
        }
        let Some(call) = frame.call else { return Some(false) };
        if !begins(frame.kind) && frame.kind != Kind::Wait {
            return calls.get(&call).copied();
        }
        let fits = self.fits_names(frame);
        if frame.kind == Kind::Intent {
            calls.insert(call, fits);
        }
        Some(fits)
    }

    fn fits_names(&self, frame: &Frame<'_>) -> bool {
        names(frame).is_some_and(|(org, tool)| {
            self.query.org.as_ref().is_none_or(|wanted| wanted.as_str() == org)
                && self.query.tool.as_ref().is_none_or(|wanted| *wanted == tool)
        })
    }

    /// Looks the call's intent up in what lies before `before`.
    fn fits_intent(&mut self, call: CallId, before: u64) -> Result<bool, LedgerError> {
        self.lookups += 1;
        if self.lookups > MAX_LOOKUPS {
            return Ok(false);
        }
        let spans = self.inner.index().spans_before(before);
        let mut fits = None;
        for (span, end) in spans {
            self.walk(span, end.min(before), &mut |search, frame| {
                if frame.kind == Kind::Intent && frame.call == Some(call) {
                    fits = Some(search.fits_names(frame));
                    return Goes::No;
                }
                Goes::On
            })?;
            if let Some(fits) = fits {
                return Ok(fits);
            }
        }
        Ok(false)
    }

    /// Shows the frames of one segment with numbers from the span's first up to `end`.
    fn walk(
        &mut self,
        span: Span,
        end: u64,
        visit: &mut dyn FnMut(&Self, &Frame<'_>) -> Goes,
    ) -> Result<(), LedgerError> {
        let told = |error: io::Error| self.told(span.number, &error);
        let file = match self.open(span.number) {
            // Retention took it meanwhile.
            Err(_) if !self.inner.index().knows(span.number) => return Ok(()),
            opened => opened.map_err(told)?,
        };
        let mut walk = Walk::new(file.as_ref(), HEADER as u64, u64::MAX).map_err(told)?;
        loop {
            match walk.next().map_err(told)? {
                Step::Frame(_, frame) if frame.seq >= end => return Ok(()),
                Step::Frame(_, frame) if frame.seq >= span.first => {
                    if visit(self, &frame) == Goes::No {
                        return Ok(());
                    }
                }
                Step::Frame(..) | Step::Garbage { .. } => {}
                Step::End(_) => return Ok(()),
            }
        }
    }

    fn open(&self, number: u32) -> io::Result<std::sync::Arc<dyn DiskFile>> {
        self.inner.site.open(number, Open::Read)
    }

    /// Reads one record. One that cannot be read does not keep the others from being shown.
    fn read(&self, entry: &Entry) -> Option<Record> {
        let mut entry = *entry;
        // It may have been carried to another segment since.
        for _ in 0..2 {
            let read = self.open(entry.place.number).and_then(|file| {
                let bytes = read_frame(file.as_ref(), entry.place.offset)?;
                Ok(decode(&bytes)
                    .ok()
                    .filter(|frame| frame.seq == entry.seq)
                    .and_then(|f| record(&f)))
            });
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

#[derive(PartialEq, Eq)]
enum Goes {
    On,
    No,
}

fn read_frame(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    // Nearly all records are shorter than this.
    let mut bytes = vec![0; 1_024];
    loop {
        let have = read_all(file, offset, &mut bytes)?;
        let short = decode(bytes.get(..have).unwrap_or_default()).err() == Some(Bad::Short);
        if !short || have < bytes.len() || bytes.len() > HEAD + MAX_BODY {
            bytes.truncate(have);
            return Ok(bytes);
        }
        bytes = vec![0; HEAD + MAX_BODY];
    }
}
