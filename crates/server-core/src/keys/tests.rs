use std::sync::Arc;
use std::time::Duration;

use identity::{Hand, KeyId, KeyRecord, NewKey, Persona};
use store::MemoryStore;
use testkit::clock::FakeClock;
use testkit::store::FaultyStore;
use tool::store::Expect;
use tool::{Clock as _, Json, Store, Wall};

use super::{KEYS, Keys, purge};

const NOW: Wall = Wall(1_800_000_000_000);

fn new(id: &str) -> NewKey {
    NewKey::owner(KeyId::new(id).unwrap())
}

async fn fill(store: &FaultyStore, keys: usize, change: impl Fn(usize, &mut KeyRecord)) {
    let (_, model) = new("model").issue([1; 32], NOW).unwrap();
    for n in 0..keys {
        let mut record = KeyRecord { id: KeyId::new(format!("k{n:06}")).unwrap(), ..model.clone() };
        change(n, &mut record);
        let bytes = Some(Json::of(&record).bytes().clone());
        store.put(&record.store_key(), Expect::Absent, bytes).await.unwrap();
    }
}

async fn with(keys: usize) -> (Arc<FaultyStore>, Keys) {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    fill(&store, keys, |_, _| {}).await;
    let (keys, problems) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(problems, []);
    keys.look(&FakeClock::default()).await.unwrap();
    store.take_requests();
    (store, keys)
}

#[tokio::test]
async fn a_change_of_a_key_reads_nothing_of_the_others() {
    for count in [10, 12_000] {
        let (store, keys) = with(count).await;
        let (secret, record) = keys.create(new("fresh"), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [0, 1, 0, 0], "created beside {count}");
        let maker = keys.ring().verify(Some(secret.open()), NOW).unwrap();
        let (handed, child) = keys.delegate(&maker, Hand::default(), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [0, 1, 0, 0], "handed on beside {count}");
        assert!(keys.ring().verify(Some(handed.open()), NOW).is_ok());
        keys.revoke(record.id.as_str(), NOW).await.unwrap();
        assert_eq!(store.take_requests(), [1, 1, 0, 0], "revoked beside {count}");
        for secret in [&secret, &handed] {
            assert!(keys.ring().verify(Some(secret.open()), NOW).is_err());
        }
        // One's own changes are no news.
        keys.look(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [0, 0, 0, 2], "{count}");
        // What another one wrote is put into the ring alone.
        let (other, _) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
        other.revoke("k000003", NOW).await.unwrap();
        store.take_requests();
        keys.look(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [0, 0, 0, 2], "{count}");
        assert!(keys.ring().over("k000003", NOW).is_some());
        // The control: what stands beside the keys decides over all of them, and is read, without the keys.
        let persona = Persona { name: "p".to_owned(), allowed_modules: None };
        other.keep_persona(&persona, true).await.unwrap();
        store.take_requests();
        keys.look(&FakeClock::default()).await.unwrap();
        assert_eq!(store.take_requests(), [1, 0, 4, 2], "{count}");
        let ring = keys.ring();
        assert_eq!((ring.len(), ring.get(child.id.as_str()).is_some()), (count + 2, true));
    }
}

#[tokio::test]
async fn all_keys_are_read_however_many_pages_they_take() {
    // More than one page of a scan; the last one in order is the owner's.
    let (store, keys) = with(12_000).await;
    let (secret, _) = keys.create(new("zzowner"), NOW).await.unwrap();
    let (again, _) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(again.ring().len(), 12_001);
    assert!(again.ring().verify(Some(secret.open()), NOW).is_ok());
}

#[tokio::test]
async fn keys_that_ended_leave_the_store_after_their_time_and_count_for_nothing() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let kept = u64::try_from(purge::KEPT.as_millis()).unwrap();
    let long_ago = Wall(NOW.0 - kept - 1);
    fill(&store, 600, |n, record| {
        record.revoked = (n % 3 == 0).then_some(long_ago);
        record.expires = (n % 3 == 1).then_some(Wall(NOW.0 - 1));
    })
    .await;
    let (keys, _) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!((keys.ring().len(), keys.ring().live(NOW)), (600, 200));
    assert_eq!(keys.purge(NOW).await.unwrap(), 200);
    assert_eq!(keys.purge(NOW).await.unwrap(), 0);
    assert_eq!((keys.ring().len(), keys.ring().live(NOW)), (400, 200));
    let (again, _) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    assert_eq!(again.ring().len(), 400);
    // Those that expired a moment ago follow when their time has come.
    assert_eq!(keys.purge(Wall(NOW.0 + kept)).await.unwrap(), 200);
}

#[tokio::test]
async fn more_keys_than_there_may_be_are_an_error_and_those_that_ended_do_not_count() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    fill(&store, KEYS, |n, record| record.revoked = (n == 0).then_some(NOW)).await;
    let (keys, _) = Keys::read(Arc::clone(&store) as Arc<dyn Store>, None).await.unwrap();
    // One of them does not count any more.
    keys.create(new("last"), NOW).await.unwrap();
    let error = keys.create(new("more"), NOW).await.unwrap_err();
    assert!(error.message().starts_with("there are 100000 keys already"), "{}", error.message());
    keys.revoke("k000001", NOW).await.unwrap();
    keys.create(new("more"), NOW).await.unwrap();
}

#[tokio::test]
async fn an_older_reading_undoes_no_change() {
    let (store, keys) = with(10).await;
    let clock = FakeClock::default();
    clock.advance(Duration::from_secs(1));
    // A reading begins, and a key is revoked before it ends.
    let reading = keys.begin_reading();
    let before = keys.ring();
    keys.revoke("k000001", clock.wall()).await.unwrap();
    keys.look(&clock).await.unwrap();
    assert!(reading.install(identity::KeyRing::clone(&before)));
    assert!(keys.ring().over("k000001", clock.wall()).is_some());
    // The control: what it held was the key before.
    assert!(before.over("k000001", clock.wall()).is_none());
    drop(store);
}
