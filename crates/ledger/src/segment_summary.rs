//! Summary of a closed segment: what a start needs of it. It is stored with the segment's filter, so
//! that a start reads the frames of new segments only.
//!
//! A summary says what [`SegmentScan`] found once. A thread reads the segments again after the start
//! and reports each that is no longer what its summary says ([`crate::summary_check`]).

use std::io;

use serde::{Deserialize, Serialize};

use crate::segment::{WriterDir, segment_name};
use crate::segment_calls::SegmentCalls;
use crate::segment_filter::load_summary;
use crate::segment_scan::SegmentScan;

/// Maximum number of open and ended calls in a summary. A segment with more is read at each start.
const MAX_CALLS: usize = 10_000;

/// Facts of a segment without damage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentSummary {
    session_seq: u64,
    has_progress: bool,
    first_seq: u64,
    last_seq: u64,
    end_offset: u64,
    synced_through: u64,
    calls: SegmentCalls,
}

impl SegmentSummary {
    /// Returns the summary of a scanned segment; `None` if something in it does not fit.
    pub(crate) fn from_scan(scan: &SegmentScan) -> Option<Self> {
        let calls = scan.calls.as_ref().filter(|calls| calls.len() <= MAX_CALLS)?;
        Some(Self {
            session_seq: scan.session_seq,
            has_progress: scan.has_progress,
            first_seq: scan.first_seq?,
            last_seq: scan.last_seq?,
            end_offset: scan.end_offset,
            synced_through: scan.synced_through,
            calls: calls.clone(),
        })
        .filter(|_| scan.faults.is_empty() && scan.more_faults == 0)
    }

    /// Returns the scan of the segment, whose file has this size, without its checkpoints.
    fn into_scan(self, writer_dir: &WriterDir, number: u32, size_bytes: u64) -> SegmentScan {
        SegmentScan {
            number,
            name: segment_name(&writer_dir.writer_name, number),
            size: size_bytes,
            session_seq: self.session_seq,
            has_progress: self.has_progress,
            first_seq: Some(self.first_seq),
            last_seq: Some(self.last_seq),
            end_offset: self.end_offset,
            synced_through: self.synced_through,
            faults: Vec::new(),
            more_faults: 0,
            checkpoints: Vec::new(),
            calls: Some(self.calls),
            is_summarized: true,
        }
    }

    pub(crate) fn encode_summary(&self) -> io::Result<Vec<u8>> {
        rmp_serde::to_vec(self).map_err(io::Error::other)
    }

    /// Decodes a summary; `None` if this program did not write it.
    pub(crate) fn decode_summary(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(bytes).ok()
    }
}

/// Returns scans from summaries, of the segments that are older than the newest `indexed_records`.
/// `numbers` are those of all segments, in order.
pub(crate) fn load_old_scans(
    writer_dir: &WriterDir,
    numbers: &[u32],
    indexed_records: u64,
) -> Vec<SegmentScan> {
    let (mut newer_records, mut scans) = (0, Vec::new());
    for number in numbers.iter().rev() {
        // A segment without a readable summary is read.
        let Ok(Some((summary, size_bytes))) = load_summary(writer_dir, *number) else { continue };
        if newer_records > indexed_records {
            scans.push(summary.into_scan(writer_dir, *number, size_bytes));
        } else {
            newer_records += summary.calls.records;
        }
    }
    scans
}
