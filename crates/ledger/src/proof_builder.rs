//! Builds consistency proofs between two checkpoints of a ledger, also over removed frames.

use std::path::Path;
use std::sync::Arc;

use tool::LedgerError;

use crate::compact_range::CompactRange;
use crate::consistency_proof::ConsistencyProof;
use crate::disk::Disk;
use crate::hash_chain::LedgerCheckpoint;
use crate::record_scan::RecordScan;
use crate::segment::WriterDir;
use crate::tombstone::ChainState;
use crate::tombstone_chain::TombstoneChain;

/// Builds the proof that `later` extends `earlier`, from the record in `dir`. Read-only; needs no
/// server. Checks that both checkpoints belong to the record.
///
/// # Errors
/// The record cannot be read, ends before a checkpoint, or does not match one; or a checkpoint lies
/// in removed segments whose nodes were not stored.
pub fn build_consistency_proof(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    earlier: &LedgerCheckpoint,
    later: &LedgerCheckpoint,
) -> Result<ConsistencyProof, LedgerError> {
    if earlier.writer != later.writer || earlier.frame_count > later.frame_count {
        let text =
            "the first checkpoint is not the earlier one of the same writer: change their order";
        return Err(LedgerError::new(text));
    }
    let writer = earlier.writer.clone();
    let site = WriterDir { disk: Arc::clone(disk), dir: dir.to_owned(), writer_name: writer };
    let mut cuts = ProofBuilder::new([earlier.frame_count, later.frame_count]);
    let survey = RecordScan::scan_writer(&site)?;
    TombstoneChain::new(&site, None).verify_all(&mut |stood, run| cuts.add_state(stood, run))?;
    let gone = survey.last_tombstone.as_ref().map_or(0, |tomb| tomb.final_state().frame_count);
    if let Some(count) = cuts.missed_size(gone) {
        return Err(LedgerError::new(format!(
            "the checkpoint over {count} records lies in a removed segment whose tombstone has no \
             node for it: it can no longer be proved"
        )));
    }
    survey.replay_frames(&site, &mut |_, _, frame| cuts.add_frame(frame.bytes))?;
    let ends = cuts.range.end_leaf();
    let [Some(first), Some(whole)] = cuts.ranges else {
        let text = format!(
            "the record ends at {ends} records, before a checkpoint: its end was cut off, or an \
             older copy was restored"
        );
        return Err(LedgerError::new(text));
    };
    for (run, checkpoint) in [(&first, earlier), (&whole, later)] {
        if run.range_root() != checkpoint.root.0 {
            return Err(LedgerError::new(format!(
                "the first {} records do not match the checkpoint",
                checkpoint.frame_count
            )));
        }
    }
    let rest = cuts.rest.as_ref().filter(|rest| rest.end_leaf() == later.frame_count);
    let proof = rest.and_then(|rest| ConsistencyProof::from_ranges(&first, rest));
    proof.ok_or_else(|| {
        LedgerError::new(
            "tombstones between the checkpoints are missing; run `toolkeep record verify` for \
             details",
        )
    })
}

/// The leaves up to the one size, up to the other, and from the one to the other.
struct ProofBuilder {
    sizes: [u64; 2],
    ranges: [Option<CompactRange>; 2],
    rest: Option<CompactRange>,
    /// Leaves processed so far.
    range: CompactRange,
}

impl ProofBuilder {
    fn new(at: [u64; 2]) -> Self {
        let mut cuts =
            Self { sizes: at, ranges: [None, None], rest: None, range: CompactRange::empty_at(0) };
        cuts.record_ranges();
        cuts
    }

    fn record_ranges(&mut self) {
        for (at, run) in self.sizes.iter().zip(&mut self.ranges) {
            if *at == self.range.end_leaf() && run.is_none() {
                *run = Some(self.range.clone());
            }
        }
        if self.range.end_leaf() == self.sizes[0] && self.rest.is_none() {
            self.rest = Some(CompactRange::empty_at(self.sizes[0]));
        }
    }

    /// A place that a tombstone knows.
    fn add_state(&mut self, stood: &ChainState, run: &CompactRange) {
        let from = self.range.end_leaf();
        if stood.frame_count <= from {
            return;
        }
        if let Some(rest) = &mut self.rest
            && rest.end_leaf() < self.sizes[1]
        {
            // Missing tombstones make the proof impossible.
            let part = CompactRange::from_hashes(from, stood.frame_count, &stood.subtree_roots);
            if let Some(part) = part {
                rest.append_range(&part);
            }
        }
        self.range = run.clone();
        self.record_ranges();
    }

    fn add_frame(&mut self, frame: &[u8]) {
        if let Some(rest) = &mut self.rest
            && rest.end_leaf() == self.range.end_leaf()
            && rest.end_leaf() < self.sizes[1]
        {
            rest.push_frame(frame);
        }
        self.range.push_frame(frame);
        self.record_ranges();
    }

    /// The size that lies before `gone` and was not met.
    fn missed_size(&self, gone: u64) -> Option<u64> {
        let missed = self.sizes.iter().zip(&self.ranges);
        missed.filter(|(at, run)| **at <= gone && run.is_none()).map(|(at, _)| *at).next()
    }
}
