//! The cache in a store: values with their time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{MemoryStore, SqliteStore, StoreCache};
use testkit::clock::FakeClock;
use tool::{Cache as _, Store};

const HOUR: Duration = Duration::from_hours(1);

async fn has(cache: &StoreCache) -> [bool; 2] {
    [cache.contains_all(&["a", "b"]).await.unwrap(), cache.contains_all(&["a", "c"]).await.unwrap()]
}

async fn keeps(store: Arc<dyn Store>) {
    let clock = Arc::new(FakeClock::default());
    let cache = StoreCache::new(store, Arc::clone(&clock) as _);
    assert_eq!(cache.get_cached("a", 9).await.unwrap(), None);
    for value in ["one", "two"] {
        let pairs = [("a", Bytes::from(value)), ("b", Bytes::new())];
        cache.put_all(&pairs, HOUR).await.unwrap();
        assert_eq!(cache.get_cached("a", 3).await.unwrap().unwrap(), value);
    }
    assert_eq!(cache.get_cached("a", 2).await.unwrap(), None, "larger than was asked for");
    assert_eq!(has(&cache).await, [true, false]);
    clock.advance(HOUR);
    assert_eq!(cache.get_cached("a", 9).await.unwrap(), None);
    assert_eq!(has(&cache).await, [false, false]);
}

#[tokio::test]
async fn values_are_kept_until_their_time_is_over() {
    keeps(Arc::new(MemoryStore::new())).await;
    let folder = tempfile::tempdir().unwrap();
    keeps(Arc::new(SqliteStore::open_file(folder.path().join("store.db")).unwrap())).await;
}

#[tokio::test]
async fn what_stands_there_and_is_no_value_is_none() {
    let store = Arc::new(MemoryStore::new());
    let absent = tool::store::WritePrecondition::Absent;
    store.put_value("cache/a", absent, Some(Bytes::from_static(b"short"))).await.unwrap();
    let cache = StoreCache::new(store, Arc::new(FakeClock::default()));
    assert_eq!(cache.get_cached("a", 9).await.unwrap(), None);
    cache.put_all(&[("a", Bytes::from_static(b"x"))], HOUR).await.unwrap();
    assert_eq!(cache.get_cached("a", 9).await.unwrap().unwrap(), "x");
}
