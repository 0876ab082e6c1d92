use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use identity::{DelegationRequest, KeyId, KeyRecord, NewKey, Persona};
use store::{MAX_CHANGE_ROWS, MAX_TOMBSTONES, MemoryStore};
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::store::WritePrecondition;
use tool::{Clock as _, Json, Store, WallTime};

use super::{KeyStore, MAX_KEYS};

const NOW: WallTime = WallTime(1_800_000_000_000);

fn new(id: &str) -> NewKey {
    NewKey::for_owner(KeyId::new(id).unwrap())
}

async fn fill(store: &FaultyStore, keys: usize, change: impl Fn(usize, &mut KeyRecord)) {
    let (_, model) = new("model").issue_key([1; 32], NOW).unwrap();
    for n in 0..keys {
        let mut record = KeyRecord { id: KeyId::new(format!("k{n:06}")).unwrap(), ..model.clone() };
        change(n, &mut record);
        let bytes = Some(Json::encode(&record).bytes().clone());
        store.put_value(&record.store_key(), WritePrecondition::Absent, bytes).await.unwrap();
    }
}

async fn with(keys: usize) -> (Arc<FaultyStore>, KeyStore) {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    fill(&store, keys, |_, _| {}).await;
    let (keys, problems) =
        KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(problems, []);
    keys.poll_changes(&FakeClock::default()).await.unwrap();
    store.take_requests();
    (store, keys)
}

#[tokio::test]
async fn a_change_of_a_key_reads_nothing_of_the_others() {
    for count in [10, 12_000] {
        let (store, keys) = with(count).await;
        let (secret, record) = keys.create_key(new("fresh"), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [0, 1, 0, 0], "created beside {count}");
        let maker = keys.key_ring().verify_key(Some(secret.expose()), NOW).unwrap();
        let (handed, child) =
            keys.delegate_key(&maker, DelegationRequest::default(), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [0, 1, 0, 0], "handed on beside {count}");
        assert!(keys.key_ring().verify_key(Some(handed.expose()), NOW).is_ok());
        keys.revoke_key(record.id.as_str(), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [1, 1, 0, 0], "revoked beside {count}");
        for secret in [&secret, &handed] {
            assert!(keys.key_ring().verify_key(Some(secret.expose()), NOW).is_err());
        }
        // One's own changes are no news.
        keys.poll_changes(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [0, 0, 0, 2], "{count}");
        // What another one wrote is put into the ring alone.
        let (other, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
        other.revoke_key("k000003", NOW).await.unwrap();
        store.take_requests();
        keys.poll_changes(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [0, 0, 0, 2], "{count}");
        assert!(keys.key_ring().invalid_reason("k000003", NOW).is_some());
        // The control: what stands beside the keys decides over all of them, and is read, without the keys.
        let persona = Persona { name: "p".to_owned(), allowed_modules: None };
        other.put_persona(&persona, true).await.unwrap();
        store.take_requests();
        keys.poll_changes(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [1, 0, 4, 2], "{count}");
        let ring = keys.key_ring();
        assert_eq!((ring.len(), ring.find_record(child.id.as_str()).is_some()), (count + 2, true));
    }
}

#[tokio::test]
async fn all_keys_are_read_however_many_pages_they_take() {
    // More than one page of a scan; the last one in order is the owner's.
    let (store, keys) = with(12_000).await;
    let (secret, _) = keys.create_key(new("zzowner"), NOW).await.unwrap();
    let (again, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(again.key_ring().len(), 12_001);
    assert!(again.key_ring().verify_key(Some(secret.expose()), NOW).is_ok());
}

/// More rows than one answer of the store has, and more removals after them than it remembers: the writes since
/// any version in between are no longer known.
#[tokio::test]
async fn keys_are_read_once_however_many_rows_and_removals_there_are() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    fill(&store, MAX_CHANGE_ROWS + 500, |_, _| {}).await;
    let remove_rows = async |prefix: &str| {
        for n in 0..=MAX_TOMBSTONES {
            let key = format!("{prefix}/{n}");
            let bytes = Some(Bytes::from_static(b"{}"));
            let version = store.put_value(&key, WritePrecondition::Absent, bytes).await.unwrap();
            store.put_value(&key, WritePrecondition::Version(version), None).await.unwrap();
        }
    };
    remove_rows("gone").await;
    let load = || KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None);
    let (keys, _) = load().await.unwrap();
    assert_eq!(keys.key_ring().len(), MAX_CHANGE_ROWS + 500);
    store.take_requests();
    let scans = async || {
        for _ in 0..3 {
            keys.poll_changes(&FakeClock::default()).await.unwrap();
        }
        store.take_requests()[2]
    };
    assert_eq!(scans().await, 0, "nothing is read again");
    let (other, _) = load().await.unwrap();
    other.revoke_key("k000003", NOW).await.unwrap();
    store.take_requests();
    assert_eq!(scans().await, 0);
    assert!(keys.key_ring().invalid_reason("k000003", NOW).is_some());
    // A store that forgot removals since the last poll is read once, and what it has then counts.
    remove_rows("later").await;
    other.revoke_key("k000004", NOW).await.unwrap();
    store.take_requests();
    assert!(scans().await > 0, "the control");
    assert!(keys.key_ring().invalid_reason("k000004", NOW).is_some());
    assert_eq!(scans().await, 0);
}

#[tokio::test]
async fn keys_that_ended_leave_the_store_after_their_time_and_count_for_nothing() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let kept = u64::try_from(option_types::DEFAULT_ENDED_KEY_RETENTION.as_millis()).unwrap();
    let long_ago = WallTime(NOW.0 - kept - 1);
    fill(&store, 600, |n, record| {
        record.revoked_at = (n % 3 == 0).then_some(long_ago);
        record.expires_at = (n % 3 == 1).then_some(WallTime(NOW.0 - 1));
    })
    .await;
    let (keys, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!((keys.key_ring().len(), keys.key_ring().count_valid(NOW)), (600, 200));
    assert_eq!(keys.purge_ended(NOW).await.unwrap(), 200);
    assert_eq!(keys.purge_ended(NOW).await.unwrap(), 0);
    assert_eq!((keys.key_ring().len(), keys.key_ring().count_valid(NOW)), (400, 200));
    let (again, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(again.key_ring().len(), 400);
    // Those that expired a moment ago follow when their time has come.
    let later = WallTime(NOW.0 + kept / 2);
    assert_eq!(keys.purge_ended(later).await.unwrap(), 0);
    // The operator keeps them for a shorter time.
    keys.set_ended_key_retention(Duration::from_millis(kept / 2));
    assert_eq!(keys.purge_ended(later).await.unwrap(), 200);
    assert_eq!((keys.key_ring().len(), keys.key_ring().count_valid(NOW)), (200, 200));
}

#[tokio::test]
async fn more_keys_than_there_may_be_are_an_error_and_those_that_ended_do_not_count() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    fill(&store, MAX_KEYS, |n, record| record.revoked_at = (n == 0).then_some(NOW)).await;
    let (keys, _) = KeyStore::load(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    // One of them does not count any more.
    keys.create_key(new("last"), NOW).await.unwrap();
    let error = keys.create_key(new("more"), NOW).await.unwrap_err();
    assert!(
        error.message().starts_with(
            "there are already 100000 valid \
        keys"
        ),
        "{}",
        error.message()
    );
    keys.revoke_key("k000001", NOW).await.unwrap();
    keys.create_key(new("more"), NOW).await.unwrap();
}

/// A start and each change of the configuration set them.
#[tokio::test]
async fn guest_sources_that_stay_recompute_no_key() {
    let (store, keys) = with(10).await;
    let only = Some(std::collections::BTreeSet::from(["notes".to_owned()]));
    for (sources, is_change) in
        [(None, false), (only.clone(), true), (only.clone(), false), (None, true), (only, true)]
    {
        let before = keys.key_ring();
        keys.set_guest_sources(sources.clone()).await.unwrap();
        let after = keys.key_ring();
        assert_eq!(after.personas().guest_modules(), sources.as_ref());
        assert_eq!(!Arc::ptr_eq(&before, &after), is_change, "{sources:?}");
        assert_eq!(store.take_requests() != [0; 4], is_change, "{sources:?}");
    }
}

#[tokio::test]
async fn an_older_reading_undoes_no_change() {
    let (store, keys) = with(10).await;
    let clock = FakeClock::default();
    clock.advance(Duration::from_secs(1));
    // A reading begins, and a key is revoked before it ends.
    let reading = keys.start_reload();
    let before = keys.key_ring();
    keys.revoke_key("k000001", clock.wall_now()).await.unwrap();
    keys.poll_changes(&clock).await.unwrap();
    assert!(reading.install_ring(identity::KeyRing::clone(&before)));
    assert!(keys.key_ring().invalid_reason("k000001", clock.wall_now()).is_some());
    // The control: what it held was the key before.
    assert!(before.invalid_reason("k000001", clock.wall_now()).is_none());
    drop(store);
}
