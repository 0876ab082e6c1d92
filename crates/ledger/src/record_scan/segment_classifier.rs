//! Classifier that scans the segments in order, and separates torn ends from damage.

use tool::LedgerError;

use super::{RecordScan, RecordSegment};
use crate::frame::FrameError;
use crate::integrity_finding::{DamageKind, DiscardReason};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentHeaderError, WriterDir, segment_name};
use crate::segment_scan::{self, ScanFaultKind, SegmentScan};

#[derive(PartialEq, Eq)]
enum ScanFlow {
    Continue,
    Stop,
}

/// Scans the segments in order and tracks the next number.
pub(super) struct SegmentClassifier<'a> {
    pub(super) scan: &'a mut RecordScan,
    pub(super) site: &'a WriterDir,
    pub(super) expected_seq: u64,
    pub(super) next_segment: u32,
}

impl SegmentClassifier<'_> {
    pub(super) fn classify_all(&mut self, scans: &[SegmentScan]) {
        let first = self.next_segment;
        let mut torn = false;
        for (index, scan) in scans.iter().enumerate() {
            let next = scans.iter().skip(index + 1).find_map(|s| s.first_seq);
            if torn {
                self.discard_segment(scan);
            } else {
                torn = self.classify_segment(scan, next) == ScanFlow::Stop;
            }
        }
        match scans.last() {
            Some(scan) if !torn => self.check_end(&scan.name, scan.end_offset),
            None => self.check_end(&segment_name(&self.site.writer_name, first), 0),
            _ => {}
        }
    }

    fn add_finding(
        &mut self,
        scan: &SegmentScan,
        offset: u64,
        seq: Option<u64>,
        damage: DamageKind,
        text: String,
    ) {
        self.scan.add_finding(self.site, &scan.name, offset, seq, damage, text);
    }

    /// `next`: the first number in the segments that follow.
    fn classify_segment(&mut self, scan: &SegmentScan, next: Option<u64>) -> ScanFlow {
        let found = self.scan.findings.total_count();
        if self.enter_segment(scan) == ScanFlow::Stop {
            self.discard_segment(scan);
            return ScanFlow::Stop;
        }
        let mut end = scan.end_offset;
        let mut goes = ScanFlow::Continue;
        for fault in &scan.faults {
            if self.classify_fault(scan, fault, next) == ScanFlow::Stop {
                end = fault.offset;
                goes = ScanFlow::Stop;
                break;
            }
        }
        if goes == ScanFlow::Continue {
            self.scan.findings.omitted_count += scan.more_faults;
            self.expected_seq = scan.last_seq.map_or(self.expected_seq, |last| last + 1);
        }
        self.scan.last_seq = self.scan.last_seq.max(self.expected_seq - 1);
        let damaged = self.scan.findings.total_count() > found;
        self.scan.segments.push(RecordSegment {
            number: scan.number,
            name: scan.name.clone(),
            end_offset: end,
            size_bytes: scan.size,
            first_seq: scan.first_seq.filter(|_| end > SEGMENT_HEADER_BYTES as u64),
            last_seq: self.expected_seq - 1,
            session_seq: scan.session_seq,
            is_damaged: damaged,
            checkpoints: Vec::new(),
            calls: None,
        });
        goes
    }

    fn enter_segment(&mut self, scan: &SegmentScan) -> ScanFlow {
        let garbage =
            |fault: &segment_scan::ScanFault| matches!(fault.kind, ScanFaultKind::Garbage(_));
        let broken = scan.faults.iter().any(|fault| fault.previous_seq.is_none() && garbage(fault));
        if !broken && let Some(first) = scan.first_seq.filter(|first| *first != self.expected_seq) {
            let expected = self.expected_seq;
            if first < expected {
                let text = format!("begins with record {first} again, expected {expected}");
                self.add_finding(
                    scan,
                    SEGMENT_HEADER_BYTES as u64,
                    Some(first),
                    DamageKind::OutOfOrder,
                    text,
                );
            } else if expected <= self.scan.required_seq || self.scan.is_complete {
                let text = format!("records {expected} to {} are missing before it", first - 1);
                self.add_finding(
                    scan,
                    SEGMENT_HEADER_BYTES as u64,
                    Some(expected),
                    DamageKind::MissingRecords,
                    text,
                );
            } else {
                return ScanFlow::Stop;
            }
            self.expected_seq = first;
        }
        if scan.number != self.next_segment {
            let last = scan.number.saturating_sub(1);
            let text = format!("segments {} to {last} before it are missing", self.next_segment);
            self.add_finding(scan, 0, None, DamageKind::MissingSegment, text);
        }
        self.next_segment = scan.number.saturating_add(1);
        ScanFlow::Continue
    }

    fn classify_fault(
        &mut self,
        scan: &SegmentScan,
        fault: &segment_scan::ScanFault,
        next: Option<u64>,
    ) -> ScanFlow {
        let expected = fault.previous_seq.map_or(self.expected_seq, |before| before + 1);
        self.expected_seq = expected;
        let (damage, text) = match (&fault.kind, fault.next_seq) {
            (ScanFaultKind::Header(bad), _) => {
                if let SegmentHeaderError::UnknownVersion(_) = bad {
                    let text = format!("`{}`: {bad}", scan.name);
                    self.scan.unreadable = Some(LedgerError::new(text));
                }
                (DamageKind::InvalidHeader, bad.to_string())
            }
            (ScanFaultKind::OtherSegment(header), _) => {
                let text = format!("is segment {} of writer `{}`", header.number, header.writer);
                (DamageKind::InvalidHeader, text)
            }
            (ScanFaultKind::Checkpoint, _) => {
                (DamageKind::ChainMismatch, "a checkpoint is malformed".to_owned())
            }
            (ScanFaultKind::OutOfOrder, after) => {
                let after = after.unwrap_or(0);
                let kind = if after > expected {
                    DamageKind::MissingRecords
                } else {
                    DamageKind::OutOfOrder
                };
                (kind, format!("record {after} follows record {}", expected - 1))
            }
            (ScanFaultKind::Garbage(bad), Some(after)) if after <= expected => {
                (DamageKind::InsertedBytes, format!("{bad}, where no record was expected"))
            }
            (ScanFaultKind::Garbage(_), None) if next == Some(expected) => {
                self.scan.discard_range(scan, fault.offset, DiscardReason::Relocated, 0);
                return ScanFlow::Continue;
            }
            (ScanFaultKind::Garbage(bad), _) if expected <= self.scan.required_seq => (
                DamageKind::CorruptRecord,
                format!(
                    "{bad}, but record {expected} was synced to \
                    disk"
                ),
            ),
            // The system ran on, so that only a write that was under way can have left something.
            (ScanFaultKind::Garbage(bad), after)
                if self.scan.is_complete && (after.is_some() || *bad != FrameError::Truncated) =>
            {
                (DamageKind::CorruptRecord, format!("{bad}, which no crash explains"))
            }
            (ScanFaultKind::Garbage(_), after) => {
                let records = after.zip(scan.last_seq).map_or(0, |(a, z)| z.saturating_sub(a) + 1);
                self.scan.discard_range(scan, fault.offset, DiscardReason::TornWrite, records);
                return ScanFlow::Stop;
            }
        };
        self.add_finding(scan, fault.offset, Some(expected), damage, text);
        ScanFlow::Continue
    }

    fn check_end(&mut self, name: &str, at: u64) {
        let (expected, claim) = (self.expected_seq, self.scan.required_seq);
        if expected <= claim {
            let text = format!("records {expected} to {claim} are missing at the end");
            self.scan.add_finding(
                self.site,
                name,
                at,
                Some(expected),
                DamageKind::MissingRecords,
                text,
            );
        }
    }

    fn discard_segment(&mut self, scan: &SegmentScan) {
        let records = scan.first_seq.zip(scan.last_seq).map_or(0, |(a, z)| z.saturating_sub(a) + 1);
        self.scan.discard_range(scan, 0, DiscardReason::TornWrite, records);
        self.scan.void_segments.push(scan.number);
    }
}
