//! Check of the segments that a start took from their summaries: their frames are read after it, with
//! pauses, and a segment that is no longer what its summary says is reported.

use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ledger_inner::LedgerInner;
use crate::segment::segment_name;
use crate::segment_filter::{load_summary, remove_filter};
use crate::segment_scan::SegmentScan;
use crate::segment_summary::SegmentSummary;

/// A pause lasts this many times as long as the check before it, so that checks take a fifth of a
/// processor.
const PAUSE_RATIO: u32 = 4;
/// Shortest pause.
const MIN_PAUSE: Duration = Duration::from_millis(1);
/// Pause after a segment that could not be read.
const ERROR_PAUSE: Duration = Duration::from_secs(10);

/// Segments that are still to be checked.
#[derive(Debug)]
pub(crate) struct SummaryCheck {
    segments: VecDeque<u32>,
    pause: Duration,
}

/// Result of the check of one segment.
enum CheckResult {
    Unchanged,
    Changed,
    /// The ledger is closed.
    Stopped,
}

impl SummaryCheck {
    /// Creates the check of the segments that the start took from summaries. It begins at a random
    /// one, so that processes that end before all are checked do not check the same ones.
    pub(crate) fn new(inner: &LedgerInner) -> Self {
        let mut segments = std::mem::take(&mut *inner.lock_unchecked_segments());
        // Below the number of segments, so that it is in range.
        let first = inner.segment_nonce(0) % (segments.len() as u64).max(1);
        if let Ok(first) = usize::try_from(first) {
            segments.rotate_left(first);
        }
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
        match check_segment(inner, number) {
            Ok(CheckResult::Unchanged | CheckResult::Stopped) => {}
            // Retention may have removed it.
            _ if !inner.lock_index().contains_segment(number) => {}
            Ok(CheckResult::Changed) => report_damage(inner, number),
            Err(error) => {
                tracing::warn!(%error, segment = number, "cannot check a segment of the record yet");
                self.segments.push_back(number);
                self.pause = ERROR_PAUSE;
                return;
            }
        }
        let elapsed = inner.clock.monotonic_now().saturating_duration_since(begun);
        self.pause = elapsed.saturating_mul(PAUSE_RATIO).max(MIN_PAUSE);
    }
}

/// Compares a segment with its summary.
///
/// # Errors
/// If it is there and cannot be read now: that says nothing of its content.
fn check_segment(inner: &LedgerInner, number: u32) -> io::Result<CheckResult> {
    let site = &inner.writer_dir;
    let stop = || inner.filter_work.is_closing();
    let scan = match SegmentScan::scan_with((site, number, None), &stop, &mut |_| {}) {
        Ok(Some(scan)) => scan,
        Ok(None) => return Ok(CheckResult::Stopped),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CheckResult::Changed),
        Err(error) => return Err(error),
    };
    let is_unchanged = match load_summary(site, number)? {
        Some((summary, _)) => SegmentSummary::from_scan(&scan) == Some(summary),
        // The filter was built again meanwhile, from the segment as it is now.
        None => scan.faults.is_empty(),
    };
    Ok(if is_unchanged { CheckResult::Unchanged } else { CheckResult::Changed })
}

/// Reports the segment, and removes its filter with the summary, so that the next start reads the
/// frames and says what is damaged.
fn report_damage(inner: &LedgerInner, number: u32) {
    let site = &inner.writer_dir;
    tracing::error!(
        "the record is damaged: the closed segment `{}` is no longer what it was when it was closed; \
         run `toolkeep record verify` for details",
        segment_name(&site.writer_name, number)
    );
    inner.damaged_segments.fetch_add(1, Ordering::Relaxed);
    let removed = {
        let _turn = inner.filter_work.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        remove_filter(site, number)
    };
    if let Err(error) = removed {
        tracing::warn!(%error, segment = number, "cannot remove the filter of a damaged segment");
    }
    inner.lock_index().reject_filter(number);
    inner.filter_work.request_refresh();
}
