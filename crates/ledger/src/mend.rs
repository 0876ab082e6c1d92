//! What is done to the files of the process before, once, before anything is written: what is no
//! part of the record goes.
//!
//! The directory is synced first. A segment to which records were carried may have its name, and not
//! on the disk yet: were the older copies cut off then, a loss of power would leave neither.

use std::io;

use tool::Wall;

use crate::disk::Open;
use crate::finding::CutWhy;
use crate::segment::{Site, cut, parse_name, set_aside};
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
}

impl Mend {
    pub(crate) fn of(survey: &Survey) -> Self {
        let kept = survey.cuts.iter().filter(|cut| cut.why == CutWhy::Carried || cut.offset > 0);
        let cuts = kept.filter_map(|cut| Some((parse_name(&cut.segment)?.1, cut.offset)));
        Self {
            cuts: cuts.collect(),
            dropped: survey.dropped.clone(),
            last: survey.parts.last().map(|part| (part.number, part.size)),
        }
    }

    /// Does it, and waits until it is on the disk. May be done again from the beginning.
    pub(crate) fn apply(&mut self, site: &Site, now: Wall) -> io::Result<()> {
        site.disk.sync_dir(&site.dir)?;
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
