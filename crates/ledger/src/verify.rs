//! Checks a record without the server, or beside it while it writes.
//!
//! What it finds is what [`Fault`] lists. What it cannot find, and no one can without something
//! that was kept elsewhere: records cut off at the very end, a whole older copy put back, and a
//! record written anew from the first byte on. Checkpoints kept elsewhere show all three.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tool::ledger::Kind;
use tool::{CallId, LedgerError};

use crate::chain::{Chain, Checkpoint};
use crate::disk::Disk;
use crate::failure::failed;
use crate::finding::{Cut, Fault, Finding, Findings};
use crate::frame::Frame;
use crate::gone::{Gone, Tombs, agrees};
use crate::scan::Mark;
use crate::segment::{Site, parse_name, parse_tomb};
use crate::signed::VerifyKey;
use crate::survey::{Part, Survey};
use crate::tomb::Tombstone;

/// Of so many ended calls it is remembered that they had their intent and outcome.
const MAX_ENDED: usize = 16_000_000;

/// What [`verify`] saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Each writer's record.
    pub writers: Vec<WriterReport>,
    /// What is wrong, 1,000 at most.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more_findings: u64,
}

impl Report {
    /// What the check cannot see by itself; to be told with every report.
    pub const LIMITS: &'static str = "records cut off at the very end, an older copy put back and a record written anew as a whole are seen only against a checkpoint that was kept elsewhere";

    /// Whether nothing is wrong. Torn ends are not: a crash leaves them.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.more_findings == 0
    }
}

/// One writer's record in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterReport {
    /// Its name.
    pub writer: String,
    /// Files.
    pub segments: usize,
    /// Bytes in them that belong to the record.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Of them, intents.
    pub intents: u64,
    /// Of them, waits.
    pub waits: u64,
    /// Of them, outcomes.
    pub outcomes: u64,
    /// Of them, refusals.
    pub refused: u64,
    /// Of them, checkpoints.
    pub checkpoints: u64,
    /// Of them, gaps.
    pub gaps: u64,
    /// Of them, removals of segments.
    #[serde(default)]
    pub removals: u64,
    /// Of them, events.
    #[serde(default)]
    pub events: u64,
    /// Intents without an outcome: running, or unknown.
    pub open: u64,
    /// Of them, those of processes that are no more: unknown.
    pub unknown: u64,
    /// Records behind the last checkpoint: changes to them that keep each record whole, and cutting
    /// them off, are not seen.
    pub unsealed: u64,
    /// Checkpoints kept elsewhere that fit.
    pub kept: u64,
    /// The last record that the latest of them speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_through: Option<u64>,
    /// The last checkpoint: keep it elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// What is no part of the record: a torn end, or what was carried to another segment.
    pub cuts: Vec<Cut>,
    /// What retention removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Gone>,
}

/// Checks all records in `dir`: every checksum, every number, chain and tree against every
/// checkpoint, one intent and one outcome for each call, and `kept`, checkpoints that were kept
/// elsewhere. Changes nothing.
///
/// # Errors
/// The directory cannot be read. Files that cannot be read are findings.
pub fn verify(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    kept: &[Checkpoint],
) -> Result<Report, LedgerError> {
    verify_signed(dir, disk, kept, None)
}

/// Gives the keys that a writer's tombstones may be signed with.
pub type Signers<'a> = &'a dyn Fn(&str) -> Vec<VerifyKey>;

/// The same as [`verify`]; tombstones that none of `signers` signed are findings.
///
/// # Errors
/// As [`verify`].
pub fn verify_signed(
    dir: &Path,
    disk: &Arc<dyn Disk>,
    kept: &[Checkpoint],
    signers: Option<Signers<'_>>,
) -> Result<Report, LedgerError> {
    let site = |writer: &str| Site {
        disk: Arc::clone(disk),
        dir: dir.to_owned(),
        writer: writer.to_owned(),
    };
    let mut report = Report::default();
    // A server that writes may carry records to another segment between two looks at the
    // directory: what is found then is looked at again.
    for _ in 0..3 {
        let names = list(disk.as_ref(), dir)?;
        let mut writers = names
            .iter()
            .filter_map(|name| parse_name(name).or_else(|| parse_tomb(name)))
            .map(|(w, _)| w)
            .collect::<BTreeSet<_>>();
        writers.extend(kept.iter().map(|checkpoint| checkpoint.writer.as_str()));
        report = Report::default();
        for writer in writers {
            let keys = signers.map(|signers| signers(writer));
            check(&site(writer), (kept, keys.as_deref()), &mut report)?;
        }
        if report.is_sound() || list(disk.as_ref(), dir)? == names {
            break;
        }
    }
    Ok(report)
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<BTreeSet<String>, LedgerError> {
    let names = disk.list(dir).map_err(|error| failed("the record cannot be read", dir, &error))?;
    Ok(names.into_iter().collect())
}

fn check(
    site: &Site,
    (kept, keys): (&[Checkpoint], Option<&[VerifyKey]>),
    report: &mut Report,
) -> Result<(), LedgerError> {
    let survey = Survey::of(site)?;
    let mut check = Check::new(site, &survey, kept);
    check.gone(site, keys)?;
    let read = survey.replay(site, &mut |part, at, frame| check.frame(part, at, frame));
    check.end();
    let Check { mut numbers, found, calls, .. } = check;
    numbers.open = calls.open.len() as u64;
    let session = survey.parts.last().map_or(0, |part| part.session);
    numbers.unknown = calls.open.values().filter(|seq| **seq < session).count() as u64;
    numbers.segments = survey.parts.len();
    numbers.bytes = survey.parts.iter().map(|part| part.end).sum();
    numbers.checkpoint = survey.checkpoint().map(|mark| mark.checkpoint.clone());
    numbers.cuts = survey.cuts;
    report.writers.push(numbers);
    let mut all =
        Findings { list: std::mem::take(&mut report.findings), more: report.more_findings };
    all.more += survey.findings.more + found.more;
    for finding in survey.findings.list.into_iter().chain(found.list) {
        all.push(finding);
    }
    if let Err(error) = read {
        all.push(Finding {
            writer: site.writer.clone(),
            segment: String::new(),
            offset: 0,
            seq: None,
            fault: Fault::Unreadable,
            text: error.message,
        });
    }
    (report.findings, report.more_findings) = (all.list, all.more);
    Ok(())
}

/// Goes through one writer's record.
struct Check<'a> {
    writer: &'a str,
    chain: Chain,
    /// Checkpoints that were not reached yet, each with the name of its segment.
    marks: std::iter::Peekable<std::vec::IntoIter<(&'a str, &'a Mark)>>,
    kept: std::iter::Peekable<std::vec::IntoIter<&'a Checkpoint>>,
    numbers: WriterReport,
    found: Findings,
    calls: Calls,
    /// The last frame that a good checkpoint covers.
    sealed: u64,
    place: (String, u64),
}

impl<'a> Check<'a> {
    fn new(site: &'a Site, survey: &'a Survey, kept: &'a [Checkpoint]) -> Self {
        let marks = survey
            .parts
            .iter()
            .flat_map(|part| part.checkpoints.iter().map(|mark| (part.name.as_str(), mark)))
            .collect::<Vec<_>>();
        let mut kept = kept.iter().filter(|c| c.writer == site.writer).collect::<Vec<_>>();
        kept.sort_by_key(|checkpoint| checkpoint.through);
        let chain = survey.gone.as_ref().and_then(Tombstone::after);
        let chain = chain.unwrap_or_else(|| Chain::new(&site.writer));
        let open = survey.gone.iter().flat_map(|tomb| &tomb.open);
        let open = open.map(|(seq, call)| (*call, *seq)).collect();
        Self {
            writer: &site.writer,
            sealed: chain.through,
            chain,
            marks: marks.into_iter().peekable(),
            kept: kept.into_iter().peekable(),
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

    fn frame(&mut self, part: &Part, at: u64, frame: &Frame<'_>) {
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
    fn gone(&mut self, site: &Site, keys: Option<&[VerifyKey]>) -> Result<(), LedgerError> {
        let mut tombs = Tombs::new(site, keys);
        let (mut fit, mut met) = (Vec::new(), std::collections::HashSet::new());
        let kept: Vec<_> = self.kept.clone().collect();
        tombs.walk(&mut |stood, run| {
            for kept in kept.iter().filter(|kept| kept.count == stood.count) {
                met.insert(kept.count);
                if agrees(stood, run, kept) {
                    fit.push(*kept);
                }
            }
        })?;
        if tombs.gone.segments == 0 {
            return Ok(());
        }
        let end = self.chain.count;
        while let Some(kept) = self.kept.next_if(|kept| kept.count <= end) {
            if fit.contains(&kept) {
                self.numbers.kept += 1;
                self.numbers.kept_through = Some(kept.through);
                continue;
            }
            let why = if met.contains(&kept.count) {
                "are not those that the kept checkpoint sealed, as the tombstones say"
            } else {
                "were removed, and no tombstone keeps what a check of the kept checkpoint needs"
            };
            self.find(
                kept.through,
                Fault::Kept,
                format!("the records up to {} {why}", kept.through),
            );
        }
        for finding in std::mem::take(&mut tombs.found) {
            self.found.push(finding);
        }
        self.numbers.gone = Some(tombs.gone);
        Ok(())
    }

    /// Compares with every checkpoint that speaks of what lies before the frame `seq`.
    fn checkpoints(&mut self, seq: u64) {
        while let Some(kept) = self.kept.next_if(|kept| kept.through < seq) {
            if self.chain.agrees(kept) {
                self.numbers.kept += 1;
                self.numbers.kept_through = Some(kept.through);
            } else {
                let text = format!(
                    "the records up to {} are not those that the kept checkpoint sealed",
                    kept.through
                );
                self.find(kept.through, Fault::Kept, text);
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

    fn end(&mut self) {
        let last = self.chain.through;
        self.checkpoints(last + 1);
        self.numbers.unsealed = last.saturating_sub(self.sealed);
        while let Some(kept) = self.kept.next() {
            let text = format!(
                "the record ends at {last}, and the kept checkpoint goes to {}: the end was cut off, or an older copy was put back",
                kept.through
            );
            self.find(kept.through, Fault::Kept, text);
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
struct Calls {
    /// With the number of the intent.
    open: HashMap<CallId, u64>,
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
