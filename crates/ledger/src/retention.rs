//! Retention: removes whole segments, oldest first, and replaces each by a signed tombstone.
//!
//! A segment is removed only if a signed checkpoint seals it and more, its content matches that
//! checkpoint, and no running or pending call began in it. A changed segment and all later ones are
//! kept as evidence. The tombstone is written before the removal, which is completed after a crash.

mod removal_check;

use std::io;
use std::time::Duration;

use serde::Serialize;
use tool::ledger::RecordKind;
use tool::{Digest, Durability, LedgerError};

use crate::disk::OpenMode;
use crate::error_messages::io_failure;
use crate::file_ledger::FileLedger;
use crate::frame::FrameBuilder;
use crate::hash_chain::LedgerCheckpoint;
use crate::ledger_inner::LedgerInner;
use crate::record_scan;
use crate::segment::WriterDir;
use crate::segment_filter::remove_filter;
use crate::signed_checkpoint::CheckpointSigningKey;
use crate::tombstone::{self, RemovalReason, Tombstone};

/// Maximum number of segments removed in one pass.
const MAX_REMOVALS_PER_RUN: usize = 16;

/// Limits of retention by age and by size. Without a limit nothing is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Segments are removed if all of their records are older than this.
    pub max_age: Option<Duration>,
    /// Maximum total size of all segments in bytes; the oldest are removed first.
    pub max_bytes: Option<u64>,
}

/// Report of one [`FileLedger::apply_retention`] run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionReport {
    /// Segments that were removed.
    pub removed_segments: u32,
    /// Total size of the removed segments, in bytes.
    pub removed_bytes: u64,
    /// Reason why a due segment was kept, if there is one.
    pub blocked_reason: Option<String>,
}

/// The body of a tombstone on record.
#[derive(Debug, Serialize)]
struct RemovalRecord {
    segment: u32,
    #[serde(rename = "first")]
    first_seq: u64,
    #[serde(rename = "last")]
    last_seq: u64,
    bytes: u64,
    root: Digest,
    #[serde(rename = "why")]
    reason: RemovalReason,
}

/// A segment that is due for removal.
#[derive(Debug, Clone, Copy)]
struct RemovalCandidate {
    number: u32,
    reason: RemovalReason,
}

/// Why a segment was not removed.
enum RemovalBlocked {
    /// It may be another time.
    Deferred(String),
    Failed(LedgerError),
}

impl FileLedger {
    /// Removes the segments that `policy` does not retain, at most 16 per call. `signed_checkpoint`
    /// is the last signed and stored checkpoint; records that it does not seal are kept. Reads each
    /// removed segment twice, so it must not run on a latency-sensitive thread.
    ///
    /// # Errors
    /// Errors of the disk. The next call completes what this one began.
    pub fn apply_retention(
        &self,
        policy: RetentionPolicy,
        signed_checkpoint: &LedgerCheckpoint,
        key: &CheckpointSigningKey,
    ) -> Result<RetentionReport, LedgerError> {
        apply_retention(&self.inner, policy, signed_checkpoint, key)
    }
}

pub(crate) fn apply_retention(
    inner: &LedgerInner,
    policy: RetentionPolicy,
    signed_checkpoint: &LedgerCheckpoint,
    key: &CheckpointSigningKey,
) -> Result<RetentionReport, LedgerError> {
    let mut retained = RetentionReport::default();
    if policy == RetentionPolicy::default() {
        return Ok(retained);
    }
    for _ in 0..MAX_REMOVALS_PER_RUN {
        let there = SegmentInventory::load_inventory(inner)?;
        there.finish_removals(inner)?;
        let Some(candidate) = there.next_removal(inner, policy)? else { break };
        match remove_segment(inner, candidate, &there, signed_checkpoint, key) {
            Ok(tomb) => {
                retained.removed_segments += 1;
                retained.removed_bytes += tomb.bytes;
            }
            Err(RemovalBlocked::Deferred(text)) => {
                retained.blocked_reason = Some(text);
                break;
            }
            Err(RemovalBlocked::Failed(error)) => return Err(error),
        }
    }
    Ok(retained)
}

fn remove_segment(
    inner: &LedgerInner,
    candidate: RemovalCandidate,
    there: &SegmentInventory,
    signed: &LedgerCheckpoint,
    key: &CheckpointSigningKey,
) -> Result<Tombstone, RemovalBlocked> {
    let site = &inner.writer_dir;
    let number = candidate.number;
    let tomb = removal_check::check_removal(inner, candidate, there, signed)?;
    append_removal(inner, &tomb).map_err(RemovalBlocked::Failed)?;
    let told = |error: io::Error| {
        let name = crate::segment::segment_name(&site.writer_name, number);
        RemovalBlocked::Failed(io_failure(
            &format!("`{name}` cannot be removed"),
            &site.dir,
            &error,
        ))
    };
    tombstone::write_tombstone(site, &tomb, key).map_err(told)?;
    inner.lock_index().remove_segments_through(number);
    delete_segment_files(site, number).map_err(told)?;
    tracing::info!(
        segment = number,
        records = tomb.frame_count(),
        bytes = tomb.bytes,
        why = ?candidate.reason,
        "removed"
    );
    Ok(tomb)
}

/// The removal, on record.
fn append_removal(inner: &LedgerInner, tomb: &Tombstone) -> Result<(), LedgerError> {
    let (first, last) = (tomb.initial_state.last_seq + 1, tomb.final_state().last_seq);
    let (segment, bytes, root, why) = (tomb.number, tomb.bytes, tomb.root, tomb.reason);
    let body =
        RemovalRecord { segment, first_seq: first, last_seq: last, bytes, root, reason: why };
    let mut draft = FrameBuilder::json(RecordKind::Tombstone, None, &body)?;
    let mut state = inner.lock_state();
    state.check_intent(Durability::Written, draft.len(), &inner.writer_dir.dir)?;
    inner.append_frame(&mut state, &mut draft, None)
}

pub(crate) fn delete_segment_files(writer_dir: &WriterDir, number: u32) -> io::Result<()> {
    writer_dir.disk.remove_file(&writer_dir.segment_path(number))?;
    remove_filter(writer_dir, number)?;
    writer_dir.disk.sync_dir(&writer_dir.dir)
}

/// State of the stored segments.
struct SegmentInventory {
    /// Segments that hold the record, in order.
    segments: Vec<u32>,
    /// Segments that have a tombstone already.
    removed_segments: Vec<u32>,
    /// The last tombstone.
    last_tombstone: Option<Tombstone>,
    /// The one that is written.
    active_segment: u32,
}

impl SegmentInventory {
    fn load_inventory(inner: &LedgerInner) -> Result<Self, LedgerError> {
        let site = &inner.writer_dir;
        // Read first: a segment that is created later has a higher number.
        let active =
            inner.lock_state().active_segment.as_ref().map_or(0, |active| active.segment_number);
        let names = site.disk.list_names(&site.dir);
        let names =
            names.map_err(|error| io_failure("the record cannot be read", &site.dir, &error))?;
        let last = tombstone::tombstone_numbers(&names, &site.writer_name).pop();
        let last = last
            .map(|number| tombstone::read_tombstone(site, number))
            .transpose()?
            .map(|read| read.tombstone);
        let gone = last.as_ref().map_or(0, |tomb| tomb.number);
        let (void, segments) = record_scan::segment_numbers(&names, &site.writer_name)
            .into_iter()
            .partition(|number| *number <= gone);
        Ok(Self { segments, removed_segments: void, last_tombstone: last, active_segment: active })
    }

    /// Removes segments that a crash left beside their tombstones.
    fn finish_removals(&self, inner: &LedgerInner) -> Result<(), LedgerError> {
        let site = &inner.writer_dir;
        for number in &self.removed_segments {
            inner.lock_index().remove_segments_through(*number);
            let told =
                |error: io::Error| io_failure("a segment cannot be removed", &site.dir, &error);
            delete_segment_files(site, *number).map_err(told)?;
        }
        Ok(())
    }

    /// Returns the oldest segment, if it is due.
    fn next_removal(
        &self,
        inner: &LedgerInner,
        keep: RetentionPolicy,
    ) -> Result<Option<RemovalCandidate>, LedgerError> {
        let [oldest, next, ..] = *self.segments.as_slice() else { return Ok(None) };
        if oldest >= self.active_segment {
            return Ok(None);
        }
        let site = &inner.writer_dir;
        let told = |error: io::Error| io_failure("a segment cannot be read", &site.dir, &error);
        if let Some(age) = keep.max_age {
            // Its last record is older than the start of the next segment.
            let until = site
                .read_header(next)
                .map_err(told)?
                .map_or(u64::MAX, |header| header.created_at.0);
            let old = inner.clock.wall_now().0.saturating_sub(until);
            if u128::from(old) >= age.as_millis() {
                return Ok(Some(RemovalCandidate { number: oldest, reason: RemovalReason::Age }));
            }
        }
        let Some(most) = keep.max_bytes else { return Ok(None) };
        let mut bytes = 0;
        for number in &self.segments {
            let file = site.open_segment(*number, OpenMode::Read).map_err(told)?;
            bytes += file.file_size().map_err(told)?;
        }
        let candidate = RemovalCandidate { number: oldest, reason: RemovalReason::Size };
        Ok((bytes > most).then_some(candidate))
    }
}
