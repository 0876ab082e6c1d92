//! Filter thread: loads the filters of sealed segments, rebuilds missing or damaged ones, and checks the
//! segments that the start took from their summaries.
//!
//! Every search reads a segment without a filter, so a missing filter never hides a record.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tool::LedgerError;

use crate::ledger_inner::LedgerInner;
use crate::ledger_state::LedgerMode;
use crate::record_search::RecordSearch;
use crate::segment::{WriterDir, parse_filter_name};
use crate::segment_filter::{
    FilterBuildContext, FilterHeader, build_filter, load_header, load_summary, remove_filter,
    write_filter,
};
use crate::summary_check::SummaryCheck;

/// Work queue of the filter thread.
#[derive(Debug, Default)]
struct FilterThreadState {
    /// There may be a segment without a filter.
    is_requested: bool,
    is_closing: bool,
}

/// Work queue and wake-up signal of the filter thread.
#[derive(Debug, Default)]
pub(crate) struct FilterWork {
    work: Mutex<FilterThreadState>,
    wake: Condvar,
    /// Serializes filter writes, because they share one temporary file.
    pub(crate) write_lock: Mutex<()>,
}

impl FilterWork {
    fn update_work(&self, change: impl FnOnce(&mut FilterThreadState)) {
        change(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    /// Requests a scan for segments without a filter.
    pub(crate) fn request_refresh(&self) {
        self.update_work(|work| work.is_requested = true);
    }

    /// Requests the end of the thread.
    pub(crate) fn stop_thread(&self) {
        self.update_work(|work| work.is_closing = true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).is_closing
    }

    /// Waits for work, for at most `pause`.
    fn wait_for_work(&self, pause: Option<Duration>) -> FilterTask {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |work: &mut FilterThreadState| !work.is_requested && !work.is_closing;
        let mut work = match pause {
            None => self.wake.wait_while(work, idle).unwrap_or_else(PoisonError::into_inner),
            Some(pause) => {
                let waited = self.wake.wait_timeout_while(work, pause, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if work.is_closing {
            FilterTask::Stop
        } else if std::mem::take(&mut work.is_requested) {
            FilterTask::Refresh
        } else {
            FilterTask::CheckSummary
        }
    }
}

/// What the filter thread does next.
enum FilterTask {
    Refresh,
    CheckSummary,
    Stop,
}

/// Runs the filter thread until the ledger is closed.
pub(crate) fn run_filter_thread(inner: &Arc<LedgerInner>) {
    remove_orphans(inner);
    let mut check = SummaryCheck::new(inner);
    loop {
        match inner.filter_work.wait_for_work(check.next_pause()) {
            FilterTask::Refresh => refresh_filters(inner),
            FilterTask::CheckSummary => check.check_next(inner),
            FilterTask::Stop => return,
        }
    }
}

/// Loads or builds the filter of each sealed segment without one, oldest first.
pub(crate) fn refresh_filters(inner: &LedgerInner) {
    let _turn = inner.filter_work.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(active) =
        inner.lock_state().active_segment.as_ref().map(|active| active.segment_number)
    else {
        return;
    };
    let missing = inner.lock_index().segments_without_filter(active);
    for (number, first, damaged) in missing {
        if inner.filter_work.is_closing() {
            return;
        }
        if let Err(error) = refresh_filter(inner, (number, first), damaged) {
            // Searches read the segment instead. Retention may have removed it meanwhile.
            if inner.lock_index().contains_segment(number) {
                tracing::warn!(
                    %error,
                    segment = number,
                    "cannot write the filter of a segment of the record; searches read the segment \
                     instead"
                );
            }
        }
    }
}

fn refresh_filter(
    inner: &LedgerInner,
    (number, first): (u32, u64),
    damaged: bool,
) -> std::io::Result<()> {
    let site = &inner.writer_dir;
    if !damaged
        && let Some(head) = load_header(site, number)?.filter(|head| has_good_summary(site, head))
    {
        inner.lock_index().set_filter(head);
        return Ok(());
    }
    if !matches!(inner.lock_state().mode, LedgerMode::Accepting) {
        // The space that a full disk has left is for calls.
        return Ok(());
    }
    let stop = || inner.filter_work.is_closing();
    let mut names_of = |calls: &_| {
        let found: Result<_, LedgerError> = RecordSearch::search_fields_of(inner, calls, first);
        found.unwrap_or_default()
    };
    let mut around = FilterBuildContext {
        salt: inner.segment_nonce(number),
        should_stop: &stop,
        find_search_fields: &mut names_of,
    };
    let Some(filter) = build_filter(site, number, &mut around)? else { return Ok(()) };
    write_filter(site, &filter)?;
    // Reload the header from the disk, with its checksum.
    if let Some(head) = load_header(site, number)?
        && !inner.lock_index().set_filter(head)
    {
        // Retention removed the segment meanwhile.
        remove_filter(site, number)?;
    }
    Ok(())
}

/// Returns whether the summary behind the filter can be read, if it has one.
fn has_good_summary(site: &WriterDir, head: &FilterHeader) -> bool {
    !head.has_summary() || load_summary(site, head.number).is_ok_and(|summary| summary.is_some())
}

/// Removes filters whose segment no longer exists.
pub(crate) fn remove_orphans(inner: &LedgerInner) {
    let site = &inner.writer_dir;
    let Ok(names) = site.disk.list_names(&site.dir) else { return };
    for name in &names {
        let Some((_, number)) = parse_filter_name(name).filter(|(of, _)| *of == site.writer_name)
        else {
            continue;
        };
        if !inner.lock_index().contains_segment(number)
            && let Err(error) = remove_filter(site, number)
        {
            tracing::warn!(
                %error,
                segment = number,
                "cannot remove the filter of a removed segment"
            );
        }
    }
}
