//! What one segment holds, judged by itself: its frames, its faults, and what it claims to be on
//! the disk. Whether a fault is a torn end or damage only the other segments can tell: `survey`.

use std::io;

use tool::ledger::Kind;

use crate::chain::Checkpoint;
use crate::disk::Open;
use crate::frame::{Bad, Frame, MAX_SEQ};
use crate::old_tail::OldTail;
use crate::segment::{BadHeader, HEADER, Header, Site, name};
use crate::walk::{Step, Walk};

/// So many faults of one segment are kept; one alone decides what becomes of it.
const MAX_FAULTS: usize = 1_000;

/// A segment as it was found.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) session: u64,
    /// Whether its header says that a file beside it tells how far the writer has come.
    pub(crate) has_progress: bool,
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// Behind the last frame.
    pub(crate) end: u64,
    /// Every frame up to this number was on the disk at some time: the header or a checkpoint says
    /// so.
    pub(crate) claim: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) more_faults: u64,
    pub(crate) checkpoints: Vec<Mark>,
}

/// Something that does not fit.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    /// The number of the frame before it in this segment.
    pub(crate) before: Option<u64>,
    /// The number of the frame behind it in this segment.
    pub(crate) after: Option<u64>,
    pub(crate) what: What,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum What {
    Header(BadHeader),
    /// The header is of another segment.
    Foreign(Header),
    Garbage(Bad),
    /// Two neighbours whose numbers are none.
    Order,
    /// A checkpoint that says nothing readable, or something about another writer.
    Checkpoint,
}

/// A checkpoint, and where it stands.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) at: u64,
    pub(crate) seq: u64,
    pub(crate) checkpoint: Checkpoint,
}

impl Scan {
    /// Reads the whole segment, and what an older version left behind it.
    pub(crate) fn of(site: &Site, number: u32, tail: Option<&OldTail>) -> io::Result<Self> {
        let file = site.open(number, Open::Read)?;
        let mut scan = Self::empty(site, number);
        scan.header(&site.writer, Header::read(file.as_ref())?);
        let tail = tail.filter(|tail| tail.number == number);
        let mut walk = Walk::followed(file.as_ref(), (HEADER as u64, u64::MAX), tail)?;
        loop {
            match walk.next()? {
                Step::Frame(at, frame) => scan.frame(&site.writer, at, &frame),
                Step::Garbage { at, why } => scan.fault(at, What::Garbage(why)),
                Step::End(size) => {
                    // A file that is cut inside its header ends before the walk begins.
                    let own = file.size()?;
                    scan.size = size.min(tail.and_then(|tail| tail.end(own)).unwrap_or(own));
                    return Ok(scan);
                }
            }
        }
    }

    fn empty(site: &Site, number: u32) -> Self {
        Self {
            number,
            name: name(&site.writer, number),
            size: 0,
            session: 0,
            has_progress: false,
            first: None,
            last: None,
            end: HEADER as u64,
            claim: 0,
            faults: Vec::new(),
            more_faults: 0,
            checkpoints: Vec::new(),
        }
    }

    fn header(&mut self, writer: &str, header: Result<Header, BadHeader>) {
        match header {
            Ok(header) if header.writer != writer || header.number != self.number => {
                self.fault(0, What::Foreign(header));
            }
            Ok(header) => {
                self.session = header.session;
                self.has_progress = header.has_progress;
                self.claim = Some(header.synced).filter(|seq| *seq < MAX_SEQ).unwrap_or(0);
            }
            Err(bad) => self.fault(0, What::Header(bad)),
        }
    }

    fn fault(&mut self, at: u64, what: What) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { at, before: self.last, after: None, what });
        } else {
            self.more_faults += 1;
        }
    }

    fn frame(&mut self, writer: &str, at: u64, frame: &Frame<'_>) {
        let mut follows_fault = false;
        for fault in self.faults.iter_mut().rev().take_while(|fault| fault.after.is_none()) {
            fault.after = Some(frame.seq);
            follows_fault |= matches!(fault.what, What::Garbage(_));
        }
        if !follows_fault && self.last.is_some_and(|last| last + 1 != frame.seq) {
            self.fault(at, What::Order);
            if let Some(fault) = self.faults.last_mut() {
                fault.after = Some(frame.seq);
            }
        }
        self.first = self.first.or(Some(frame.seq));
        self.last = Some(frame.seq);
        self.end = at + frame.whole.len() as u64;
        if frame.kind == Kind::Checkpoint {
            self.checkpoint(writer, at, frame);
        }
    }

    fn checkpoint(&mut self, writer: &str, at: u64, frame: &Frame<'_>) {
        let read = frame.read::<Checkpoint>();
        // It speaks of frames before its own, and of none that is still to come.
        match read.filter(|read| read.writer == writer && read.through < frame.seq) {
            Some(checkpoint) => {
                self.claim = self.claim.max(checkpoint.through);
                self.checkpoints.push(Mark { at, seq: frame.seq, checkpoint });
            }
            None => self.fault(at, What::Checkpoint),
        }
    }

    /// Forgets everything from the first frame with the number `limit` or more on, which the next
    /// segments hold again. Returns how many frames that were.
    pub(crate) fn forget_from(
        &mut self,
        site: &Site,
        limit: u64,
        tail: Option<&OldTail>,
    ) -> io::Result<u64> {
        let file = site.open(self.number, Open::Read)?;
        let tail = tail.filter(|tail| tail.number == self.number);
        let mut walk = Walk::followed(file.as_ref(), (HEADER as u64, self.end), tail)?;
        let mut last = None;
        // What lies between the last frame that stays and the first that goes was one that goes.
        let mut cut = HEADER as u64;
        loop {
            match walk.next()? {
                Step::Frame(at, frame) if frame.seq < limit => {
                    last = Some(frame.seq);
                    cut = at + frame.whole.len() as u64;
                }
                Step::Garbage { .. } => {}
                Step::Frame(..) | Step::End(_) => break,
            }
        }
        let forgotten = self.last.map_or(0, |old| old.saturating_sub(limit) + 1);
        self.end = cut;
        self.last = last;
        self.first = self.first.filter(|_| last.is_some());
        self.faults.retain(|fault| fault.at < cut);
        self.checkpoints.retain(|mark| mark.at < cut);
        Ok(forgotten)
    }
}
