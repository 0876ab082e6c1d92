//! New segments: creates one when the active segment is full, and resumes in one after a disk
//! failure.

use std::io;
use std::sync::Arc;

use tool::LedgerError;

use super::{SyncThread, UnsyncedFile};
use crate::error_messages::io_failure;
use crate::frame::iter_frames;
use crate::ledger_state::{ActiveSegment, LedgerMode, LedgerState};
use crate::record_index::FramePosition;
use crate::segment::{
    CreatedSegment, ReserveRequest, SEGMENT_HEADER_BYTES, SegmentHeader, create_segment,
    truncate_file,
};
use crate::writer_progress::WriterProgress;

impl SyncThread {
    /// Continues in a new segment that begins with all frames that are not known to be durable.
    pub(crate) fn resume_in_new_segment(&mut self) -> Result<(), LedgerError> {
        let inner = Arc::clone(&self.inner);
        {
            let mut state = inner.lock_state();
            self.collect_pending(&mut state);
            // The old file may have a partial frame after its last complete one.
            if let Some(old) = &state.active_segment
                && self.unsynced_files.last().is_none_or(|dirty| dirty.number != old.segment_number)
            {
                let file = Arc::clone(&old.file);
                self.unsynced_files.push(UnsyncedFile {
                    file,
                    number: old.segment_number,
                    offset: old.size,
                });
            }
        }
        match self.create_resume_segment() {
            Ok(created) => {
                self.activate_segment(created);
                Ok(())
            }
            Err(error) => {
                let failure = self.stop_writing("cannot create a new segment", &error);
                for waiter in self.waiters.drain(..) {
                    waiter.send(Err(failure.clone())).ok();
                }
                Err(failure)
            }
        }
    }

    fn create_resume_segment(&mut self) -> io::Result<CreatedSegment> {
        let writer_dir = &self.inner.writer_dir;
        if let Some(repairs) = &mut self.repair_plan {
            // First, so that a concurrent check of the files does not report the removed part as
            // missing.
            if self.inner.lock_state().progress.is_none() {
                let progress = repairs.create_progress(
                    writer_dir,
                    self.inner.clock.wall_now(),
                    self.collected_seq,
                )?;
                self.inner.lock_state().progress = Some(progress);
            }
            repairs.apply_repairs(writer_dir, self.inner.clock.wall_now())?;
        }
        self.repair_plan = None;
        let reserve =
            ReserveRequest { bytes: self.inner.options.reserve_bytes, is_required: false };
        create_segment(
            writer_dir,
            &self.next_header(self.collected_seq),
            &self.unsynced_frames,
            reserve,
        )
    }

    fn next_header(&self, synced_seq: u64) -> SegmentHeader {
        SegmentHeader {
            writer: self.inner.writer_dir.writer_name.clone(),
            number: self.next_number,
            session_seq: self.inner.first_seq,
            synced_seq,
            created_at: self.inner.clock.wall_now(),
            nonce: self.inner.segment_nonce(self.next_number),
            has_progress: true,
        }
    }

    fn activate_segment(&mut self, created: CreatedSegment) {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let low_space = created.space_error.as_ref().map(|error| self.low_space_errors(error));
        if let Some(errors) = &low_space {
            tracing::error!(error = %errors.synced_calls, "the record is low on disk space");
        }
        {
            let mut state = self.inner.lock_state();
            if let Some(progress) = &mut state.progress {
                progress.write_progress(WriterProgress {
                    boot_id: self.inner.writer_dir.disk.boot_id(),
                    segment_number: number,
                    written_seq: self.collected_seq,
                    synced_seq: self.collected_seq,
                    ..progress.current_progress()
                });
            }
            let to = FramePosition { segment_number: number, offset: SEGMENT_HEADER_BYTES as u64 };
            self.inner.lock_index().relocate_frames(to, iter_frames(&self.unsynced_frames));
            state.mode = low_space.map_or(LedgerMode::Accepting, LedgerMode::LowSpace);
            state.active_segment = Some(to_active_segment(created, number));
            self.inner.write_deferred(&mut state);
        }
        for old in &self.unsynced_files {
            // Relocated frames are also recognised by their numbers: the next start or verification
            // finds the rest.
            if let Err(error) = truncate_file(old.file.as_ref(), old.offset) {
                tracing::warn!(%error, segment = old.number, "cannot truncate an old segment");
            }
        }
        self.complete_sync();
        self.inner.filter_work.request_refresh();
    }

    /// Begins a new segment, if this one has grown enough.
    pub(super) fn rotate_if_full(&mut self, is_idle: bool) {
        let grown = match &*self.inner.lock_state() {
            LedgerState { mode: LedgerMode::Accepting, active_segment: Some(active), .. } => {
                active.size >= self.inner.options.segment_bytes
            }
            _ => false,
        };
        // A disk that would not have a new segment is not asked on every turn.
        if !grown || (self.rotation_failed && !is_idle) {
            return;
        }
        let reserve = ReserveRequest { bytes: self.inner.options.reserve_bytes, is_required: true };
        let created = create_segment(
            &self.inner.writer_dir,
            &self.next_header(self.synced_seq),
            &[],
            reserve,
        );
        self.rotation_failed = created.is_err();
        match created {
            Ok(created) => self.switch_segment(created),
            Err(error) => {
                let failure =
                    io_failure("cannot create a new segment", &self.inner.writer_dir.dir, &error);
                tracing::warn!(error = %failure, "recording continues in the old segment");
            }
        }
    }

    fn switch_segment(&mut self, created: CreatedSegment) {
        let inner = Arc::clone(&self.inner);
        let old = {
            let mut state = inner.lock_state();
            if !matches!(state.mode, LedgerMode::Accepting) {
                return;
            }
            self.collect_pending(&mut state);
            if !matches!(state.mode, LedgerMode::Accepting) {
                return;
            }
            if let Some(progress) = &mut state.progress {
                progress.write_progress(WriterProgress {
                    segment_number: self.next_number,
                    ..progress.current_progress()
                });
            }
            state.active_segment.replace(to_active_segment(created, self.next_number))
        };
        self.next_number = self.next_number.saturating_add(1);
        inner.filter_work.request_refresh();
        if let Some(old) = old
            && let Err(error) = old.file.truncate_to(old.size)
        {
            tracing::warn!(
                %error,
                segment = old.segment_number,
                "cannot release reserved disk space"
            );
        }
        self.sync_files();
    }
}

fn to_active_segment(created: CreatedSegment, segment_number: u32) -> ActiveSegment {
    let CreatedSegment { file, size, reserved_end, space_error: _ } = created;
    ActiveSegment { file, segment_number, size, reserved_end }
}
