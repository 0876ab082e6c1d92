//! Filters of sealed segments: loaded, built where they are missing or damaged, by a thread of their own.
//!
//! A segment without a filter is read by every search, so that a filter never decides alone whether a record is found.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tool::LedgerError;

use crate::inner::Inner;
use crate::search::Search;
use crate::segment::parse_filter;
use crate::segment_filter::{Surroundings, build, load, write};
use crate::state::Mode;

/// What the thread is to do.
#[derive(Debug, Default)]
struct Work {
    /// There may be a segment without a filter.
    wanted: bool,
    closing: bool,
}

/// Wakes the thread.
#[derive(Debug, Default)]
pub(crate) struct FilterWork {
    work: Mutex<Work>,
    wake: Condvar,
    /// Held while filters are written: they have one unnamed file.
    turn: Mutex<()>,
}

impl FilterWork {
    fn set(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.work.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_one();
    }

    /// There may be a segment without a filter.
    pub(crate) fn want(&self) {
        self.set(|work| work.wanted = true);
    }

    /// The thread ends.
    pub(crate) fn close(&self) {
        self.set(|work| work.closing = true);
    }

    fn is_closing(&self) -> bool {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).closing
    }

    /// Waits until there is something to do. `false`: the thread ends.
    fn wait(&self) -> bool {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |work: &mut Work| !work.wanted && !work.closing;
        let mut work = self.wake.wait_while(work, idle).unwrap_or_else(PoisonError::into_inner);
        work.wanted = false;
        !work.closing
    }
}

/// Runs until the ledger is closed.
pub(crate) fn run(inner: &Arc<Inner>) {
    remove_orphans(inner);
    while inner.filter_work.wait() {
        refresh(inner);
    }
}

/// Loads or builds the filter of each sealed segment that has none, oldest first.
pub(crate) fn refresh(inner: &Inner) {
    let _turn = inner.filter_work.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(active) = inner.lock().active.as_ref().map(|active| active.number) else { return };
    let missing = inner.index().without_filter(active);
    for (number, first, damaged) in missing {
        if inner.filter_work.is_closing() {
            return;
        }
        if let Err(error) = refresh_one(inner, (number, first), damaged) {
            // It is read instead; retention may have removed it meanwhile.
            if inner.index().knows(number) {
                tracing::warn!(%error, segment = number, "no filter of a segment of the record could be written; searches read the segment");
            }
        }
    }
}

fn refresh_one(inner: &Inner, (number, first): (u32, u64), damaged: bool) -> std::io::Result<()> {
    let site = &inner.site;
    if !damaged && let Some(head) = load(site, number)? {
        inner.index().set_filter(head);
        return Ok(());
    }
    if !matches!(inner.lock().mode, Mode::Open) {
        // What is left of a full disk is for calls.
        return Ok(());
    }
    let stop = || inner.filter_work.is_closing();
    let mut names_of = |calls: &_| {
        let found: Result<_, LedgerError> = Search::names_of(inner, calls, first);
        found.unwrap_or_default()
    };
    let mut around =
        Surroundings { salt: inner.nonce(number), stop: &stop, names_of: &mut names_of };
    let Some(filter) = build(site, number, &mut around)? else { return Ok(()) };
    write(site, &filter)?;
    // As it stands on the disk, with its checksum.
    if let Some(head) = load(site, number)?
        && !inner.index().set_filter(head)
    {
        // Retention removed the segment meanwhile.
        site.disk.remove(&site.filter(number).0)?;
    }
    Ok(())
}

/// Removes the filters of segments that are not there.
pub(crate) fn remove_orphans(inner: &Inner) {
    let site = &inner.site;
    let Ok(names) = site.disk.list(&site.dir) else { return };
    for name in &names {
        let Some((_, number)) = parse_filter(name).filter(|(of, _)| *of == site.writer) else {
            continue;
        };
        if !inner.index().knows(number)
            && let Err(error) = site.disk.remove(&site.filter(number).0)
        {
            tracing::warn!(%error, segment = number, "the filter of a removed segment could not be removed");
        }
    }
}
