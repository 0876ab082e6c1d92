//! Scan of all segments of one writer: it separates records, torn ends and damage.
//!
//! A crash and a deliberate change can leave the same bytes. Checkpoints, headers and
//! `WRITER.progress` state the number up to which every frame must exist. A frame that is missing
//! or broken below it was damaged, not lost in a crash. Above it, the first broken frame ends the
//! record: after a power failure any part of the unsynced data may remain. Without a power failure
//! nothing is lost, so only the beginning of one frame may remain at the end.

mod parallel_scan;
mod relocated_frames;
mod scan_depth;
mod segment_classifier;

use std::collections::HashSet;
use std::io;
use std::path::Path;

use tool::LedgerError;

use crate::disk::OpenMode;
use crate::error_messages::io_failure;
use crate::frame::Frame;
use crate::frame_reader::{FrameReader, ReadStep};
use crate::integrity_finding::{
    BoundedFindings, DamageKind, DiscardReason, DiscardedRange, IntegrityFinding,
};
use crate::legacy_tail::{self, LegacyTail, LegacyTailScan};
use crate::segment::{
    SEGMENT_HEADER_BYTES, WriterDir, file_numbers, parse_segment_name, segment_name,
};
use crate::segment_calls::SegmentCalls;
use crate::segment_scan::{LocatedCheckpoint, SegmentScan};
use crate::tombstone::{self, Tombstone};
use crate::writer_progress::{self, FoundProgress};
use parallel_scan::{MAX_START_THREADS, scan_segments};
use scan_depth::ScanDepth;
use segment_classifier::SegmentClassifier;

/// Scanned record of one writer.
#[derive(Debug, Default)]
pub(crate) struct RecordScan {
    /// The segments that hold it, in order.
    pub(crate) segments: Vec<RecordSegment>,
    /// Segments after a torn end, which hold no part of the record.
    pub(crate) void_segments: Vec<u32>,
    pub(crate) discarded: Vec<DiscardedRange>,
    pub(crate) findings: BoundedFindings,
    /// Every frame up to this number must be there.
    pub(crate) required_seq: u64,
    /// Number up to which every frame is known to be durable.
    pub(crate) durable_seq: u64,
    /// Whether all that was written must be there: no crash explains that anything is missing.
    pub(crate) is_complete: bool,
    /// Progress that is stored beside the segments.
    pub(crate) found_progress: FoundProgress,
    /// Number of records that were written but are missing, because they were not synced at a power
    /// loss.
    pub(crate) lost_records: u64,
    /// Newest records in the file format of an older version.
    pub(crate) legacy_tail: LegacyTailScan,
    /// The highest number on record.
    pub(crate) last_seq: u64,
    /// Reason why nothing may be written: the directory holds unknown content.
    pub(crate) unreadable: Option<LedgerError>,
    /// The last tombstone of removed segments.
    pub(crate) last_tombstone: Option<Tombstone>,
    /// Segments whose frames were not read: their summaries say what is in them.
    pub(crate) summarized_segments: Vec<u32>,
}

/// A segment with a part of the record.
#[derive(Debug)]
pub(crate) struct RecordSegment {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// End of the part.
    pub(crate) end_offset: u64,
    /// End of its file, including the frames of the tail.
    pub(crate) size_bytes: u64,
    pub(crate) first_seq: Option<u64>,
    /// Number of the last record at the end of the segment.
    pub(crate) last_seq: u64,
    /// The first number of the process that made it.
    pub(crate) session_seq: u64,
    /// Whether the segment has damage. It is evidence then, and is not rewritten.
    pub(crate) is_damaged: bool,
    pub(crate) checkpoints: Vec<LocatedCheckpoint>,
    /// Changes of the open calls by its frames; `None` if the segment must be replayed.
    pub(crate) calls: Option<SegmentCalls>,
}

/// Returns the numbers of `writer`'s segments among `names`, in order.
pub(crate) fn segment_numbers(names: &[String], writer: &str) -> Vec<u32> {
    file_numbers(names, writer, parse_segment_name)
}

/// Reads the progress of the ledger. It is read first: a running server continues to write, so the
/// segments can contain more.
pub(crate) fn read_progress(writer_dir: &WriterDir) -> Result<FoundProgress, LedgerError> {
    let told = |error: io::Error| io_failure("the record cannot be read", &writer_dir.dir, &error);
    writer_progress::read_progress(writer_dir).map_err(told)
}

impl RecordScan {
    /// Scans all files of one writer at its start, when nothing else needs the processors. Segments
    /// older than the newest `indexed_records` are taken from their summaries, unless something does
    /// not fit.
    pub(crate) fn scan_at_start(
        writer_dir: &WriterDir,
        indexed_records: u64,
    ) -> Result<Self, LedgerError> {
        let scan = |depth| Self::scan_files(writer_dir, read_progress(writer_dir)?, depth);
        let survey = scan(ScanDepth::AtStart { indexed_records })?;
        if survey.needs_all_frames(indexed_records) {
            return scan(ScanDepth::AllFrames { max_threads: MAX_START_THREADS });
        }
        Ok(survey)
    }

    /// Scans all files of one writer, which may belong to a running server.
    pub(crate) fn scan_writer(writer_dir: &WriterDir) -> Result<Self, LedgerError> {
        Self::scan_with_progress(writer_dir, read_progress(writer_dir)?)
    }

    /// Scans the record with a progress that was read before.
    pub(crate) fn scan_with_progress(
        writer_dir: &WriterDir,
        progress: FoundProgress,
    ) -> Result<Self, LedgerError> {
        Self::scan_files(writer_dir, progress, ScanDepth::AllFrames { max_threads: 1 })
    }

    fn scan_files(
        writer_dir: &WriterDir,
        progress: FoundProgress,
        depth: ScanDepth,
    ) -> Result<Self, LedgerError> {
        let told =
            |error: &io::Error| io_failure("the record cannot be read", &writer_dir.dir, error);
        let mut survey = Self { found_progress: progress, ..Self::default() };
        let names = writer_dir.disk.list_names(&writer_dir.dir).map_err(|error| told(&error))?;
        survey.load_last_tombstone(
            writer_dir,
            &tombstone::tombstone_numbers(&names, &writer_dir.writer_name),
        );
        let gone = survey.last_tombstone.as_ref().map_or(0, |tomb| tomb.number);
        // A crash may have left the file of a removed segment beside its tombstone.
        let mut numbers = segment_numbers(&names, &writer_dir.writer_name);
        numbers.retain(|number| *number > gone);
        survey.legacy_tail =
            legacy_tail::read_tail(writer_dir, &numbers).map_err(|error| told(&error))?;
        let mut scans = depth.load_old_scans(writer_dir, &numbers);
        let summarized: HashSet<u32> = scans.iter().map(|scan| scan.number).collect();
        let unread: Vec<u32> =
            numbers.iter().filter(|number| !summarized.contains(number)).copied().collect();
        let tail = survey.legacy_tail.tail.as_ref();
        for (number, scan) in scan_segments((writer_dir, depth.max_threads()), &unread, tail) {
            match scan {
                Ok(scan) => scans.push(scan),
                Err(error) => survey.mark_unreadable(writer_dir, number, &error),
            }
        }
        scans.sort_unstable_by_key(|scan| scan.number);
        let claim = scans.iter().map(|scan| scan.synced_through).max().unwrap_or(0);
        survey.required_seq = claim.max(survey.required_seq);
        survey.durable_seq = survey.required_seq;
        survey.apply_progress(writer_dir, scans.iter().any(|scan| scan.has_progress));
        survey.discard_relocated(writer_dir, &mut scans);
        let (expected, number) = (survey.last_seq + 1, gone.saturating_add(1));
        SegmentClassifier {
            scan: &mut survey,
            site: writer_dir,
            expected_seq: expected,
            next_segment: number,
        }
        .classify_all(&scans);
        survey.check_newest_segment(writer_dir, numbers.last().copied().unwrap_or(gone));
        survey.check_legacy_tail(writer_dir);
        let summarized = scans.iter().filter(|scan| scan.is_summarized);
        survey.summarized_segments = summarized.map(|scan| scan.number).collect();
        survey.assign_contents(scans);
        Ok(survey)
    }

    /// Applies the positions that are claimed beside the segments.
    fn apply_progress(&mut self, site: &WriterDir, expected: bool) {
        let boot = site.disk.boot_id();
        let text = match &self.found_progress {
            FoundProgress::Valid(progress) => {
                self.required_seq = self.required_seq.max(progress.required_seq(boot));
                self.durable_seq = self.durable_seq.max(progress.durable_seq());
                self.is_complete = progress.is_complete(boot);
                return;
            }
            FoundProgress::Absent if !expected => return,
            FoundProgress::Absent => "is missing".to_owned(),
            FoundProgress::Damaged(why) => format!("is damaged: {why}"),
        };
        let text = format!("{text}; it is unknown whether records are missing at the end");
        self.add_file_finding(site, &site.progress_paths().0, DamageKind::InvalidProgress, text);
    }

    /// Adds a finding about a whole file.
    fn add_file_finding(
        &mut self,
        site: &WriterDir,
        path: &Path,
        damage: DamageKind,
        text: String,
    ) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.add_finding(site, &name, 0, None, damage, text);
    }

    /// Checks that the newest segment exists, and counts what a power failure lost. `newest` is the
    /// highest existing number.
    fn check_newest_segment(&mut self, site: &WriterDir, newest: u32) {
        let FoundProgress::Valid(progress) = self.found_progress else { return };
        if !self.is_complete {
            self.lost_records =
                progress.written_seq.saturating_sub(self.last_seq.max(self.required_seq));
        }
        if newest < progress.segment_number {
            let (first, last) = (newest.saturating_add(1), progress.segment_number);
            let text = format!("the newest segments, {first} to {last}, are missing");
            self.add_file_finding(site, &site.segment_path(last), DamageKind::MissingSegment, text);
        }
    }

    /// Checks the tail file of an older version.
    fn check_legacy_tail(&mut self, site: &WriterDir) {
        let path = site.legacy_tail_path();
        if let Some(damage) = self.legacy_tail.damage_reason.take() {
            let text = format!(
                "is the tail of an older version, and {damage}: its readable records are used; the \
                 next start of the server moves the file aside, keep it"
            );
            self.add_file_finding(site, &path, DamageKind::InvalidTail, text);
            self.legacy_tail.damage_reason = Some(damage);
        }
        // They may have been carried to another segment since.
        self.legacy_tail.without_segment =
            self.legacy_tail.without_segment.filter(|last| *last > self.last_seq);
        if let Some(last) = self.legacy_tail.without_segment {
            let text = format!(
                "has records up to {last} that continue a missing segment; the next start of the \
                 server moves the file aside, keep it"
            );
            self.add_file_finding(site, &path, DamageKind::InvalidTail, text);
        }
    }

    /// Returns the segments that a start truncates after a power failure or damage, with their
    /// offsets.
    pub(crate) fn segments_to_copy(&self) -> Vec<(u32, u64)> {
        let damaged =
            self.segments.iter().filter(|part| part.is_damaged && part.last_seq > self.durable_seq);
        let damaged = damaged.map(|part| (part.number, 0));
        let torn = self
            .discarded
            .iter()
            .filter(|cut| !self.is_complete && cut.reason == DiscardReason::TornWrite);
        let torn = torn.filter(|cut| cut.offset > 0 && cut.bytes > 0);
        let torn = torn.filter_map(|cut| Some((parse_segment_name(&cut.segment)?.1, cut.offset)));
        damaged.chain(torn).collect()
    }

    /// Continues the record after the last readable tombstone.
    fn load_last_tombstone(&mut self, site: &WriterDir, numbers: &[u32]) {
        for number in numbers.iter().rev() {
            match tombstone::read_tombstone(site, *number) {
                Ok(read) => {
                    self.last_seq = read.tombstone.final_state().last_seq;
                    self.required_seq = read.tombstone.signed_through.max(self.last_seq);
                    self.last_tombstone = Some(read.tombstone);
                    return;
                }
                Err(error) => {
                    let path = site.tombstone_paths(*number).0;
                    let damage = DamageKind::InvalidTombstone;
                    self.add_file_finding(site, &path, damage, error.message);
                }
            }
        }
    }

    fn mark_unreadable(&mut self, site: &WriterDir, number: u32, error: &io::Error) {
        let name = segment_name(&site.writer_name, number);
        let error = io_failure(&format!("the segment `{name}` cannot be read"), &site.dir, error);
        self.add_finding(site, &name, 0, None, DamageKind::Unreadable, error.message.clone());
        self.unreadable = Some(error);
    }

    fn add_finding(
        &mut self,
        site: &WriterDir,
        name: &str,
        offset: u64,
        seq: Option<u64>,
        damage: DamageKind,
        message: String,
    ) {
        self.findings.push_finding(IntegrityFinding {
            writer: site.writer_name.clone(),
            segment: name.to_owned(),
            offset,
            seq,
            damage,
            message,
        });
    }

    /// Assigns to each segment what its scan knows of the frames before its end.
    fn assign_contents(&mut self, scans: Vec<SegmentScan>) {
        for (part, scan) in self.segments.iter_mut().zip(scans) {
            part.checkpoints = scan.checkpoints;
            part.checkpoints.retain(|mark| mark.offset < part.end_offset);
            part.calls = scan.calls.filter(|_| part.end_offset == scan.end_offset);
        }
    }

    /// Visits every recorded frame in order.
    pub(crate) fn replay_frames(
        &self,
        writer_dir: &WriterDir,
        visit: &mut dyn FnMut(&RecordSegment, u64, &Frame<'_>),
    ) -> Result<(), LedgerError> {
        self.segments.iter().try_for_each(|part| self.replay_segment(writer_dir, part, visit))
    }

    /// Visits every recorded frame of one segment in order.
    pub(crate) fn replay_segment(
        &self,
        writer_dir: &WriterDir,
        part: &RecordSegment,
        visit: &mut dyn FnMut(&RecordSegment, u64, &Frame<'_>),
    ) -> Result<(), LedgerError> {
        let read = read_segment(writer_dir, (part, self.legacy_tail.tail.as_ref()), visit);
        read.map_err(|error| {
            let what = format!("the segment `{}` cannot be read", part.name);
            io_failure(&what, &writer_dir.dir, &error)
        })
    }

    /// Returns the last recorded checkpoint.
    pub(crate) fn last_checkpoint(&self) -> Option<&LocatedCheckpoint> {
        self.segments.iter().rev().find_map(|part| part.checkpoints.last())
    }
}

fn read_segment(
    site: &WriterDir,
    (part, tail): (&RecordSegment, Option<&LegacyTail>),
    visit: &mut dyn FnMut(&RecordSegment, u64, &Frame<'_>),
) -> io::Result<()> {
    let file = site.open_segment(part.number, OpenMode::Read)?;
    let tail = tail.filter(|tail| tail.number == part.number);
    let mut walk = FrameReader::with_legacy_tail(
        file.as_ref(),
        (SEGMENT_HEADER_BYTES as u64, part.end_offset),
        tail,
    )?;
    loop {
        match walk.read_next()? {
            ReadStep::Frame(at, frame) => visit(part, at, &frame),
            ReadStep::Garbage { .. } => {}
            ReadStep::End(_) => return Ok(()),
        }
    }
}
