//! Goes through one writer's record: chain and tree against every checkpoint, one intent and one outcome for each call.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use tool::ledger::Kind;
use tool::{CallId, LedgerError};

use super::WriterReport;
use crate::chain::{Chain, Checkpoint};
use crate::finding::{Fault, Finding, Findings};
use crate::frame::Frame;
use crate::gone::{Tombs, agrees};
use crate::scan::Mark;
use crate::segment::Site;
use crate::signed::VerifyKey;
use crate::survey::{Part, Survey};
use crate::tomb::Tombstone;

/// Of so many ended calls it is remembered that they had their intent and outcome.
const MAX_ENDED: usize = 16_000_000;

/// A checkpoint that does not stand in the record itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) checkpoint: Checkpoint,
    /// Whether it stands beside the segments, and was not kept elsewhere.
    pub(super) beside: bool,
}

impl Outside {
    fn fault(&self) -> Fault {
        if self.beside { Fault::Checkpoint } else { Fault::Kept }
    }

    fn words(&self) -> &'static str {
        if self.beside {
            "the signed checkpoint beside the segments"
        } else {
            "the kept checkpoint"
        }
    }
}

/// Goes through one writer's record.
pub(super) struct Check<'a> {
    writer: &'a str,
    chain: Chain,
    /// Checkpoints that were not reached yet, each with the name of its segment.
    marks: std::iter::Peekable<std::vec::IntoIter<(&'a str, &'a Mark)>>,
    outside: std::iter::Peekable<std::vec::IntoIter<&'a Outside>>,
    pub(super) numbers: WriterReport,
    pub(super) found: Findings,
    pub(super) calls: Calls,
    /// The last frame that a good checkpoint covers.
    sealed: u64,
    place: (String, u64),
}

impl<'a> Check<'a> {
    pub(super) fn new(site: &'a Site, survey: &'a Survey, outside: &'a [Outside]) -> Self {
        let marks = survey
            .parts
            .iter()
            .flat_map(|part| part.checkpoints.iter().map(|mark| (part.name.as_str(), mark)))
            .collect::<Vec<_>>();
        let mut outside = outside.iter().collect::<Vec<_>>();
        outside.sort_by_key(|outside| outside.checkpoint.through);
        let chain = survey.gone.as_ref().and_then(Tombstone::after);
        let chain = chain.unwrap_or_else(|| Chain::new(&site.writer));
        let open = survey.gone.iter().flat_map(|tomb| &tomb.open);
        let open = open.map(|(seq, call)| (*call, *seq)).collect();
        Self {
            writer: &site.writer,
            sealed: chain.through,
            chain,
            marks: marks.into_iter().peekable(),
            outside: outside.into_iter().peekable(),
            numbers: WriterReport { writer: site.writer.clone(), ..WriterReport::default() },
            found: Findings::default(),
            calls: Calls { open, ..Calls::default() },
            place: (String::new(), 0),
        }
    }

    fn find(&mut self, seq: u64, fault: Fault, text: String) {
        let (segment, offset) = self.place.clone();
        let writer = self.writer.to_owned();
        self.found.push(Finding { writer, segment, offset, seq: Some(seq), fault, text });
    }

    pub(super) fn frame(&mut self, part: &Part, at: u64, frame: &Frame<'_>) {
        self.checkpoints(frame.seq);
        if self.place.0 != part.name {
            self.place.0.clone_from(&part.name);
        }
        self.place.1 = at;
        self.chain.push(frame.seq, frame.whole);
        let numbers = &mut self.numbers;
        numbers.records += 1;
        *match frame.kind {
            Kind::Intent => &mut numbers.intents,
            Kind::Wait => &mut numbers.waits,
            Kind::Outcome => &mut numbers.outcomes,
            Kind::Refused => &mut numbers.refused,
            Kind::Checkpoint => &mut numbers.checkpoints,
            Kind::Event => &mut numbers.events,
            Kind::Gap => &mut numbers.gaps,
            Kind::Tombstone => &mut numbers.removals,
        } += 1;
        if let Some(call) = frame.call
            && let Some(wrong) = self.calls.see(frame.kind, call, frame.seq)
        {
            self.find(frame.seq, Fault::Call, format!("call `{call}` has {wrong}"));
        }
    }

    /// Compares with the checkpoints that speak of what retention removed.
    pub(super) fn gone(
        &mut self,
        site: &Site,
        keys: Option<&[VerifyKey]>,
    ) -> Result<(), LedgerError> {
        let mut tombs = Tombs::new(site, keys);
        let (mut fit, mut met) = (Vec::new(), HashSet::new());
        let all: Vec<_> = self.outside.clone().collect();
        tombs.walk(&mut |stood, run| {
            for outside in all.iter().filter(|it| it.checkpoint.count == stood.count) {
                met.insert(stood.count);
                if agrees(stood, run, &outside.checkpoint) {
                    fit.push(*outside);
                }
            }
        })?;
        if tombs.gone.segments == 0 {
            return Ok(());
        }
        let end = self.chain.count;
        while let Some(outside) = self.outside.next_if(|it| it.checkpoint.count <= end) {
            if fit.contains(&outside) {
                self.fits(outside);
                continue;
            }
            let (through, words) = (outside.checkpoint.through, outside.words());
            let why = if met.contains(&outside.checkpoint.count) {
                format!("are not those that {words} sealed, as the tombstones say")
            } else {
                format!("were removed, and no tombstone keeps what a check of {words} needs")
            };
            self.find(through, outside.fault(), format!("the records up to {through} {why}"));
        }
        for finding in std::mem::take(&mut tombs.found) {
            self.found.push(finding);
        }
        self.numbers.gone = Some(tombs.gone);
        Ok(())
    }

    /// One that was kept elsewhere is counted.
    fn fits(&mut self, outside: &Outside) {
        if !outside.beside {
            self.numbers.kept += 1;
            self.numbers.kept_through = Some(outside.checkpoint.through);
        }
    }

    /// Compares with every checkpoint that speaks of what lies before the frame `seq`.
    fn checkpoints(&mut self, seq: u64) {
        while let Some(outside) = self.outside.next_if(|it| it.checkpoint.through < seq) {
            if self.chain.agrees(&outside.checkpoint) {
                self.fits(outside);
            } else {
                let (through, words) = (outside.checkpoint.through, outside.words());
                let text = format!("the records up to {through} are not those that {words} sealed");
                self.find(through, outside.fault(), text);
            }
        }
        while let Some((name, mark)) = self.marks.next_if(|(_, m)| m.checkpoint.through < seq) {
            let checkpoint = &mark.checkpoint;
            if !self.chain.agrees(checkpoint) {
                let text = format!(
                    "the records {} to {} are not those that checkpoint {} sealed",
                    self.sealed + 1,
                    checkpoint.through,
                    mark.seq
                );
                self.place = (name.to_owned(), mark.at);
                self.find(mark.seq, Fault::Chain, text);
                // One change is one finding: what follows is judged by itself.
                self.chain = Chain::resume(checkpoint).unwrap_or_else(|| self.chain.clone());
            }
            self.sealed = checkpoint.through;
        }
    }

    pub(super) fn end(&mut self) {
        let last = self.chain.through;
        self.checkpoints(last + 1);
        self.numbers.unsealed = last.saturating_sub(self.sealed);
        while let Some(outside) = self.outside.next() {
            let (through, words) = (outside.checkpoint.through, outside.words());
            let text = format!(
                "the record ends at {last}, and {words} goes to {through}: the end was cut off, or an older copy was put back"
            );
            self.find(through, outside.fault(), text);
        }
        while let Some((name, mark)) = self.marks.next() {
            self.place = (name.to_owned(), mark.at);
            let text = format!("checkpoint {} speaks of records that are not there", mark.seq);
            self.find(mark.seq, Fault::Chain, text);
        }
    }
}

/// Which calls have what.
#[derive(Default)]
pub(super) struct Calls {
    /// With the number of the intent.
    pub(super) open: HashMap<CallId, u64>,
    ended: HashSet<u64>,
    hasher: RandomState,
}

impl Calls {
    /// What is wrong with one more record of this kind.
    fn see(&mut self, kind: Kind, call: CallId, seq: u64) -> Option<&'static str> {
        let id = self.hasher.hash_one(call);
        match kind {
            Kind::Intent if self.ended.contains(&id) => Some("a second intent"),
            Kind::Intent if self.open.insert(call, seq).is_some() => Some("a second intent"),
            // It comes before the intent, and so before the call is known here.
            Kind::Wait if self.ended.contains(&id) => Some("a wait after its end"),
            Kind::Outcome if self.open.remove(&call).is_some() => {
                if self.ended.len() < MAX_ENDED {
                    self.ended.insert(id);
                }
                None
            }
            Kind::Outcome if self.ended.contains(&id) => Some("a second outcome"),
            Kind::Outcome => Some("an outcome and no intent"),
            _ => None,
        }
    }
}
