//! Repair plan of a recovery: repairs the files of the previous process once, before anything is
//! written. Files that are not part of the ledger are removed.
//!
//! The directory is synced first. A segment with relocated records may have its name, but not
//! durably. If the older copies were truncated then, a power failure would remove both.

use std::io;

use tool::WallTime;

use crate::disk::OpenMode;
use crate::integrity_finding::DiscardReason;
use crate::quarantine::{copy_damaged_bytes, quarantine_path, void_segment};
use crate::record_scan::RecordScan;
use crate::segment::{WriterDir, parse_segment_name, truncate_file};
use crate::writer_progress::{FoundProgress, ProgressFile, WriterProgress};

/// Repairs to be made.
#[derive(Debug)]
pub(crate) struct RepairPlan {
    /// Segments and the sizes to truncate them to.
    truncations: Vec<(u32, u64)>,
    /// Segments without any part of the record.
    void_segments: Vec<u32>,
    /// The segment that was written last, and the end of its data.
    last: Option<(u32, u64)>,
    /// Segments that are copied from this offset before they are truncated, because a power failure
    /// or damage left data there.
    copies: Vec<(u32, u64)>,
    /// Progress that was stored beside the segments.
    found_progress: FoundProgress,
    /// The last record that is known to be durable.
    synced_seq: u64,
    /// Whether all that was written was to be there.
    is_complete: bool,
}

impl RepairPlan {
    pub(crate) fn from_scan(scan: &RecordScan) -> Self {
        let kept = scan
            .discarded
            .iter()
            .filter(|cut| cut.reason == DiscardReason::Relocated || cut.offset > 0);
        let cuts = kept.filter_map(|cut| Some((parse_segment_name(&cut.segment)?.1, cut.offset)));
        Self {
            truncations: cuts.collect(),
            void_segments: scan.void_segments.clone(),
            last: scan.segments.last().map(|part| (part.number, part.size_bytes)),
            copies: scan.segments_to_copy(),
            found_progress: scan.found_progress.clone(),
            synced_seq: scan.durable_seq,
            is_complete: scan.is_complete,
        }
    }

    /// Creates the progress file beside the segments, up to `last_seq`, even if earlier records are
    /// missing. Data that a power failure left is removed later, so not everything that exists
    /// counts.
    pub(crate) fn create_progress(
        &mut self,
        writer_dir: &WriterDir,
        now: WallTime,
        last_seq: u64,
    ) -> io::Result<ProgressFile> {
        let signed = match &self.found_progress {
            FoundProgress::Valid(progress) => progress.signed_seq,
            FoundProgress::Absent => 0,
            FoundProgress::Damaged(_) => {
                let path = writer_dir.progress_paths().0;
                writer_dir.disk.rename_file(&path, &quarantine_path(&path, now, "damaged"))?;
                self.found_progress = FoundProgress::Absent;
                0
            }
        };
        let boot = writer_dir.disk.boot_id().filter(|_| self.is_complete);
        let segment = self.last.map_or(0, |(number, _)| number);
        let (written, synced) = (last_seq, self.synced_seq);
        let progress = WriterProgress {
            boot_id: boot,
            written_seq: written,
            synced_seq: synced,
            signed_seq: signed,
            segment_number: segment,
            is_closed: false,
        };
        ProgressFile::create_file(writer_dir, progress)
    }

    /// Applies the repairs and waits until they are durable. It can be repeated from the beginning.
    pub(crate) fn apply_repairs(
        &mut self,
        writer_dir: &WriterDir,
        now: WallTime,
    ) -> io::Result<()> {
        writer_dir.disk.sync_dir(&writer_dir.dir)?;
        while let Some((number, from)) = self.copies.last().copied() {
            let copy = copy_damaged_bytes(writer_dir, number, from, now)?;
            tracing::warn!(
                copy = %copy.display(),
                "a copy of the unreadable part of the record was saved"
            );
            self.copies.pop();
        }
        for (number, end) in &self.truncations {
            let file = writer_dir.open_segment(*number, OpenMode::Append)?;
            truncate_file(file.as_ref(), *end)?;
            file.sync_data()?;
        }
        if let Some((last, size)) = self.last {
            // A killed process leaves its allocated space after the end.
            let file = writer_dir.open_segment(last, OpenMode::Append)?;
            truncate_file(file.as_ref(), size)?;
        }
        // The highest number first: if this is interrupted, no number in between is missing.
        while let Some(number) = self.void_segments.last() {
            void_segment(writer_dir, *number, now)?;
            self.void_segments.pop();
        }
        Ok(())
    }
}
