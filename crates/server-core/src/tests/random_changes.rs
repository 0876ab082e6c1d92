//! Random sequences of changes of tools, sources, keys, roles and rules: a server that follows them
//! one by one shows each caller what a server shows that is built from the beginning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, SourceCatalog};
use identity::{DelegationRequest, KeyId, NewKey, RoleRecord};
use policy::Policy;
use store::MemoryStore;
use testkit::clock::FakeClock;
use tool::{PermissionLevel, Secret, Store};

use super::catalog_model::{
    ModelServer, ModelSource, ModelTool, ROLES, RandomNumbers, SOURCES, random_policy, wall_now,
};
use crate::KeyStore;

/// Steps of one sequence.
const STEPS: usize = 10;
/// Of this many sequences, one has a source of many tools.
const BULK_EVERY: u64 = 10;

fn sequences() -> u64 {
    if std::env::var_os("TOOLKEEP_DEEP").is_some() { 10_000 } else { 200 }
}

/// A server with its model, and the keys of its callers.
struct FollowedServer {
    random: RandomNumbers,
    clock: Arc<FakeClock>,
    sources: Vec<ModelSource>,
    source_catalogs: BTreeMap<String, SourceCatalog>,
    published: BTreeMap<String, Arc<SourceCatalog>>,
    policy: Policy,
    server: ModelServer,
    store: Arc<dyn Store>,
    keys: KeyStore,
    /// Follows the changes of `keys` through the store.
    other_keys: KeyStore,
    secrets: Vec<(String, Secret)>,
    log: Vec<String>,
    /// Views and decisions that were compared.
    compared: usize,
}

impl FollowedServer {
    async fn new(seed: u64) -> Self {
        let clock = Arc::new(FakeClock::default());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let load = || KeyStore::load(Arc::clone(&store), None);
        let (keys, other_keys) = (load().await.unwrap().0, load().await.unwrap().0);
        let mut random = RandomNumbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let policy = random_policy(&mut random, wall_now(&clock));
        let sources: Vec<_> =
            seed.is_multiple_of(BULK_EVERY).then(|| ModelSource::bulk(520)).into_iter().collect();
        let server = ModelServer::new(Catalog::default(), policy.clone(), &clock);
        let mut followed = Self {
            random,
            clock,
            sources,
            source_catalogs: BTreeMap::new(),
            published: BTreeMap::new(),
            policy,
            server,
            store,
            keys,
            other_keys,
            secrets: Vec::new(),
            log: Vec::new(),
            compared: 0,
        };
        for _ in 0..3 {
            followed.create_key().await;
        }
        followed.publish();
        followed
    }

    async fn create_key(&mut self) {
        let id = KeyId::new(format!("k{}", self.secrets.len())).unwrap();
        let count = self.random.below(3);
        let roles = (0..count).map(|_| self.random.pick(&ROLES).to_owned()).collect();
        let level = self.random.pick(&[PermissionLevel::User, PermissionLevel::Admin]);
        let key = NewKey { roles, level, ..NewKey::for_user(id.clone(), "ann") };
        let (secret, _) = self.keys.create_key(key, wall_now(&self.clock)).await.unwrap();
        self.secrets.push((id.to_string(), secret));
    }

    async fn delegate_key(&mut self) {
        let now = wall_now(&self.clock);
        let at = self.random.below(self.secrets.len());
        let Ok(maker) = self.keys.key_ring().verify_key(Some(self.secrets[at].1.expose()), now)
        else {
            return;
        };
        let denied = [&["a.*"][..], &["e", "*d"], &[]];
        let denied_tools = self.random.pick(&denied).iter().map(|it| (*it).to_owned()).collect();
        let request = DelegationRequest { denied_tools, ..DelegationRequest::default() };
        if let Ok((secret, record)) = self.keys.delegate_key(&maker, request, now).await {
            self.secrets.push((record.id.to_string(), secret));
        }
    }

    async fn change_role(&mut self) {
        let role = RoleRecord {
            name: self.random.pick(&ROLES).to_owned(),
            description: String::new(),
            max_level: self.random.percent(50).then_some(PermissionLevel::User),
            rights: BTreeSet::new(),
            revoked_at: self.random.percent(30).then(|| wall_now(&self.clock)),
        };
        self.keys.upsert_role(&role).await.unwrap();
    }

    /// Changes the sources, and returns what was done.
    fn change_sources(&mut self) -> &'static str {
        let random = &mut self.random;
        let free = SOURCES.iter().find(|name| self.sources.iter().all(|it| it.name != **name));
        let at = random.below(self.sources.len());
        match (random.below(10), self.sources.get_mut(at)) {
            (0, _) | (_, None) => {
                let Some(name) = free else { return "no source" };
                let count = random.below(6);
                let tools = (0..count).map(|_| ModelTool::random(random)).collect();
                let place = if random.percent(20) { at } else { self.sources.len() };
                self.sources.insert(place, ModelSource { name: (*name).to_owned(), tools });
                "a source comes"
            }
            (1, Some(source)) if source.name != "bulk" => {
                drop(self.sources.remove(at));
                "a source goes"
            }
            (2, _) => {
                let other = random.below(self.sources.len());
                self.sources.swap(at, other);
                "two sources change places"
            }
            (3 | 4, Some(source)) => {
                let place = if random.percent(50) { source.tools.len() } else { 0 };
                source.tools.insert(place, ModelTool::random(random));
                "a tool comes"
            }
            (5, Some(source)) if !source.tools.is_empty() => {
                drop(source.tools.remove(random.below(source.tools.len())));
                "a tool goes"
            }
            (6..=8, Some(source)) if !source.tools.is_empty() => {
                let place = random.below(source.tools.len());
                let tool = &mut source.tools[place];
                match random.below(3) {
                    0 => tool.is_blocked = !tool.is_blocked,
                    1 => tool.executor = testkit::executor::echo_executor(),
                    _ => tool.edition = random.below(4),
                }
                "a tool changes"
            }
            _ => "sources are listed again",
        }
    }

    /// Lists all sources again and publishes what changed, as the supervisor of sources does.
    fn publish(&mut self) {
        let mut order = Vec::new();
        for source in &self.sources {
            let next = source.list_after(self.source_catalogs.get(&source.name));
            self.source_catalogs.insert(source.name.clone(), next.clone());
            let published = self.published.get(&source.name);
            if published.is_none_or(|published| !published.is_same_catalog(&next)) {
                self.published.insert(source.name.clone(), Arc::new(next));
            }
            order.push(Arc::clone(&self.published[&source.name]));
        }
        let has = |name: &String| self.sources.iter().any(|source| source.name == *name);
        self.published.retain(|name, _| has(name));
        self.source_catalogs.retain(|name, _| has(name));
        let before = self.server.current.catalog();
        let next = Arc::new(before.with_sources(before.version + 1, order));
        self.server.current.update_snapshot(Some(&next), None);
    }

    async fn apply_step(&mut self) {
        let step = self.random.below(12);
        let told = match step {
            0 => {
                self.create_key().await;
                "a key comes"
            }
            1 => {
                self.delegate_key().await;
                "a key is delegated"
            }
            2 => {
                let at = self.random.below(self.secrets.len());
                let (id, now) = (self.secrets[at].0.clone(), wall_now(&self.clock));
                drop(self.keys.revoke_key(&id, now).await);
                "a key is revoked"
            }
            3 => {
                self.change_role().await;
                "a role changes"
            }
            4 => {
                self.policy = random_policy(&mut self.random, wall_now(&self.clock));
                self.server.current.update_snapshot(None, Some(&self.policy));
                "the rules change"
            }
            5 => {
                self.clock.advance(Duration::from_secs(self.random.below(40) as u64));
                "time passes"
            }
            _ => {
                let told = self.change_sources();
                self.publish();
                told
            }
        };
        self.log.push(told.to_owned());
    }

    /// Compares what each caller observes with a server that is built from the beginning.
    async fn compare(&mut self, seed: u64) {
        let now = wall_now(&self.clock);
        let order = self.sources.iter().map(|it| Arc::new(it.list_after(None))).collect();
        let catalog = Catalog::from_sources(1, order);
        let fresh = ModelServer::new(catalog, self.policy.clone(), &self.clock);
        let (fresh_keys, _) = KeyStore::load(Arc::clone(&self.store), None).await.unwrap();
        self.other_keys.poll_changes(self.clock.as_ref()).await.unwrap();
        for (id, secret) in &self.secrets {
            let verify = |keys: &KeyStore| keys.key_ring().verify_key(Some(secret.expose()), now);
            let (found, expected) = (verify(&self.keys), verify(&fresh_keys));
            let told = |it: &Result<identity::Principal, _>| match it {
                Ok(who) => format!("{:?} {:?}", who.caller(), who.rights_class()),
                Err(error) => format!("{error:?}"),
            };
            let log = || format!("{id} of sequence {seed}: {:#?}", self.log);
            assert_eq!(told(&found), told(&expected), "{}", log());
            assert_eq!(told(&verify(&self.other_keys)), told(&expected), "followed; {}", log());
            let (Ok(found), Ok(expected)) = (found, expected) else { continue };
            let seen = self.server.observe(&found, now).await;
            let expected = fresh.observe(&expected, now).await;
            self.compared += expected.tools.len() + expected.decisions.len();
            assert_eq!(seen, expected, "{}", log());
        }
    }
}

#[tokio::test]
async fn a_server_that_follows_changes_is_one_that_begins_with_them() {
    let mut compared = 0;
    for seed in 0..sequences() {
        let mut followed = FollowedServer::new(seed).await;
        followed.compare(seed).await;
        for _ in 0..STEPS {
            followed.apply_step().await;
            followed.compare(seed).await;
        }
        compared += followed.compared;
    }
    assert!(compared > 20_000, "{compared}: the sequences show too little");
}
