//! What retention left, gone through from the first tombstone to the last: whether each is signed, goes on
//! from the one before, and where the tree stood at each checkpoint in them.

use serde::{Deserialize, Serialize};
use tool::{LedgerError, Wall};

use crate::chain::{Chain, Checkpoint};
use crate::failure::failed;
use crate::finding::{Fault, Finding};
use crate::segment::{Site, tomb_name};
use crate::signed::VerifyKey;
use crate::tomb::{self, Read, Stood, Tombstone};
use crate::tree::Run;

/// What is gone of a writer's record by retention, as its tombstones say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    /// Files that were removed.
    pub segments: u32,
    /// Bytes in them.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Number of the last of them.
    pub through: u64,
    /// All of them were older than this.
    pub until: Option<Wall>,
    /// Calls that had begun and not ended in them, nor in what is there.
    pub open: u64,
    /// Tombstones whose signature was not checked, for want of a key.
    pub unchecked: u32,
}

/// One after the other.
pub(crate) struct Tombs<'a> {
    site: &'a Site,
    keys: Option<&'a [VerifyKey]>,
    pub(crate) gone: Gone,
    pub(crate) found: Vec<Finding>,
    /// Behind the last one: leaves, and how it stood.
    run: Run,
    stood: Option<Stood>,
}

impl<'a> Tombs<'a> {
    /// `keys`: `None` where nobody said who is to have signed them.
    pub(crate) fn new(site: &'a Site, keys: Option<&'a [VerifyKey]>) -> Self {
        let (gone, found) = (Gone::default(), Vec::new());
        Self { site, keys, gone, found, run: Run::new(0), stood: None }
    }

    /// Shows each place where the tree is known to have stood, in order.
    pub(crate) fn walk(&mut self, visit: &mut dyn FnMut(&Stood, &Run)) -> Result<(), LedgerError> {
        let (dir, disk) = (&self.site.dir, &self.site.disk);
        let names = disk.list(dir);
        let names = names.map_err(|error| failed("the record cannot be read", dir, &error))?;
        let mut next = 1;
        for number in tomb::numbers(&names, &self.site.writer) {
            // One that cannot be read is a finding of the survey.
            let Ok(read) = tomb::read(self.site, number) else { continue };
            if number > next {
                let text =
                    format!("the tombstones of segments {next} to {} are missing", number - 1);
                self.find(number, text);
            }
            next = number.saturating_add(1);
            self.one(&read, visit);
        }
        Ok(())
    }

    fn find(&mut self, number: u32, text: String) {
        self.found.push(Finding {
            writer: self.site.writer.clone(),
            segment: tomb_name(&self.site.writer, number),
            offset: 0,
            seq: None,
            fault: Fault::Tombstone,
            text,
        });
    }

    fn one(&mut self, read: &Read, visit: &mut dyn FnMut(&Stood, &Run)) {
        let tomb = &read.tomb;
        match self.keys.map(|keys| read.signed_by(keys)) {
            None => self.gone.unchecked += 1,
            Some(Ok(())) => {}
            Some(Err(why)) => self.find(tomb.number, why),
        }
        if let Some(text) = self.breaks(tomb) {
            self.find(tomb.number, text);
        }
        let Some(run) = tomb.run_before() else { return };
        self.run = run;
        visit(&tomb.before, &self.run);
        // It was read, so it fits together.
        tomb.walk(&mut self.run, visit);
        self.stood = Some(tomb.end().clone());
        let gone = &mut self.gone;
        gone.segments += 1;
        gone.bytes += tomb.bytes;
        gone.records += tomb.frames();
        gone.through = tomb.end().through;
        gone.until = Some(tomb.until);
        gone.open = tomb.open.len() as u64 + tomb.more_open;
    }

    /// What does not go on from the one before.
    fn breaks(&self, tomb: &Tombstone) -> Option<String> {
        let first = Chain::new(&self.site.writer);
        let before = self
            .stood
            .as_ref()
            .map_or((0, 0, first.head()), |stood| (stood.count, stood.through, stood.head));
        let Tombstone { before: begins, .. } = tomb;
        let same = before == (begins.count, begins.through, begins.head)
            && self.run.hashes() == begins.nodes;
        (!same).then(|| "does not go on from the tombstone before it".to_owned())
    }
}

/// Whether the tree stood so.
pub(crate) fn agrees(stood: &Stood, run: &Run, kept: &Checkpoint) -> bool {
    let peaks = kept.peaks.iter().map(|peak| peak.0);
    stood.count == kept.count
        && stood.through == kept.through
        && stood.head == kept.head.0
        && run.root() == kept.root.0
        && (kept.peaks.is_empty() || peaks.eq(run.hashes()))
}
