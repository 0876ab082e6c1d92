//! Checks a record without the server, or beside it while it writes.
//!
//! What it finds is what [`Fault`] lists. What it cannot find says [`Report::LIMITS`].

mod check;
mod checkpoint_file;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tool::LedgerError;

use crate::chain::Checkpoint;
use crate::disk::Disk;
use crate::failure::failed;
use crate::finding::{Cut, Fault, Finding, Findings};
use crate::gone::Gone;
use crate::segment::{Site, writer_of};
use crate::signed::VerifyKey;
use crate::survey::{self, Survey};
use check::{Check, Outside};
use checkpoint_file::CheckpointFile;

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
    ///
    /// Each of these leaves files that a server could have left: an older copy is such files; who writes the record anew,
    /// or cuts its end off, can make the file that says how far it goes fit; a loss of power takes what was not synced,
    /// so that its end may be missing; and a killed server leaves the beginning of a record that it acknowledged to nobody.
    pub const LIMITS: &'static str = "an older copy put back, a record written anew as a whole, and records cut off at the very end by somebody who also changes the file that says how far the record goes, are seen only against a checkpoint that was kept elsewhere; after a loss of power, missing records that were not synced yet are not told from lost ones";

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
    /// Records that were written, and lost because they were not synced when the power went.
    #[serde(default)]
    pub lost: u64,
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
        let mut writers = names.iter().filter_map(|name| writer_of(name)).collect::<BTreeSet<_>>();
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
    // What the server writes last is read first.
    let found = survey::found(site)?;
    let signed = CheckpointFile::read(site, &found, keys);
    let survey = Survey::behind(site, found)?;
    let kept = kept.iter().filter(|checkpoint| checkpoint.writer == site.writer);
    let kept = kept.map(|checkpoint| Outside { checkpoint: checkpoint.clone(), beside: false });
    let outside: Vec<_> = kept.chain(signed.checkpoint).collect();
    let mut check = Check::new(site, &survey, &outside);
    signed.finding.into_iter().for_each(|finding| check.found.push(finding));
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
    numbers.lost = survey.lost;
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
