//! Opening: what is on the disk is read and judged, a torn end is cut off, and the ledger goes on in
//! a segment that begins with everything the process before had not seen confirmed.
//!
//! Nothing is written that pretends an outcome. A call with an intent and no outcome, which no
//! ticket of this process holds, is `unknown` to whoever reads; it stays so.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tool::ledger::Kind;
use tool::{CallId, Clock, LedgerError};

use crate::chain::Chain;
use crate::disk::Open;
use crate::failure::failed;
use crate::finding::{Cut, Fault, Finding};
use crate::frame::Frame;
use crate::index::{Entry, Label, Place};
use crate::inner::Inner;
use crate::mend::Mend;
use crate::names::names;
use crate::old_tail;
use crate::options::Options;
use crate::segment::Site;
use crate::survey::{Part, Survey};
use crate::sync::{Dirty, Syncer};

/// A last segment below this, and below half of a full one, is written anew at the start, so that many short lives do not leave
/// many small files.
const SMALL: u64 = 1 << 20;
/// More than this is not carried over to a new segment, but synced where it is. Checkpoints come so
/// often that only damage makes so much.
const CARRY_MAX: usize = 64 << 20;
/// So many open calls are listed one by one.
const MAX_OPEN: usize = 10_000;

/// What was found when the ledger was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that hold the record.
    pub segments: usize,
    /// Records in them.
    pub records: u64,
    /// What was cut off: a write that was under way when the process before ended.
    pub cuts: Vec<Cut>,
    /// Records that were written, and lost because they were not synced when the power went.
    pub lost: u64,
    /// Damage. The ledger works on, behind it.
    pub findings: Vec<Finding>,
    /// How many more findings there are.
    pub more_findings: u64,
    /// Calls with an intent and no outcome, newest first, 10,000 at most: their status is `unknown`.
    pub open: Vec<CallId>,
    /// How many there are in all.
    pub open_total: usize,
}

/// Everything but the thread.
pub(crate) fn open(
    site: Site,
    clock: Arc<dyn Clock>,
    options: Options,
) -> Result<(Arc<Inner>, Syncer, Recovery), LedgerError> {
    options.check()?;
    let told = |error: &io::Error| failed("the record cannot be opened", &site.dir, error);
    site.disk.make_dir(&site.dir).map_err(|error| told(&error))?;
    let lock = site.dir.join(format!("{}.lock", site.writer));
    let held = site.disk.lock(&lock).map_err(|error| told(&error))?;
    let survey = survey(&site, clock.as_ref())?;

    let mend = Mend::of(&survey);
    let last = survey.last.max(survey.claim);
    let inner = Arc::new(Inner::new(site, clock, options, last + 1));
    let mut reading = Reading::new(&inner, &survey);
    survey.replay(&inner.site, &mut |part, at, frame| reading.frame(part, at, frame))?;
    reading.bound(&survey);
    let told = |error: &io::Error| failed("the record cannot be opened", &inner.site.dir, error);
    let dirty = reading.dirty().map_err(|error| told(&error))?;
    let now = inner.clock.mono();
    let (recovery, reading) = reading.recovery(survey);
    let mut syncer = Syncer {
        inner: Arc::clone(&inner),
        chain: reading.chain,
        hashed: reading.carry.len(),
        carry: reading.carry,
        dirty,
        taken: last,
        synced: 0,
        next_number: reading.plan.number,
        records: reading.since_checkpoint,
        sealed_at: now,
        rotation_failed: false,
        progress_at: now,
        waiters: Vec::new(),
        held: Some(held),
        mend: Some(mend),
    };
    // A disk that is full or failing now is tried again by the thread; until then calls are refused.
    syncer.resume().ok();
    Ok((inner, syncer, recovery))
}

/// Reads all there is. What an older version left beside the segments is brought to them first.
fn survey(site: &Site, clock: &dyn Clock) -> Result<Survey, LedgerError> {
    let mut survey = Survey::of(site)?;
    if survey.old_tail.is_there {
        if let Some(error) = &survey.unreadable {
            return Err(error.clone());
        }
        old_tail::migrate(site, &survey.old_tail, clock.wall()).map_err(|error| {
            let what = "the newest records of an older version cannot be brought to their segment";
            failed(what, &site.dir, &error)
        })?;
        let found = std::mem::take(&mut survey.findings.list);
        survey = Survey::of(site)?;
        for finding in found.into_iter().filter(|finding| finding.fault == Fault::Tail) {
            survey.findings.push(finding);
        }
    }
    match &survey.unreadable {
        Some(error) => Err(error.clone()),
        None => Ok(survey),
    }
}

/// Where to go on.
#[derive(Debug, Clone, Copy)]
struct Plan {
    number: u32,
    /// Frames from this number on are carried over.
    from: u64,
}

impl Plan {
    fn of(survey: &Survey, options: &Options) -> Self {
        let small = SMALL.min(options.segment_bytes / 2);
        let unconfirmed = survey.durable + 1;
        match survey.parts.last() {
            None => {
                let gone = survey.gone.as_ref().map_or(0, |tomb| tomb.number);
                Self { number: gone.saturating_add(1), from: unconfirmed }
            }
            Some(part) if !part.damaged && part.end <= small => {
                let from = part.first.map_or(unconfirmed, |first| first.min(unconfirmed));
                Self { number: part.number, from }
            }
            Some(part) => Self { number: part.number.saturating_add(1), from: unconfirmed },
        }
    }
}

/// Goes through the whole record once.
struct Reading<'a> {
    inner: &'a Inner,
    plan: Plan,
    chain: Chain,
    /// Frames up to this number are in the chain.
    chained: u64,
    since_checkpoint: u64,
    carry: Vec<u8>,
    overflow: bool,
    /// Where in each segment the carried frames begin.
    carried: HashMap<u32, u64>,
    open: HashMap<CallId, (u64, Option<Label>)>,
    /// Records from this number on are found by their names.
    labelled: u64,
    records: u64,
}

/// What [`Syncer`] begins with.
struct Begin {
    chain: Chain,
    carry: Vec<u8>,
    plan: Plan,
    since_checkpoint: u64,
}

impl<'a> Reading<'a> {
    fn new(inner: &'a Inner, survey: &Survey) -> Self {
        let mark = survey.checkpoint();
        let chain = mark.and_then(|mark| Chain::resume(&mark.checkpoint));
        let gone = survey.gone.as_ref();
        let chain = chain.or_else(|| gone?.after());
        let chain = chain.unwrap_or_else(|| Chain::new(&inner.site.writer));
        let open = gone.into_iter().flat_map(|tomb| &tomb.open);
        (*inner.checkpoint()) = mark.map(|mark| mark.checkpoint.clone());
        Self {
            inner,
            plan: Plan::of(survey, &inner.options),
            chained: chain.through,
            chain,
            since_checkpoint: 0,
            carry: Vec::new(),
            overflow: false,
            carried: HashMap::new(),
            open: open.map(|(seq, call)| (*call, (*seq, None))).collect(),
            labelled: survey.last.saturating_sub(inner.options.index_entries as u64),
            records: 0,
        }
    }

    fn frame(&mut self, part: &Part, at: u64, frame: &Frame<'_>) {
        self.records += 1;
        if frame.seq > self.chained {
            self.chain.push(frame.seq, frame.whole);
            self.since_checkpoint += u64::from(frame.kind != Kind::Checkpoint);
        }
        if frame.seq >= self.plan.from {
            self.carried.entry(part.number).or_insert(at);
            self.overflow |= self.carry.len() + frame.whole.len() > CARRY_MAX;
            if !self.overflow {
                self.carry.extend_from_slice(frame.whole);
            }
        }
        let label = self.label(frame);
        let place = Place { number: part.number, offset: at };
        let entry = Entry { seq: frame.seq, place, kind: frame.kind, call: frame.call, label };
        self.inner.index().push(entry);
    }

    fn label(&mut self, frame: &Frame<'_>) -> Option<Label> {
        if frame.kind == Kind::Event {
            return names(frame).map(|it| self.inner.label(&it.org, &it.tool, &it.caller));
        }
        let call = frame.call?;
        match frame.kind {
            Kind::Outcome => self.open.remove(&call)?.1,
            Kind::Intent | Kind::Refused | Kind::Wait => {
                let names = (frame.seq >= self.labelled).then(|| names(frame)).flatten();
                let label = names.map(|it| self.inner.label(&it.org, &it.tool, &it.caller));
                if frame.kind == Kind::Intent {
                    self.open.insert(call, (frame.seq, label));
                }
                label
            }
            _ => self.open.get(&call)?.1,
        }
    }

    /// Leaves what is too much to carry where it is.
    fn bound(&mut self, survey: &Survey) {
        if self.overflow {
            self.carry.clear();
            let last = survey.parts.iter().map(|part| part.number).max().unwrap_or(0);
            self.plan.number = last.saturating_add(1);
        }
    }

    /// The files that hold frames which are carried over to another one.
    fn dirty(&self) -> io::Result<Vec<Dirty>> {
        let mut dirty = Vec::new();
        for (&number, &from) in self.carried.iter().filter(|(at, _)| **at != self.plan.number) {
            let file = self.inner.site.open(number, Open::Append)?;
            if self.overflow {
                file.sync()?;
            } else {
                dirty.push(Dirty { file, number, from });
            }
        }
        Ok(dirty)
    }

    fn recovery(self, survey: Survey) -> (Recovery, Begin) {
        let mut open =
            self.open.into_iter().map(|(call, (seq, _))| (seq, call)).collect::<Vec<_>>();
        open.sort_unstable_by(|a, b| b.cmp(a));
        let recovery = Recovery {
            segments: survey.parts.len(),
            records: self.records,
            lost: survey.lost,
            cuts: survey.cuts,
            findings: survey.findings.list,
            more_findings: survey.findings.more,
            open_total: open.len(),
            open: open.into_iter().map(|(_, call)| call).take(MAX_OPEN).collect(),
        };
        let (chain, carry, plan) = (self.chain, self.carry, self.plan);
        (recovery, Begin { chain, carry, plan, since_checkpoint: self.since_checkpoint })
    }
}
