//! Check that a segment may be removed, and the tombstone that replaces it.

use std::collections::HashMap;
use std::io;

use sha2::{Digest as _, Sha256};
use tool::ledger::RecordKind;
use tool::{ApprovalStepRecord, CallId, Digest, WallTime};

use super::{RemovalBlocked, RemovalCandidate, SegmentInventory};
use crate::compact_range::CompactRange;
use crate::disk::OpenMode;
use crate::error_messages::io_failure;
use crate::frame::Frame;
use crate::frame_reader::{FrameReader, ReadStep};
use crate::hash_chain::{HashChain, LedgerCheckpoint};
use crate::ledger_inner::LedgerInner;
use crate::segment::{SEGMENT_HEADER_BYTES, WriterDir, segment_name};
use crate::segment_scan::SegmentScan;
use crate::tombstone::{ChainState, MAX_LISTED_CALLS, OpenCall, Tombstone};

/// Age after which an approval step no longer blocks a removal. Calls are pending for at most one
/// hour.
const MAX_APPROVAL_AGE_MS: u64 = 24 * 3_600_000;

/// Reason why a check ended without a tombstone.
enum RemovalCheckError {
    Io(io::Error),
    /// The segment may be removed another time.
    Deferred(String),
}

impl From<io::Error> for RemovalCheckError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn deferred<T>(text: impl Into<String>) -> Result<T, RemovalCheckError> {
    Err(RemovalCheckError::Deferred(text.into()))
}

/// Builds the tombstone of the segment, if it may be removed.
pub(super) fn check_removal(
    inner: &LedgerInner,
    candidate: RemovalCandidate,
    inventory: &SegmentInventory,
    signed_checkpoint: &LedgerCheckpoint,
) -> Result<Tombstone, RemovalBlocked> {
    build_tombstone(inner, candidate, inventory, signed_checkpoint).map_err(|error| match error {
        RemovalCheckError::Deferred(reason) => RemovalBlocked::Deferred(reason),
        RemovalCheckError::Io(error) => {
            let site = &inner.writer_dir;
            let what =
                format!("cannot scan `{}`", segment_name(&site.writer_name, candidate.number));
            RemovalBlocked::Failed(io_failure(&what, &site.dir, &error))
        }
    })
}

fn build_tombstone(
    inner: &LedgerInner,
    RemovalCandidate { number, reason }: RemovalCandidate,
    inventory: &SegmentInventory,
    signed_checkpoint: &LedgerCheckpoint,
) -> Result<Tombstone, RemovalCheckError> {
    let site = &inner.writer_dir;
    let later: Vec<_> = inventory.segments.iter().copied().filter(|at| *at > number).collect();
    let chain = chain_before(site, number, inventory)?;
    let sealed = SealedRange::load_range(site, number, &later, &chain)?;
    if signed_checkpoint.writer != site.writer_name || signed_checkpoint.last_seq < sealed.last_seq
    {
        return deferred(format!("segment {number} is not sealed by a signed checkpoint yet"));
    }
    let before = ChainState::from_chain(&chain, chain.peaks().to_vec());
    let mut calls = OpenCalls::from_tombstone(inventory.last_tombstone.as_ref());
    let mut reading = TombstoneBuilder::new(chain, &sealed);
    reading.read_segment(site, number, &mut calls)?;
    let (stood, root) = reading.finish_states();
    reading.verify_following(site, &later)?;
    calls.ensure_all_ended(inner, &later, number)?;
    let (open, more_open) = calls.into_open_calls();
    let (bytes, file) = file_digest(site, number)?;
    let begun = site.read_header(number)?.map_or(WallTime(0), |header| header.created_at);
    let next = later.first().copied().unwrap_or(number);
    let until = site.read_header(next)?.map_or(WallTime(0), |header| header.created_at);
    Ok(Tombstone {
        writer: site.writer_name.clone(),
        number,
        bytes,
        file_digest: file,
        root,
        started_at: begun,
        newest_before: until,
        removed_at: inner.clock.wall_now(),
        reason,
        signed_through: signed_checkpoint.last_seq,
        initial_state: before,
        states: stood,
        open_calls: open,
        more_open_calls: more_open,
    })
}

/// Chain and tree before it.
fn chain_before(
    site: &WriterDir,
    number: u32,
    there: &SegmentInventory,
) -> Result<HashChain, RemovalCheckError> {
    match &there.last_tombstone {
        None if number == 1 => Ok(HashChain::new(&site.writer_name)),
        Some(tomb) if tomb.number.checked_add(1) == Some(number) => {
            let after = tomb.chain_after();
            after.map_or_else(|| deferred("the previous tombstone is inconsistent"), Ok)
        }
        _ => deferred(format!("the segments before segment {number} are missing")),
    }
}

/// The records of a segment and the checkpoints that seal them.
struct SealedRange {
    last_seq: u64,
    /// In order; the last one covers the whole segment.
    checkpoints: Vec<LedgerCheckpoint>,
}

impl SealedRange {
    fn load_range(
        site: &WriterDir,
        number: u32,
        later: &[u32],
        chain: &HashChain,
    ) -> Result<Self, RemovalCheckError> {
        let mut scan = SegmentScan::scan_segment(site, number, None)?;
        // Records that later segments repeat were relocated to them.
        let mut next = None;
        for at in later {
            let first = first_seq(site, *at)?;
            next = [next, first].into_iter().flatten().min();
        }
        let Some(next) = next else { return deferred("no later record exists yet") };
        if scan.last_seq.is_some_and(|last| last >= next) {
            scan.discard_from(site, next, None)?;
        }
        let expected = chain.last_seq + 1;
        let whole = scan.faults.is_empty()
            && scan.more_faults == 0
            && scan.first_seq.is_none_or(|first| first == expected)
            && scan.last_seq.map_or(expected, |last| last + 1) == next;
        if !whole {
            return deferred(format!(
                "segment {number} was changed: it and all later segments are kept; run `toolkeep \
                 record verify` for details"
            ));
        }
        let last = next - 1;
        let mut marks: Vec<_> = scan.checkpoints.into_iter().map(|mark| mark.checkpoint).collect();
        for at in later {
            if marks.last().is_some_and(|mark| mark.last_seq >= last) {
                break;
            }
            marks.extend(
                SegmentScan::scan_segment(site, *at, None)?
                    .checkpoints
                    .into_iter()
                    .map(|mark| mark.checkpoint),
            );
        }
        marks.retain(|mark| mark.last_seq > chain.last_seq);
        let Some(closing) = marks.iter().position(|mark| mark.last_seq >= last) else {
            return deferred(format!("segment {number} is not sealed by a checkpoint yet"));
        };
        marks.truncate(closing + 1);
        Ok(Self { last_seq: last, checkpoints: marks })
    }
}

/// The number of the first frame in a segment.
fn first_seq(site: &WriterDir, number: u32) -> io::Result<Option<u64>> {
    let file = site.open_segment(number, OpenMode::Read)?;
    let mut walk = FrameReader::new(file.as_ref(), SEGMENT_HEADER_BYTES as u64, u64::MAX)?;
    Ok(match walk.read_next()? {
        ReadStep::Frame(_, frame) => Some(frame.seq),
        ReadStep::Garbage { .. } | ReadStep::End(_) => None,
    })
}

/// Reads the frames of a segment.
struct TombstoneBuilder<'a> {
    chain: HashChain,
    sealed: &'a SealedRange,
    checkpoints: std::iter::Peekable<std::slice::Iter<'a, LedgerCheckpoint>>,
    range: CompactRange,
    own_range: CompactRange,
    states: Vec<ChainState>,
}

impl<'a> TombstoneBuilder<'a> {
    fn new(chain: HashChain, sealed: &'a SealedRange) -> Self {
        let marks = sealed.checkpoints.iter().peekable();
        Self {
            range: CompactRange::empty_at(chain.count),
            own_range: CompactRange::empty_at(0),
            chain,
            sealed,
            checkpoints: marks,
            states: Vec::new(),
        }
    }

    fn read_segment(
        &mut self,
        site: &WriterDir,
        number: u32,
        calls: &mut OpenCalls,
    ) -> Result<(), RemovalCheckError> {
        let file = site.open_segment(number, OpenMode::Read)?;
        let mut walk = FrameReader::new(file.as_ref(), SEGMENT_HEADER_BYTES as u64, u64::MAX)?;
        while let ReadStep::Frame(_, frame) = walk.read_next()? {
            if frame.seq > self.sealed.last_seq {
                break;
            }
            self.own_range.push_frame(frame.bytes);
            self.range.push_frame(frame.bytes);
            calls.observe_frame(&frame);
            self.push_frame(&frame)?;
        }
        Ok(())
    }

    fn push_frame(&mut self, frame: &Frame<'_>) -> Result<(), RemovalCheckError> {
        self.chain.append_frame(frame.seq, frame.bytes);
        while let Some(mark) = self.checkpoints.next_if(|mark| mark.last_seq <= frame.seq) {
            if !self.chain.matches_checkpoint(mark) {
                return deferred(format!(
                    "the records up to {} do not match their checkpoint and are kept; run \
                     `toolkeep record verify` for details",
                    mark.last_seq
                ));
            }
            if mark.last_seq <= self.sealed.last_seq {
                self.push_chain_state();
            }
        }
        Ok(())
    }

    fn push_chain_state(&mut self) {
        let run = std::mem::replace(&mut self.range, CompactRange::empty_at(self.chain.count));
        self.states.push(ChainState::from_chain(&self.chain, run.subtree_hashes()));
    }

    fn finish_states(&mut self) -> (Vec<ChainState>, Digest) {
        if self.states.last().is_none_or(|stood| stood.frame_count != self.chain.count) {
            self.push_chain_state();
        }
        (std::mem::take(&mut self.states), Digest(self.own_range.range_root()))
    }

    /// Verifies the records up to the checkpoint that covers the whole segment, so that its end is
    /// sealed too.
    fn verify_following(
        &mut self,
        site: &WriterDir,
        later: &[u32],
    ) -> Result<(), RemovalCheckError> {
        for number in later {
            let file = site.open_segment(*number, OpenMode::Read)?;
            let mut walk = FrameReader::new(file.as_ref(), SEGMENT_HEADER_BYTES as u64, u64::MAX)?;
            while let (Some(_), ReadStep::Frame(_, frame)) =
                (self.checkpoints.peek(), walk.read_next()?)
            {
                if frame.seq == self.chain.last_seq + 1 {
                    self.push_frame(&frame)?;
                }
            }
        }
        match self.checkpoints.peek() {
            None => Ok(()),
            Some(_) => deferred("the records after it are incomplete"),
        }
    }
}

/// Calls without a recorded end.
struct OpenCalls {
    started_at_seq: HashMap<CallId, u64>,
    /// Pending calls with the time of their last step.
    pending_approvals: HashMap<CallId, WallTime>,
    omitted_count: u64,
}

impl OpenCalls {
    fn from_tombstone(before: Option<&Tombstone>) -> Self {
        let open = before.into_iter().flat_map(|tomb| &tomb.open_calls);
        let open = open.map(|open| (open.call_id, open.intent_seq)).collect();
        let more = before.map_or(0, |tomb| tomb.more_open_calls);
        Self { started_at_seq: open, pending_approvals: HashMap::new(), omitted_count: more }
    }

    fn observe_frame(&mut self, frame: &Frame<'_>) {
        let Some(call) = frame.call_id else { return };
        match frame.kind {
            RecordKind::Intent => {
                self.pending_approvals.remove(&call);
                self.started_at_seq.insert(call, frame.seq);
            }
            RecordKind::Outcome | RecordKind::Refusal => {
                self.pending_approvals.remove(&call);
                self.started_at_seq.remove(&call);
            }
            RecordKind::ApprovalStep => match frame.decode_body::<ApprovalStepRecord>() {
                Some(waited) if !waited.step.is_final() => {
                    self.pending_approvals.insert(call, waited.recorded_at);
                }
                _ => drop(self.pending_approvals.remove(&call)),
            },
            RecordKind::Checkpoint
            | RecordKind::Tombstone
            | RecordKind::Gap
            | RecordKind::AuditEvent => {}
        }
    }

    /// Checks that no call runs or is pending. Pending calls may have ended in a later segment.
    fn ensure_all_ended(
        &mut self,
        inner: &LedgerInner,
        later: &[u32],
        number: u32,
    ) -> Result<(), RemovalCheckError> {
        if let Some(call) = self.started_at_seq.keys().find(|call| inner.is_running(**call)) {
            return deferred(format!(
                "call `{call}` began in segment {number} and is still running"
            ));
        }
        let now = inner.clock.wall_now().0;
        self.pending_approvals.retain(|_, at| now.saturating_sub(at.0) < MAX_APPROVAL_AGE_MS);
        // Only the ends of calls matter; calls that run meanwhile were checked above.
        for number in later {
            if self.pending_approvals.is_empty() {
                return Ok(());
            }
            let file = inner.writer_dir.open_segment(*number, OpenMode::Read)?;
            let mut walk = FrameReader::new(file.as_ref(), SEGMENT_HEADER_BYTES as u64, u64::MAX)?;
            loop {
                match walk.read_next()? {
                    ReadStep::Frame(_, frame) => self.observe_end(&frame),
                    ReadStep::Garbage { .. } => {}
                    ReadStep::End(_) => break,
                }
            }
        }
        match self.pending_approvals.keys().next() {
            None => Ok(()),
            Some(call) => deferred(format!("call `{call}` is pending since segment {number}")),
        }
    }

    fn observe_end(&mut self, frame: &Frame<'_>) {
        let Some(call) = frame.call_id else { return };
        let ends = match frame.kind {
            RecordKind::Outcome | RecordKind::Refusal => true,
            RecordKind::ApprovalStep => frame
                .decode_body::<ApprovalStepRecord>()
                .is_some_and(|waited| waited.step.is_final()),
            _ => false,
        };
        if ends {
            self.pending_approvals.remove(&call);
        }
    }

    /// The newest by name, the rest by number.
    fn into_open_calls(self) -> (Vec<OpenCall>, u64) {
        let calls = self.started_at_seq.into_iter();
        let mut open: Vec<_> =
            calls.map(|(call_id, intent_seq)| OpenCall { intent_seq, call_id }).collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        let more = self.omitted_count + open.len().saturating_sub(MAX_LISTED_CALLS) as u64;
        open.truncate(MAX_LISTED_CALLS);
        open.reverse();
        (open, more)
    }
}

/// Size and SHA-256 of its file.
fn file_digest(site: &WriterDir, number: u32) -> io::Result<(u64, Digest)> {
    let file = site.open_segment(number, OpenMode::Read)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        let read = file.read_at(bytes, &mut chunk)?;
        let Some(part) = chunk.get(..read).filter(|part| !part.is_empty()) else { break };
        hash.update(part);
        bytes += read as u64;
    }
    Ok((bytes, Digest(hash.finalize().into())))
}
