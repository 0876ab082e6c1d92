//! Retention: whole segments go, oldest first, and a signed tombstone stays in the place of each.
//!
//! A segment goes only when a signed checkpoint seals all of it and more, when it is what that sealed, and
//! when no call that runs or waits has begun in it. One that was changed stays, as evidence, and all behind
//! it with it. The removal is on record before it is done; after a crash it is done to its end.

mod look;

use std::io;
use std::time::Duration;

use serde::Serialize;
use tool::ledger::Kind;
use tool::{Digest, Durability, LedgerError};

use crate::chain::Checkpoint;
use crate::disk::Open;
use crate::failure::failed;
use crate::file_ledger::FileLedger;
use crate::frame::Draft;
use crate::inner::Inner;
use crate::segment::{Header, Site};
use crate::signed::RecordKey;
use crate::survey;
use crate::tomb::{self, Tombstone, Why};

/// So many segments are removed in one go, so that others get their turn.
const AT_ONCE: usize = 16;

/// How much of the record is kept; nothing is removed where neither is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// Segments whose records are all older than this go.
    pub age: Option<Duration>,
    /// Where all segments together have more bytes than this, the oldest go.
    pub bytes: Option<u64>,
}

/// What [`FileLedger::retain`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments that were removed.
    pub removed: u32,
    /// Bytes of them.
    pub bytes: u64,
    /// Why one stays that is due, if so.
    pub stays: Option<String>,
}

/// The body of a tombstone on record.
#[derive(Debug, Serialize)]
struct Removed {
    segment: u32,
    first: u64,
    last: u64,
    bytes: u64,
    root: Digest,
    why: Why,
}

/// Why a segment was not removed.
enum Stays {
    /// It may be another time.
    Because(String),
    Failed(LedgerError),
}

impl FileLedger {
    /// Removes what `keep` does not keep. `signed`: the last checkpoint that was signed and written down;
    /// what it does not seal stays. Reads the segments that go, twice; not for a thread that others wait
    /// for. 16 segments at most: call it again.
    ///
    /// # Errors
    /// The disk's. What was begun is done to its end by the next call.
    pub fn retain(
        &self,
        keep: Keep,
        signed: &Checkpoint,
        key: &RecordKey,
    ) -> Result<Retained, LedgerError> {
        retain(&self.inner, keep, signed, key)
    }
}

pub(crate) fn retain(
    inner: &Inner,
    keep: Keep,
    signed: &Checkpoint,
    key: &RecordKey,
) -> Result<Retained, LedgerError> {
    let mut retained = Retained::default();
    if keep == Keep::default() {
        return Ok(retained);
    }
    for _ in 0..AT_ONCE {
        let there = There::of(inner)?;
        there.clear(inner)?;
        let Some((number, why)) = there.due(inner, keep)? else { break };
        match remove(inner, (number, why), &there, (signed, key)) {
            Ok(tomb) => {
                retained.removed += 1;
                retained.bytes += tomb.bytes;
            }
            Err(Stays::Because(text)) => {
                retained.stays = Some(text);
                break;
            }
            Err(Stays::Failed(error)) => return Err(error),
        }
    }
    Ok(retained)
}

fn remove(
    inner: &Inner,
    (number, why): (u32, Why),
    there: &There,
    (signed, key): (&Checkpoint, &RecordKey),
) -> Result<Tombstone, Stays> {
    let site = &inner.site;
    let tomb = look::over(inner, (number, why), there, signed)?;
    note(inner, &tomb).map_err(Stays::Failed)?;
    let told = |error: io::Error| {
        let name = crate::segment::name(&site.writer, number);
        Stays::Failed(failed(&format!("`{name}` cannot be removed"), &site.dir, &error))
    };
    tomb::put(site, &tomb, key).map_err(told)?;
    inner.index().forget(number);
    take_away(site, number).map_err(told)?;
    tracing::info!(segment = number, records = tomb.frames(), bytes = tomb.bytes, ?why, "removed");
    Ok(tomb)
}

/// The removal, on record.
fn note(inner: &Inner, tomb: &Tombstone) -> Result<(), LedgerError> {
    let (first, last) = (tomb.before.through + 1, tomb.end().through);
    let (segment, bytes, root, why) = (tomb.number, tomb.bytes, tomb.root, tomb.why);
    let body = Removed { segment, first, last, bytes, root, why };
    let mut draft = Draft::new(Kind::Tombstone, None, &body)?;
    let mut state = inner.lock();
    state.admits_intent(Durability::Written, draft.len(), &inner.site.dir)?;
    inner.append(&mut state, &mut draft, None)
}

pub(crate) fn take_away(site: &Site, number: u32) -> io::Result<()> {
    site.disk.remove(&site.path(number))?;
    match site.disk.remove(&site.filter(number).0) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    site.disk.sync_dir(&site.dir)
}

/// What is there.
struct There {
    /// Segments that hold the record, in order.
    segments: Vec<u32>,
    /// Segments that have a tombstone already.
    void: Vec<u32>,
    /// The last tombstone.
    last: Option<Tombstone>,
    /// The one that is written.
    active: u32,
}

impl There {
    fn of(inner: &Inner) -> Result<Self, LedgerError> {
        let site = &inner.site;
        // Asked first: what is begun later has a higher number.
        let active = inner.lock().active.as_ref().map_or(0, |active| active.number);
        let names = site.disk.list(&site.dir);
        let names =
            names.map_err(|error| failed("the record cannot be read", &site.dir, &error))?;
        let last = tomb::numbers(&names, &site.writer).pop();
        let last = last.map(|number| tomb::read(site, number)).transpose()?.map(|read| read.tomb);
        let gone = last.as_ref().map_or(0, |tomb| tomb.number);
        let (void, segments) =
            survey::numbers(&names, &site.writer).into_iter().partition(|number| *number <= gone);
        Ok(Self { segments, void, last, active })
    }

    /// Takes away what a crash left standing beside its tombstone.
    fn clear(&self, inner: &Inner) -> Result<(), LedgerError> {
        let site = &inner.site;
        for number in &self.void {
            inner.index().forget(*number);
            let told = |error: io::Error| failed("a segment cannot be removed", &site.dir, &error);
            take_away(site, *number).map_err(told)?;
        }
        Ok(())
    }

    /// The oldest one, where it is not to be kept.
    fn due(&self, inner: &Inner, keep: Keep) -> Result<Option<(u32, Why)>, LedgerError> {
        let [oldest, next, ..] = *self.segments.as_slice() else { return Ok(None) };
        if oldest >= self.active {
            return Ok(None);
        }
        let site = &inner.site;
        let told = |error: io::Error| failed("a segment cannot be read", &site.dir, &error);
        if let Some(age) = keep.age {
            // Its last record is older than the file that was begun behind it.
            let until = header(site, next).map_err(told)?.map_or(u64::MAX, |header| header.at.0);
            let old = inner.clock.wall().0.saturating_sub(until);
            if u128::from(old) >= age.as_millis() {
                return Ok(Some((oldest, Why::Age)));
            }
        }
        let Some(most) = keep.bytes else { return Ok(None) };
        let mut bytes = 0;
        for number in &self.segments {
            let file = site.open(*number, Open::Read).map_err(told)?;
            bytes += file.size().map_err(told)?;
        }
        Ok((bytes > most).then_some((oldest, Why::Bytes)))
    }
}

fn header(site: &Site, number: u32) -> io::Result<Option<Header>> {
    let file = site.open(number, Open::Read)?;
    Ok(Header::read(file.as_ref())?.ok())
}
