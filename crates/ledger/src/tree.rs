//! Runs of the tree's leaves, each kept as the roots of the full subtrees it is made of: what is needed of
//! frames that are gone, so that roots and proofs can still be computed over them.
//!
//! The subtrees of a run follow from where it begins and ends alone. Two runs that meet make one.

use crate::chain::{Hash, join, leaf};

/// The root of a full subtree over `1 << level` leaves from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    start: u64,
    level: u32,
    hash: Hash,
}

/// Leaves from `begin` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    begin: u64,
    end: u64,
    nodes: Vec<Node>,
}

/// The level of the largest full subtree that begins at `at` and ends at `end` or before.
fn level(at: u64, end: u64) -> u32 {
    let most = end.saturating_sub(at).checked_ilog2().unwrap_or(0);
    at.trailing_zeros().min(most)
}

impl Run {
    /// Nothing yet, from `begin` on.
    pub(crate) fn new(begin: u64) -> Self {
        Self { begin, end: begin, nodes: Vec::new() }
    }

    /// The run from `begin` to `end` that has these subtrees; `None` where they are not as many as it has.
    pub(crate) fn of(begin: u64, end: u64, hashes: &[Hash]) -> Option<Self> {
        let mut run = Self::new(begin);
        for hash in hashes {
            if run.end >= end {
                return None;
            }
            let level = level(run.end, end);
            run.nodes.push(Node { start: run.end, level, hash: *hash });
            run.end = run.end.checked_add(1_u64.checked_shl(level)?)?;
        }
        (run.end == end).then_some(run)
    }

    /// The first leaf behind it.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The roots of its subtrees, in order.
    pub(crate) fn hashes(&self) -> Vec<Hash> {
        self.nodes.iter().map(|node| node.hash).collect()
    }

    /// Adds a frame.
    pub(crate) fn push(&mut self, frame: &[u8]) {
        self.add(0, leaf(frame));
    }

    fn add(&mut self, level: u32, hash: Hash) {
        let mut node = Node { start: self.end, level, hash };
        self.end += 1 << level;
        while let Some(left) = self.nodes.last().copied()
            && left.level == node.level
            && left.start.trailing_zeros() > left.level
        {
            self.nodes.pop();
            let hash = join(&left.hash, &node.hash);
            node = Node { start: left.start, level: left.level + 1, hash };
        }
        self.nodes.push(node);
    }

    /// Goes on with `next`, if that begins where this ends.
    pub(crate) fn append(&mut self, next: &Self) -> bool {
        if next.begin != self.end {
            return false;
        }
        for node in &next.nodes {
            self.add(node.level, node.hash);
        }
        true
    }

    /// Root of the tree over its leaves from `from` to `to`, if whole subtrees of it make that up.
    pub(crate) fn root_of(&self, from: u64, to: u64) -> Option<Hash> {
        let inside = self.nodes.iter().filter(|node| (from..to).contains(&node.start));
        let ends = |node: &Node| node.start + (1 << node.level);
        let (mut at, mut hashes) = (from, Vec::new());
        for node in inside {
            if node.start != at {
                return None;
            }
            at = ends(node);
            hashes.push(node.hash);
        }
        if at != to {
            return None;
        }
        let last = hashes.pop()?;
        Some(hashes.iter().rev().fold(last, |right, left| join(left, &right)))
    }

    /// Root of the tree over all of it.
    pub(crate) fn root(&self) -> Hash {
        self.root_of(self.begin, self.end).unwrap_or_else(|| crate::chain::hash(&[]))
    }
}

#[cfg(test)]
mod tests {
    use super::Run;
    use crate::chain::Chain;

    fn leaves(from: u64, to: u64) -> Run {
        let mut run = Run::new(from);
        (from..to).for_each(|n| run.push(&n.to_le_bytes()));
        run
    }

    #[test]
    fn runs_that_meet_make_the_same_as_one() {
        let mut chain = Chain::new("w");
        for end in 0..70_u64 {
            let whole = leaves(0, end);
            assert_eq!((whole.root(), whole.hashes().as_slice()), (chain.root(), chain.peaks()));
            for middle in 0..=end {
                let (mut left, right) = (leaves(0, middle), leaves(middle, end));
                // As it is read from what was written down.
                let read = Run::of(middle, end, &right.hashes()).unwrap();
                assert_eq!(read, right);
                assert!(left.append(&read));
                assert_eq!(left, whole, "{middle} {end}");
            }
            chain.push(end + 1, &end.to_le_bytes());
        }
    }

    #[test]
    fn what_does_not_fit_is_no_run() {
        let run = leaves(3, 20);
        let hashes = run.hashes();
        assert_eq!(Run::of(3, 20, &hashes[1..]), None);
        assert_eq!(Run::of(3, 20, &[hashes.clone(), hashes.clone()].concat()), None);
        assert_eq!(Run::of(3, 21, &hashes), None);
        assert!(!leaves(0, 2).append(&run));
        assert_eq!(run.root_of(4, 7), None);
        assert_eq!(run.root_of(4, 8).unwrap(), leaves(4, 8).root());
    }
}
