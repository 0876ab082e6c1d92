//! What binds the frames together: a hash chain and a Merkle tree over all frames of one writer, in
//! order, and the checkpoints that say how far they have come.
//!
//! The tree is that of RFC 6962, section 2.1, with the frames as leaves: `leaf = SHA-256(0, frame)`. The
//! chain is `head = SHA-256(head before, leaf)`, so that each frame is hashed once; it begins with the
//! writer's name. A checkpoint proves something to the degree that it, or the key that signed it
//! ([`crate::signed`]), is kept where the ledger's files are not.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::{Digest, Wall};

pub(crate) type Hash = [u8; 32];

/// How far chain and tree have come; the body of a checkpoint frame, and what to keep elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Whose chain.
    pub writer: String,
    /// Frames so far.
    pub count: u64,
    /// Number of the last of them. All of them were on the disk when this was written.
    pub through: u64,
    /// Head of the chain.
    pub head: Digest,
    /// Root of the tree.
    pub root: Digest,
    /// Roots of the tree's full subtrees, largest first: what the tree goes on from.
    pub peaks: Vec<Digest>,
    /// When.
    pub at: Wall,
}

/// Chain and tree on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) count: u64,
    pub(crate) through: u64,
    head: Hash,
    peaks: Vec<Hash>,
}

pub(crate) fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

pub(crate) fn join(left: &Hash, right: &Hash) -> Hash {
    hash(&[&[1], left, right])
}

/// What stands for a frame in the tree.
pub(crate) fn leaf(frame: &[u8]) -> Hash {
    hash(&[&[0], frame])
}

impl Chain {
    /// Where it stands according to what was written down, if the number of subtrees fits.
    pub(crate) fn at(count: u64, through: u64, head: Hash, peaks: Vec<Hash>) -> Option<Self> {
        let fits = peaks.len() == count.count_ones() as usize;
        fits.then_some(Self { count, through, head, peaks })
    }

    /// Head of the chain.
    pub(crate) fn head(&self) -> Hash {
        self.head
    }

    /// Roots of the full subtrees, largest first.
    pub(crate) fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Before the first frame.
    pub(crate) fn new(writer: &str) -> Self {
        let head = hash(&[b"toolkeep ledger 2\n", writer.as_bytes()]);
        Self { count: 0, through: 0, head, peaks: Vec::new() }
    }

    /// Goes on from a checkpoint, if what it says fits together.
    pub(crate) fn resume(from: &Checkpoint) -> Option<Self> {
        let peaks = from.peaks.iter().map(|peak| peak.0).collect::<Vec<_>>();
        let chain = Self { count: from.count, through: from.through, head: from.head.0, peaks };
        let fits = chain.peaks.len() == from.count.count_ones() as usize;
        (fits && chain.root() == from.root.0).then_some(chain)
    }

    /// Adds a frame.
    pub(crate) fn push(&mut self, seq: u64, frame: &[u8]) {
        let mut node = leaf(frame);
        self.head = hash(&[&self.head, &node]);
        // The trailing ones of the count are the subtrees that the new leaf completes.
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = join(&left, &node);
            }
        }
        self.peaks.push(node);
        self.count += 1;
        self.through = seq;
    }

    /// Root of the tree.
    pub(crate) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return hash(&[]) };
        peaks.fold(*last, |right, left| join(left, &right))
    }

    /// Writes down where it stands.
    pub(crate) fn checkpoint(&self, writer: &str, at: Wall) -> Checkpoint {
        Checkpoint {
            writer: writer.to_owned(),
            count: self.count,
            through: self.through,
            head: Digest(self.head),
            root: Digest(self.root()),
            peaks: self.peaks.iter().map(|peak| Digest(*peak)).collect(),
            at,
        }
    }

    /// Whether it stands where `checkpoint` says. One that was read from a note has no peaks; its root
    /// is over them.
    pub(crate) fn agrees(&self, checkpoint: &Checkpoint) -> bool {
        self.count == checkpoint.count
            && self.head == checkpoint.head.0
            && self.root() == checkpoint.root.0
            && (checkpoint.peaks.is_empty()
                || self.peaks.iter().eq(checkpoint.peaks.iter().map(|peak| &peak.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Chain, Hash, hash, join};
    use tool::Wall;

    /// The definition of RFC 6962, word for word.
    fn naive(leaves: &[Vec<u8>]) -> Hash {
        match leaves {
            [] => hash(&[]),
            [leaf] => hash(&[&[0], leaf]),
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                join(&naive(&leaves[..half]), &naive(&leaves[half..]))
            }
        }
    }

    #[test]
    fn the_tree_is_that_of_rfc_6962() {
        let leaves = (0..130_u32).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>();
        let mut chain = Chain::new("w");
        for (done, leaf) in leaves.iter().enumerate() {
            assert_eq!(chain.root(), naive(&leaves[..done]), "{done} leaves");
            chain.push(done as u64 + 1, leaf);
        }
        // Certificate Transparency's own test vector: the root over these eight leaves.
        let mut known = Chain::new("w");
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
            known.push(1, leaf);
        }
        assert_eq!(
            known.checkpoint("w", Wall(0)).root.to_string(),
            "sha256:5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
        );
    }

    #[test]
    fn a_chain_goes_on_from_its_checkpoint_and_from_no_other() {
        let mut chain = Chain::new("w");
        (1..=11_u64).for_each(|n| chain.push(n, &n.to_le_bytes()));
        let checkpoint = chain.checkpoint("w", Wall(0));
        let mut again = Chain::resume(&checkpoint).unwrap();
        assert!(again.agrees(&checkpoint));
        again.push(12, b"x");
        chain.push(12, b"x");
        assert_eq!(again, chain);
        assert!(!chain.agrees(&checkpoint));
        let mut lie = checkpoint.clone();
        lie.count += 1;
        assert_eq!(Chain::resume(&lie), None);
        let mut lie = checkpoint;
        lie.peaks.swap(0, 1);
        assert_eq!(Chain::resume(&lie), None);
    }
}
