//! Integrity chain: a hash chain and a Merkle tree over all frames of one writer, in order, and the
//! checkpoints that state their position.
//!
//! The tree is that of RFC 6962, section 2.1, with the frames as leaves: `leaf = SHA-256(0,
//! frame)`. The chain is `head = SHA-256(previous head, leaf)`, so that each frame is hashed once.
//! It begins with the writer's name. A checkpoint is evidence only if it, or the key that signed it
//! ([`crate::signed_checkpoint`]), is stored apart from the ledger's files.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::{Digest, WallTime};

pub(crate) type Sha256Hash = [u8; 32];

/// Position of the chain and the tree. It is the body of a checkpoint frame and should also be
/// stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerCheckpoint {
    /// Writer of the chain.
    pub writer: String,
    /// Frames so far.
    #[serde(rename = "count")]
    pub frame_count: u64,
    /// Number of the last frame. All frames were durable when the checkpoint was written.
    #[serde(rename = "through")]
    pub last_seq: u64,
    /// Head of the chain.
    pub head: Digest,
    /// Root of the tree.
    pub root: Digest,
    /// Roots of the tree's full subtrees, largest first, from which the tree continues.
    pub peaks: Vec<Digest>,
    /// When.
    #[serde(rename = "at")]
    pub created_at: WallTime,
}

/// Chain and tree on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HashChain {
    pub(crate) count: u64,
    pub(crate) last_seq: u64,
    head: Sha256Hash,
    peaks: Vec<Sha256Hash>,
}

pub(crate) fn sha256(parts: &[&[u8]]) -> Sha256Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

pub(crate) fn node_hash(left: &Sha256Hash, right: &Sha256Hash) -> Sha256Hash {
    sha256(&[&[1], left, right])
}

/// Returns the leaf hash of a frame.
pub(crate) fn leaf_hash(frame: &[u8]) -> Sha256Hash {
    sha256(&[&[0], frame])
}

impl HashChain {
    /// Restores the chain from its stored position, if the number of subtrees matches.
    pub(crate) fn from_parts(
        count: u64,
        last_seq: u64,
        head: Sha256Hash,
        peaks: Vec<Sha256Hash>,
    ) -> Option<Self> {
        let fits = peaks.len() == count.count_ones() as usize;
        fits.then_some(Self { count, last_seq, head, peaks })
    }

    /// Returns the head of the chain.
    pub(crate) fn head(&self) -> Sha256Hash {
        self.head
    }

    /// Returns the roots of the full subtrees, largest first.
    pub(crate) fn peaks(&self) -> &[Sha256Hash] {
        &self.peaks
    }

    /// Creates the chain before the first frame.
    pub(crate) fn new(writer: &str) -> Self {
        let head = sha256(&[b"toolkeep ledger 2\n", writer.as_bytes()]);
        Self { count: 0, last_seq: 0, head, peaks: Vec::new() }
    }

    /// Resumes from a checkpoint, if it is consistent.
    pub(crate) fn from_checkpoint(checkpoint: &LedgerCheckpoint) -> Option<Self> {
        let peaks = checkpoint.peaks.iter().map(|peak| peak.0).collect();
        let (count, last_seq) = (checkpoint.frame_count, checkpoint.last_seq);
        Self::from_parts(count, last_seq, checkpoint.head.0, peaks)
            .filter(|chain| chain.tree_root() == checkpoint.root.0)
    }

    /// Adds one frame to the chain and the tree.
    pub(crate) fn append_frame(&mut self, seq: u64, frame: &[u8]) {
        let mut node = leaf_hash(frame);
        self.head = sha256(&[&self.head, &node]);
        // The trailing ones of the count are the subtrees that the new leaf completes.
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.peaks.push(node);
        self.count += 1;
        self.last_seq = seq;
    }

    /// Returns the root of the tree.
    pub(crate) fn tree_root(&self) -> Sha256Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return sha256(&[]) };
        peaks.fold(*last, |right, left| node_hash(left, &right))
    }

    /// Returns the current position as a checkpoint.
    pub(crate) fn to_checkpoint(&self, writer: &str, time: WallTime) -> LedgerCheckpoint {
        LedgerCheckpoint {
            writer: writer.to_owned(),
            frame_count: self.count,
            last_seq: self.last_seq,
            head: Digest(self.head),
            root: Digest(self.tree_root()),
            peaks: self.peaks.iter().map(|peak| Digest(*peak)).collect(),
            created_at: time,
        }
    }

    /// Returns whether the position equals `checkpoint`. A checkpoint parsed from a note has no
    /// peaks, but its root covers them.
    pub(crate) fn matches_checkpoint(&self, checkpoint: &LedgerCheckpoint) -> bool {
        self.count == checkpoint.frame_count
            && self.head == checkpoint.head.0
            && self.tree_root() == checkpoint.root.0
            && (checkpoint.peaks.is_empty()
                || self.peaks.iter().eq(checkpoint.peaks.iter().map(|peak| &peak.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::{HashChain, Sha256Hash, node_hash, sha256};
    use tool::WallTime;

    /// The definition of RFC 6962, word for word.
    fn naive(leaves: &[Vec<u8>]) -> Sha256Hash {
        match leaves {
            [] => sha256(&[]),
            [leaf] => sha256(&[&[0], leaf]),
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                node_hash(&naive(&leaves[..half]), &naive(&leaves[half..]))
            }
        }
    }

    #[test]
    fn the_tree_is_that_of_rfc_6962() {
        let leaves = (0..130_u32).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>();
        let mut chain = HashChain::new("w");
        for (done, leaf) in leaves.iter().enumerate() {
            assert_eq!(chain.tree_root(), naive(&leaves[..done]), "{done} leaves");
            chain.append_frame(done as u64 + 1, leaf);
        }
        // Certificate Transparency's own test vector: the root over these eight leaves.
        let mut known = HashChain::new("w");
        let leaves: [&[u8]; 8] = [
            &[],
            &[0x00],
            &[0x10],
            &[0x20, 0x21],
            &[0x30, 0x31],
            &[0x40, 0x41, 0x42, 0x43],
            &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
            &[
                0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d,
                0x6e, 0x6f,
            ],
        ];
        for leaf in leaves {
            known.append_frame(1, leaf);
        }
        assert_eq!(
            known.to_checkpoint("w", WallTime(0)).root.to_string(),
            "sha256:5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
        );
    }

    #[test]
    fn a_chain_goes_on_from_its_checkpoint_and_from_no_other() {
        let mut chain = HashChain::new("w");
        (1..=11_u64).for_each(|n| chain.append_frame(n, &n.to_le_bytes()));
        let checkpoint = chain.to_checkpoint("w", WallTime(0));
        let mut again = HashChain::from_checkpoint(&checkpoint).unwrap();
        assert!(again.matches_checkpoint(&checkpoint));
        again.append_frame(12, b"x");
        chain.append_frame(12, b"x");
        assert_eq!(again, chain);
        assert!(!chain.matches_checkpoint(&checkpoint));
        let mut lie = checkpoint.clone();
        lie.frame_count += 1;
        assert_eq!(HashChain::from_checkpoint(&lie), None);
        let mut lie = checkpoint;
        lie.peaks.swap(0, 1);
        assert_eq!(HashChain::from_checkpoint(&lie), None);
    }
}
