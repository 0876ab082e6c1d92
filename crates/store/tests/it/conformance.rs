//! Behaviour that all stores share. Each test runs over all of them.

use std::sync::Arc;

use bytes::Bytes;
use store::{MAX_TOMBSTONES, MAX_VALUE_BYTES, MemoryStore, SqliteStore};
use tool::store::WritePrecondition;
use tool::{Store, StoreError, Version, VersionedValue};

macro_rules! over_all {
    ($($test:ident)+) => {
        mod memory { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(std::sync::Arc::new(super::MemoryStore::new())).await;
            }
        )+ }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let folder = tempfile::tempdir().unwrap();
                let store = super::SqliteStore::open_file(folder.path().join("store.db")).unwrap();
                super::$test(std::sync::Arc::new(store)).await;
            }
        )+ }
        mod protected { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let folder = tempfile::tempdir().unwrap();
                let macs = store::MacFile {
                    path: folder.path().join("store.macs"),
                    secret: tool::Secret::new("s"),
                };
                let path = folder.path().join("store.db");
                let store = super::SqliteStore::open_protected(path, &macs).unwrap();
                let rejected = store.rejected_rows();
                super::$test(std::sync::Arc::new(store)).await;
                assert_eq!(*rejected.borrow(), []);
            }
        )+ }
    };
}

over_all! {
    what_is_put_is_got
    a_write_needs_what_stands_there
    a_removed_key_is_absent
    removing_what_is_not_there_changes_nothing
    scans_are_by_prefix_in_order
    scans_go_on_from_a_key
    no_letter_of_a_prefix_is_special
    the_current_version_is_that_of_the_newest_write
    news_tell_of_writes_and_removals_in_order
    forgotten_removals_are_told
    what_cannot_be_kept_is_refused
    a_thousand_racing_increments_lose_nothing
    of_racing_makers_one_wins
}

type Any = Arc<dyn Store>;

async fn set(
    store: &Any,
    key: &str,
    expect: WritePrecondition,
    value: &str,
) -> Result<Version, StoreError> {
    store.put_value(key, expect, Some(Bytes::copy_from_slice(value.as_bytes()))).await
}

async fn make(store: &Any, key: &str) -> Version {
    set(store, key, WritePrecondition::Absent, "1").await.unwrap()
}

async fn scan(store: &Any, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    let found = store.scan_prefix(prefix, after, limit).await.unwrap();
    found.into_iter().map(|row| row.key).collect()
}

fn keys(found: &[VersionedValue]) -> Vec<&str> {
    found.iter().map(|row| row.key.as_str()).collect()
}

fn is_conflict(result: &Result<Version, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict { key }) if key == "a/b")
}

async fn what_is_put_is_got(store: Any) {
    assert_eq!(store.get_value("a/b").await.unwrap(), None);
    let version = make(&store, "a/b").await;
    let found = store.get_value("a/b").await.unwrap().unwrap();
    assert_eq!((found.key.as_str(), found.version, found.is_removal), ("a/b", version, false));
    assert_eq!(&found.bytes[..], b"1");
    let odd = Bytes::from_static(&[0, 255, 0]);
    store.put_value("a/ünï", WritePrecondition::Absent, Some(odd.clone())).await.unwrap();
    assert_eq!(store.get_value("a/ünï").await.unwrap().unwrap().bytes, odd);
}

async fn a_write_needs_what_stands_there(store: Any) {
    let first = make(&store, "a/b").await;
    assert!(is_conflict(&set(&store, "a/b", WritePrecondition::Absent, "2").await));
    let second = set(&store, "a/b", WritePrecondition::Version(first), "2").await.unwrap();
    assert!(second > first);
    assert!(is_conflict(&set(&store, "a/b", WritePrecondition::Version(first), "3").await));
    assert!(is_conflict(&store.put_value("a/b", WritePrecondition::Version(first), None).await));
    assert_eq!(&store.get_value("a/b").await.unwrap().unwrap().bytes[..], b"2");
    let other = set(&store, "a/c", WritePrecondition::Absent, "x").await.unwrap();
    assert!(is_conflict(&set(&store, "a/b", WritePrecondition::Version(other), "3").await));
}

async fn a_removed_key_is_absent(store: Any) {
    let first = make(&store, "a/b").await;
    let removal = store.put_value("a/b", WritePrecondition::Version(first), None).await.unwrap();
    assert_eq!(store.get_value("a/b").await.unwrap(), None);
    assert!(scan(&store, "a/", None, 9).await.is_empty());
    assert!(is_conflict(&set(&store, "a/b", WritePrecondition::Version(first), "2").await));
    assert!(is_conflict(&set(&store, "a/b", WritePrecondition::Version(removal), "2").await));
    assert!(make(&store, "a/b").await > removal);
}

async fn removing_what_is_not_there_changes_nothing(store: Any) {
    let first = make(&store, "a/b").await;
    assert_eq!(store.put_value("none", WritePrecondition::Absent, None).await.unwrap(), first);
    assert!(store.changes_since(first).await.unwrap().is_empty());
}

async fn scans_are_by_prefix_in_order(store: Any) {
    for key in ["b/2", "a", "b/1", "b/10", "b", "c/1", "b/é", "b\u{10ffff}", "b/\u{10ffff}x"] {
        make(&store, key).await;
    }
    let all = scan(&store, "b/", None, 100).await;
    assert_eq!(all, ["b/1", "b/10", "b/2", "b/é", "b/\u{10ffff}x"]);
    assert_eq!(scan(&store, "", None, 100).await.len(), 9);
}

async fn scans_go_on_from_a_key(store: Any) {
    for key in ["a", "b/1", "b/10", "b/2", "b/3", "c"] {
        make(&store, key).await;
    }
    assert_eq!(scan(&store, "b/", None, 2).await, ["b/1", "b/10"]);
    assert_eq!(scan(&store, "b/", Some("b/10"), 2).await, ["b/2", "b/3"]);
    assert_eq!(scan(&store, "b/", Some("a"), 1).await, ["b/1"]);
    assert_eq!(scan(&store, "b/", Some("c"), 9).await, [""; 0]);
    assert!(scan(&store, "b/", None, 0).await.is_empty());
}

async fn no_letter_of_a_prefix_is_special(store: Any) {
    for key in ["a_c", "abc", "a%c", "a*c", "a?c", "a'c", "A_c", "a\\c", "a[c"] {
        make(&store, key).await;
    }
    for prefix in ["a_", "a%", "a*", "a?", "a'", "A_", "a\\", "a["] {
        assert_eq!(scan(&store, prefix, None, 9).await, [format!("{prefix}c")]);
    }
}

async fn the_current_version_is_that_of_the_newest_write(store: Any) {
    let newest = async || store.current_version().await.unwrap();
    assert_eq!(newest().await, Version(0));
    let one = make(&store, "k/1").await;
    assert_eq!(newest().await, one);
    let removal = store.put_value("k/1", WritePrecondition::Version(one), None).await.unwrap();
    assert_eq!(newest().await, removal);
}

async fn news_tell_of_writes_and_removals_in_order(store: Any) {
    let one = make(&store, "k/1").await;
    let two = set(&store, "k/2", WritePrecondition::Absent, "2").await.unwrap();
    assert_eq!(keys(&store.changes_since(Version(0)).await.unwrap()), ["k/1", "k/2"]);
    assert!(store.changes_since(two).await.unwrap().is_empty());
    let three = set(&store, "k/1", WritePrecondition::Version(one), "3").await.unwrap();
    let four = store.put_value("k/2", WritePrecondition::Version(two), None).await.unwrap();
    let news = store.changes_since(two).await.unwrap();
    assert_eq!(keys(&news), ["k/1", "k/2"]);
    assert_eq!(
        (news[0].version, news[0].is_removal, &news[0].bytes[..]),
        (three, false, &b"3"[..])
    );
    assert_eq!((news[1].version, news[1].is_removal, &news[1].bytes[..]), (four, true, &b""[..]));
}

async fn forgotten_removals_are_told(store: Any) {
    let kept = make(&store, "kept").await;
    let mut removals = Vec::new();
    for _ in 0..MAX_TOMBSTONES + 2 {
        let key = format!("gone/{}", removals.len());
        let version = make(&store, &key).await;
        removals
            .push(store.put_value(&key, WritePrecondition::Version(version), None).await.unwrap());
    }
    let error = store.changes_since(kept).await.unwrap_err().to_string();
    assert!(error.contains("start again from write 0"), "{error}");
    assert!(store.changes_since(removals[0]).await.is_err());
    assert_eq!(store.changes_since(removals[1]).await.unwrap().len(), MAX_TOMBSTONES);
    let all = store.changes_since(Version(0)).await.unwrap();
    assert_eq!((all[0].key.as_str(), all.len()), ("kept", MAX_TOMBSTONES + 1));
    assert_eq!(store.scan_prefix("", None, 10).await.unwrap().len(), 1);
}

async fn what_cannot_be_kept_is_refused(store: Any) {
    for key in ["", "a\0b", "a\nb", &"k".repeat(513)] {
        let error = set(&store, key, WritePrecondition::Absent, "1").await.unwrap_err().to_string();
        assert!(error.ends_with("use 1 to 512 bytes and no control characters"), "{error}");
    }
    let large = Bytes::from(vec![0; MAX_VALUE_BYTES + 1]);
    let error = store
        .put_value("a/b", WritePrecondition::Absent, Some(large))
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the value of `a/b` has 4194305 bytes; the maximum is 4194304");
    assert!(
        store
            .put_value("a/b", WritePrecondition::Absent, Some(vec![0; MAX_VALUE_BYTES].into()))
            .await
            .is_ok()
    );
}

async fn increment(store: Any) {
    loop {
        let found = store.get_value("counter").await.unwrap().unwrap();
        let number: u64 = std::str::from_utf8(&found.bytes).unwrap().parse().unwrap();
        let next = (number + 1).to_string();
        match set(&store, "counter", WritePrecondition::Version(found.version), &next).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn a_thousand_racing_increments_lose_nothing(store: Any) {
    set(&store, "counter", WritePrecondition::Absent, "0").await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        racers.spawn(async move {
            for _ in 0..50 {
                increment(Arc::clone(&store)).await;
            }
        });
    }
    racers.join_all().await;
    assert_eq!(&store.get_value("counter").await.unwrap().unwrap().bytes[..], b"1000");
}

async fn of_racing_makers_one_wins(store: Any) {
    let mut racers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let store = Arc::clone(&store);
        racers.spawn(async move { set(&store, "a/b", WritePrecondition::Absent, "mine").await });
    }
    let results = racers.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|result| is_conflict(result)).count(), 99);
}
