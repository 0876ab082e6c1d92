//! What stands in the place of a segment that retention removed: a signed note of what it was.
//!
//! It holds size, hash and root of the segment, how chain and tree stood before it, and for each checkpoint
//! in it how chain and tree went on: the roots of the subtrees between one and the next. So every later
//! root, and a proof between any two checkpoints, can be computed without the frames. It also names the
//! calls that had begun and not ended, so that their outcomes are not taken for strange ones.

mod text;

use std::io;
use std::sync::Arc;

use tool::{CallId, Digest, LedgerError, Wall};

use crate::chain::{Chain, Hash};
use crate::disk::{DiskFile, Open, append_all, read_all};
use crate::failure::failed;
use crate::segment::{Site, parse_tomb, tomb_name};
use crate::signed::{RecordKey, VerifyKey};
use crate::tree::Run;

/// The largest tombstone that is read, in bytes: some 300,000 checkpoints.
const LARGEST: u64 = 128 << 20;
/// So many open calls are named one by one, the newest.
pub(crate) const MAX_OPEN: usize = 10_000;

/// Why a segment was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was older than the configuration keeps.
    Age,
    /// The record was larger than the configuration keeps.
    Bytes,
}

/// How chain and tree stood behind a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stood {
    pub(crate) count: u64,
    pub(crate) through: u64,
    pub(crate) head: Hash,
    /// Roots of the subtrees since the one before.
    pub(crate) nodes: Vec<Hash>,
}

/// What one says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) writer: String,
    pub(crate) number: u32,
    /// Bytes of the segment.
    pub(crate) bytes: u64,
    /// SHA-256 of the segment's file.
    pub(crate) file: Digest,
    /// Root of the tree over the segment's own frames.
    pub(crate) root: Digest,
    /// When the segment was begun.
    pub(crate) begun: Wall,
    /// When its last frame was at the latest.
    pub(crate) until: Wall,
    /// When it was removed.
    pub(crate) at: Wall,
    pub(crate) why: Why,
    /// Up to this number a signed checkpoint sealed the record then.
    pub(crate) sealed: u64,
    /// Before its first frame; `nodes` are the peaks of the tree.
    pub(crate) before: Stood,
    /// At each checkpoint, and at its end.
    pub(crate) stood: Vec<Stood>,
    /// Calls that had begun and not ended, by the number of their intent.
    pub(crate) open: Vec<(u64, CallId)>,
    /// How many more of them are not named.
    pub(crate) more_open: u64,
}

impl Stood {
    pub(crate) fn of(chain: &Chain, nodes: Vec<Hash>) -> Self {
        Self { count: chain.count, through: chain.through, head: chain.head(), nodes }
    }
}

impl Tombstone {
    /// How many frames it stands for.
    pub(crate) fn frames(&self) -> u64 {
        self.end().count.saturating_sub(self.before.count)
    }

    /// At the segment's end.
    pub(crate) fn end(&self) -> &Stood {
        self.stood.last().unwrap_or(&self.before)
    }

    /// The tree's leaves before it.
    pub(crate) fn run_before(&self) -> Option<Run> {
        Run::of(0, self.before.count, &self.before.nodes)
    }

    /// Goes from `before` on over all it has, and shows each place. `None` where it does not fit together.
    pub(crate) fn walk(&self, run: &mut Run, visit: &mut dyn FnMut(&Stood, &Run)) -> Option<()> {
        let (mut count, mut through) = (self.before.count, self.before.through);
        for stood in &self.stood {
            let part = Run::of(count, stood.count, &stood.nodes)?;
            if stood.through < through || !run.append(&part) {
                return None;
            }
            (count, through) = (stood.count, stood.through);
            visit(stood, run);
        }
        Some(())
    }

    /// Chain and tree behind it; `None` where it does not fit together.
    pub(crate) fn after(&self) -> Option<Chain> {
        let mut run = self.run_before()?;
        self.walk(&mut run, &mut |_, _| {})?;
        let end = self.end();
        Chain::at(end.count, end.through, end.head, run.hashes())
    }
}

/// Writes one, and waits until it is on the disk.
pub(crate) fn put(site: &Site, tomb: &Tombstone, key: &RecordKey) -> io::Result<()> {
    let note = text::note(tomb, key);
    let (path, unnamed) = site.tomb(tomb.number);
    let file = site.disk.open(&unnamed, Open::New)?;
    let written = append_all(file.as_ref(), note.as_bytes()).and_then(|()| file.sync());
    // What a full disk let through must not stay taken.
    written.inspect_err(|_| drop(file.truncate(0)))?;
    site.disk.rename(&unnamed, &path)?;
    site.disk.sync_dir(&site.dir)
}

/// A tombstone as it was read, with its note.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) tomb: Tombstone,
    pub(crate) origin: String,
    note: String,
}

impl Read {
    /// Whether one of the keys signed it.
    pub(crate) fn signed_by(&self, keys: &[VerifyKey]) -> Result<(), String> {
        let Some(key) = keys.iter().find(|key| key.name() == self.origin) else {
            return Err(format!(
                "is signed for `{}`, and no key of that name was given",
                self.origin
            ));
        };
        let opened = key.opened_up_to(&self.note, LARGEST).map(drop);
        opened.map_err(|error| error.to_string())
    }
}

/// Reads the tombstone of a segment.
pub(crate) fn read(site: &Site, number: u32) -> Result<Read, LedgerError> {
    let name = tomb_name(&site.writer, number);
    let told = |error: &io::Error| failed(&format!("`{name}` cannot be read"), &site.dir, error);
    let file = site.disk.open(&site.tomb(number).0, Open::Read).map_err(|error| told(&error))?;
    let note = whole(&file).map_err(|error| told(&error))?;
    let bad = |why: &str| LedgerError::new(format!("`{name}` is no tombstone: {why}"));
    let (tomb, origin) = text::parse(&note).map_err(bad)?;
    if tomb.writer != site.writer || tomb.number != number {
        return Err(bad("it is that of another segment"));
    }
    if tomb.after().is_none() {
        return Err(bad("its nodes do not fit together"));
    }
    Ok(Read { tomb, origin, note })
}

fn whole(file: &Arc<dyn DiskFile>) -> io::Result<String> {
    let size = file.size()?;
    if size > LARGEST {
        return Err(io::Error::other(format!("it has more than {LARGEST} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let have = read_all(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text"))
}

/// The numbers of the tombstones of `writer` among `names`, in order.
pub(crate) fn numbers(names: &[String], writer: &str) -> Vec<u32> {
    let mine = |name: &String| parse_tomb(name).filter(|(of, _)| *of == writer).map(|(_, n)| n);
    let mut numbers: Vec<_> = names.iter().filter_map(mine).collect();
    numbers.sort_unstable();
    numbers
}
