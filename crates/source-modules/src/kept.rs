//! Cache of manifests, so that a module's tools stay listed while the module is down and across
//! restarts.
//!
//! The manifest is stored in plain form under spec 0's key, where other programs read it and may
//! write their own. A cache is open to other programs, so that entry is never read back. This
//! installation stores a copy under its own key, signed with an HMAC over the module, its URL, the
//! time and the manifest. Spec 0's key decides whether the copy is valid: deleting it forgets the
//! manifest. An unavailable cache neither delays nor fails a listing.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::sync::watch;
use tool::{Cache, Clock, Secret, SourceName, StoreError, Wall};

/// Time to live of a cached manifest after the module returned it (spec 0).
pub const LIFE: Duration = Duration::from_hours(1);
/// Maximum size of a cached manifest in bytes: what the smallest cache accepts.
pub(super) const MOST: usize = 4_000_000;
/// Interval after which an unchanged manifest is written again.
const AGAIN: Duration = Duration::from_mins(10);
/// Maximum length of the signature line in front of the manifest: a time, a hash and two
/// separators.
const MARK: usize = 128;
/// Interval between checks of the cache; lost entries are rewritten at the next check.
const LOOK: Duration = Duration::from_secs(2);
/// Maximum clock skew of another machine.
const SKEW: Duration = Duration::from_mins(5);

/// Cache of the manifests of all modules of one installation.
pub struct Manifests {
    cache: Mutex<Arc<dyn Cache>>,
    clock: Arc<dyn Clock>,
    secret: Secret,
    installation: String,
    fresh: Mutex<HashMap<SourceName, Fresh>>,
    /// Error of the cache while it is unavailable.
    outage: watch::Sender<Option<String>>,
}

/// Name and URL of a module: a manifest belongs to exactly one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) name: &'a SourceName,
    pub(super) url: &'a str,
}

/// Manifest that the module itself returned last.
#[derive(Debug, Clone)]
struct Fresh {
    url: String,
    body: Bytes,
    at: Wall,
    written: Option<Wall>,
}

/// Manifest that was read from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) body: Bytes,
    /// Time at which the module returned it.
    pub(super) at: Wall,
}

impl Manifests {
    /// Creates the cache. Copies are signed with `secret`, which belongs to this installation
    /// alone.
    pub fn new(cache: Arc<dyn Cache>, clock: Arc<dyn Clock>, secret: Secret) -> Self {
        let mut installation = hash(&secret, &[b"installation"]).map(finish).unwrap_or_default();
        installation.truncate(8);
        let (fresh, outage, cache) =
            (Mutex::default(), watch::Sender::new(None), Mutex::new(cache));
        Self { cache, clock, secret, installation, fresh, outage }
    }

    /// Replaces the cache; known manifests are written to the new one at the next check.
    pub fn move_to(&self, cache: Arc<dyn Cache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = cache;
        self.outage.send_replace(None);
        self.fresh().values_mut().for_each(|fresh| fresh.written = None);
    }

    /// Returns the error of the cache while it is unavailable.
    pub fn outage(&self) -> watch::Receiver<Option<String>> {
        self.outage.subscribe()
    }

    pub(super) fn now(&self) -> Wall {
        self.clock.wall()
    }

    fn cache(&self) -> Arc<dyn Cache> {
        Arc::clone(&self.cache.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the cache key of a module's manifest (spec 0).
    pub fn key(module: &SourceName) -> String {
        format!("module_manifest:{module}")
    }

    /// Returns the key of this installation's signed copy. Each installation has its own, so that
    /// several can share a cache, also with a core of spec 0.
    pub fn copy_key(&self, module: &SourceName) -> String {
        format!("toolkeep:{}:{}", self.installation, Self::key(module))
    }

    /// Rewrites manifests that the cache has lost. Runs until it is cancelled; spawn it where
    /// shutdown cancels it.
    pub async fn tend(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look().await;
        }
    }

    async fn look(&self) {
        let modules: Vec<_> = self.fresh().keys().cloned().collect();
        for module in modules {
            let Some(fresh) = self.fresh().get(&module).cloned() else { continue };
            if fresh.written.is_some() {
                let (key, copy) = (Self::key(&module), self.copy_key(&module));
                match self.answered(self.cache().has(&[&key, &copy]).await) {
                    Some(true) => continue,
                    Some(false) => {}
                    None => return,
                }
            }
            if !self.write(&module, fresh).await {
                return;
            }
        }
    }

    /// Records the manifest that a module returned. With `asked` it is written even if it is cached
    /// already.
    pub(super) async fn keep(&self, module: Identity<'_>, body: &Bytes, asked: bool) {
        let Identity { name: module, url } = module;
        if body.len() > MOST {
            tracing::warn!(%module, bytes = body.len(), "the manifest is too large to be kept");
            return self.lose(module);
        }
        let at = self.clock.wall();
        let fresh = {
            let mut all = self.fresh();
            let same = |before: &&Fresh| before.body == *body && before.url == url && !asked;
            let before = all.get(module).filter(same);
            let recent = |written: &Wall| !older(*written, at, AGAIN);
            let written = before.and_then(|before| before.written).filter(recent);
            let fresh = Fresh { url: url.to_owned(), body: body.clone(), at, written };
            all.insert(module.clone(), fresh.clone());
            fresh
        };
        // While the cache is unavailable nobody waits for it: the periodic check writes this
        // manifest later.
        let is_up = self.outage.borrow().is_none();
        if fresh.written.is_none() && is_up {
            self.write(module, fresh).await;
        }
    }

    /// Forgets a module that no longer responds, so that its cached manifest may expire.
    pub(super) fn lose(&self, module: &SourceName) {
        self.fresh().remove(module);
    }

    async fn write(&self, module: &SourceName, fresh: Fresh) -> bool {
        let identity = Identity { name: module, url: &fresh.url };
        let Some(copy) = self.copy(identity, &fresh.body, fresh.at) else { return false };
        let (key, copy_key) = (Self::key(module), self.copy_key(module));
        let pairs = [(key.as_str(), fresh.body.clone()), (copy_key.as_str(), copy)];
        if self.answered(self.cache().put(&pairs, LIFE).await).is_none() {
            return false;
        }
        if let Some(now) = self.fresh().get_mut(module).filter(|now| now.body == fresh.body) {
            now.written = Some(fresh.at);
        }
        true
    }

    /// Returns whether an available cache no longer has spec 0's key of the module: it was deleted
    /// or has expired.
    pub(super) async fn is_forgotten(&self, module: &SourceName) -> bool {
        let key = Self::key(module);
        self.answered(self.cache().has(&[&key]).await) == Some(false)
    }

    /// Loads the cached manifest, or returns `None` if there is none, if spec 0's key is gone, or
    /// if it is too old.
    ///
    /// # Errors
    /// In words, where spec 0's key is there and no copy of this installation, for this URL.
    pub(super) async fn load(&self, module: Identity<'_>) -> Result<Option<Remembered>, String> {
        let (key, copy_key) = (Self::key(module.name), self.copy_key(module.name));
        if self.answered(self.cache().has(&[&key]).await) != Some(true) {
            return Ok(None);
        }
        let copy = self.answered(self.cache().get(&copy_key, MOST + MARK).await).flatten();
        let remembered = copy.and_then(|copy| self.read_copy(module, &copy)).ok_or_else(|| {
            format!("`{key}` in the cache was not written by this installation for this URL")
        })?;
        let (at, now) = (remembered.at, self.clock.wall());
        let due = !older(at, now, LIFE) && !older(now, at, SKEW);
        Ok(due.then_some(remembered))
    }

    /// Builds the signed copy: `TIME.HASH`, a line break, and the manifest.
    fn copy(&self, module: Identity<'_>, body: &Bytes, at: Wall) -> Option<Bytes> {
        let time = at.0.to_string();
        let digits = finish(self.mark(module, &time, body)?);
        Some([time.as_bytes(), b".", digits.as_bytes(), b"\n", body].concat().into())
    }

    fn read_copy(&self, module: Identity<'_>, copy: &Bytes) -> Option<Remembered> {
        let end = copy.iter().take(MARK).position(|byte| *byte == b'\n')?;
        let (time, digits) = std::str::from_utf8(copy.get(..end)?).ok()?.split_once('.')?;
        let at = Wall(time.parse().ok()?);
        let body = copy.slice(end + 1..);
        // The comparison runs in constant time.
        self.mark(module, time, &body)?.verify_slice(&bytes_of(digits)?).ok()?;
        Some(Remembered { body, at })
    }

    fn mark(&self, module: Identity<'_>, time: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
        let (name, url) = (module.name.as_str().as_bytes(), module.url.as_bytes());
        hash(&self.secret, &[name, url, time.as_bytes(), body])
    }

    /// Returns the response of the cache, and logs when the cache becomes unavailable or available
    /// again.
    fn answered<T>(&self, answer: Result<T, StoreError>) -> Option<T> {
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

    fn fresh(&self) -> MutexGuard<'_, HashMap<SourceName, Fresh>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Manifests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifests").field("cache", &self.cache()).finish_non_exhaustive()
    }
}

fn older(then: Wall, now: Wall, limit: Duration) -> bool {
    u128::from(now.0.saturating_sub(then.0)) > limit.as_millis()
}

/// Computes an HMAC over the parts with their lengths, so that the boundaries of parts are
/// unambiguous.
fn hash(secret: &Secret, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut hash = Hmac::<Sha256>::new_from_slice(secret.open().as_bytes()).ok()?;
    hash.update(b"toolkeep module manifest 2\n");
    for part in parts {
        hash.update(&part.len().to_be_bytes());
        hash.update(part);
    }
    Some(hash)
}

fn finish(hash: Hmac<Sha256>) -> String {
    hash.finalize().into_bytes().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let at = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
    (0..digits.len() / 2).map(at).collect()
}
