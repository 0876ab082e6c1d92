//! Call ids: UUIDs of version 7, generated without a system call for each.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use tool::{CallId, WallTime};
use uuid::Builder;

/// Generates call ids. Their random part is a keyed hash of a counter: all are distinct, and
/// without the keys, drawn when the process starts, no id can be guessed from another.
#[derive(Debug, Default)]
pub(crate) struct CallIdGenerator {
    keys: [RandomState; 2],
    counter: AtomicU64,
}

impl CallIdGenerator {
    /// Generates an id for a call that starts at `wall`.
    pub(crate) fn generate_id(&self, wall: WallTime) -> CallId {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let [a, b] = self.keys.each_ref().map(|key| key.hash_one(number).to_le_bytes());
        let mut random = [0; 10];
        let bytes = a.into_iter().chain(b);
        random.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        CallId(Builder::from_unix_timestamp_millis(wall.0, &random).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tool::WallTime;

    use super::CallIdGenerator;

    #[test]
    fn ids_sort_by_time_and_none_comes_twice() {
        let ids = CallIdGenerator::default();
        let made: HashSet<_> = (0..10_000).map(|_| ids.generate_id(WallTime(7))).collect();
        assert_eq!(made.len(), 10_000);
        assert!(ids.generate_id(WallTime(8)) > ids.generate_id(WallTime(7)));
        let id = ids.generate_id(WallTime(1_700_000_000_123)).0;
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id.as_u128() >> 80, 1_700_000_000_123);
        // Another process has other keys.
        assert!(!made.contains(&CallIdGenerator::default().generate_id(WallTime(7))));
    }
}
