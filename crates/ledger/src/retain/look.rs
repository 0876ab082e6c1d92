//! Looks a segment over before it goes, and writes down what has to stay of it.

use std::collections::HashMap;
use std::io;

use sha2::{Digest as _, Sha256};
use tool::ledger::Kind;
use tool::{CallId, Digest, Waited, Wall};

use super::{Stays, There, header};
use crate::chain::{Chain, Checkpoint};
use crate::disk::Open;
use crate::failure::failed;
use crate::frame::Frame;
use crate::inner::Inner;
use crate::scan::Scan;
use crate::segment::{HEADER, Site, name};
use crate::tomb::{MAX_OPEN, Stood, Tombstone, Why};
use crate::tree::Run;
use crate::walk::{Step, Walk};

/// A call is held for an hour at most; a step of one that is older than this holds nothing back.
const HELD: u64 = 24 * 3_600_000;

fn stays<T>(text: impl Into<String>) -> Result<T, Stays> {
    Err(Stays::Because(text.into()))
}

/// The tombstone of the segment, if it may go.
pub(super) fn over(
    inner: &Inner,
    (number, why): (u32, Why),
    there: &There,
    signed: &Checkpoint,
) -> Result<Tombstone, Stays> {
    let site = &inner.site;
    let later: Vec<_> = there.segments.iter().copied().filter(|at| *at > number).collect();
    let told = |error: io::Error| {
        let what = format!("`{}` cannot be looked over", name(&site.writer, number));
        Stays::Failed(failed(&what, &site.dir, &error))
    };
    let chain = begin(site, number, there)?;
    let sealed = Sealed::of(site, number, &later, &chain).map_err(told)??;
    if signed.writer != site.writer || signed.through < sealed.last {
        return stays(format!("segment {number} is not sealed by a signed checkpoint yet"));
    }
    let before = Stood::of(&chain, chain.peaks().to_vec());
    let mut calls = Calls::begin(there.last.as_ref());
    let mut reading = Reading::new(chain, &sealed);
    reading.segment(site, number, &mut calls).map_err(told)??;
    let (stood, root) = reading.end();
    reading.goes_on(site, &later).map_err(told)??;
    calls.ended_later(inner, &later, number).map_err(told)??;
    let (open, more_open) = calls.open();
    let (bytes, file) = hashed(site, number).map_err(told)?;
    let begun = header(site, number).map_err(told)?.map_or(Wall(0), |header| header.at);
    let next = later.first().copied().unwrap_or(number);
    let until = header(site, next).map_err(told)?.map_or(Wall(0), |header| header.at);
    Ok(Tombstone {
        writer: site.writer.clone(),
        number,
        bytes,
        file,
        root,
        begun,
        until,
        at: inner.clock.wall(),
        why,
        sealed: signed.through,
        before,
        stood,
        open,
        more_open,
    })
}

/// Chain and tree before it.
fn begin(site: &Site, number: u32, there: &There) -> Result<Chain, Stays> {
    match &there.last {
        None if number == 1 => Ok(Chain::new(&site.writer)),
        Some(tomb) if tomb.number.checked_add(1) == Some(number) => {
            let after = tomb.after();
            after.map_or_else(|| stays("the tombstone before it does not fit together"), Ok)
        }
        _ => stays(format!("the segments before segment {number} are missing")),
    }
}

/// Which records of it are on record, and the checkpoints that seal them.
struct Sealed {
    last: u64,
    /// In order; the last one speaks of all of it.
    marks: Vec<Checkpoint>,
}

impl Sealed {
    fn of(
        site: &Site,
        number: u32,
        later: &[u32],
        chain: &Chain,
    ) -> io::Result<Result<Self, Stays>> {
        let mut scan = Scan::of(site, number, None)?;
        // What later segments begin with again was carried over to them.
        let mut next = None;
        for at in later {
            let first = first(site, *at)?;
            next = [next, first].into_iter().flatten().min();
        }
        let Some(next) = next else { return Ok(stays("nothing is on record behind it yet")) };
        if scan.last.is_some_and(|last| last >= next) {
            scan.forget_from(site, next, None)?;
        }
        let expected = chain.through + 1;
        let whole = scan.faults.is_empty()
            && scan.more_faults == 0
            && scan.first.is_none_or(|first| first == expected)
            && scan.last.map_or(expected, |last| last + 1) == next;
        if !whole {
            return Ok(stays(format!(
                "segment {number} is not as it was written: it stays, and all behind it; `toolkeep record verify` tells more"
            )));
        }
        let last = next - 1;
        let mut marks: Vec<_> = scan.checkpoints.into_iter().map(|mark| mark.checkpoint).collect();
        for at in later {
            if marks.last().is_some_and(|mark| mark.through >= last) {
                break;
            }
            marks.extend(
                Scan::of(site, *at, None)?.checkpoints.into_iter().map(|mark| mark.checkpoint),
            );
        }
        marks.retain(|mark| mark.through > chain.through);
        let Some(closing) = marks.iter().position(|mark| mark.through >= last) else {
            return Ok(stays(format!("segment {number} is not sealed by a checkpoint yet")));
        };
        marks.truncate(closing + 1);
        Ok(Ok(Self { last, marks }))
    }
}

/// The number of the first frame in a segment.
fn first(site: &Site, number: u32) -> io::Result<Option<u64>> {
    let file = site.open(number, Open::Read)?;
    let mut walk = Walk::new(file.as_ref(), HEADER as u64, u64::MAX)?;
    Ok(match walk.next()? {
        Step::Frame(_, frame) => Some(frame.seq),
        Step::Garbage { .. } | Step::End(_) => None,
    })
}

/// Goes through its frames.
struct Reading<'a> {
    chain: Chain,
    sealed: &'a Sealed,
    marks: std::iter::Peekable<std::slice::Iter<'a, Checkpoint>>,
    run: Run,
    own: Run,
    stood: Vec<Stood>,
}

impl<'a> Reading<'a> {
    fn new(chain: Chain, sealed: &'a Sealed) -> Self {
        let marks = sealed.marks.iter().peekable();
        Self {
            run: Run::new(chain.count),
            own: Run::new(0),
            chain,
            sealed,
            marks,
            stood: Vec::new(),
        }
    }

    fn segment(
        &mut self,
        site: &Site,
        number: u32,
        calls: &mut Calls,
    ) -> io::Result<Result<(), Stays>> {
        let file = site.open(number, Open::Read)?;
        let mut walk = Walk::new(file.as_ref(), HEADER as u64, u64::MAX)?;
        while let Step::Frame(_, frame) = walk.next()? {
            if frame.seq > self.sealed.last {
                break;
            }
            self.own.push(frame.whole);
            self.run.push(frame.whole);
            calls.see(&frame);
            if let Err(stays) = self.push(&frame) {
                return Ok(Err(stays));
            }
        }
        Ok(Ok(()))
    }

    fn push(&mut self, frame: &Frame<'_>) -> Result<(), Stays> {
        self.chain.push(frame.seq, frame.whole);
        while let Some(mark) = self.marks.next_if(|mark| mark.through <= frame.seq) {
            if !self.chain.agrees(mark) {
                return stays(format!(
                    "the records up to {} are not those that their checkpoint sealed: they stay; `toolkeep record verify` tells more",
                    mark.through
                ));
            }
            if mark.through <= self.sealed.last {
                self.stand();
            }
        }
        Ok(())
    }

    fn stand(&mut self) {
        let run = std::mem::replace(&mut self.run, Run::new(self.chain.count));
        self.stood.push(Stood::of(&self.chain, run.hashes()));
    }

    fn end(&mut self) -> (Vec<Stood>, Digest) {
        if self.stood.last().is_none_or(|stood| stood.count != self.chain.count) {
            self.stand();
        }
        (std::mem::take(&mut self.stood), Digest(self.own.root()))
    }

    /// On to the checkpoint that speaks of all of it, so that its end is what was sealed, too.
    fn goes_on(&mut self, site: &Site, later: &[u32]) -> io::Result<Result<(), Stays>> {
        for number in later {
            let file = site.open(*number, Open::Read)?;
            let mut walk = Walk::new(file.as_ref(), HEADER as u64, u64::MAX)?;
            while let (Some(_), Step::Frame(_, frame)) = (self.marks.peek(), walk.next()?) {
                if frame.seq == self.chain.through + 1
                    && let Err(stays) = self.push(&frame)
                {
                    return Ok(Err(stays));
                }
            }
        }
        match self.marks.peek() {
            None => Ok(Ok(())),
            Some(_) => Ok(stays("the records behind it are not whole")),
        }
    }
}

/// Calls that have begun.
struct Calls {
    open: HashMap<CallId, u64>,
    /// Held, and when the last step was.
    held: HashMap<CallId, Wall>,
    more: u64,
}

impl Calls {
    fn begin(before: Option<&Tombstone>) -> Self {
        let open = before.into_iter().flat_map(|tomb| &tomb.open);
        let open = open.map(|(seq, call)| (*call, *seq)).collect();
        let more = before.map_or(0, |tomb| tomb.more_open);
        Self { open, held: HashMap::new(), more }
    }

    fn see(&mut self, frame: &Frame<'_>) {
        let Some(call) = frame.call else { return };
        match frame.kind {
            Kind::Intent => {
                self.held.remove(&call);
                self.open.insert(call, frame.seq);
            }
            Kind::Outcome | Kind::Refused => {
                self.held.remove(&call);
                self.open.remove(&call);
            }
            Kind::Wait => match frame.read::<Waited>() {
                Some(waited) if !waited.step.ends() => drop(self.held.insert(call, waited.at)),
                _ => drop(self.held.remove(&call)),
            },
            Kind::Checkpoint | Kind::Tombstone | Kind::Gap | Kind::Event => {}
        }
    }

    /// Whether none of them runs or waits: those that wait may have ended in a later segment.
    fn ended_later(
        &mut self,
        inner: &Inner,
        later: &[u32],
        number: u32,
    ) -> io::Result<Result<(), Stays>> {
        if let Some(call) = self.open.keys().find(|call| inner.is_live(**call)) {
            return Ok(stays(format!("call `{call}` began in segment {number} and still runs")));
        }
        let now = inner.clock.wall().0;
        self.held.retain(|_, at| now.saturating_sub(at.0) < HELD);
        // Only what ends a call is of interest; one that has begun to run meanwhile is asked for.
        for number in later {
            if self.held.is_empty() {
                return Ok(Ok(()));
            }
            let file = inner.site.open(*number, Open::Read)?;
            let mut walk = Walk::new(file.as_ref(), HEADER as u64, u64::MAX)?;
            loop {
                match walk.next()? {
                    Step::Frame(_, frame) => self.see_end(&frame),
                    Step::Garbage { .. } => {}
                    Step::End(_) => break,
                }
            }
        }
        match self.held.keys().next() {
            None => Ok(Ok(())),
            Some(call) => Ok(stays(format!("call `{call}` is held since segment {number}"))),
        }
    }

    fn see_end(&mut self, frame: &Frame<'_>) {
        let Some(call) = frame.call else { return };
        let ends = match frame.kind {
            Kind::Outcome | Kind::Refused => true,
            Kind::Wait => frame.read::<Waited>().is_some_and(|waited| waited.step.ends()),
            _ => false,
        };
        if ends {
            self.held.remove(&call);
        }
    }

    /// The newest by name, the rest by number.
    fn open(self) -> (Vec<(u64, CallId)>, u64) {
        let mut open: Vec<_> = self.open.into_iter().map(|(call, seq)| (seq, call)).collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        let more = self.more + open.len().saturating_sub(MAX_OPEN) as u64;
        open.truncate(MAX_OPEN);
        open.reverse();
        (open, more)
    }
}

/// Size and SHA-256 of its file.
fn hashed(site: &Site, number: u32) -> io::Result<(u64, Digest)> {
    let file = site.open(number, Open::Read)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; 256 << 10];
    loop {
        let read = file.read_at(bytes, &mut chunk)?;
        let Some(part) = chunk.get(..read).filter(|part| !part.is_empty()) else { break };
        hash.update(part);
        bytes += read as u64;
    }
    Ok((bytes, Digest(hash.finalize().into())))
}
