//! Cache of manifests, so that a module's tools stay listed while the module is down and across
//! restarts.
//!
//! The manifest is stored in plain form under the module API's key, where other programs read it
//! and may write their own. A cache is open to other programs, so that entry is never read back.
//! This installation stores a copy under its own key, signed with an HMAC over the module, its URL,
//! the time and the manifest. The module API's key decides whether the copy is valid: deleting it
//! forgets the manifest. An unavailable cache neither delays nor fails a listing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::{constant_time, hmac};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use tokio::sync::watch;
use tool::{Cache, Clock, Secret, SourceName, StoreError, WallTime};

/// Time to live of a cached manifest after the module returned it (module API).
pub const MANIFEST_TTL: Duration = Duration::from_hours(1);
/// Maximum size of a cached manifest in bytes: what the smallest cache accepts.
pub(super) const MAX_CACHED_BYTES: usize = 4_000_000;
/// Interval after which an unchanged manifest is written again.
const REWRITE_INTERVAL: Duration = Duration::from_mins(10);
/// Maximum length of the signature line in front of the manifest: a time, a hash and two
/// separators.
const MAX_SIGNATURE_BYTES: usize = 128;
/// Interval between checks of the cache; lost entries are rewritten at the next check.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum clock skew of another machine.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(5);

/// Cache of the manifests of all modules of one installation.
pub struct ManifestCache {
    cache: Mutex<Arc<dyn Cache>>,
    clock: Arc<dyn Clock>,
    secret: Secret,
    installation_id: String,
    latest: Mutex<HashMap<SourceName, LatestManifest>>,
    /// Error of the cache while it is unavailable.
    outage: watch::Sender<Option<String>>,
}

/// Name and URL of a module: a manifest belongs to exactly one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModuleIdentity<'a> {
    pub(super) name: &'a SourceName,
    pub(super) url: &'a str,
}

/// Manifest that the module itself returned last.
#[derive(Debug, Clone)]
struct LatestManifest {
    url: String,
    body: Bytes,
    received_at: WallTime,
    cached_at: Option<WallTime>,
}

/// Manifest that was read from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedManifest {
    pub(super) body: Bytes,
    /// Time at which the module returned it.
    pub(super) received_at: WallTime,
}

impl ManifestCache {
    /// Creates the cache. Copies are signed with `secret`, which belongs to this installation
    /// alone.
    pub fn new(cache: Arc<dyn Cache>, clock: Arc<dyn Clock>, secret: Secret) -> Self {
        let mut installation = HEXLOWER.encode(sign_parts(&secret, &[b"installation"]).as_ref());
        installation.truncate(8);
        let (fresh, outage, cache) =
            (Mutex::default(), watch::Sender::new(None), Mutex::new(cache));
        Self { cache, clock, secret, installation_id: installation, latest: fresh, outage }
    }

    /// Replaces the cache; known manifests are written to the new one at the next check.
    pub fn replace_cache(&self, cache: Arc<dyn Cache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = cache;
        self.outage.send_replace(None);
        self.lock_latest().values_mut().for_each(|fresh| fresh.cached_at = None);
    }

    /// Returns the error of the cache while it is unavailable.
    pub fn watch_outage(&self) -> watch::Receiver<Option<String>> {
        self.outage.subscribe()
    }

    pub(super) fn wall_now(&self) -> WallTime {
        self.clock.wall_now()
    }

    fn current_cache(&self) -> Arc<dyn Cache> {
        Arc::clone(&self.cache.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the cache key of a module's manifest (module API).
    pub fn manifest_key(module: &SourceName) -> String {
        format!("module_manifest:{module}")
    }

    /// Returns the key of this installation's signed copy. Each installation has its own, so that
    /// several can share a cache, also with a core of the module API.
    pub fn copy_key(&self, module: &SourceName) -> String {
        format!("toolkeep:{}:{}", self.installation_id, Self::manifest_key(module))
    }

    /// Rewrites manifests that the cache has lost. Runs until it is cancelled; spawn it where
    /// shutdown cancels it.
    pub async fn run_rewriter(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.rewrite_missing().await;
        }
    }

    async fn rewrite_missing(&self) {
        let modules: Vec<_> = self.lock_latest().keys().cloned().collect();
        for module in modules {
            let Some(fresh) = self.lock_latest().get(&module).cloned() else { continue };
            if fresh.cached_at.is_some() {
                let (key, copy) = (Self::manifest_key(&module), self.copy_key(&module));
                match self
                    .track_availability(self.current_cache().contains_all(&[&key, &copy]).await)
                {
                    Some(true) => continue,
                    Some(false) => {}
                    None => return,
                }
            }
            if !self.write_to_cache(&module, fresh).await {
                return;
            }
        }
    }

    /// Records the manifest that a module returned. With `is_refresh` it is written even if it
    /// is already cached.
    pub(super) async fn record_manifest(
        &self,
        module: ModuleIdentity<'_>,
        body: &Bytes,
        is_refresh: bool,
    ) {
        let ModuleIdentity { name: module, url } = module;
        if body.len() > MAX_CACHED_BYTES {
            tracing::warn!(%module, bytes = body.len(), "the manifest is too large to cache");
            return self.forget_module(module);
        }
        let at = self.clock.wall_now();
        let latest = {
            let mut all = self.lock_latest();
            let is_unchanged =
                |before: &&LatestManifest| before.body == *body && before.url == url && !is_refresh;
            let before = all.get(module).filter(is_unchanged);
            let is_recent = |written: &WallTime| !is_older_than(*written, at, REWRITE_INTERVAL);
            let written = before.and_then(|before| before.cached_at).filter(is_recent);
            let fresh = LatestManifest {
                url: url.to_owned(),
                body: body.clone(),
                received_at: at,
                cached_at: written,
            };
            all.insert(module.clone(), fresh.clone());
            fresh
        };
        // While the cache is unavailable nobody waits for it: the periodic check writes this
        // manifest later.
        let is_up = self.outage.borrow().is_none();
        if latest.cached_at.is_none() && is_up {
            self.write_to_cache(module, latest).await;
        }
    }

    /// Forgets a module that no longer responds, so that its cached manifest may expire.
    pub(super) fn forget_module(&self, module: &SourceName) {
        self.lock_latest().remove(module);
    }

    async fn write_to_cache(&self, module: &SourceName, fresh: LatestManifest) -> bool {
        let identity = ModuleIdentity { name: module, url: &fresh.url };
        let copy = self.signed_copy(identity, &fresh.body, fresh.received_at);
        let (key, copy_key) = (Self::manifest_key(module), self.copy_key(module));
        let pairs = [(key.as_str(), fresh.body.clone()), (copy_key.as_str(), copy)];
        if self
            .track_availability(self.current_cache().put_all(&pairs, MANIFEST_TTL).await)
            .is_none()
        {
            return false;
        }
        if let Some(now) = self.lock_latest().get_mut(module).filter(|now| now.body == fresh.body) {
            now.cached_at = Some(fresh.received_at);
        }
        true
    }

    /// Returns whether an available cache no longer has the module's key of the module API: it was
    /// deleted or has expired.
    pub(super) async fn is_forgotten(&self, module: &SourceName) -> bool {
        let key = Self::manifest_key(module);
        self.track_availability(self.current_cache().contains_all(&[&key]).await) == Some(false)
    }

    /// Loads the cached manifest, or returns `None` if there is none, if the module API's key is
    /// gone, or if it is too old.
    ///
    /// # Errors
    /// In words, where the module API's key is there and no copy of this installation, for this
    /// URL.
    pub(super) async fn load_cached(
        &self,
        module: ModuleIdentity<'_>,
    ) -> Result<Option<CachedManifest>, String> {
        let (key, copy_key) = (Self::manifest_key(module.name), self.copy_key(module.name));
        if self.track_availability(self.current_cache().contains_all(&[&key]).await) != Some(true) {
            return Ok(None);
        }
        let copy = self
            .track_availability(
                self.current_cache()
                    .get_cached(&copy_key, MAX_CACHED_BYTES + MAX_SIGNATURE_BYTES)
                    .await,
            )
            .flatten();
        let cached = copy.and_then(|copy| self.verify_copy(module, &copy)).ok_or_else(|| {
            format!("`{key}` in the cache was not written by this installation for this URL")
        })?;
        let (at, now) = (cached.received_at, self.clock.wall_now());
        let is_current =
            !is_older_than(at, now, MANIFEST_TTL) && !is_older_than(now, at, MAX_CLOCK_SKEW);
        Ok(is_current.then_some(cached))
    }

    /// Builds the signed copy: `TIME.HASH`, a line break, and the manifest.
    fn signed_copy(&self, module: ModuleIdentity<'_>, body: &Bytes, at: WallTime) -> Bytes {
        let time = at.0.to_string();
        let digits = HEXLOWER.encode(self.sign_manifest(module, &time, body).as_ref());
        [time.as_bytes(), b".", digits.as_bytes(), b"\n", body].concat().into()
    }

    fn verify_copy(&self, module: ModuleIdentity<'_>, copy: &Bytes) -> Option<CachedManifest> {
        let end = copy.iter().take(MAX_SIGNATURE_BYTES).position(|byte| *byte == b'\n')?;
        let (time, digits) = std::str::from_utf8(copy.get(..end)?).ok()?.split_once('.')?;
        let at = WallTime(time.parse().ok()?);
        let body = copy.slice(end + 1..);
        let stored = HEXLOWER.decode(digits.as_bytes()).ok()?;
        let expected = self.sign_manifest(module, time, &body);
        constant_time::verify_slices_are_equal(expected.as_ref(), &stored).ok()?;
        Some(CachedManifest { body, received_at: at })
    }

    fn sign_manifest(&self, module: ModuleIdentity<'_>, time: &str, body: &[u8]) -> hmac::Tag {
        let (name, url) = (module.name.as_str().as_bytes(), module.url.as_bytes());
        sign_parts(&self.secret, &[name, url, time.as_bytes(), body])
    }

    /// Returns the response of the cache, and logs when the cache becomes unavailable or available
    /// again.
    fn track_availability<T>(&self, answer: Result<T, StoreError>) -> Option<T> {
        let failure = answer.as_ref().err().map(ToString::to_string);
        self.outage.send_if_modified(|outage| match (outage.is_some(), &failure) {
            (true, None) => {
                tracing::info!("module_cache_available");
                *outage = None;
                true
            }
            (false, Some(error)) => {
                tracing::warn!(error, "module_cache_unavailable");
                outage.clone_from(&failure);
                true
            }
            _ => false,
        });
        answer.ok()
    }

    fn lock_latest(&self) -> MutexGuard<'_, HashMap<SourceName, LatestManifest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ManifestCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifests").field("cache", &self.current_cache()).finish_non_exhaustive()
    }
}

fn is_older_than(earlier: WallTime, now: WallTime, limit: Duration) -> bool {
    u128::from(now.0.saturating_sub(earlier.0)) > limit.as_millis()
}

/// Computes an HMAC over the parts with their lengths, so that the boundaries of parts are
/// unambiguous.
fn sign_parts(secret: &Secret, parts: &[&[u8]]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(b"toolkeep module manifest 2\n");
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    context.sign()
}
