//! Segment scan: the frames and faults of one segment, and the position up to which it claims to be
//! synced. [`crate::record_scan`] decides by the other segments whether a fault is a torn end or
//! damage.

use std::io;

use tool::ledger::RecordKind;

use crate::disk::OpenMode;
use crate::frame::{Frame, FrameError, MAX_SEQ};
use crate::frame_reader::{FrameReader, ReadStep};
use crate::hash_chain::LedgerCheckpoint;
use crate::legacy_tail::LegacyTail;
use crate::segment::{
    SEGMENT_HEADER_BYTES, SegmentHeader, SegmentHeaderError, WriterDir, segment_name,
};
use crate::segment_calls::SegmentCalls;

/// Maximum number of faults stored for one segment; one of them decides how it is handled.
const MAX_FAULTS: usize = 1_000;
/// Asks after so many frames whether to stop.
const STOP_CHECK_STEPS: u64 = 4_096;

/// Scan result of one segment.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) session_seq: u64,
    /// Whether the header says that a progress file exists.
    pub(crate) has_progress: bool,
    pub(crate) first_seq: Option<u64>,
    pub(crate) last_seq: Option<u64>,
    /// Offset after the last frame.
    pub(crate) end_offset: u64,
    /// Number up to which every frame was durable, as the header or a checkpoint states.
    pub(crate) synced_through: u64,
    pub(crate) faults: Vec<ScanFault>,
    pub(crate) more_faults: u64,
    pub(crate) checkpoints: Vec<LocatedCheckpoint>,
    /// Changes of the open calls by all its frames; `None` after some were discarded.
    pub(crate) calls: Option<SegmentCalls>,
    /// Whether the scan is a stored one: no frame was read.
    pub(crate) is_summarized: bool,
}

/// Something that does not fit.
#[derive(Debug)]
pub(crate) struct ScanFault {
    pub(crate) offset: u64,
    /// The number of the frame before it in this segment.
    pub(crate) previous_seq: Option<u64>,
    /// Number of the next frame in this segment after the fault.
    pub(crate) next_seq: Option<u64>,
    pub(crate) kind: ScanFaultKind,
}

/// Kind of a scan fault.
#[derive(Debug)]
pub(crate) enum ScanFaultKind {
    Header(SegmentHeaderError),
    /// The header is of another segment.
    OtherSegment(SegmentHeader),
    Garbage(FrameError),
    /// Two adjacent frames without consecutive numbers.
    OutOfOrder,
    /// An unreadable checkpoint, or one of another writer.
    Checkpoint,
}

/// A checkpoint and its location.
#[derive(Debug)]
pub(crate) struct LocatedCheckpoint {
    pub(crate) offset: u64,
    pub(crate) seq: u64,
    pub(crate) checkpoint: LedgerCheckpoint,
}

impl SegmentScan {
    /// Scans the whole segment, and a legacy tail that continues it.
    pub(crate) fn scan_segment(
        writer_dir: &WriterDir,
        number: u32,
        tail: Option<&LegacyTail>,
    ) -> io::Result<Self> {
        let scan = Self::scan_with((writer_dir, number, tail), &|| false, &mut |_| {})?;
        scan.ok_or_else(|| io::ErrorKind::Interrupted.into())
    }

    /// As [`Self::scan_segment`], and passes what it reads to `visit`; `None` if `should_stop` says so
    /// before the end.
    pub(crate) fn scan_with(
        (writer_dir, number, tail): (&WriterDir, u32, Option<&LegacyTail>),
        should_stop: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(&ReadStep<'_>),
    ) -> io::Result<Option<Self>> {
        let file = writer_dir.open_segment(number, OpenMode::Read)?;
        let mut scan = Self::new_scan(writer_dir, number);
        scan.check_header(&writer_dir.writer_name, SegmentHeader::read_header(file.as_ref())?);
        let tail = tail.filter(|tail| tail.number == number);
        let mut walk = FrameReader::with_legacy_tail(
            file.as_ref(),
            (SEGMENT_HEADER_BYTES as u64, u64::MAX),
            tail,
        )?;
        for step in 1_u64.. {
            if step.is_multiple_of(STOP_CHECK_STEPS) && should_stop() {
                break;
            }
            let read = walk.read_next()?;
            visit(&read);
            match read {
                ReadStep::Frame(at, frame) => scan.visit_frame(&writer_dir.writer_name, at, &frame),
                ReadStep::Garbage { at, why } => scan.push_fault(at, ScanFaultKind::Garbage(why)),
                ReadStep::End(size) => {
                    // A file that is cut inside its header ends before the walk begins.
                    let own = file.file_size()?;
                    scan.size =
                        size.min(tail.and_then(|tail| tail.combined_end(own)).unwrap_or(own));
                    scan.calls.iter_mut().for_each(SegmentCalls::shrink_to_fit);
                    return Ok(Some(scan));
                }
            }
        }
        Ok(None)
    }

    fn new_scan(site: &WriterDir, number: u32) -> Self {
        Self {
            number,
            name: segment_name(&site.writer_name, number),
            size: 0,
            session_seq: 0,
            has_progress: false,
            first_seq: None,
            last_seq: None,
            end_offset: SEGMENT_HEADER_BYTES as u64,
            synced_through: 0,
            faults: Vec::new(),
            more_faults: 0,
            checkpoints: Vec::new(),
            calls: Some(SegmentCalls::default()),
            is_summarized: false,
        }
    }

    fn check_header(&mut self, writer: &str, header: Result<SegmentHeader, SegmentHeaderError>) {
        match header {
            Ok(header) if header.writer != writer || header.number != self.number => {
                self.push_fault(0, ScanFaultKind::OtherSegment(header));
            }
            Ok(header) => {
                self.session_seq = header.session_seq;
                self.has_progress = header.has_progress;
                self.synced_through =
                    Some(header.synced_seq).filter(|seq| *seq < MAX_SEQ).unwrap_or(0);
            }
            Err(bad) => self.push_fault(0, ScanFaultKind::Header(bad)),
        }
    }

    fn push_fault(&mut self, at: u64, what: ScanFaultKind) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(ScanFault {
                offset: at,
                previous_seq: self.last_seq,
                next_seq: None,
                kind: what,
            });
        } else {
            self.more_faults += 1;
        }
    }

    fn visit_frame(&mut self, writer: &str, at: u64, frame: &Frame<'_>) {
        let mut follows_fault = false;
        for fault in self.faults.iter_mut().rev().take_while(|fault| fault.next_seq.is_none()) {
            fault.next_seq = Some(frame.seq);
            follows_fault |= matches!(fault.kind, ScanFaultKind::Garbage(_));
        }
        if !follows_fault && self.last_seq.is_some_and(|last| last + 1 != frame.seq) {
            self.push_fault(at, ScanFaultKind::OutOfOrder);
            if let Some(fault) = self.faults.last_mut() {
                fault.next_seq = Some(frame.seq);
            }
        }
        self.first_seq = self.first_seq.or(Some(frame.seq));
        self.last_seq = Some(frame.seq);
        self.end_offset = at + frame.bytes.len() as u64;
        self.calls.iter_mut().for_each(|calls| calls.visit_frame(frame));
        if frame.kind == RecordKind::Checkpoint {
            self.visit_checkpoint(writer, at, frame);
        }
    }

    fn visit_checkpoint(&mut self, writer: &str, at: u64, frame: &Frame<'_>) {
        let read = frame.decode_body::<LedgerCheckpoint>();
        // A checkpoint covers frames before its own, never later ones.
        match read.filter(|read| read.writer == writer && read.last_seq < frame.seq) {
            Some(checkpoint) => {
                self.synced_through = self.synced_through.max(checkpoint.last_seq);
                self.checkpoints.push(LocatedCheckpoint { offset: at, seq: frame.seq, checkpoint });
            }
            None => self.push_fault(at, ScanFaultKind::Checkpoint),
        }
    }

    /// Discards the frames from number `limit` on, which later segments repeat. Returns their
    /// count.
    pub(crate) fn discard_from(
        &mut self,
        writer_dir: &WriterDir,
        limit: u64,
        tail: Option<&LegacyTail>,
    ) -> io::Result<u64> {
        if self.is_summarized {
            *self = Self::scan_segment(writer_dir, self.number, tail)?;
        }
        let file = writer_dir.open_segment(self.number, OpenMode::Read)?;
        let tail = tail.filter(|tail| tail.number == self.number);
        let mut walk = FrameReader::with_legacy_tail(
            file.as_ref(),
            (SEGMENT_HEADER_BYTES as u64, self.end_offset),
            tail,
        )?;
        let mut last = None;
        // Data between the last kept frame and the first discarded one belongs to the discarded
        // ones.
        let mut cut = SEGMENT_HEADER_BYTES as u64;
        loop {
            match walk.read_next()? {
                ReadStep::Frame(at, frame) if frame.seq < limit => {
                    last = Some(frame.seq);
                    cut = at + frame.bytes.len() as u64;
                }
                ReadStep::Garbage { .. } => {}
                ReadStep::Frame(..) | ReadStep::End(_) => break,
            }
        }
        let forgotten = self.last_seq.map_or(0, |old| old.saturating_sub(limit) + 1);
        self.end_offset = cut;
        self.calls = None;
        self.last_seq = last;
        self.first_seq = self.first_seq.filter(|_| last.is_some());
        self.faults.retain(|fault| fault.offset < cut);
        self.checkpoints.retain(|mark| mark.offset < cut);
        Ok(forgotten)
    }
}
