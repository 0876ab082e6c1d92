//! Defines a persistent hash table: a copy shares every node that did not change since.
//!
//! An immutable catalog has tables of all its tools, and typically one tool of 100,000 changes. The
//! table of the next catalog then copies one path of nodes: one leaf and the branches above it.

use std::sync::Arc;

/// Maximum number of entries of a leaf; only entries of equal hashes are more.
const MAX_LEAF_ENTRIES: usize = 16;
/// Number of children of a branch, and the bits of a hash that select one.
const BRANCH_CHILDREN: usize = 32;
const BRANCH_BITS: u32 = 5;

/// An entry with its hash.
type HashedEntry<T> = (u64, T);

/// A hash table with any number of entries for one hash. Readers must compare the hashed value
/// themselves. Cloning costs nothing; changing a copy costs the nodes above the changed entry.
#[derive(Debug, Clone)]
pub struct HashTrie<T> {
    root: TrieNode<T>,
    len: usize,
}

#[derive(Debug, Clone)]
enum TrieNode<T> {
    Empty,
    Leaf(Arc<Vec<HashedEntry<T>>>),
    Branch(Arc<[Self; BRANCH_CHILDREN]>),
}

impl<T> Default for HashTrie<T> {
    fn default() -> Self {
        Self { root: TrieNode::Empty, len: 0 }
    }
}

/// Returns the child of a branch for a hash whose lower bits are used up.
fn child_index(hash: u64) -> usize {
    usize::try_from(hash % BRANCH_CHILDREN as u64).unwrap_or_default()
}

impl<T> HashTrie<T> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the entries of a hash.
    pub fn get_entries(&self, hash: u64) -> impl Iterator<Item = &T> {
        let (mut node, mut rest) = (&self.root, hash);
        let leaf = loop {
            match node {
                TrieNode::Empty => break &[][..],
                TrieNode::Leaf(entries) => break entries.as_slice(),
                TrieNode::Branch(children) => match children.get(child_index(rest)) {
                    Some(child) => (node, rest) = (child, rest >> BRANCH_BITS),
                    None => break &[][..],
                },
            }
        };
        leaf.iter().filter(move |(other, _)| *other == hash).map(|(_, item)| item)
    }

    /// Iterates over all entries, in no particular order.
    pub fn all_entries(&self) -> impl Iterator<Item = &T> {
        let mut open = vec![&self.root];
        let leaves = std::iter::from_fn(move || {
            loop {
                match open.pop()? {
                    TrieNode::Empty => {}
                    TrieNode::Leaf(entries) => return Some(entries.iter()),
                    TrieNode::Branch(children) => open.extend(children.iter()),
                }
            }
        });
        leaves.flatten().map(|(_, item)| item)
    }
}

impl<T: Clone> HashTrie<T> {
    /// Adds an entry beside those of the same hash.
    pub fn insert(&mut self, hash: u64, item: T) {
        self.len += 1;
        let (mut node, mut used) = (&mut self.root, 0);
        loop {
            if let TrieNode::Leaf(entries) = node
                && entries.len() >= MAX_LEAF_ENTRIES
                && entries.iter().any(|(other, _)| *other != hash)
                && used < u64::BITS
            {
                *node = split_leaf(entries, used);
            }
            match node {
                TrieNode::Empty => {
                    *node = TrieNode::Leaf(Arc::new(vec![(hash, item)]));
                    return;
                }
                TrieNode::Leaf(entries) => {
                    Arc::make_mut(entries).push((hash, item));
                    return;
                }
                TrieNode::Branch(children) => {
                    let at = child_index(hash.checked_shr(used).unwrap_or_default());
                    let Some(child) = Arc::make_mut(children).get_mut(at) else { return };
                    (node, used) = (child, used + BRANCH_BITS);
                }
            }
        }
    }

    /// Removes the first entry of a hash that `matches` accepts, and returns it.
    pub fn remove(&mut self, hash: u64, matches: impl Fn(&T) -> bool) -> Option<T> {
        // Nothing is copied for an entry that is not there.
        self.get_entries(hash).find(|item| matches(item))?;
        let (mut node, mut rest) = (&mut self.root, hash);
        loop {
            match node {
                TrieNode::Empty => return None,
                TrieNode::Branch(children) => {
                    node = Arc::make_mut(children).get_mut(child_index(rest))?;
                    rest >>= BRANCH_BITS;
                }
                TrieNode::Leaf(entries) => {
                    let found = |(other, item): &HashedEntry<T>| *other == hash && matches(item);
                    let at = entries.iter().position(found)?;
                    let (_, item) = Arc::make_mut(entries).swap_remove(at);
                    if entries.is_empty() {
                        *node = TrieNode::Empty;
                    }
                    self.len -= 1;
                    return Some(item);
                }
            }
        }
    }
}

/// Distributes the entries of a leaf over the children of a branch, by the bits of their hashes
/// after those that are used up.
fn split_leaf<T: Clone>(entries: &[HashedEntry<T>], used: u32) -> TrieNode<T> {
    let mut children = [const { Vec::new() }; BRANCH_CHILDREN];
    for entry in entries {
        let at = child_index(entry.0.checked_shr(used).unwrap_or_default());
        children.get_mut(at).into_iter().for_each(|child: &mut Vec<_>| child.push(entry.clone()));
    }
    let leaf = |entries: Vec<_>| {
        if entries.is_empty() { TrieNode::Empty } else { TrieNode::Leaf(Arc::new(entries)) }
    };
    TrieNode::Branch(Arc::new(children.map(leaf)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::{HashTrie, TrieNode};

    fn found(table: &HashTrie<usize>, hash: u64) -> Vec<usize> {
        let mut found: Vec<_> = table.get_entries(hash).copied().collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn it_has_what_came_and_not_what_went_whatever_its_size() {
        let (mut table, mut model) = (HashTrie::default(), BTreeMap::<u64, Vec<usize>>::new());
        // Every third hash has two entries; the lower bits are equal for many.
        let hash = |number: usize| (number as u64 - u64::from(number % 3 == 2)) * 0x9e37_79b9 * 64;
        for (from, to, is_removal) in
            [(0, 1, false), (1, 9_000, false), (100, 8_900, true), (0, 5, true), (0, 3, false)]
        {
            for number in from..to {
                let there = model.entry(hash(number)).or_default();
                if is_removal {
                    there.retain(|other| *other != number);
                    assert_eq!(table.remove(hash(number), |it| *it == number), Some(number));
                    assert_eq!(table.remove(hash(number), |it| *it == number), None);
                } else {
                    there.push(number);
                    there.sort_unstable();
                    table.insert(hash(number), number);
                }
            }
            assert!(model.iter().all(|(hash, there)| found(&table, *hash) == *there));
            assert_eq!(table.len(), model.values().map(Vec::len).sum::<usize>());
            assert_eq!(table.all_entries().count(), table.len());
        }
        assert!(found(&table, 12_345).is_empty());
    }

    #[test]
    fn entries_of_one_hash_share_a_leaf_and_are_removed_one_by_one() {
        let mut table = HashTrie::default();
        (0..100).for_each(|number| table.insert(7, number));
        (100..200).for_each(|number| table.insert(7 + (1 << 60), number));
        assert_eq!((found(&table, 7).len(), found(&table, 7 + (1 << 60)).len()), (100, 100));
        (0..100).for_each(|number| assert!(table.remove(7, |it| *it == number).is_some()));
        assert_eq!((found(&table, 7).len(), table.len()), (0, 100));
    }

    /// Nodes of a table that another does not share, and the number of entries in them.
    fn own_nodes(one: &TrieNode<usize>, other: &TrieNode<usize>) -> usize {
        match (one, other) {
            (TrieNode::Leaf(a), TrieNode::Leaf(b)) => usize::from(!Arc::ptr_eq(a, b)),
            (TrieNode::Branch(a), TrieNode::Branch(b)) if Arc::ptr_eq(a, b) => 0,
            (TrieNode::Branch(a), TrieNode::Branch(b)) => {
                1 + a.iter().zip(b.iter()).map(|(a, b)| own_nodes(a, b)).sum::<usize>()
            }
            (TrieNode::Empty, TrieNode::Empty) => 0,
            _ => 1,
        }
    }

    #[test]
    fn a_changed_copy_shares_all_but_one_path() {
        let mut table = HashTrie::default();
        for number in 0..100_000_usize {
            table.insert((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), number);
        }
        let before = table.clone();
        table.remove(0, |it| *it == 0);
        table.insert(0, 7);
        let own = own_nodes(&table.root, &before.root);
        assert!((2..=5).contains(&own), "{own} nodes are copied");
        assert_eq!((found(&before, 0), found(&table, 0)), (vec![0], vec![7]));
    }
}
