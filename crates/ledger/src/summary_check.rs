//! Check of the segments that a start took from their summaries: their frames are read after it, with
//! pauses, and a segment that is no longer what its summary says is reported.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ledger_inner::LedgerInner;
use crate::segment::segment_name;
use crate::segment_filter::load_summary;
use crate::segment_scan::SegmentScan;
use crate::segment_summary::SegmentSummary;

/// A pause lasts this many times as long as the check before it, so that checks take a fifth of a
/// processor.
const PAUSE_RATIO: u32 = 4;
/// Shortest pause.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Segments that are still to be checked.
#[derive(Debug)]
pub(crate) struct SummaryCheck {
    segments: VecDeque<u32>,
    pause: Duration,
}

impl SummaryCheck {
    /// Creates the check of the segments that the start took from summaries, newest first.
    pub(crate) fn new(inner: &LedgerInner) -> Self {
        let mut segments = std::mem::take(&mut *inner.lock_unchecked_segments());
        segments.sort_unstable_by(|one, other| other.cmp(one));
        Self { segments: segments.into(), pause: MIN_PAUSE }
    }

    /// Returns the time until the next check; `None` if all is checked.
    pub(crate) fn next_pause(&self) -> Option<Duration> {
        (!self.segments.is_empty()).then_some(self.pause)
    }

    /// Checks the next segment.
    pub(crate) fn check_next(&mut self, inner: &LedgerInner) {
        let Some(number) = self.segments.pop_front() else { return };
        let begun = inner.clock.monotonic_now();
        if !is_unchanged(inner, number) && inner.lock_index().contains_segment(number) {
            report_damage(inner, number);
        }
        let elapsed = inner.clock.monotonic_now().saturating_duration_since(begun);
        self.pause = elapsed.saturating_mul(PAUSE_RATIO).max(MIN_PAUSE);
    }
}

/// Returns whether a segment can be read and is what its summary says.
fn is_unchanged(inner: &LedgerInner, number: u32) -> bool {
    let site = &inner.writer_dir;
    let Ok(scan) = SegmentScan::scan_segment(site, number, None) else { return false };
    match load_summary(site, number) {
        Ok(Some((summary, _))) => SegmentSummary::from_scan(&scan) == Some(summary),
        // The filter was built again meanwhile, from the segment as it is now.
        Ok(None) | Err(_) => scan.faults.is_empty(),
    }
}

/// Reports the segment. Its filter is built again without a summary, so that the next start reads the
/// frames and says what is damaged.
fn report_damage(inner: &LedgerInner, number: u32) {
    tracing::error!(
        "the record is damaged: the closed segment `{}` is no longer what it was when it was closed; \
         run `toolkeep record verify` for details",
        segment_name(&inner.writer_dir.writer_name, number)
    );
    inner.damaged_segments.fetch_add(1, Ordering::Relaxed);
    inner.lock_index().reject_filter(number);
    inner.filter_work.request_refresh();
}
