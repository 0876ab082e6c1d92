//! Tombstone: a signed note that replaces a segment removed by retention.
//!
//! It holds the size, hash and root of the segment, the chain and tree before it, and for each of
//! its checkpoints the roots of the subtrees since the previous one. So every later root, and a
//! proof between any two checkpoints, can be computed without the frames. It also lists the calls
//! that had begun and not ended, so that their outcomes are recognised later.

mod note_format;

use std::io;
use std::sync::Arc;

use tool::{CallId, Digest, LedgerError, WallTime};

use crate::compact_range::CompactRange;
use crate::disk::{DiskFile, OpenMode, append_all, read_fully};
use crate::error_messages::io_failure;
use crate::hash_chain::{HashChain, Sha256Hash};
use crate::segment::{WriterDir, file_numbers, parse_tombstone_name, tombstone_name};
use crate::signed_checkpoint::{CheckpointSigningKey, VerifierKey};

/// The largest tombstone that is read, in bytes: some 300,000 checkpoints.
const MAX_TOMBSTONE_BYTES: u64 = 128 << 20;
/// Maximum number of open calls that are listed, newest first.
pub(crate) const MAX_LISTED_CALLS: usize = 10_000;

/// Why a segment was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// The segment was older than the retention period.
    Age,
    /// The record was larger than the configuration keeps.
    #[serde(rename = "bytes")]
    Size,
}

/// Position of the chain and the tree after a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainState {
    pub(crate) frame_count: u64,
    pub(crate) last_seq: u64,
    pub(crate) chain_head: Sha256Hash,
    /// Roots of the subtrees since the one before.
    pub(crate) subtree_roots: Vec<Sha256Hash>,
}

/// Content of a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) writer: String,
    pub(crate) number: u32,
    /// Bytes of the segment.
    pub(crate) bytes: u64,
    /// SHA-256 of the segment's file.
    pub(crate) file_digest: Digest,
    /// Root of the tree over the segment's own frames.
    pub(crate) root: Digest,
    /// When the segment was begun.
    pub(crate) started_at: WallTime,
    /// When its last frame was at the latest.
    pub(crate) newest_before: WallTime,
    /// Time of the removal.
    pub(crate) removed_at: WallTime,
    pub(crate) reason: RemovalReason,
    /// Up to this number a signed checkpoint sealed the record then.
    pub(crate) signed_through: u64,
    /// Before its first frame; `nodes` are the peaks of the tree.
    pub(crate) initial_state: ChainState,
    /// At each checkpoint, and at its end.
    pub(crate) states: Vec<ChainState>,
    /// Calls that had begun and not ended, by the number of their intent.
    pub(crate) open_calls: Vec<OpenCall>,
    /// Number of open calls that are not listed.
    pub(crate) more_open_calls: u64,
}

/// A call that had begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenCall {
    /// Number of its intent.
    pub(crate) intent_seq: u64,
    pub(crate) call_id: CallId,
}

impl ChainState {
    pub(crate) fn from_chain(chain: &HashChain, nodes: Vec<Sha256Hash>) -> Self {
        Self {
            frame_count: chain.count,
            last_seq: chain.last_seq,
            chain_head: chain.head(),
            subtree_roots: nodes,
        }
    }
}

impl Tombstone {
    /// Returns the number of removed frames.
    pub(crate) fn frame_count(&self) -> u64 {
        self.final_state().frame_count.saturating_sub(self.initial_state.frame_count)
    }

    /// Returns the state of the chain at the end of the segment.
    pub(crate) fn final_state(&self) -> &ChainState {
        self.states.last().unwrap_or(&self.initial_state)
    }

    /// Returns the range of the tree's leaves before the segment.
    pub(crate) fn range_before(&self) -> Option<CompactRange> {
        CompactRange::from_hashes(
            0,
            self.initial_state.frame_count,
            &self.initial_state.subtree_roots,
        )
    }

    /// Visits each state of the chain and the tree, starting at the end of `range`. Returns `None`
    /// if they are inconsistent.
    pub(crate) fn visit_states(
        &self,
        range: &mut CompactRange,
        visit: &mut dyn FnMut(&ChainState, &CompactRange),
    ) -> Option<()> {
        let (mut count, mut through) =
            (self.initial_state.frame_count, self.initial_state.last_seq);
        for stood in &self.states {
            let part = CompactRange::from_hashes(count, stood.frame_count, &stood.subtree_roots)?;
            if stood.last_seq < through || !range.append_range(&part) {
                return None;
            }
            (count, through) = (stood.frame_count, stood.last_seq);
            visit(stood, range);
        }
        Some(())
    }

    /// Returns the chain and the tree after the segment; `None` if they are inconsistent.
    pub(crate) fn chain_after(&self) -> Option<HashChain> {
        let mut run = self.range_before()?;
        self.visit_states(&mut run, &mut |_, _| {})?;
        let end = self.final_state();
        HashChain::from_parts(end.frame_count, end.last_seq, end.chain_head, run.subtree_hashes())
    }
}

/// Writes a tombstone and waits until it is durable.
pub(crate) fn write_tombstone(
    writer_dir: &WriterDir,
    tombstone: &Tombstone,
    key: &CheckpointSigningKey,
) -> io::Result<()> {
    let note = note_format::format_note(tombstone, key);
    let (path, unnamed) = writer_dir.tombstone_paths(tombstone.number);
    let file = writer_dir.disk.open_file(&unnamed, OpenMode::Truncate)?;
    let written = append_all(file.as_ref(), note.as_bytes()).and_then(|()| file.sync_data());
    // Release the space that a full disk still granted.
    written.inspect_err(|_| drop(file.truncate_to(0)))?;
    writer_dir.disk.rename_file(&unnamed, &path)?;
    writer_dir.disk.sync_dir(&writer_dir.dir)
}

/// A stored tombstone with its signed note.
#[derive(Debug)]
pub(crate) struct SignedTombstone {
    pub(crate) tombstone: Tombstone,
    pub(crate) origin: String,
    note: String,
}

impl SignedTombstone {
    /// Verifies that one of the keys signed the tombstone.
    pub(crate) fn verify_signature(&self, keys: &[VerifierKey]) -> Result<(), String> {
        let Some(key) = keys.iter().find(|key| key.name() == self.origin) else {
            return Err(format!(
                "is signed for `{}`, but no key of that name was given",
                self.origin
            ));
        };
        let opened = key.verify_note_up_to(&self.note, MAX_TOMBSTONE_BYTES).map(drop);
        opened.map_err(|error| error.to_string())
    }
}

/// Reads the tombstone of a segment.
pub(crate) fn read_tombstone(
    writer_dir: &WriterDir,
    number: u32,
) -> Result<SignedTombstone, LedgerError> {
    let name = tombstone_name(&writer_dir.writer_name, number);
    let told =
        |error: &io::Error| io_failure(&format!("`{name}` cannot be read"), &writer_dir.dir, error);
    let file = writer_dir
        .disk
        .open_file(&writer_dir.tombstone_paths(number).0, OpenMode::Read)
        .map_err(|error| told(&error))?;
    let note = read_text(&file).map_err(|error| told(&error))?;
    let bad = |why: &str| LedgerError::new(format!("`{name}` is not a valid tombstone: {why}"));
    let (tomb, origin) = note_format::parse_note(&note).map_err(bad)?;
    if tomb.writer != writer_dir.writer_name || tomb.number != number {
        return Err(bad("it belongs to another segment"));
    }
    if tomb.chain_after().is_none() {
        return Err(bad("its nodes are inconsistent"));
    }
    Ok(SignedTombstone { tombstone: tomb, origin, note })
}

fn read_text(file: &Arc<dyn DiskFile>) -> io::Result<String> {
    let size = file.file_size()?;
    if size > MAX_TOMBSTONE_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_TOMBSTONE_BYTES} bytes")));
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let have = read_fully(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(have);
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text"))
}

/// Returns the numbers of the tombstones of `writer` among `names`, in order.
pub(crate) fn tombstone_numbers(names: &[String], writer: &str) -> Vec<u32> {
    file_numbers(names, writer, parse_tombstone_name)
}
