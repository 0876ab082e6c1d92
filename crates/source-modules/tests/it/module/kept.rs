//! Manifests that are kept: what of them is believed, and that nothing waits for a cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use source_modules::{HttpModuleOptions, HttpModuleSource, MANIFEST_TTL, ManifestCache};
use testkit::clock::FakeClock;
use tool::source::SourceErrorKind;
use tool::{
    BoxFuture, Cache, Clock as _, Secret, Source as _, SourceListing, SourceName, SourceRevision,
    StoreError,
};

use super::{append, egress, manifest, tool_names};
use testkit::http_server::{MockResponse, MockServer};

/// How the cache behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Good,
    Away,
    Hangs,
}

/// A cache that others can write to.
#[derive(Debug)]
struct Open {
    manner: Mutex<Manner>,
    values: Mutex<HashMap<String, Bytes>>,
    lives: Mutex<Vec<Duration>>,
}

impl Open {
    fn new() -> Arc<Self> {
        let manner = Mutex::new(Manner::Good);
        Arc::new(Self { manner, values: Mutex::default(), lives: Mutex::default() })
    }

    fn is(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let manner = *self.manner.lock().unwrap();
        match manner {
            Manner::Good => Ok(()),
            Manner::Away => Err(StoreError::Unavailable("away".into())),
            Manner::Hangs => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Err(StoreError::Unavailable("no answer".into()))
            }
        }
    }

    fn put(&self, key: &str, value: impl Into<Bytes>) {
        self.values.lock().unwrap().insert(key.to_owned(), value.into());
    }

    fn text(&self, key: &str) -> Option<String> {
        let value = self.values.lock().unwrap().get(key).cloned()?;
        Some(String::from_utf8(value.to_vec()).unwrap())
    }
}

impl Cache for Open {
    fn get_cached<'a>(
        &'a self,
        key: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            self.ready().await?;
            let values = self.values.lock().unwrap();
            Ok(values.get(key).filter(|value| value.len() <= most).cloned())
        })
    }

    fn contains_all<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            self.ready().await?;
            let values = self.values.lock().unwrap();
            Ok(keys.iter().all(|key| values.contains_key(*key)))
        })
    }

    fn put_all<'a>(
        &'a self,
        pairs: &'a [(&'a str, Bytes)],
        life: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.ready().await?;
            self.lives.lock().unwrap().push(life);
            for (key, value) in pairs {
                Self::put(self, key, value.clone());
            }
            Ok(())
        })
    }
}

/// One installation's cache, and the time.
struct World {
    cache: Arc<Open>,
    clock: Arc<FakeClock>,
    kept: Arc<ManifestCache>,
    secret: &'static str,
    /// Where the module was discovered, and nothing listens any more.
    url: Mutex<String>,
}

fn world() -> World {
    let (cache, clock) = (Open::new(), Arc::new(FakeClock::default()));
    let kept = installation(&cache, &clock, "secret");
    World { cache, clock, kept, secret: "secret", url: Mutex::new(GONE.to_owned()) }
}

fn installation(cache: &Arc<Open>, clock: &Arc<FakeClock>, secret: &str) -> Arc<ManifestCache> {
    let (cache, clock) = (Arc::clone(cache), Arc::clone(clock));
    Arc::new(ManifestCache::new(cache, clock, Secret::new(secret)))
}

fn notes() -> SourceName {
    SourceName::new("notes").unwrap()
}

const KEY: &str = "module_manifest:notes";
/// Nothing listens there.
const GONE: &str = "http://127.0.0.1:9";

impl World {
    fn module(&self, url: &str) -> HttpModuleSource {
        let options = HttpModuleOptions::new(notes(), url);
        HttpModuleSource::new(options, egress())
            .unwrap()
            .with_manifest_cache(Arc::clone(&self.kept))
    }

    /// Lets a module that answers be discovered.
    async fn discover(&self) -> SourceListing {
        let server = MockServer::start_server(vec![manifest(&serde_json::json!([append()]))]).await;
        self.url.lock().unwrap().clone_from(&server.url());
        self.module(&server.url()).list_offers().await.unwrap()
    }

    fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    /// Five seconds of a server's life, in no time.
    async fn five_seconds(&self) {
        tokio::time::pause();
        let tended = tokio::time::timeout(Duration::from_secs(5), self.kept.run_rewriter()).await;
        tended.unwrap_err();
        tokio::time::resume();
    }

    /// What a process that starts now lists of the module, which is away.
    async fn starts(&self) -> Option<SourceListing> {
        self.starts_at(&self.url()).await
    }

    async fn starts_at(&self, url: &str) -> Option<SourceListing> {
        let options = HttpModuleOptions::new(notes(), url);
        let kept = installation(&self.cache, &self.clock, self.secret);
        let module = HttpModuleSource::new(options, egress()).unwrap().with_manifest_cache(kept);
        match module.list_offers().await {
            Ok(listing) => {
                assert_eq!(tool_names(&listing), ["notes.append"]);
                assert!(listing.stale_since.is_some());
                Some(listing)
            }
            Err(error) => {
                let away = [SourceErrorKind::Unreachable, SourceErrorKind::ErrorReply];
                assert!(away.contains(&error.kind), "{error:?}");
                None
            }
        }
    }
}

#[tokio::test]
async fn a_manifest_is_kept_plain_for_3600_s_under_its_key_with_a_marked_copy_beside() {
    let world = world();
    world.discover().await;
    let MockResponse::Body(_, sent) = manifest(&serde_json::json!([append()])) else { panic!() };
    assert_eq!(world.cache.text(KEY).unwrap(), sent);
    assert_eq!(*world.cache.lives.lock().unwrap(), [Duration::from_hours(1)]);
    let copy_key = world.kept.copy_key(&notes());
    assert!(
        copy_key.starts_with("toolkeep:") && copy_key.ends_with(":module_manifest:notes"),
        "{copy_key}"
    );
    let copy = world.cache.text(&copy_key).unwrap();
    let (mark, body) = copy.split_once('\n').unwrap();
    let (time, digits) = mark.split_once('.').unwrap();
    assert_eq!((time, digits.len()), (&*world.clock.wall_now().0.to_string(), 64));
    assert_eq!(body, sent);
}

#[tokio::test]
async fn a_module_that_is_away_is_listed_from_the_cache_and_marked_stale() {
    let world = world();
    let since = world.clock.wall_now();
    world.discover().await;
    world.clock.advance(Duration::from_mins(5));
    let module = world.module(&world.url());
    let listing = module.list_offers().await.unwrap();
    assert_eq!(
        (tool_names(&listing), listing.stale_since),
        (vec!["notes.append".to_owned()], Some(since))
    );
    assert_eq!(listing.problems.len(), 1, "why it is not the module's own listing");
    // What is remembered has changed already, so that the module itself is asked at once.
    assert_ne!(module.wait_for_change(listing.revision).await, listing.revision);
    assert_eq!(module.list_offers().await.unwrap_err().kind, SourceErrorKind::Unreachable);
}

#[tokio::test]
async fn a_module_that_hangs_at_the_start_is_listed_from_the_cache_meanwhile() {
    let world = world();
    let answers = [manifest(&serde_json::json!([append()])), MockResponse::Hang];
    let last = manifest(&serde_json::json!([append()]));
    let server = MockServer::start_server(answers.into_iter().chain([last]).collect()).await;
    world.module(&server.url()).list_offers().await.unwrap();
    let module = world.module(&server.url());
    assert!(module.list_offers().await.unwrap().stale_since.is_some());
    // The control: the next listing is the module's own.
    assert_eq!(module.list_offers().await.unwrap().stale_since, None);
}

/// Another cache in the configuration: what is known is written there, and nothing more here.
#[tokio::test]
async fn another_cache_has_every_manifest_soon() {
    let world = world();
    world.discover().await;
    let other = Open::new();
    world.kept.replace_cache(Arc::clone(&other) as Arc<dyn Cache>);
    world.five_seconds().await;
    assert_eq!(other.text(KEY), world.cache.text(KEY));
    assert_eq!(world.cache.lives.lock().unwrap().len(), 1, "nothing more is written there");
    let moved = World { cache: other, ..world };
    assert!(moved.starts().await.is_some(), "its mark stands beside it");
}

/// The control stands first: unchanged, the copy is believed.
#[tokio::test]
async fn a_forged_or_broken_copy_is_not_believed() {
    let world = world();
    world.discover().await;
    let (copy_key, good) = (world.kept.copy_key(&notes()), world.cache.text(KEY).unwrap());
    let copy = world.cache.text(&copy_key).unwrap();
    assert!(world.starts().await.is_some());
    let (mark, body) = copy.split_once('\n').unwrap();
    let (time, digits) = mark.split_once('.').unwrap();
    let forged = body.replace("\"user\"", "\"guest\"");
    assert_ne!(forged, body);
    let later = time.parse::<u64>().unwrap() + 1;
    for copy in [
        format!("{mark}\n{forged}"),
        format!("{later}.{digits}\n{body}"),
        format!("{time}.\n{body}"),
        format!("{time}.{}\n{body}", "0".repeat(64)),
        format!("{mark}{body}"),
        body.to_owned(),
        mark.to_owned(),
        "garbage".to_owned(),
        String::new(),
    ] {
        world.cache.put(&copy_key, copy.clone());
        assert!(world.starts().await.is_none(), "{copy}");
    }
    world.cache.values.lock().unwrap().remove(&copy_key);
    assert!(world.starts().await.is_none(), "the module API's key alone");
    // What came from another module, or from another installation, is as good as forged.
    world.cache.put(&copy_key, copy.clone());
    let other = SourceName::new("other").unwrap();
    world.cache.put("module_manifest:other", good);
    world.cache.put(&world.kept.copy_key(&other), copy);
    let options = HttpModuleOptions::new(other, world.url());
    let module = HttpModuleSource::new(options, egress())
        .unwrap()
        .with_manifest_cache(Arc::clone(&world.kept));
    assert!(module.list_offers().await.is_err());
    assert!(world.starts().await.is_some(), "the control: for its own module it counts");
    let stranger = World { secret: "another", ..world };
    assert!(stranger.starts().await.is_none());
}

/// The module API's key is everyone's: a core that writes its own form there, or anyone who forges
/// it, changes nothing of what is listed.
#[tokio::test]
async fn what_others_write_under_the_module_api_key_neither_counts_nor_harms() {
    let world = world();
    let answers =
        vec![manifest(&serde_json::json!([append()])), MockResponse::Body(500, String::new())];
    let server = MockServer::start_server(answers).await;
    world.url.lock().unwrap().clone_from(&server.url());
    world.module(&server.url()).list_offers().await.unwrap();
    let own = world.cache.text(KEY).unwrap();
    let normalised = serde_json::from_str::<serde_json::Value>(&own).unwrap();
    let normalised = serde_json::to_string_pretty(&normalised).unwrap();
    assert_ne!(normalised, own);
    for value in [normalised, own.replace("notes.append", "notes.run_shell"), "garbage".to_owned()]
    {
        world.cache.put(KEY, value);
        // `starts` looks at the names: `notes.append` alone.
        assert!(world.starts().await.is_some());
    }
}

/// A manifest is of one address: a source of the same name elsewhere does not get its tools.
#[tokio::test]
async fn a_manifest_counts_for_the_url_it_came_from_alone() {
    let world = world();
    world.discover().await;
    assert!(world.starts_at(GONE).await.is_none());
    assert!(world.starts().await.is_some(), "the control: at its own URL it counts");
}

/// What the module API's guide does to forget a module that is away: delete its key, refresh.
#[tokio::test]
async fn a_module_that_is_away_is_forgotten_by_deleting_its_key_and_a_refresh() {
    let world = world();
    let answers =
        vec![manifest(&serde_json::json!([append()])), MockResponse::Body(500, String::new())];
    let server = MockServer::start_server(answers).await;
    let module = world.module(&server.url());
    module.list_offers().await.unwrap();
    module.reset_backoff();
    module.list_offers().await.expect_err("the control: with its key it is kept");
    world.cache.values.lock().unwrap().remove(KEY);
    module.list_offers().await.expect_err("the control: nobody asked");
    module.reset_backoff();
    let forgotten = module.list_offers().await.unwrap();
    assert_eq!(tool_names(&forgotten), [""; 0]);
    assert!(forgotten.stale_since.is_some());
    assert!(forgotten.problems[0].message.contains("500"), "{:?}", forgotten.problems);
    // A cache that is away forgets nothing.
    world.cache.is(Manner::Away);
    module.reset_backoff();
    module.list_offers().await.unwrap_err();
}

/// A writer to the cache could keep an old pair for ever; its mark says how old it is.
#[tokio::test]
async fn a_manifest_older_than_an_hour_is_gone_whatever_the_cache_says() {
    let world = world();
    world.discover().await;
    world.clock.advance(MANIFEST_TTL);
    assert!(world.starts().await.is_some());
    world.clock.advance(Duration::from_secs(1));
    assert!(world.starts().await.is_none());
}

#[tokio::test]
async fn a_deleted_manifest_is_not_listed_and_comes_back_with_a_refresh() {
    let world = world();
    world.discover().await;
    assert!(world.starts().await.is_some());
    world.cache.values.lock().unwrap().remove(KEY);
    assert!(world.starts().await.is_none());
    let server = MockServer::start_server(vec![manifest(&serde_json::json!([append()]))]).await;
    let module = world.module(&server.url());
    module.list_offers().await.unwrap();
    world.cache.values.lock().unwrap().remove(KEY);
    // A listing nobody asked for writes what did not change only now and then; a refresh writes.
    module.list_offers().await.unwrap();
    assert_eq!(world.cache.text(KEY), None);
    module.reset_backoff();
    module.list_offers().await.unwrap();
    assert!(world.cache.text(KEY).is_some());
}

#[tokio::test]
async fn what_the_cache_lost_is_put_back_within_5_s_unless_the_module_is_lost_too() {
    let world = world();
    let answers =
        vec![manifest(&serde_json::json!([append()])), MockResponse::Body(500, String::new())];
    let server = MockServer::start_server(answers).await;
    let module = world.module(&server.url());
    module.list_offers().await.unwrap();
    world.cache.values.lock().unwrap().clear();
    world.five_seconds().await;
    assert!(world.cache.text(KEY).is_some());
    // The module is lost: what is kept of it may expire.
    module.list_offers().await.unwrap_err();
    world.cache.values.lock().unwrap().clear();
    world.five_seconds().await;
    assert_eq!(world.cache.text(KEY), None);
}

#[tokio::test]
async fn a_cache_that_is_away_or_hangs_fails_no_listing_and_is_filled_when_it_is_back() {
    for manner in [Manner::Away, Manner::Hangs] {
        let world = world();
        world.cache.is(manner);
        let server = MockServer::start_server(vec![manifest(&serde_json::json!([append()]))]).await;
        let module = world.module(&server.url());
        for _ in 0..3 {
            let listing = module.list_offers().await.unwrap();
            assert_eq!((tool_names(&listing).len(), listing.stale_since), (1, None));
        }
        assert!(world.starts().await.is_none());
        world.cache.is(Manner::Good);
        world.five_seconds().await;
        assert!(world.cache.text(KEY).is_some());
        drop(server);
        assert!(world.starts_at(&module.probe_health().await.unwrap().url).await.is_some());
    }
}

#[tokio::test]
async fn revisions_go_on_from_what_was_remembered() {
    let world = world();
    let whole = || manifest(&serde_json::json!([append()]));
    let server =
        MockServer::start_server(vec![whole(), MockResponse::Body(500, String::new()), whole()])
            .await;
    world.module(&server.url()).list_offers().await.unwrap();
    let module = world.module(&server.url());
    let remembered = module.list_offers().await.unwrap();
    let own = module.list_offers().await.unwrap();
    assert_eq!((remembered.revision, own.revision), (SourceRevision(1), SourceRevision(1)));
    assert_eq!(own.stale_since, None);
}
