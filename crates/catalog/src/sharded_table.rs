//! An immutable hash table that shares unchanged shards with its predecessor.
//!
//! A catalog is never modified, and typically one source of a thousand changes: other shards are
//! not copied. Readers must compare the hashed value themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Target number of entries per shard; the table is rebuilt if it has four times as many, or a
/// quarter.
const TARGET_SHARD_LEN: usize = 16;
/// Minimum number of shards.
const MIN_SHARDS: usize = 16;

/// An entry with its hash.
type HashedEntry<T> = (u64, T);

#[derive(Debug, Clone)]
pub(crate) struct ShardedTable<T> {
    /// Shards, a power of two; each ordered by hash.
    shards: Box<[Arc<[HashedEntry<T>]>]>,
    len: usize,
}

impl<T> Default for ShardedTable<T> {
    fn default() -> Self {
        Self::empty_table(MIN_SHARDS)
    }
}

impl<T> ShardedTable<T> {
    fn empty_table(shards: usize) -> Self {
        let none: Arc<[HashedEntry<T>]> = Arc::from(Vec::new());
        Self { shards: vec![none; shards].into(), len: 0 }
    }

    /// Returns the shard of a hash.
    fn shard_index(&self, hash: u64) -> usize {
        usize::try_from(hash % self.shards.len() as u64).unwrap_or_default()
    }
}

impl<T: Copy + PartialEq> ShardedTable<T> {
    /// Returns the entries of a hash.
    pub(crate) fn get_entries(&self, hash: u64) -> impl Iterator<Item = T> {
        let shard = self.shards.get(self.shard_index(hash)).map_or(&[][..], |shard| shard);
        let from = shard.partition_point(|(other, _)| *other < hash);
        let found = shard.get(from..).unwrap_or_default().iter();
        found.take_while(move |(other, _)| *other == hash).map(|(_, item)| *item)
    }

    /// Returns the table without `removed`, which it contains, and with `added`, which it lacks.
    pub(crate) fn with_changes(
        &self,
        removed: Vec<HashedEntry<T>>,
        added: Vec<HashedEntry<T>>,
    ) -> Self {
        let next = self.apply_changes(removed, added);
        let fitting = (next.len / TARGET_SHARD_LEN).next_power_of_two().max(MIN_SHARDS);
        let shards = next.shards.len();
        if fitting < shards * 4 && shards < fitting * 4 {
            return next;
        }
        let all = next.shards.iter().flat_map(|shard| shard.iter().copied()).collect();
        Self::empty_table(fitting).apply_changes(Vec::new(), all)
    }

    fn apply_changes(&self, removed: Vec<HashedEntry<T>>, added: Vec<HashedEntry<T>>) -> Self {
        let mut touched: BTreeMap<usize, [Vec<HashedEntry<T>>; 2]> = BTreeMap::new();
        for (item, new) in
            removed.into_iter().map(|it| (it, 0)).chain(added.into_iter().map(|it| (it, 1)))
        {
            let lists = touched.entry(self.shard_index(item.0)).or_default();
            lists.get_mut(new).into_iter().for_each(|list| list.push(item));
        }
        let mut next = self.clone();
        for (at, [gone, come]) in touched {
            let Some(shard) = next.shards.get_mut(at) else { continue };
            let before = shard.len();
            let kept = shard.iter().filter(|item| !gone.contains(item)).copied();
            let mut items: Vec<_> = kept.chain(come).collect();
            items.sort_unstable_by_key(|(hash, _)| *hash);
            next.len = next.len + items.len() - before;
            *shard = items.into();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::ShardedTable;

    fn found(shards: &ShardedTable<usize>, hash: u64) -> Vec<usize> {
        let mut found: Vec<_> = shards.get_entries(hash).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn it_has_what_came_and_not_what_went_whatever_its_size() {
        let (mut shards, mut model) = (ShardedTable::default(), BTreeMap::<u64, Vec<usize>>::new());
        // Every third hash has two entries.
        let hash = |number: usize| (number as u64 - u64::from(number % 3 == 2)) * 0x9e37_79b9;
        for (from, to, going) in
            [(0, 1, false), (1, 9_000, false), (100, 8_900, true), (0, 5, true)]
        {
            let items: Vec<_> = (from..to).map(|number| (hash(number), number)).collect();
            for (hash, number) in &items {
                let there = model.entry(*hash).or_default();
                if going { there.retain(|other| other != number) } else { there.push(*number) }
            }
            let (gone, come) = if going { (items, Vec::new()) } else { (Vec::new(), items) };
            shards = shards.with_changes(gone, come);
            assert!(model.iter().all(|(hash, there)| found(&shards, *hash) == *there));
            assert_eq!(shards.len, model.values().map(Vec::len).sum::<usize>());
            let most = shards.shards.iter().map(|shard| shard.len()).max().unwrap();
            assert!(most < 16 * super::TARGET_SHARD_LEN && shards.shards.len() <= 1_024);
        }
        assert!(found(&shards, 12_345).is_empty());
    }

    #[test]
    fn what_did_not_change_is_shared() {
        let all = (0..4_000_u64).map(|number| (number.wrapping_mul(0x9e37_79b9), number)).collect();
        let one = ShardedTable::default().with_changes(Vec::new(), all);
        let other = one.with_changes(vec![(0, 0)], vec![(0, 7)]);
        let apart = one.shards.iter().zip(&other.shards).filter(|(a, b)| !Arc::ptr_eq(a, b));
        assert_eq!(apart.count(), 1);
    }
}
