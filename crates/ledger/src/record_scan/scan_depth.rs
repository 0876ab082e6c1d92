//! How much of a record is read: all frames, or at a start those that no summary describes.

use crate::segment::WriterDir;
use crate::segment_scan::SegmentScan;
use crate::segment_summary::load_old_scans;

use super::parallel_scan::MAX_START_THREADS;
use super::{RecordScan, RecordSegment};

/// How much of a record a scan reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScanDepth {
    /// All frames, on at most so many threads.
    AllFrames { max_threads: usize },
    /// The segments of the newest records, and older ones without a summary.
    AtStart { indexed_records: u64 },
}

impl ScanDepth {
    pub(super) fn max_threads(self) -> usize {
        match self {
            Self::AllFrames { max_threads } => max_threads,
            Self::AtStart { .. } => MAX_START_THREADS,
        }
    }

    /// Returns the scans of segments whose frames are not read. `numbers` are those of all segments.
    pub(super) fn load_old_scans(
        self,
        writer_dir: &WriterDir,
        numbers: &[u32],
    ) -> Vec<SegmentScan> {
        match self {
            Self::AllFrames { .. } => Vec::new(),
            Self::AtStart { indexed_records } => {
                load_old_scans(writer_dir, numbers, indexed_records)
            }
        }
    }
}

impl RecordScan {
    /// Returns whether frames that were not read are needed: something does not fit, or they are not
    /// older than what a start visits.
    pub(super) fn needs_all_frames(&self, indexed_records: u64) -> bool {
        if self.summarized_segments.is_empty() {
            return false;
        }
        let Some(last) = self.last_checkpoint() else { return true };
        let confirmed = last.checkpoint.last_seq.min(self.durable_seq);
        let visited_from = self.last_seq.saturating_sub(indexed_records).min(confirmed + 1);
        let is_needed = |part: &RecordSegment| {
            (part.last_seq >= visited_from || part.calls.is_none())
                && self.summarized_segments.binary_search(&part.number).is_ok()
        };
        self.unreadable.is_some()
            || self.legacy_tail.exists
            || self.findings.total_count() > 0
            || self.segments.iter().any(is_needed)
    }
}
