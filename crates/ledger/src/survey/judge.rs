//! Goes through the segments in order, and tells a torn end from damage.

use tool::LedgerError;

use super::{Part, Survey};
use crate::finding::{CutWhy, Fault};
use crate::frame::Bad;
use crate::scan::{self, Scan, What};
use crate::segment::{BadHeader, HEADER, Site, name};

#[derive(PartialEq, Eq)]
enum Goes {
    On,
    No,
}

/// Goes through the segments in order, and knows which number comes next.
pub(super) struct Judge<'a> {
    pub(super) survey: &'a mut Survey,
    pub(super) site: &'a Site,
    pub(super) expected: u64,
    pub(super) number: u32,
}

impl Judge<'_> {
    pub(super) fn all(&mut self, scans: &[Scan]) {
        let first = self.number;
        let mut torn = false;
        for (index, scan) in scans.iter().enumerate() {
            let next = scans.iter().skip(index + 1).find_map(|s| s.first);
            if torn {
                self.drop_segment(scan);
            } else {
                torn = self.segment(scan, next) == Goes::No;
            }
        }
        match scans.last() {
            Some(scan) if !torn => self.end(&scan.name, scan.end),
            None => self.end(&name(&self.site.writer, first), 0),
            _ => {}
        }
    }

    fn find(&mut self, scan: &Scan, at: u64, seq: Option<u64>, what: (Fault, String)) {
        self.survey.find(self.site, &scan.name, (at, seq), what);
    }

    /// `next`: the first number in the segments that follow.
    fn segment(&mut self, scan: &Scan, next: Option<u64>) -> Goes {
        let found = self.survey.findings.total();
        if self.enter(scan) == Goes::No {
            self.drop_segment(scan);
            return Goes::No;
        }
        let mut end = scan.end;
        let mut goes = Goes::On;
        for fault in &scan.faults {
            if self.fault(scan, fault, next) == Goes::No {
                end = fault.at;
                goes = Goes::No;
                break;
            }
        }
        if goes == Goes::On {
            self.survey.findings.more += scan.more_faults;
            self.expected = scan.last.map_or(self.expected, |last| last + 1);
        }
        self.survey.last = self.survey.last.max(self.expected - 1);
        let damaged = self.survey.findings.total() > found;
        self.survey.parts.push(Part {
            number: scan.number,
            name: scan.name.clone(),
            end,
            size: scan.size,
            first: scan.first.filter(|_| end > HEADER as u64),
            last: self.expected - 1,
            session: scan.session,
            damaged,
            checkpoints: Vec::new(),
        });
        goes
    }

    fn enter(&mut self, scan: &Scan) -> Goes {
        let garbage = |fault: &scan::Fault| matches!(fault.what, What::Garbage(_));
        let broken = scan.faults.iter().any(|fault| fault.before.is_none() && garbage(fault));
        if !broken && let Some(first) = scan.first.filter(|first| *first != self.expected) {
            let expected = self.expected;
            if first < expected {
                let text = format!("begins with record {first} again, {expected} comes next");
                self.find(scan, HEADER as u64, Some(first), (Fault::Order, text));
            } else if expected <= self.survey.claim || self.survey.complete {
                let text = format!("records {expected} to {} are missing before it", first - 1);
                self.find(scan, HEADER as u64, Some(expected), (Fault::Missing, text));
            } else {
                return Goes::No;
            }
            self.expected = first;
        }
        if scan.number != self.number {
            let last = scan.number.saturating_sub(1);
            let text = format!("segments {} to {last} before it are missing", self.number);
            self.find(scan, 0, None, (Fault::Segment, text));
        }
        self.number = scan.number.saturating_add(1);
        Goes::On
    }

    fn fault(&mut self, scan: &Scan, fault: &scan::Fault, next: Option<u64>) -> Goes {
        let expected = fault.before.map_or(self.expected, |before| before + 1);
        self.expected = expected;
        let found = match (&fault.what, fault.after) {
            (What::Header(bad), _) => {
                if let BadHeader::Version(_) = bad {
                    let text = format!("`{}`: {bad}", scan.name);
                    self.survey.unreadable = Some(LedgerError::new(text));
                }
                (Fault::Header, bad.to_string())
            }
            (What::Foreign(header), _) => {
                let text = format!("is segment {} of writer `{}`", header.number, header.writer);
                (Fault::Header, text)
            }
            (What::Checkpoint, _) => {
                (Fault::Chain, "a checkpoint does not say what one says".to_owned())
            }
            (What::Order, after) => {
                let after = after.unwrap_or(0);
                let kind = if after > expected { Fault::Missing } else { Fault::Order };
                (kind, format!("record {after} follows record {}", expected - 1))
            }
            (What::Garbage(bad), Some(after)) if after <= expected => {
                (Fault::Inserted, format!("{bad}, where no record was"))
            }
            (What::Garbage(_), None) if next == Some(expected) => {
                self.survey.cut(scan, fault.at, (CutWhy::Carried, 0));
                return Goes::On;
            }
            (What::Garbage(bad), _) if expected <= self.survey.claim => {
                (Fault::Damaged, format!("{bad}, and record {expected} was on the disk"))
            }
            // The system ran on, so that only a write that was under way can have left something.
            (What::Garbage(bad), after)
                if self.survey.complete && (after.is_some() || *bad != Bad::Short) =>
            {
                (Fault::Damaged, format!("{bad}, where no crash explains it"))
            }
            (What::Garbage(_), after) => {
                let records = after.zip(scan.last).map_or(0, |(a, z)| z.saturating_sub(a) + 1);
                self.survey.cut(scan, fault.at, (CutWhy::Torn, records));
                return Goes::No;
            }
        };
        self.find(scan, fault.at, Some(expected), found);
        Goes::On
    }

    fn end(&mut self, name: &str, at: u64) {
        let (expected, claim) = (self.expected, self.survey.claim);
        if expected <= claim {
            let text = format!("records {expected} to {claim} are missing at the end");
            self.survey.find(self.site, name, (at, Some(expected)), (Fault::Missing, text));
        }
    }

    fn drop_segment(&mut self, scan: &Scan) {
        let records = scan.first.zip(scan.last).map_or(0, |(a, z)| z.saturating_sub(a) + 1);
        self.survey.cut(scan, 0, (CutWhy::Torn, records));
        self.survey.dropped.push(scan.number);
    }
}
