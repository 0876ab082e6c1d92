//! Frame writes: one `write` per frame, in the caller's thread.
//!
//! A record must reach the operating system before its call continues, so that it survives a killed
//! process.

use std::io;

use tool::LedgerError;

use crate::disk::{append_all, is_storage_full};
use crate::error_messages::{LowSpaceErrors, io_failure, low_space};
use crate::ledger_inner::LedgerInner;
use crate::ledger_state::{LedgerMode, LedgerState};
use crate::writer_progress::WriterProgress;

impl LedgerState {
    /// Appends the next frame. On failure the file may end with a partial frame.
    pub(crate) fn write_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(active) = &mut self.active_segment else {
            return Err(io::ErrorKind::NotFound.into());
        };
        append_all(active.file.as_ref(), frame)?;
        active.size += frame.len() as u64;
        let written = self.next_seq;
        if let Some(progress) = &mut self.progress {
            progress.write_progress(WriterProgress {
                written_seq: written,
                ..progress.current_progress()
            });
        }
        Ok(())
    }
}

impl LedgerInner {
    /// Truncates a partial frame after a failed write. If that fails too, or if the error is not a
    /// full disk, the file is no longer written, and the sync thread starts a new segment.
    pub(crate) fn handle_write_failure(
        &self,
        state: &mut LedgerState,
        error: &io::Error,
    ) -> LedgerError {
        let told = io_failure("a record cannot be written", &self.writer_dir.dir, error);
        let mut low = false;
        if let Some(active) = &mut state.active_segment {
            let whole = active.file.truncate_to(active.size).is_ok();
            low = whole && is_storage_full(error) && active.reserved_end.is_some();
            active.reserved_end = active.reserved_end.map(|_| active.size);
        }
        tracing::error!(error = %told, "the record cannot be written");
        state.mode = if low {
            let all = low_space(&self.writer_dir.dir, 0, self.options.reserve_bytes).all_calls;
            LedgerMode::LowSpace(LowSpaceErrors { synced_calls: told.clone(), all_calls: all })
        } else {
            LedgerMode::Stopped(told.clone())
        };
        told
    }
}
