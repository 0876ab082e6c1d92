//! Makes a proof that one checkpoint of a record goes on from another, also where the frames are gone.

use std::path::Path;
use std::sync::Arc;

use tool::LedgerError;

use crate::chain::Checkpoint;
use crate::disk::Disk;
use crate::gone::Tombs;
use crate::proof::Proof;
use crate::segment::Site;
use crate::survey::Survey;
use crate::tomb::Stood;
use crate::tree::Run;

/// The proof that `later` goes on from `earlier`, from the record in `dir`. Changes nothing; needs no
/// server. Whether the checkpoints are those of the record is checked on the way.
///
/// # Errors
/// The record cannot be read; it ends before a checkpoint; it is not what a checkpoint sealed; or a
/// checkpoint lies in what retention removed, and no node was kept there.
pub fn prove(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    earlier: &Checkpoint,
    later: &Checkpoint,
) -> Result<Proof, LedgerError> {
    if earlier.writer != later.writer || earlier.count > later.count {
        let text =
            "the first checkpoint is not the earlier one of the same writer: change their order";
        return Err(LedgerError::new(text));
    }
    let writer = earlier.writer.clone();
    let site = Site { disk: Arc::clone(disk), dir: dir.to_owned(), writer };
    let mut cuts = Cuts::new([earlier.count, later.count]);
    let survey = Survey::of(&site)?;
    Tombs::new(&site, None).walk(&mut |stood, run| cuts.stood(stood, run))?;
    let gone = survey.gone.as_ref().map_or(0, |tomb| tomb.end().count);
    if let Some(count) = cuts.missed(gone) {
        return Err(LedgerError::new(format!(
            "the checkpoint over {count} records lies in what retention removed, and its tombstone keeps no node there: it cannot be proved any more"
        )));
    }
    survey.replay(&site, &mut |_, _, frame| cuts.leaf(frame.whole))?;
    let ends = cuts.run.end();
    let [Some(first), Some(whole)] = cuts.runs else {
        let text = format!(
            "the record ends at {ends} records, before a checkpoint: its end was cut off, or an older copy was put back"
        );
        return Err(LedgerError::new(text));
    };
    for (run, checkpoint) in [(&first, earlier), (&whole, later)] {
        if run.root() != checkpoint.root.0 {
            return Err(LedgerError::new(format!(
                "the first {} records are not those that the checkpoint sealed",
                checkpoint.count
            )));
        }
    }
    let rest = cuts.rest.as_ref().filter(|rest| rest.end() == later.count);
    let proof = rest.and_then(|rest| Proof::of(&first, rest));
    proof.ok_or_else(|| {
        LedgerError::new(
            "tombstones between the checkpoints are missing: `toolkeep record verify` tells which",
        )
    })
}

/// The leaves up to the one size, up to the other, and from the one to the other.
struct Cuts {
    at: [u64; 2],
    runs: [Option<Run>; 2],
    rest: Option<Run>,
    /// What was seen so far.
    run: Run,
}

impl Cuts {
    fn new(at: [u64; 2]) -> Self {
        let mut cuts = Self { at, runs: [None, None], rest: None, run: Run::new(0) };
        cuts.cut();
        cuts
    }

    fn cut(&mut self) {
        for (at, run) in self.at.iter().zip(&mut self.runs) {
            if *at == self.run.end() && run.is_none() {
                *run = Some(self.run.clone());
            }
        }
        if self.run.end() == self.at[0] && self.rest.is_none() {
            self.rest = Some(Run::new(self.at[0]));
        }
    }

    /// A place that a tombstone knows.
    fn stood(&mut self, stood: &Stood, run: &Run) {
        let from = self.run.end();
        if stood.count <= from {
            return;
        }
        if let Some(rest) = &mut self.rest
            && rest.end() < self.at[1]
        {
            // Where tombstones are missing there is no way on from here.
            let part = Run::of(from, stood.count, &stood.nodes);
            if let Some(part) = part {
                rest.append(&part);
            }
        }
        self.run = run.clone();
        self.cut();
    }

    fn leaf(&mut self, frame: &[u8]) {
        if let Some(rest) = &mut self.rest
            && rest.end() == self.run.end()
            && rest.end() < self.at[1]
        {
            rest.push(frame);
        }
        self.run.push(frame);
        self.cut();
    }

    /// The size that lies before `gone` and was not met.
    fn missed(&self, gone: u64) -> Option<u64> {
        let missed = self.at.iter().zip(&self.runs);
        missed.filter(|(at, run)| **at <= gone && run.is_none()).map(|(at, _)| *at).next()
    }
}
