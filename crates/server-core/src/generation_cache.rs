//! A cache with a limit in bytes: what was not used for a while is forgotten first.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key in two generations. Used values are in the young one; when that has half of the
/// limit, the old one is forgotten and the young one becomes old. A look-up costs the same at the
/// limit as below it.
#[derive(Debug)]
pub(crate) struct GenerationCache<K, V> {
    young: HashMap<K, SizedValue<V>>,
    old: HashMap<K, SizedValue<V>>,
    young_bytes: usize,
    old_bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct SizedValue<V> {
    value: V,
    bytes: usize,
}

/// Forgotten values, which may take long to drop.
pub(crate) type Forgotten<V> = Vec<V>;

impl<K: Eq + Hash, V: Clone> GenerationCache<K, V> {
    /// Creates a cache for values of this size in all.
    pub(crate) fn with_limit(max_bytes: usize) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        Self { young, old, young_bytes: 0, old_bytes: 0, max_bytes }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(found) = self.young.get(key) {
            return Some(found.value.clone());
        }
        let (key, found) = self.old.remove_entry(key)?;
        self.old_bytes -= found.bytes;
        let value = found.value.clone();
        // It stays within the limit: the value moves between the generations.
        self.young_bytes += found.bytes;
        drop(self.young.insert(key, found));
        Some(value)
    }

    /// Inserts a value of this size; a value above half of the limit is not stored. Returns what
    /// is forgotten.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) -> Forgotten<V> {
        let mut forgotten = Vec::new();
        if let Some(before) = self.old.remove(&key) {
            self.old_bytes -= before.bytes;
            forgotten.push(before.value);
        }
        if let Some(before) = self.young.remove(&key) {
            self.young_bytes -= before.bytes;
            forgotten.push(before.value);
        }
        if bytes > self.max_bytes / 2 {
            return forgotten;
        }
        if self.young_bytes + bytes > self.max_bytes / 2 {
            let gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            (self.old_bytes, self.young_bytes) = (self.young_bytes, 0);
            forgotten.extend(gone.into_values().map(|gone| gone.value));
        }
        if self.old_bytes + self.young_bytes + bytes > self.max_bytes {
            let gone = std::mem::take(&mut self.old);
            self.old_bytes = 0;
            forgotten.extend(gone.into_values().map(|gone| gone.value));
        }
        self.young_bytes += bytes;
        self.young.insert(key, SizedValue { value, bytes });
        forgotten
    }

    /// Returns the number of values and their bytes.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.young.len() + self.old.len(), self.young_bytes + self.old_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::GenerationCache;

    #[test]
    fn used_values_stay_and_the_limit_holds() {
        let mut cache = GenerationCache::with_limit(1_000);
        for number in 0..500 {
            drop(cache.insert(number, number, 10 + number % 7));
            assert_eq!(cache.get(&0), Some(0), "it is used all the time");
            assert_eq!(cache.get(&number), Some(number));
            let (count, bytes) = cache.counts();
            assert!(bytes <= 1_000 && count >= 30.min(number), "{bytes}");
            let sum = |map: &std::collections::HashMap<_, super::SizedValue<_>>| {
                map.values().map(|it| it.bytes).sum::<usize>()
            };
            assert_eq!((sum(&cache.young), sum(&cache.old)), (cache.young_bytes, cache.old_bytes));
        }
        assert_eq!(cache.get(&100), None, "it was not used for a while");
        // A replaced value counts once, and one that is too large is not stored.
        let before = cache.counts();
        drop(cache.insert(0, 1, 10));
        assert_eq!((cache.get(&0), cache.counts()), (Some(1), before));
        drop(cache.insert(0, 2, 501));
        assert_eq!(cache.get(&0), None);
    }
}
