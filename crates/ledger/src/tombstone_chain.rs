//! Chain of tombstones: checks their signatures and order from first to last, and restores the
//! tree's position at each checkpoint in them.

use serde::{Deserialize, Serialize};
use tool::{LedgerError, WallTime};

use crate::compact_range::CompactRange;
use crate::error_messages::io_failure;
use crate::hash_chain::{HashChain, LedgerCheckpoint};
use crate::integrity_finding::{DamageKind, IntegrityFinding};
use crate::segment::{WriterDir, tombstone_name};
use crate::signed_checkpoint::VerifierKey;
use crate::tombstone::{self, ChainState, SignedTombstone, Tombstone};

/// Summary of a writer's removed records, from its tombstones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedRecords {
    /// Files that were removed.
    pub segments: u32,
    /// Bytes in them.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Number of the last removed record.
    #[serde(rename = "through")]
    pub last_seq: u64,
    /// Time before which all removed records were written.
    #[serde(rename = "until")]
    pub newest_before: Option<WallTime>,
    /// Number of calls that began in removed segments and have not ended, in those or in existing
    /// ones.
    #[serde(rename = "open")]
    pub open_calls: u64,
    /// Number of tombstones whose signature was not verified, because no key was available.
    #[serde(rename = "unchecked")]
    pub unverified_tombstones: u32,
}

/// One after the other.
pub(crate) struct TombstoneChain<'a> {
    site: &'a WriterDir,
    keys: Option<&'a [VerifierKey]>,
    pub(crate) removed: RemovedRecords,
    pub(crate) findings: Vec<IntegrityFinding>,
    /// Leaves and state after the last tombstone.
    range: CompactRange,
    state: Option<ChainState>,
}

impl<'a> TombstoneChain<'a> {
    /// Creates the chain. `keys` is `None` if no signer is known.
    pub(crate) fn new(writer_dir: &'a WriterDir, keys: Option<&'a [VerifierKey]>) -> Self {
        let (gone, found) = (RemovedRecords::default(), Vec::new());
        Self {
            site: writer_dir,
            keys,
            removed: gone,
            findings: found,
            range: CompactRange::empty_at(0),
            state: None,
        }
    }

    /// Visits each known state of the tree, in order.
    pub(crate) fn verify_all(
        &mut self,
        visit: &mut dyn FnMut(&ChainState, &CompactRange),
    ) -> Result<(), LedgerError> {
        let (dir, disk) = (&self.site.dir, &self.site.disk);
        let names = disk.list_names(dir);
        let names = names.map_err(|error| io_failure("the record cannot be read", dir, &error))?;
        let mut next = 1;
        for number in tombstone::tombstone_numbers(&names, &self.site.writer_name) {
            // One that cannot be read is a finding of the survey.
            let Ok(read) = tombstone::read_tombstone(self.site, number) else { continue };
            if number > next {
                let text =
                    format!("the tombstones of segments {next} to {} are missing", number - 1);
                self.add_finding(number, text);
            }
            next = number.saturating_add(1);
            self.verify_tombstone(&read, visit);
        }
        Ok(())
    }

    fn add_finding(&mut self, number: u32, text: String) {
        self.findings.push(IntegrityFinding {
            writer: self.site.writer_name.clone(),
            segment: tombstone_name(&self.site.writer_name, number),
            offset: 0,
            seq: None,
            damage: DamageKind::InvalidTombstone,
            message: text,
        });
    }

    fn verify_tombstone(
        &mut self,
        read: &SignedTombstone,
        visit: &mut dyn FnMut(&ChainState, &CompactRange),
    ) {
        let tomb = &read.tombstone;
        match self.keys.map(|keys| read.verify_signature(keys)) {
            None => self.removed.unverified_tombstones += 1,
            Some(Ok(())) => {}
            Some(Err(why)) => self.add_finding(tomb.number, why),
        }
        if let Some(text) = self.continuity_error(tomb) {
            self.add_finding(tomb.number, text);
        }
        let Some(run) = tomb.range_before() else { return };
        self.range = run;
        visit(&tomb.initial_state, &self.range);
        // Consistent, because the tombstone was validated on load.
        tomb.visit_states(&mut self.range, visit);
        self.state = Some(tomb.final_state().clone());
        let gone = &mut self.removed;
        gone.segments += 1;
        gone.bytes += tomb.bytes;
        gone.records += tomb.frame_count();
        gone.last_seq = tomb.final_state().last_seq;
        gone.newest_before = Some(tomb.newest_before);
        gone.open_calls = tomb.open_calls.len() as u64 + tomb.more_open_calls;
    }

    /// Returns why a tombstone does not continue the previous one.
    fn continuity_error(&self, tomb: &Tombstone) -> Option<String> {
        let first = HashChain::new(&self.site.writer_name);
        let before = self.state.as_ref().map_or((0, 0, first.head()), |stood| {
            (stood.frame_count, stood.last_seq, stood.chain_head)
        });
        let Tombstone { initial_state: begins, .. } = tomb;
        let same = before == (begins.frame_count, begins.last_seq, begins.chain_head)
            && self.range.subtree_hashes() == begins.subtree_roots;
        (!same).then(|| "does not continue the previous tombstone".to_owned())
    }
}

/// Returns whether the tree had this state.
pub(crate) fn state_matches(
    state: &ChainState,
    range: &CompactRange,
    checkpoint: &LedgerCheckpoint,
) -> bool {
    let peaks = checkpoint.peaks.iter().map(|peak| peak.0);
    state.frame_count == checkpoint.frame_count
        && state.last_seq == checkpoint.last_seq
        && state.chain_head == checkpoint.head.0
        && range.range_root() == checkpoint.root.0
        && (checkpoint.peaks.is_empty() || peaks.eq(range.subtree_hashes()))
}
