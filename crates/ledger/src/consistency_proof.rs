//! Consistency proofs between two checkpoints (RFC 6962, section 2.1.2).
//!
//! Verification needs both checkpoints and the proof, but not the record:
//! [`ConsistencyProof::verify_proof`] reads nothing else.

use serde::{Deserialize, Serialize};
use tool::Digest;

use crate::compact_range::CompactRange;
use crate::hash_chain::{LedgerCheckpoint, Sha256Hash, node_hash};

/// More than any tree of 64-bit size needs.
const MAX_PATH_LEN: usize = 130;

/// A proof that the tree of one size begins with that of a smaller one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsistencyProof {
    /// Frames in the smaller tree.
    #[serde(rename = "from")]
    pub earlier_count: u64,
    /// Frames in the larger tree.
    #[serde(rename = "to")]
    pub later_count: u64,
    /// The path, as RFC 6962 orders it.
    pub path: Vec<Digest>,
}

/// Reason why a proof is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The proof has other sizes than the checkpoints.
    #[error("the sizes in the proof differ from those of the checkpoints")]
    SizeMismatch,
    /// The checkpoints are of two records.
    #[error("the checkpoints belong to two different writers")]
    WriterMismatch,
    /// The computed root differs from that of the earlier checkpoint.
    #[error(
        "the proof does not match the earlier checkpoint, which belongs to another record or was \
         changed"
    )]
    EarlierRootMismatch,
    /// The computed root differs from that of the later checkpoint.
    #[error(
        "the proof does not match the later checkpoint: the record was rewritten, or the proof was \
         changed"
    )]
    LaterRootMismatch,
}

impl ConsistencyProof {
    /// Builds the proof from the leaf range of the smaller tree and the range up to the larger
    /// size.
    pub(crate) fn from_ranges(first: &CompactRange, second: &CompactRange) -> Option<Self> {
        let (from, to) = (first.end_leaf(), second.end_leaf());
        let mut path = Vec::new();
        if from > 0 {
            let (mut m, mut n, mut at, mut whole) = (from, to, 0, true);
            while m < n {
                let half = n.next_power_of_two() / 2;
                if m <= half {
                    path.push(subtree_root(first, second, at + half, at + n)?);
                    n = half;
                } else {
                    path.push(subtree_root(first, second, at, at + half)?);
                    (at, m, n, whole) = (at + half, m - half, n - half, false);
                }
            }
            if !whole {
                path.push(subtree_root(first, second, at, at + n)?);
            }
        }
        path.reverse();
        Some(Self {
            earlier_count: from,
            later_count: to,
            path: path.into_iter().map(Digest).collect(),
        })
    }

    /// Verifies that the tree of `later` extends the tree of `earlier`. The origin of the proof
    /// does not matter.
    ///
    /// # Errors
    /// The reason why the proof is invalid.
    pub fn verify_proof(
        &self,
        earlier: &LedgerCheckpoint,
        later: &LedgerCheckpoint,
    ) -> Result<(), ProofError> {
        if earlier.writer != later.writer {
            return Err(ProofError::WriterMismatch);
        }
        let sizes =
            (self.earlier_count, self.later_count) == (earlier.frame_count, later.frame_count);
        if !sizes || self.earlier_count > self.later_count || self.path.len() > MAX_PATH_LEN {
            return Err(ProofError::SizeMismatch);
        }
        let (left, right) =
            self.computed_roots(&earlier.root.0).ok_or(ProofError::LaterRootMismatch)?;
        if left != earlier.root.0 {
            return Err(ProofError::EarlierRootMismatch);
        }
        // Of an empty record anything is the continuation; of an equal one only itself.
        let same = self.earlier_count < self.later_count || earlier.head == later.head;
        if (self.earlier_count == 0 && self.path.is_empty()) || (right == later.root.0 && same) {
            Ok(())
        } else {
            Err(ProofError::LaterRootMismatch)
        }
    }

    /// The roots that the path leads to, as RFC 9162, section 2.1.4.2 walks it.
    fn computed_roots(&self, earlier: &Sha256Hash) -> Option<(Sha256Hash, Sha256Hash)> {
        let mut path = self.path.iter().map(|digest| digest.0);
        if self.earlier_count == 0 || self.earlier_count == self.later_count {
            return path.next().is_none().then_some((*earlier, *earlier));
        }
        let first = if self.earlier_count.is_power_of_two() { *earlier } else { path.next()? };
        let (mut at, mut last) = (self.earlier_count - 1, self.later_count - 1);
        let shift = at.trailing_ones();
        (at, last) = (at >> shift, last >> shift);
        let (mut left, mut right) = (first, first);
        for node in path {
            if last == 0 {
                return None;
            }
            if at & 1 == 1 || at == last {
                (left, right) = (node_hash(&node, &left), node_hash(&node, &right));
                while at & 1 == 0 && at != 0 {
                    (at, last) = (at >> 1, last >> 1);
                }
            } else {
                right = node_hash(&right, &node);
            }
            (at, last) = (at >> 1, last >> 1);
        }
        (last == 0).then_some((left, right))
    }
}

fn subtree_root(
    first: &CompactRange,
    rest: &CompactRange,
    from: u64,
    to: u64,
) -> Option<Sha256Hash> {
    if to <= first.end_leaf() {
        first.subrange_root(from, to)
    } else {
        rest.subrange_root(from, to)
    }
}

#[cfg(test)]
mod tests {
    use tool::{Digest, WallTime};

    use super::{ConsistencyProof, ProofError};
    use crate::compact_range::CompactRange;
    use crate::hash_chain::{HashChain, LedgerCheckpoint};

    fn sealed(count: u64) -> LedgerCheckpoint {
        let mut chain = HashChain::new("w");
        (0..count).for_each(|n| chain.append_frame(n + 1, &n.to_le_bytes()));
        chain.to_checkpoint("w", WallTime(0))
    }

    fn run(from: u64, to: u64) -> CompactRange {
        let mut run = CompactRange::empty_at(from);
        (from..to).for_each(|n| run.push_frame(&n.to_le_bytes()));
        run
    }

    #[test]
    fn every_pair_is_proved_and_no_other_root_is() {
        for to in 0..66 {
            let later = sealed(to);
            for from in 0..=to {
                let earlier = sealed(from);
                let proof = ConsistencyProof::from_ranges(&run(0, from), &run(from, to)).unwrap();
                assert_eq!(proof.verify_proof(&earlier, &later), Ok(()), "{from} {to}");
                assert!(proof.path.len() <= 8, "{from} {to}: {}", proof.path.len());
                let mut lie = later.clone();
                lie.root.0[7] ^= 1;
                assert!(from == 0 || proof.verify_proof(&earlier, &lie).is_err(), "{from} {to}");
                let mut lie = earlier.clone();
                lie.root.0[7] ^= 1;
                assert!(from == 0 || proof.verify_proof(&lie, &later).is_err(), "{from} {to}");
                for at in 0..proof.path.len() {
                    let mut lie = proof.clone();
                    lie.path[at].0[0] ^= 1;
                    assert!(lie.verify_proof(&earlier, &later).is_err(), "{from} {to} {at}");
                    lie.path.remove(at);
                    assert!(lie.verify_proof(&earlier, &later).is_err(), "{from} {to} {at}");
                }
                let mut lie = proof.clone();
                lie.path.push(Digest([0; 32]));
                assert!(lie.verify_proof(&earlier, &later).is_err(), "{from} {to}");
            }
        }
    }

    /// The vectors that Certificate Transparency's own code is tested with: eight leaves.
    #[test]
    fn the_path_is_that_of_certificate_transparency() {
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
        let over = |from: usize, to: usize| {
            let mut run = CompactRange::empty_at(from as u64);
            leaves[from..to].iter().for_each(|leaf| run.push_frame(leaf));
            run
        };
        let path = |from, to| {
            let proof = ConsistencyProof::from_ranges(&over(0, from), &over(from, to)).unwrap();
            proof.path.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            path(1, 8),
            [
                "sha256:96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "sha256:5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "sha256:6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ]
        );
        assert_eq!(
            path(6, 8),
            [
                "sha256:0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                "sha256:ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "sha256:d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ]
        );
    }

    #[test]
    fn what_a_proof_is_not_about_is_told() {
        let (a, b) = (sealed(5), sealed(9));
        let proof = ConsistencyProof::from_ranges(&run(0, 5), &run(5, 9)).unwrap();
        assert_eq!(proof.verify_proof(&a, &sealed(10)), Err(ProofError::SizeMismatch));
        assert_eq!(proof.verify_proof(&b, &a), Err(ProofError::SizeMismatch));
        let other = LedgerCheckpoint { writer: "other".to_owned(), ..b };
        assert_eq!(proof.verify_proof(&a, &other), Err(ProofError::WriterMismatch));
    }
}
