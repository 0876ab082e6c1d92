//! Frames that a later segment repeats, and other ranges that hold no part of the record.

use crate::integrity_finding::{DiscardReason, DiscardedRange};
use crate::segment::WriterDir;
use crate::segment_scan::SegmentScan;

use super::RecordScan;

impl RecordScan {
    /// Discards frames that a later segment repeats: they were relocated because the disk had not
    /// confirmed them. Confirmed frames are never relocated.
    pub(super) fn discard_relocated(&mut self, site: &WriterDir, scans: &mut [SegmentScan]) {
        let (mut confirmed, mut highest) = (0, 0);
        let mut begins = Vec::new();
        for scan in &*scans {
            begins.push(scan.first_seq.filter(|first| confirmed < *first && *first <= highest));
            confirmed = confirmed.max(scan.synced_through);
            highest = highest.max(scan.last_seq.unwrap_or(0));
        }
        let mut limit = u64::MAX;
        for (scan, begins) in scans.iter_mut().zip(begins).rev() {
            if scan.last_seq.is_some_and(|last| last >= limit) {
                match scan.discard_from(site, limit, self.legacy_tail.tail.as_ref()) {
                    Ok(records) => {
                        self.discard_range(
                            scan,
                            scan.end_offset,
                            DiscardReason::Relocated,
                            records,
                        );
                    }
                    Err(error) => self.mark_unreadable(site, scan.number, &error),
                }
            }
            limit = limit.min(begins.unwrap_or(u64::MAX));
        }
    }

    /// Notes that the segment holds no part of the record from `offset` on.
    pub(super) fn discard_range(
        &mut self,
        scan: &SegmentScan,
        offset: u64,
        why: DiscardReason,
        records: u64,
    ) {
        let bytes = scan.size.saturating_sub(offset);
        self.discarded.push(DiscardedRange {
            segment: scan.name.clone(),
            offset,
            bytes,
            records,
            reason: why,
        });
    }
}
