//! Check of one writer's ledger: chain and tree against every checkpoint, one intent and one
//! outcome for each call.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use tool::ledger::RecordKind;
use tool::{CallId, LedgerError};

use super::WriterReport;
use crate::frame::Frame;
use crate::hash_chain::{HashChain, LedgerCheckpoint};
use crate::integrity_finding::{BoundedFindings, DamageKind, IntegrityFinding};
use crate::record_scan::{RecordScan, RecordSegment};
use crate::segment::WriterDir;
use crate::segment_scan::LocatedCheckpoint;
use crate::signed_checkpoint::VerifierKey;
use crate::tombstone::Tombstone;
use crate::tombstone_chain::{TombstoneChain, state_matches};

/// Maximum number of ended calls whose intent and outcome are remembered.
const MAX_REMEMBERED_CALLS: usize = 16_000_000;

/// A checkpoint that is stored outside of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExternalCheckpoint {
    pub(super) checkpoint: LedgerCheckpoint,
    /// Whether it is stored beside the segments rather than elsewhere.
    pub(super) is_beside_segments: bool,
}

impl ExternalCheckpoint {
    fn damage_kind(&self) -> DamageKind {
        if self.is_beside_segments {
            DamageKind::InvalidCheckpoint
        } else {
            DamageKind::ExternalCheckpointMismatch
        }
    }

    fn description(&self) -> &'static str {
        if self.is_beside_segments {
            "the signed checkpoint next to the segments"
        } else {
            "the stored checkpoint"
        }
    }
}

/// Verifies the record of one writer.
pub(super) struct WriterVerifier<'a> {
    writer_name: &'a str,
    chain: HashChain,
    /// Checkpoints that were not reached yet, each with the name of its segment.
    checkpoints: std::iter::Peekable<std::vec::IntoIter<(&'a str, &'a LocatedCheckpoint)>>,
    external: std::iter::Peekable<std::vec::IntoIter<&'a ExternalCheckpoint>>,
    pub(super) report: WriterReport,
    pub(super) findings: BoundedFindings,
    pub(super) calls: CallPairing,
    /// The last frame that a good checkpoint covers.
    sealed_seq: u64,
    segment_name: String,
    segment_offset: u64,
}

impl<'a> WriterVerifier<'a> {
    pub(super) fn new(
        writer_dir: &'a WriterDir,
        scan: &'a RecordScan,
        external: &'a [ExternalCheckpoint],
    ) -> Self {
        let marks = scan
            .segments
            .iter()
            .flat_map(|part| part.checkpoints.iter().map(|mark| (part.name.as_str(), mark)))
            .collect::<Vec<_>>();
        let mut external = external.iter().collect::<Vec<_>>();
        external.sort_by_key(|external| external.checkpoint.last_seq);
        let chain = scan.last_tombstone.as_ref().and_then(Tombstone::chain_after);
        let chain = chain.unwrap_or_else(|| HashChain::new(&writer_dir.writer_name));
        let open = scan.last_tombstone.iter().flat_map(|tomb| &tomb.open_calls);
        let open = open.map(|open| (open.call_id, open.intent_seq)).collect();
        Self {
            writer_name: &writer_dir.writer_name,
            sealed_seq: chain.last_seq,
            chain,
            checkpoints: marks.into_iter().peekable(),
            external: external.into_iter().peekable(),
            report: WriterReport {
                writer: writer_dir.writer_name.clone(),
                ..WriterReport::default()
            },
            findings: BoundedFindings::default(),
            calls: CallPairing { open_calls: open, ..CallPairing::default() },
            segment_name: String::new(),
            segment_offset: 0,
        }
    }

    fn add_finding(&mut self, seq: u64, fault: DamageKind, text: String) {
        self.findings.push_finding(IntegrityFinding {
            writer: self.writer_name.to_owned(),
            segment: self.segment_name.clone(),
            offset: self.segment_offset,
            seq: Some(seq),
            damage: fault,
            message: text,
        });
    }

    pub(super) fn visit_frame(&mut self, segment: &RecordSegment, offset: u64, frame: &Frame<'_>) {
        self.compare_checkpoints(frame.seq);
        if self.segment_name != segment.name {
            self.segment_name.clone_from(&segment.name);
        }
        self.segment_offset = offset;
        self.chain.append_frame(frame.seq, frame.bytes);
        let numbers = &mut self.report;
        numbers.records += 1;
        *match frame.kind {
            RecordKind::Intent => &mut numbers.intents,
            RecordKind::ApprovalStep => &mut numbers.approval_steps,
            RecordKind::Outcome => &mut numbers.outcomes,
            RecordKind::Refusal => &mut numbers.refusals,
            RecordKind::Checkpoint => &mut numbers.checkpoints,
            RecordKind::AuditEvent => &mut numbers.events,
            RecordKind::Gap => &mut numbers.gaps,
            RecordKind::Tombstone => &mut numbers.removals,
        } += 1;
        if let Some(call) = frame.call_id
            && let Some(wrong) = self.calls.observe_record(frame.kind, call, frame.seq)
        {
            self.add_finding(
                frame.seq,
                DamageKind::CallMismatch,
                format!("call `{call}` has {wrong}"),
            );
        }
    }

    /// Compares the checkpoints that cover removed segments.
    pub(super) fn verify_tombstones(
        &mut self,
        writer_dir: &WriterDir,
        keys: Option<&[VerifierKey]>,
    ) -> Result<(), LedgerError> {
        let mut tombs = TombstoneChain::new(writer_dir, keys);
        let (mut fit, mut met) = (Vec::new(), HashSet::new());
        let all: Vec<_> = self.external.clone().collect();
        tombs.verify_all(&mut |stood, run| {
            for outside in all.iter().filter(|it| it.checkpoint.frame_count == stood.frame_count) {
                met.insert(stood.frame_count);
                if state_matches(stood, run, &outside.checkpoint) {
                    fit.push(*outside);
                }
            }
        })?;
        if tombs.removed.segments == 0 {
            return Ok(());
        }
        let end = self.chain.count;
        while let Some(outside) = self.external.next_if(|it| it.checkpoint.frame_count <= end) {
            if fit.contains(&outside) {
                self.count_match(outside);
                continue;
            }
            let (through, words) = (outside.checkpoint.last_seq, outside.description());
            let why = if met.contains(&outside.checkpoint.frame_count) {
                format!("do not match {words}, according to the tombstones")
            } else {
                format!("were removed, and no tombstone has the nodes to check {words}")
            };
            self.add_finding(
                through,
                outside.damage_kind(),
                format!("the records up to {through} {why}"),
            );
        }
        for finding in std::mem::take(&mut tombs.findings) {
            self.findings.push_finding(finding);
        }
        self.report.removed = Some(tombs.removed);
        Ok(())
    }

    /// Counts a match of an externally stored checkpoint.
    fn count_match(&mut self, outside: &ExternalCheckpoint) {
        if !outside.is_beside_segments {
            self.report.external_checkpoints += 1;
            self.report.external_through = Some(outside.checkpoint.last_seq);
        }
    }

    /// Compares every checkpoint that covers the frames before `seq`.
    fn compare_checkpoints(&mut self, seq: u64) {
        while let Some(outside) = self.external.next_if(|it| it.checkpoint.last_seq < seq) {
            if self.chain.matches_checkpoint(&outside.checkpoint) {
                self.count_match(outside);
            } else {
                let (through, words) = (outside.checkpoint.last_seq, outside.description());
                let text = format!("the records up to {through} do not match {words}");
                self.add_finding(through, outside.damage_kind(), text);
            }
        }
        while let Some((name, mark)) =
            self.checkpoints.next_if(|(_, m)| m.checkpoint.last_seq < seq)
        {
            let checkpoint = &mark.checkpoint;
            if !self.chain.matches_checkpoint(checkpoint) {
                let text = format!(
                    "the records {} to {} do not match checkpoint {}",
                    self.sealed_seq + 1,
                    checkpoint.last_seq,
                    mark.seq
                );
                (self.segment_name, self.segment_offset) = (name.to_owned(), mark.offset);
                self.add_finding(mark.seq, DamageKind::ChainMismatch, text);
                // One change is one finding: the following records are verified on their own.
                self.chain =
                    HashChain::from_checkpoint(checkpoint).unwrap_or_else(|| self.chain.clone());
            }
            self.sealed_seq = checkpoint.last_seq;
        }
    }

    pub(super) fn finish_writer(&mut self) {
        let last = self.chain.last_seq;
        self.compare_checkpoints(last + 1);
        self.report.unsealed_records = last.saturating_sub(self.sealed_seq);
        while let Some(outside) = self.external.next() {
            let (through, words) = (outside.checkpoint.last_seq, outside.description());
            let text = format!(
                "the record ends at {last}, but {words} covers the records up to {through}: the \
                 end was cut off, or an older copy was restored"
            );
            self.add_finding(through, outside.damage_kind(), text);
        }
        while let Some((name, mark)) = self.checkpoints.next() {
            (self.segment_name, self.segment_offset) = (name.to_owned(), mark.offset);
            let text = format!("checkpoint {} covers records that do not exist", mark.seq);
            self.add_finding(mark.seq, DamageKind::ChainMismatch, text);
        }
    }
}

/// Pairing of intents and outcomes by call.
#[derive(Default)]
pub(super) struct CallPairing {
    /// With the number of the intent.
    pub(super) open_calls: HashMap<CallId, u64>,
    ended_calls: HashSet<u64>,
    hasher: RandomState,
}

impl CallPairing {
    /// Records a frame of a call and returns why it is out of order, if it is.
    fn observe_record(&mut self, kind: RecordKind, call: CallId, seq: u64) -> Option<&'static str> {
        let id = self.hasher.hash_one(call);
        match kind {
            RecordKind::Intent if self.ended_calls.contains(&id) => Some("a second intent"),
            RecordKind::Intent if self.open_calls.insert(call, seq).is_some() => {
                Some("a second intent")
            }
            // It precedes the intent, so the call is not known here yet.
            RecordKind::ApprovalStep if self.ended_calls.contains(&id) => {
                Some("an approval step after its end")
            }
            RecordKind::Outcome if self.open_calls.remove(&call).is_some() => {
                if self.ended_calls.len() < MAX_REMEMBERED_CALLS {
                    self.ended_calls.insert(id);
                }
                None
            }
            RecordKind::Outcome if self.ended_calls.contains(&id) => Some("a second outcome"),
            RecordKind::Outcome => Some("an outcome without an intent"),
            _ => None,
        }
    }
}
