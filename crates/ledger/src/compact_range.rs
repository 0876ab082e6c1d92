//! Compact ranges of the tree's leaves, stored as the roots of their full subtrees. They allow
//! roots and proofs over removed frames.
//!
//! The first and the last leaf of a range determine its subtrees. Adjacent ranges can be merged.

use crate::hash_chain::{Sha256Hash, leaf_hash, node_hash};

/// The root of a full subtree over `1 << level` leaves from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SubtreeRoot {
    start: u64,
    level: u32,
    hash: Sha256Hash,
}

/// Range of leaves as the roots of its full subtrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompactRange {
    first_leaf: u64,
    end_leaf: u64,
    subtrees: Vec<SubtreeRoot>,
}

/// The level of the largest full subtree that begins at `at` and ends at `end` or before.
fn subtree_level(at: u64, end: u64) -> u32 {
    let most = end.saturating_sub(at).checked_ilog2().unwrap_or(0);
    at.trailing_zeros().min(most)
}

impl CompactRange {
    /// Creates an empty range at leaf `start`.
    pub(crate) fn empty_at(start: u64) -> Self {
        Self { first_leaf: start, end_leaf: start, subtrees: Vec::new() }
    }

    /// Creates the range from `start` to `end` with these subtree roots; `None` if their number is
    /// wrong.
    pub(crate) fn from_hashes(start: u64, end: u64, hashes: &[Sha256Hash]) -> Option<Self> {
        let mut run = Self::empty_at(start);
        for hash in hashes {
            if run.end_leaf >= end {
                return None;
            }
            let level = subtree_level(run.end_leaf, end);
            run.subtrees.push(SubtreeRoot { start: run.end_leaf, level, hash: *hash });
            run.end_leaf = run.end_leaf.checked_add(1_u64.checked_shl(level)?)?;
        }
        (run.end_leaf == end).then_some(run)
    }

    /// Returns the index after the last leaf.
    pub(crate) fn end_leaf(&self) -> u64 {
        self.end_leaf
    }

    /// Returns the roots of the subtrees, in order.
    pub(crate) fn subtree_hashes(&self) -> Vec<Sha256Hash> {
        self.subtrees.iter().map(|node| node.hash).collect()
    }

    /// Adds the leaf of one frame.
    pub(crate) fn push_frame(&mut self, frame: &[u8]) {
        self.push_subtree(0, leaf_hash(frame));
    }

    fn push_subtree(&mut self, level: u32, hash: Sha256Hash) {
        let mut node = SubtreeRoot { start: self.end_leaf, level, hash };
        self.end_leaf += 1 << level;
        while let Some(left) = self.subtrees.last().copied()
            && left.level == node.level
            && left.start.trailing_zeros() > left.level
        {
            self.subtrees.pop();
            let hash = node_hash(&left.hash, &node.hash);
            node = SubtreeRoot { start: left.start, level: left.level + 1, hash };
        }
        self.subtrees.push(node);
    }

    /// Appends `next`, if it begins at the end of this range.
    pub(crate) fn append_range(&mut self, next: &Self) -> bool {
        if next.first_leaf != self.end_leaf {
            return false;
        }
        for node in &next.subtrees {
            self.push_subtree(node.level, node.hash);
        }
        true
    }

    /// Returns the root over the leaves from `start` to `end`, if whole subtrees cover exactly that
    /// range.
    pub(crate) fn subrange_root(&self, start: u64, end: u64) -> Option<Sha256Hash> {
        let inside = self.subtrees.iter().filter(|node| (start..end).contains(&node.start));
        let ends = |node: &SubtreeRoot| node.start + (1 << node.level);
        let (mut at, mut hashes) = (start, Vec::new());
        for node in inside {
            if node.start != at {
                return None;
            }
            at = ends(node);
            hashes.push(node.hash);
        }
        if at != end {
            return None;
        }
        let last = hashes.pop()?;
        Some(hashes.iter().rev().fold(last, |right, left| node_hash(left, &right)))
    }

    /// Returns the root of the tree over the whole range.
    pub(crate) fn range_root(&self) -> Sha256Hash {
        self.subrange_root(self.first_leaf, self.end_leaf)
            .unwrap_or_else(|| crate::hash_chain::sha256(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::CompactRange;
    use crate::hash_chain::HashChain;

    fn leaves(from: u64, to: u64) -> CompactRange {
        let mut run = CompactRange::empty_at(from);
        (from..to).for_each(|n| run.push_frame(&n.to_le_bytes()));
        run
    }

    #[test]
    fn runs_that_meet_make_the_same_as_one() {
        let mut chain = HashChain::new("w");
        for end in 0..70_u64 {
            let whole = leaves(0, end);
            assert_eq!(
                (whole.range_root(), whole.subtree_hashes().as_slice()),
                (chain.tree_root(), chain.peaks())
            );
            for middle in 0..=end {
                let (mut left, right) = (leaves(0, middle), leaves(middle, end));
                // As it is read from what was written down.
                let read = CompactRange::from_hashes(middle, end, &right.subtree_hashes()).unwrap();
                assert_eq!(read, right);
                assert!(left.append_range(&read));
                assert_eq!(left, whole, "{middle} {end}");
            }
            chain.append_frame(end + 1, &end.to_le_bytes());
        }
    }

    #[test]
    fn what_does_not_fit_is_no_run() {
        let run = leaves(3, 20);
        let hashes = run.subtree_hashes();
        assert_eq!(CompactRange::from_hashes(3, 20, &hashes[1..]), None);
        assert_eq!(
            CompactRange::from_hashes(3, 20, &[hashes.clone(), hashes.clone()].concat()),
            None
        );
        assert_eq!(CompactRange::from_hashes(3, 21, &hashes), None);
        assert!(!leaves(0, 2).append_range(&run));
        assert_eq!(run.subrange_root(4, 7), None);
        assert_eq!(run.subrange_root(4, 8).unwrap(), leaves(4, 8).range_root());
    }
}
