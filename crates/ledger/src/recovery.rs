//! Opening of a ledger: scans and classifies the files, truncates a torn end, and continues in a
//! new segment. The segment begins with all frames that the previous process did not see confirmed.
//!
//! No outcome is invented. A call with an intent and no outcome, whose receipt this process does
//! not hold, is reported as `unknown` permanently.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tool::ledger::RecordKind;
use tool::{CallId, Clock, LedgerError};

use crate::disk::OpenMode;
use crate::error_messages::io_failure;
use crate::frame::Frame;
use crate::hash_chain::HashChain;
use crate::integrity_finding::{DamageKind, DiscardedRange, IntegrityFinding};
use crate::ledger_inner::LedgerInner;
use crate::ledger_options::LedgerOptions;
use crate::legacy_tail;
use crate::record_index::{FramePosition, IndexEntry, IndexFacts, SearchKey, SegmentSpan};
use crate::record_scan::{RecordScan, RecordSegment};
use crate::repair_plan::RepairPlan;
use crate::search_fields::{SearchFacts, search_fields};
use crate::segment::WriterDir;
use crate::segment_calls::OpenCalls;
use crate::segment_filter::{load_summary, remove_filter};
use crate::sync_thread::{SyncThread, UnsyncedFile};

/// A last segment below this size, and below half of a full one, is rewritten at the start, so that
/// many short runs do not leave many small files.
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;
/// Larger amounts are not relocated to a new segment but synced in place. Checkpoints are so
/// frequent that only damage causes this.
const MAX_RELOCATED_BYTES: usize = 64 << 20;
/// Maximum number of open calls that are listed one by one.
const MAX_LISTED_CALLS: usize = 10_000;

/// Report of opening the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments that hold the record.
    pub segments: usize,
    /// Records in them.
    pub records: u64,
    /// Discarded ranges: writes that were incomplete when the previous process ended.
    pub discarded: Vec<DiscardedRange>,
    /// Number of records that a power failure removed before they were synced.
    pub lost_records: u64,
    /// Damage. The ledger continues after it.
    pub findings: Vec<IntegrityFinding>,
    /// Number of further findings.
    pub more_findings: u64,
    /// Calls with an intent and no outcome, newest first, 10,000 at most: their status is `unknown`.
    pub open_calls: Vec<CallId>,
    /// Total number of open calls.
    pub open_call_count: usize,
}

/// Opens the ledger without starting the sync thread.
pub(crate) fn open_ledger(
    writer_dir: WriterDir,
    clock: Arc<dyn Clock>,
    options: LedgerOptions,
) -> Result<(Arc<LedgerInner>, SyncThread, RecoveryReport), LedgerError> {
    options.validate()?;
    let told =
        |error: &io::Error| io_failure("the record cannot be opened", &writer_dir.dir, error);
    writer_dir.disk.create_dir_all(&writer_dir.dir).map_err(|error| told(&error))?;
    let lock = writer_dir.dir.join(format!("{}.lock", writer_dir.writer_name));
    let held = writer_dir.disk.lock_file(&lock).map_err(|error| told(&error))?;
    let survey = scan_record(&writer_dir, clock.as_ref(), options.max_index_entries as u64)?;

    let mend = RepairPlan::from_scan(&survey);
    let last = survey.last_seq.max(survey.required_seq);
    let inner = Arc::new(LedgerInner::new(writer_dir, clock, options, last + 1));
    inner.lock_unchecked_segments().clone_from(&survey.summarized_segments);
    remove_old_summaries(&inner.writer_dir, &survey);
    let mut reading = RecoveryScan::new(&inner, &survey);
    for part in &survey.segments {
        if reading.skip_segment(part) {
            continue;
        }
        survey.replay_segment(&inner.writer_dir, part, &mut |part, at, frame| {
            reading.visit_frame(part, at, frame);
        })?;
    }
    reading.limit_relocation(&survey);
    let told =
        |error: &io::Error| io_failure("the record cannot be opened", &inner.writer_dir.dir, error);
    let dirty = reading.unsynced_files().map_err(|error| told(&error))?;
    let now = inner.clock.monotonic_now();
    let (recovery, reading) = reading.into_report(survey);
    let mut syncer = SyncThread {
        inner: Arc::clone(&inner),
        chain: reading.chain,
        hashed_bytes: reading.relocated_frames.len(),
        unsynced_frames: reading.relocated_frames,
        unsynced_files: dirty,
        collected_seq: last,
        synced_seq: 0,
        next_number: reading.resume_point.segment_number,
        records_since_checkpoint: reading.since_checkpoint,
        last_checkpoint_at: now,
        rotation_failed: false,
        progress_synced_at: now,
        waiters: Vec::new(),
        dir_lock: Some(held),
        repair_plan: Some(mend),
    };
    // A disk that is full or failing now is tried again by the thread; until then calls are refused.
    syncer.resume_in_new_segment().ok();
    Ok((inner, syncer, recovery))
}

/// Scans the whole record; old segments by their summaries. Legacy files beside the segments are migrated first.
fn scan_record(
    site: &WriterDir,
    clock: &dyn Clock,
    indexed_records: u64,
) -> Result<RecordScan, LedgerError> {
    let mut survey = RecordScan::scan_at_start(site, indexed_records)?;
    if survey.legacy_tail.exists {
        if let Some(error) = &survey.unreadable {
            return Err(error.clone());
        }
        legacy_tail::migrate_tail(site, &survey.legacy_tail, clock.wall_now()).map_err(
            |error| {
                let what = "cannot move the newest records of an older version to their segment";
                io_failure(what, &site.dir, &error)
            },
        )?;
        let found = std::mem::take(&mut survey.findings.list);
        survey = RecordScan::scan_at_start(site, indexed_records)?;
        for finding in found.into_iter().filter(|finding| finding.damage == DamageKind::InvalidTail)
        {
            survey.findings.push_finding(finding);
        }
    }
    match &survey.unreadable {
        Some(error) => Err(error.clone()),
        None => Ok(survey),
    }
}

/// Removes the filters of damaged segments that were summarized before the damage, so that later starts
/// read their frames too. They are built again without a summary.
fn remove_old_summaries(site: &WriterDir, survey: &RecordScan) {
    for part in survey.segments.iter().filter(|part| part.is_damaged) {
        if load_summary(site, part.number).is_ok_and(|summary| summary.is_none()) {
            continue;
        }
        if let Err(error) = remove_filter(site, part.number) {
            tracing::warn!(%error, segment = part.number, "cannot remove the filter of a damaged segment");
        }
    }
}

/// Position at which writing continues.
#[derive(Debug, Clone, Copy)]
struct ResumePoint {
    segment_number: u32,
    /// Frames from this number on are carried over.
    first_relocated: u64,
}

impl ResumePoint {
    fn from_scan(survey: &RecordScan, options: &LedgerOptions) -> Self {
        let small = SMALL_SEGMENT_BYTES.min(options.segment_bytes / 2);
        let unconfirmed = survey.durable_seq + 1;
        match survey.segments.last() {
            None => {
                let gone = survey.last_tombstone.as_ref().map_or(0, |tomb| tomb.number);
                Self { segment_number: gone.saturating_add(1), first_relocated: unconfirmed }
            }
            Some(part) if !part.is_damaged && part.end_offset <= small => {
                let from = part.first_seq.map_or(unconfirmed, |first| first.min(unconfirmed));
                Self { segment_number: part.number, first_relocated: from }
            }
            Some(part) => {
                Self { segment_number: part.number.saturating_add(1), first_relocated: unconfirmed }
            }
        }
    }
}

/// Scans the whole record once.
struct RecoveryScan<'a> {
    inner: &'a LedgerInner,
    resume_point: ResumePoint,
    chain: HashChain,
    /// Frames up to this number are in the chain.
    chained_seq: u64,
    since_checkpoint: u64,
    relocated_frames: Vec<u8>,
    is_too_large: bool,
    /// Offset of the carried-over frames in each segment.
    relocated_offsets: HashMap<u32, u64>,
    open_calls: OpenCalls,
    /// Records from this number on are found by their search fields.
    first_searchable: u64,
    records: u64,
}

/// Initial state of [`SyncThread`].
struct SyncThreadSeed {
    chain: HashChain,
    relocated_frames: Vec<u8>,
    resume_point: ResumePoint,
    since_checkpoint: u64,
}

impl<'a> RecoveryScan<'a> {
    fn new(inner: &'a LedgerInner, survey: &RecordScan) -> Self {
        let mark = survey.last_checkpoint();
        let chain = mark.and_then(|mark| HashChain::from_checkpoint(&mark.checkpoint));
        let gone = survey.last_tombstone.as_ref();
        let chain = chain.or_else(|| gone?.chain_after());
        let chain = chain.unwrap_or_else(|| HashChain::new(&inner.writer_dir.writer_name));
        let open = gone.into_iter().flat_map(|tomb| &tomb.open_calls);
        (*inner.lock_checkpoint()) = mark.map(|mark| mark.checkpoint.clone());
        Self {
            inner,
            resume_point: ResumePoint::from_scan(survey, &inner.options),
            chained_seq: chain.last_seq,
            chain,
            since_checkpoint: 0,
            relocated_frames: Vec::new(),
            is_too_large: false,
            relocated_offsets: HashMap::new(),
            open_calls: open.map(|open| (open.call_id, (open.intent_seq, None))).collect(),
            first_searchable: survey
                .last_seq
                .saturating_sub(inner.options.max_index_entries as u64),
            records: 0,
        }
    }

    /// Applies a segment whose frames the first scan or its summary has read, if nothing but its open calls is
    /// needed of it. Returns `false` if its frames must be visited.
    fn skip_segment(&mut self, part: &RecordSegment) -> bool {
        let chained = self.chained_seq.saturating_add(1);
        let needed = self.first_searchable.min(chained).min(self.resume_point.first_relocated);
        let is_old = !part.is_damaged && part.last_seq < needed;
        let Some(calls) = part.calls.as_ref().filter(|_| is_old) else { return false };
        if let Some(first_seq) = part.first_seq {
            let span = SegmentSpan { number: part.number, first_seq };
            self.inner.lock_index().skip_segment(span);
        }
        self.records += calls.records;
        calls.apply_to(&mut self.open_calls);
        true
    }

    fn visit_frame(&mut self, part: &RecordSegment, at: u64, frame: &Frame<'_>) {
        self.records += 1;
        if frame.seq > self.chained_seq {
            self.chain.append_frame(frame.seq, frame.bytes);
            self.since_checkpoint += u64::from(frame.kind != RecordKind::Checkpoint);
        }
        if frame.seq >= self.resume_point.first_relocated {
            self.relocated_offsets.entry(part.number).or_insert(at);
            self.is_too_large |=
                self.relocated_frames.len() + frame.bytes.len() > MAX_RELOCATED_BYTES;
            if !self.is_too_large {
                self.relocated_frames.extend_from_slice(frame.bytes);
            }
        }
        let label = self.search_key(frame);
        let place = FramePosition { segment_number: part.number, offset: at };
        let entry = IndexEntry {
            seq: frame.seq,
            position: place,
            kind: frame.kind,
            call_id: frame.call_id,
            search_key: label,
            facts: (frame.seq >= self.first_searchable)
                .then(|| IndexFacts::new(SearchFacts::from_frame(frame))),
        };
        self.inner.lock_index().push_entry(entry);
    }

    fn search_key(&mut self, frame: &Frame<'_>) -> Option<SearchKey> {
        if frame.kind == RecordKind::AuditEvent {
            return search_fields(frame)
                .map(|it| self.inner.search_key(&it.org, &it.tool, &it.caller));
        }
        let call = frame.call_id?;
        match frame.kind {
            RecordKind::Outcome => self.open_calls.remove(&call)?.1,
            RecordKind::Intent | RecordKind::Refusal | RecordKind::ApprovalStep => {
                let names =
                    (frame.seq >= self.first_searchable).then(|| search_fields(frame)).flatten();
                let label = names.map(|it| self.inner.search_key(&it.org, &it.tool, &it.caller));
                if frame.kind == RecordKind::Intent {
                    self.open_calls.insert(call, (frame.seq, label));
                }
                label
            }
            _ => self.open_calls.get(&call)?.1,
        }
    }

    /// Leaves frames in place if there are too many to relocate.
    fn limit_relocation(&mut self, survey: &RecordScan) {
        if self.is_too_large {
            self.relocated_frames.clear();
            let last = survey.segments.iter().map(|part| part.number).max().unwrap_or(0);
            self.resume_point.segment_number = last.saturating_add(1);
        }
    }

    /// Returns the files with frames that are relocated to another file.
    fn unsynced_files(&self) -> io::Result<Vec<UnsyncedFile>> {
        let mut dirty = Vec::new();
        for (&number, &from) in
            self.relocated_offsets.iter().filter(|(at, _)| **at != self.resume_point.segment_number)
        {
            let file = self.inner.writer_dir.open_segment(number, OpenMode::Append)?;
            if self.is_too_large {
                file.sync_data()?;
            } else {
                dirty.push(UnsyncedFile { file, number, offset: from });
            }
        }
        Ok(dirty)
    }

    fn into_report(self, survey: RecordScan) -> (RecoveryReport, SyncThreadSeed) {
        let mut open =
            self.open_calls.into_iter().map(|(call, (seq, _))| (seq, call)).collect::<Vec<_>>();
        open.sort_unstable_by(|a, b| b.cmp(a));
        let recovery = RecoveryReport {
            segments: survey.segments.len(),
            records: self.records,
            lost_records: survey.lost_records,
            discarded: survey.discarded,
            findings: survey.findings.list,
            more_findings: survey.findings.omitted_count,
            open_call_count: open.len(),
            open_calls: open.into_iter().map(|(_, call)| call).take(MAX_LISTED_CALLS).collect(),
        };
        let (chain, carry, plan) = (self.chain, self.relocated_frames, self.resume_point);
        (
            recovery,
            SyncThreadSeed {
                chain,
                relocated_frames: carry,
                resume_point: plan,
                since_checkpoint: self.since_checkpoint,
            },
        )
    }
}
