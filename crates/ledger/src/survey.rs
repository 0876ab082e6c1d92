//! All segments of one writer read together: what belongs to the record, what is a torn end, and
//! what was damaged.
//!
//! A crash and a hand can leave the same bytes. What tells them apart: checkpoints and headers say
//! up to which number every frame was on the disk. A frame that is missing or broken below such a
//! claim was there once, and something else than a crash took it. Above the claims, the first
//! broken frame ends the record: the disk may keep any part of what was not synced.

use std::io;

use tool::LedgerError;

use crate::disk::Open;
use crate::failure::failed;
use crate::finding::{Cut, CutWhy, Fault, Finding, Findings};
use crate::frame::Frame;
use crate::scan::{self, Mark, Scan, What};
use crate::segment::{BadHeader, HEADER, Site, name, parse_name, tomb_name};
use crate::tomb::{self, Tombstone};
use crate::walk::{Step, Walk};

/// The record of one writer, as it stands on the disk.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The segments that hold it, in order.
    pub(crate) parts: Vec<Part>,
    /// The segments behind a torn end; they hold nothing of it.
    pub(crate) dropped: Vec<u32>,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) findings: Findings,
    /// Every frame up to this number was on the disk.
    pub(crate) claim: u64,
    /// The highest number on record.
    pub(crate) last: u64,
    /// Why nothing may be written: something is there that cannot be understood.
    pub(crate) unreadable: Option<LedgerError>,
    /// What retention left of the segments before: the last tombstone.
    pub(crate) gone: Option<Tombstone>,
}

/// A segment that holds a part of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// Where the part ends.
    pub(crate) end: u64,
    /// Where its file does, with what the tail has of it.
    pub(crate) size: u64,
    pub(crate) first: Option<u64>,
    /// The first number of the process that made it.
    pub(crate) session: u64,
    /// Whether something in it was damaged: it is evidence then, and not written anew.
    pub(crate) damaged: bool,
    pub(crate) checkpoints: Vec<Mark>,
}

/// The numbers of `writer`'s segments among `names`, in order.
pub(crate) fn numbers(names: &[String], writer: &str) -> Vec<u32> {
    let mut numbers = names
        .iter()
        .filter_map(|name| parse_name(name).filter(|(of, _)| *of == writer))
        .map(|(_, number)| number)
        .collect::<Vec<_>>();
    numbers.sort_unstable();
    numbers
}

impl Survey {
    /// Reads all there is of `site`'s writer.
    pub(crate) fn of(site: &Site) -> Result<Self, LedgerError> {
        let names = site
            .disk
            .list(&site.dir)
            .map_err(|error| failed("the record cannot be read", &site.dir, &error))?;
        let mut survey = Self::default();
        survey.take_tomb(site, &tomb::numbers(&names, &site.writer));
        let gone = survey.gone.as_ref().map_or(0, |tomb| tomb.number);
        let mut scans = Vec::new();
        // A crash may have left the file of a segment beside its tombstone.
        for number in numbers(&names, &site.writer).into_iter().filter(|number| *number > gone) {
            match Scan::of(site, number) {
                Ok(scan) => scans.push(scan),
                Err(error) => survey.not_read(site, number, &error),
            }
        }
        let claim = scans.iter().map(|scan| scan.claim).max().unwrap_or(0);
        survey.claim = claim.max(survey.claim);
        survey.supersede(site, &mut scans);
        let (expected, number) = (survey.last + 1, gone.saturating_add(1));
        let mut judge = Judge { survey: &mut survey, site, expected, number };
        let mut torn = false;
        for (index, scan) in scans.iter().enumerate() {
            let next = scans.get(index + 1..).unwrap_or_default().iter().find_map(|s| s.first);
            if torn {
                judge.drop_segment(scan);
            } else {
                torn = judge.segment(scan, next) == Goes::No;
            }
        }
        match scans.last() {
            Some(scan) if !torn => judge.end(&scan.name, scan.end),
            None if gone > 0 => judge.end(&name(&site.writer, number), 0),
            _ => {}
        }
        survey.take_marks(scans);
        Ok(survey)
    }

    /// The record goes on behind the last tombstone that can be read.
    fn take_tomb(&mut self, site: &Site, numbers: &[u32]) {
        for number in numbers.iter().rev() {
            match tomb::read(site, *number) {
                Ok(read) => {
                    self.last = read.tomb.end().through;
                    self.claim = read.tomb.sealed.max(self.last);
                    self.gone = Some(read.tomb);
                    return;
                }
                Err(error) => {
                    let name = tomb_name(&site.writer, *number);
                    self.find(site, &name, (0, None), (Fault::Tombstone, error.message));
                }
            }
        }
    }

    fn not_read(&mut self, site: &Site, number: u32, error: &io::Error) {
        let name = name(&site.writer, number);
        let error = failed(&format!("the segment `{name}` cannot be read"), &site.dir, error);
        self.find(site, &name, (0, None), (Fault::Unreadable, error.message.clone()));
        self.unreadable = Some(error);
    }

    fn find(&mut self, site: &Site, name: &str, at: (u64, Option<u64>), what: (Fault, String)) {
        self.findings.push(Finding {
            writer: site.writer.clone(),
            segment: name.to_owned(),
            offset: at.0,
            seq: at.1,
            fault: what.0,
            text: what.1,
        });
    }

    /// Where a segment begins with numbers that earlier ones hold too, those were carried over to
    /// it, because the disk had not confirmed them. What it had confirmed is never carried over.
    fn supersede(&mut self, site: &Site, scans: &mut [Scan]) {
        let (mut confirmed, mut highest) = (0, 0);
        let mut begins = Vec::new();
        for scan in &*scans {
            begins.push(scan.first.filter(|first| confirmed < *first && *first <= highest));
            confirmed = confirmed.max(scan.claim);
            highest = highest.max(scan.last.unwrap_or(0));
        }
        let mut limit = u64::MAX;
        for (scan, begins) in scans.iter_mut().zip(begins).rev() {
            if scan.last.is_some_and(|last| last >= limit) {
                match scan.forget_from(site, limit) {
                    Ok(records) => self.cut(scan, scan.end, (CutWhy::Carried, records)),
                    Err(error) => self.not_read(site, scan.number, &error),
                }
            }
            limit = limit.min(begins.unwrap_or(u64::MAX));
        }
    }

    fn cut(&mut self, scan: &Scan, offset: u64, (why, records): (CutWhy, u64)) {
        let bytes = scan.size.saturating_sub(offset);
        self.cuts.push(Cut { segment: scan.name.clone(), offset, bytes, records, why });
    }

    fn take_marks(&mut self, scans: Vec<Scan>) {
        for (part, scan) in self.parts.iter_mut().zip(scans) {
            part.checkpoints = scan.checkpoints;
            part.checkpoints.retain(|mark| mark.at < part.end);
        }
    }

    /// Shows every frame on record, in order.
    pub(crate) fn replay(
        &self,
        site: &Site,
        visit: &mut dyn FnMut(&Part, u64, &Frame<'_>),
    ) -> Result<(), LedgerError> {
        for part in &self.parts {
            read_part(site, part, visit).map_err(|error| {
                failed(&format!("the segment `{}` cannot be read", part.name), &site.dir, &error)
            })?;
        }
        Ok(())
    }

    /// The last checkpoint on record.
    pub(crate) fn checkpoint(&self) -> Option<&Mark> {
        self.parts.iter().rev().find_map(|part| part.checkpoints.last())
    }
}

fn read_part(
    site: &Site,
    part: &Part,
    visit: &mut dyn FnMut(&Part, u64, &Frame<'_>),
) -> io::Result<()> {
    let file = site.open(part.number, Open::Read)?;
    let mut walk = Walk::new(file.as_ref(), HEADER as u64, part.end)?;
    loop {
        match walk.next()? {
            Step::Frame(at, frame) => visit(part, at, &frame),
            Step::Garbage { .. } => {}
            Step::End(_) => return Ok(()),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Goes {
    On,
    No,
}

/// Goes through the segments in order, and knows which number comes next.
struct Judge<'a> {
    survey: &'a mut Survey,
    site: &'a Site,
    expected: u64,
    number: u32,
}

impl Judge<'_> {
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
            } else if expected <= self.survey.claim {
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
