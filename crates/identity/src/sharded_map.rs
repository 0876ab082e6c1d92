//! A map that is cheap to copy and change: copies share all unchanged shards.

use std::sync::Arc;

use tool::FastMap;

/// Number of shards. With 100,000 entries a change copies about 400 pointers.
const SHARD_COUNT: usize = 256;

type MapShard<T> = FastMap<Arc<str>, Arc<T>>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShardedMap<T> {
    shards: Vec<Arc<MapShard<T>>>,
    len: usize,
}

impl<T> Clone for ShardedMap<T> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len }
    }
}

impl<T> Default for ShardedMap<T> {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARD_COUNT], len: 0 }
    }
}

impl<T> ShardedMap<T> {
    pub(crate) fn get(&self, key: &str) -> Option<&T> {
        #[cfg(test)]
        visits::add();
        self.shards.get(shard_index(key))?.get(key).map(Arc::as_ref)
    }

    pub(crate) fn insert(&mut self, key: &str, value: T) {
        if let Some(shard) = self.shards.get_mut(shard_index(key)) {
            let before = Arc::make_mut(shard).insert(key.into(), Arc::new(value));
            self.len += usize::from(before.is_none());
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if let Some(shard) = self.shards.get_mut(shard_index(key))
            && shard.contains_key(key)
        {
            drop(Arc::make_mut(shard).remove(key));
            self.len -= 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Iterates over the values in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let all = self.shards.iter().flat_map(|shard| shard.values()).map(Arc::as_ref);
        #[cfg(test)]
        let all = all.inspect(|_| visits::add());
        all
    }

    /// Counts the shards that are shared with another map.
    #[cfg(test)]
    pub(crate) fn shared_with(&self, other: &Self) -> usize {
        self.shards.iter().zip(&other.shards).filter(|(a, b)| Arc::ptr_eq(a, b)).count()
    }
}

fn shard_index(key: &str) -> usize {
    // FNV-1a.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    usize::try_from(hash >> 56).unwrap_or(usize::MAX) % SHARD_COUNT
}

/// Counts the entries of all maps that this thread has read.
#[cfg(test)]
pub(crate) mod visits {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        COUNT.set(COUNT.get() + 1);
    }

    /// Returns the number of entries that `work` reads, and its result.
    pub(crate) fn count<R>(work: impl FnOnce() -> R) -> (usize, R) {
        let before = COUNT.get();
        let returned = work();
        (COUNT.get() - before, returned)
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARD_COUNT, ShardedMap};

    #[test]
    fn a_copy_shares_all_that_did_not_change() {
        let mut first = ShardedMap::default();
        for n in 0..10_000 {
            first.insert(&n.to_string(), n);
        }
        let mut second = first.clone();
        assert_eq!(second.shared_with(&first), SHARD_COUNT);
        second.insert("7", 70);
        second.remove("none");
        assert_eq!(second.shared_with(&first), SHARD_COUNT - 1);
        assert_eq!((first.get("7"), second.get("7"), second.len()), (Some(&7), Some(&70), 10_000));
        second.remove("7");
        assert_eq!((second.get("7"), second.len(), first.len()), (None, 9_999, 10_000));
        assert_eq!(second.values().count(), 9_999);
    }
}
