//! Disk space reserved after the end of the segment, and the error when it is unavailable.

use std::io;

use crate::disk::is_storage_full;
use crate::error_messages::{LowSpaceErrors, io_failure, low_space};
use crate::ledger_state::{ActiveSegment, LedgerMode, LedgerState};
use crate::segment::{estimate_free, reserve_space};
use crate::sync_thread::SyncThread;

impl SyncThread {
    /// Builds the error of an unavailable reserve. Reads the disk's free space.
    pub(crate) fn low_space_errors(&self, error: &io::Error) -> LowSpaceErrors {
        let (site, reserve) = (&self.inner.writer_dir, self.inner.options.reserve_bytes);
        if is_storage_full(error) {
            return low_space(&site.dir, estimate_free(site, reserve), reserve);
        }
        let what = "calls with side effects are rejected, because they cannot be recorded reliably";
        let told = io_failure(what, &site.dir, error);
        LowSpaceErrors { synced_calls: told.clone(), all_calls: told }
    }

    /// Enters the low-space mode, and logs the change.
    fn enter_low_space(state: &mut LedgerState, short: LowSpaceErrors) {
        let known = matches!(&state.mode, LedgerMode::LowSpace(old) if old.synced_calls == short.synced_calls);
        if !known {
            tracing::error!(error = %short.synced_calls, "the record is low on disk space");
        }
        state.mode = LedgerMode::LowSpace(short);
    }

    /// Keeps disk space allocated after the end of the segment, and thereby detects a full disk.
    pub(crate) fn maintain_reserve(&self) {
        let bytes = self.inner.options.reserve_bytes;
        let active = match &*self.inner.lock_state() {
            LedgerState {
                mode: LedgerMode::Accepting | LedgerMode::LowSpace(_),
                active_segment: Some(active),
                ..
            } if active.reserved_end.is_some() && active.reserve_left() < bytes => active.clone(),
            _ => return,
        };
        let reserved = reserve_space(active.file.as_ref(), active.size, bytes);
        let reserved = reserved.map_err(|error| self.low_space_errors(&error));
        let mut state = self.inner.lock_state();
        // A failed write may have released the space meanwhile; the next turn allocates it again.
        let holds = |now: &ActiveSegment| {
            (now.segment_number, now.reserved_end) == (active.segment_number, active.reserved_end)
        };
        let same = state.active_segment.as_ref().is_some_and(holds);
        match (reserved, &state.mode) {
            (Ok(_), _) if !same => {}
            (Ok(to), mode) => {
                let low = matches!(mode, LedgerMode::LowSpace(_));
                if let Some(active) = &mut state.active_segment {
                    active.reserved_end = to;
                }
                if low {
                    tracing::info!("the record has enough disk space again");
                    state.mode = LedgerMode::Accepting;
                    self.inner.write_deferred(&mut state);
                }
            }
            (Err(short), LedgerMode::Accepting | LedgerMode::LowSpace(_)) => {
                Self::enter_low_space(&mut state, short);
            }
            (Err(_), _) => {}
        }
    }
}
