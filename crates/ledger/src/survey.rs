//! All segments of one writer read together: what belongs to the record, what is a torn end, and
//! what was damaged.
//!
//! A crash and a hand can leave the same bytes. What tells them apart: checkpoints, headers and `WRITER.progress` say
//! up to which number every frame must be there. A frame that is missing or broken below such a
//! claim was there once, and something else than a crash took it. Above the claims, the first
//! broken frame ends the record: after a loss of power the disk may keep any part of what was not synced. While the
//! system runs nothing of it is lost: there, only the beginning of one frame may stand at the end.

mod judge;

use std::io;

use tool::LedgerError;

use crate::disk::Open;
use crate::failure::failed;
use crate::finding::{Cut, CutWhy, Fault, Finding, Findings};
use crate::frame::Frame;
use crate::old_tail::{self, OldTail, Reading};
use crate::progress::{self, Found};
use crate::scan::{Mark, Scan};
use crate::segment::{HEADER, Site, name, parse_name, tomb_name};
use crate::tomb::{self, Tombstone};
use crate::walk::{Step, Walk};
use judge::Judge;

/// The record of one writer, as it stands on the disk.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The segments that hold it, in order.
    pub(crate) parts: Vec<Part>,
    /// The segments behind a torn end; they hold nothing of it.
    pub(crate) dropped: Vec<u32>,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) findings: Findings,
    /// Every frame up to this number must be there.
    pub(crate) claim: u64,
    /// Every frame up to this number is known to be on the disk.
    pub(crate) durable: u64,
    /// Whether all that was written must be there: no crash explains that anything is missing.
    pub(crate) complete: bool,
    /// What says beside the segments how far the record goes.
    pub(crate) found: Found,
    /// So many records were written and are not there: they were not synced when the power went.
    pub(crate) lost: u64,
    /// What an older version left beside the segments.
    pub(crate) old_tail: Reading,
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
    /// The number that the record had reached behind it.
    pub(crate) last: u64,
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

/// How far the record goes. It is read first: a server that writes goes on meanwhile, and then more is there than this says.
pub(crate) fn found(site: &Site) -> Result<Found, LedgerError> {
    let told = |error: io::Error| failed("the record cannot be read", &site.dir, &error);
    progress::read(site).map_err(told)
}

impl Survey {
    /// Reads all there is of `site`'s writer.
    pub(crate) fn of(site: &Site) -> Result<Self, LedgerError> {
        Self::behind(site, found(site)?)
    }

    /// The same, where it was read before how far the record goes.
    pub(crate) fn behind(site: &Site, found: Found) -> Result<Self, LedgerError> {
        let told = |error: &io::Error| failed("the record cannot be read", &site.dir, error);
        let mut survey = Self { found, ..Self::default() };
        let names = site.disk.list(&site.dir).map_err(|error| told(&error))?;
        survey.take_tomb(site, &tomb::numbers(&names, &site.writer));
        let gone = survey.gone.as_ref().map_or(0, |tomb| tomb.number);
        // A crash may have left the file of a segment beside its tombstone.
        let mut numbers = numbers(&names, &site.writer);
        numbers.retain(|number| *number > gone);
        survey.old_tail = old_tail::read(site, &numbers).map_err(|error| told(&error))?;
        let mut scans = Vec::new();
        for &number in &numbers {
            match Scan::of(site, number, survey.old_tail.tail.as_ref()) {
                Ok(scan) => scans.push(scan),
                Err(error) => survey.not_read(site, number, &error),
            }
        }
        let claim = scans.iter().map(|scan| scan.claim).max().unwrap_or(0);
        survey.claim = claim.max(survey.claim);
        survey.durable = survey.claim;
        survey.take_progress(site, scans.iter().any(|scan| scan.has_progress));
        survey.supersede(site, &mut scans);
        let (expected, number) = (survey.last + 1, gone.saturating_add(1));
        Judge { survey: &mut survey, site, expected, number }.all(&scans);
        survey.newest_segment(site, numbers.last().copied().unwrap_or(gone));
        survey.judge_tail(site);
        survey.take_marks(scans);
        Ok(survey)
    }

    /// Takes over what is claimed beside the segments.
    fn take_progress(&mut self, site: &Site, expected: bool) {
        let boot = site.disk.boot();
        let text = match &self.found {
            Found::Whole(progress) => {
                self.claim = self.claim.max(progress.claim(boot));
                self.durable = self.durable.max(progress.durable());
                self.complete = progress.is_complete(boot);
                return;
            }
            Found::Absent if !expected => return,
            Found::Absent => "is missing".to_owned(),
            Found::Damaged(why) => format!("is damaged: {why}"),
        };
        let text = format!("{text}; whether records are missing at the end cannot be told");
        self.find_beside(site, &site.progress().0, (Fault::Progress, text));
    }

    /// A finding in a file that is no segment.
    fn find_beside(&mut self, site: &Site, path: &std::path::Path, what: (Fault, String)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.find(site, &name, (0, None), what);
    }

    /// Whether the newest segment is there, `newest` being the highest number that is, and what was lost with the power.
    fn newest_segment(&mut self, site: &Site, newest: u32) {
        let Found::Whole(progress) = self.found else { return };
        if !self.complete {
            self.lost = progress.written.saturating_sub(self.last.max(self.claim));
        }
        if newest < progress.segment {
            let (first, last) = (newest.saturating_add(1), progress.segment);
            let text = format!("segments {first} to {last} are missing: the newest ones");
            self.find(site, &name(&site.writer, last), (0, None), (Fault::Segment, text));
        }
    }

    /// What is wrong with what an older version left beside the segments.
    fn judge_tail(&mut self, site: &Site) {
        let path = site.old_tail();
        if let Some(damage) = self.old_tail.damage.take() {
            let text = format!(
                "is the tail of an older version, and {damage}: what can be read of it counts; the next start of the server puts it aside, keep that file"
            );
            self.find_beside(site, &path, (Fault::Tail, text));
            self.old_tail.damage = Some(damage);
        }
        // They may have been carried to another segment since.
        self.old_tail.without_segment =
            self.old_tail.without_segment.filter(|last| *last > self.last);
        if let Some(last) = self.old_tail.without_segment {
            let text = format!(
                "has records up to {last} that go on from a segment that is not there; the next start of the server puts it aside, keep that file"
            );
            self.find_beside(site, &path, (Fault::Tail, text));
        }
    }

    /// Segments of which a start cuts off what a loss of power or damage left, each with the place from where on.
    pub(crate) fn worth_a_copy(&self) -> Vec<(u32, u64)> {
        let damaged = self.parts.iter().filter(|part| part.damaged && part.last > self.durable);
        let damaged = damaged.map(|part| (part.number, 0));
        let torn = self.cuts.iter().filter(|cut| !self.complete && cut.why == CutWhy::Torn);
        let torn = torn.filter(|cut| cut.offset > 0 && cut.bytes > 0);
        let torn = torn.filter_map(|cut| Some((parse_name(&cut.segment)?.1, cut.offset)));
        damaged.chain(torn).collect()
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
                match scan.forget_from(site, limit, self.old_tail.tail.as_ref()) {
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
            read_part(site, (part, self.old_tail.tail.as_ref()), visit).map_err(|error| {
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
    (part, tail): (&Part, Option<&OldTail>),
    visit: &mut dyn FnMut(&Part, u64, &Frame<'_>),
) -> io::Result<()> {
    let file = site.open(part.number, Open::Read)?;
    let tail = tail.filter(|tail| tail.number == part.number);
    let mut walk = Walk::followed(file.as_ref(), (HEADER as u64, part.end), tail)?;
    loop {
        match walk.next()? {
            Step::Frame(at, frame) => visit(part, at, &frame),
            Step::Garbage { .. } => {}
            Step::End(_) => return Ok(()),
        }
    }
}
