//! What is done to the files of the process before, once, before anything is written: what is no
//! part of the record goes.
//!
//! The directory is synced first. A segment to which records were carried may have its name, and not
//! on the disk yet: were the older copies cut off then, a loss of power would leave neither.

use std::io;

use tool::Wall;

use crate::disk::Open;
use crate::finding::CutWhy;
use crate::progress::{Found, Progress, ProgressFile};
use crate::segment::{Site, aside, copy_aside, cut, parse_name, set_aside};
use crate::survey::Survey;

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Mend {
    /// Segments, and where each one is to end.
    cuts: Vec<(u32, u64)>,
    /// Segments that hold nothing of the record.
    dropped: Vec<u32>,
    /// The segment that was written last, and where its bytes end.
    last: Option<(u32, u64)>,
    /// Segments of which a copy is made first, from there on: something in them is to be cut off that a
    /// loss of power or damage left.
    copies: Vec<(u32, u64)>,
    /// What stood beside the segments.
    found: Found,
    /// The last record that is known to be on the disk.
    synced: u64,
    /// Whether all that was written was to be there.
    complete: bool,
}

impl Mend {
    pub(crate) fn of(survey: &Survey) -> Self {
        let kept = survey.cuts.iter().filter(|cut| cut.why == CutWhy::Carried || cut.offset > 0);
        let cuts = kept.filter_map(|cut| Some((parse_name(&cut.segment)?.1, cut.offset)));
        Self {
            cuts: cuts.collect(),
            dropped: survey.dropped.clone(),
            last: survey.parts.last().map(|part| (part.number, part.size)),
            copies: survey.worth_a_copy(),
            found: survey.found.clone(),
            synced: survey.durable,
            complete: survey.complete,
        }
    }

    /// Says beside the segments how far the record goes that was found: up to `last`, also where something is missing
    /// before it. What a loss of power left is still to be taken away, so that not all that is there counts.
    pub(crate) fn progress(
        &mut self,
        site: &Site,
        now: Wall,
        last: u64,
    ) -> io::Result<ProgressFile> {
        let signed = match &self.found {
            Found::Whole(progress) => progress.signed,
            Found::Absent => 0,
            Found::Damaged(_) => {
                let path = site.progress().0;
                site.disk.rename(&path, &aside(&path, now, "damaged"))?;
                self.found = Found::Absent;
                0
            }
        };
        let boot = site.disk.boot().filter(|_| self.complete);
        let segment = self.last.map_or(0, |(number, _)| number);
        let (written, synced) = (last, self.synced);
        let progress = Progress { boot, written, synced, signed, segment, closed: false };
        ProgressFile::create(site, progress)
    }

    /// Does it, and waits until it is on the disk. May be done again from the beginning.
    pub(crate) fn apply(&mut self, site: &Site, now: Wall) -> io::Result<()> {
        site.disk.sync_dir(&site.dir)?;
        while let Some((number, from)) = self.copies.last().copied() {
            let copy = copy_aside(site, number, from, now)?;
            tracing::warn!(copy = %copy.display(), "a copy of what cannot be read of the record is kept");
            self.copies.pop();
        }
        for (number, end) in &self.cuts {
            let file = site.open(*number, Open::Append)?;
            cut(file.as_ref(), *end)?;
            file.sync()?;
        }
        if let Some((last, size)) = self.last {
            // A process that was killed leaves behind the end what it had set aside.
            let file = site.open(last, Open::Append)?;
            cut(file.as_ref(), size)?;
        }
        // The highest first: whatever stops this half-way, no number is missing in between.
        while let Some(number) = self.dropped.last() {
            set_aside(site, *number, now)?;
            self.dropped.pop();
        }
        Ok(())
    }
}
