//! Manifests kept beside the process, so that a module's tools outlast its absence and a restart.
//!
//! A cache is open to others: what comes out of it counts only with this installation's mark, which
//! says when it was written and stands beside the manifest under a key of its own. The manifest itself
//! is plain, as spec 0 has it. A cache that is away delays nothing and fails nothing.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tool::{Cache, Clock, Secret, SourceName, StoreError, Wall};

/// How long a manifest is kept after the module gave it (spec 0).
pub const LIFE: Duration = Duration::from_hours(1);
/// The largest manifest that is kept, in bytes: what the smallest cache takes.
pub(super) const MOST: usize = 4_000_000;
/// After how long one that did not change is written anew.
const AGAIN: Duration = Duration::from_mins(10);
/// How often the cache is looked at: what it lost is there again that soon.
const LOOK: Duration = Duration::from_secs(2);
/// A clock of another machine may be ahead of ours by this much.
const SKEW: Duration = Duration::from_mins(5);

/// The manifests of all modules of one installation, in a cache.
pub struct Manifests {
    cache: Mutex<Arc<dyn Cache>>,
    clock: Arc<dyn Clock>,
    secret: Secret,
    installation: String,
    fresh: Mutex<HashMap<SourceName, Fresh>>,
    up: AtomicBool,
}

/// What a module said last, itself.
#[derive(Debug, Clone)]
struct Fresh {
    body: Bytes,
    at: Wall,
    written: Option<Wall>,
}

/// A manifest that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) body: Bytes,
    /// When the module gave it.
    pub(super) at: Wall,
}

impl Manifests {
    /// In this cache, marked with this secret, which belongs to the installation alone.
    pub fn new(cache: Arc<dyn Cache>, clock: Arc<dyn Clock>, secret: Secret) -> Self {
        let mut installation = hash(&secret, &[b"installation"]).map(finish).unwrap_or_default();
        installation.truncate(8);
        let (fresh, up, cache) = (Mutex::default(), AtomicBool::new(true), Mutex::new(cache));
        Self { cache, clock, secret, installation, fresh, up }
    }

    /// Keeps them in another cache from now on; what is known fresh is written there soon.
    pub fn move_to(&self, cache: Arc<dyn Cache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = cache;
        self.up.store(true, Ordering::Relaxed);
        self.fresh().values_mut().for_each(|fresh| fresh.written = None);
    }

    fn cache(&self) -> Arc<dyn Cache> {
        Arc::clone(&self.cache.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The key of a module's manifest (spec 0).
    pub fn key(module: &SourceName) -> String {
        format!("module_manifest:{module}")
    }

    /// The key of the mark beside it. Each installation has its own, so that several may share a cache.
    pub fn mark_key(&self, module: &SourceName) -> String {
        format!("toolkeep:{}:{}", self.installation, Self::key(module))
    }

    /// Puts back what the cache lost, as soon as it answers; for ever. Spawn it where shutdown ends it.
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
                let (key, mark) = (Self::key(&module), self.mark_key(&module));
                match self.answered(self.cache().has(&[&key, &mark]).await) {
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

    /// Takes what a module said. `asked`: it is written even if it stands there already.
    pub(super) async fn keep(&self, module: &SourceName, body: &Bytes, asked: bool) {
        if body.len() > MOST {
            tracing::warn!(%module, bytes = body.len(), "the manifest is too large to be kept");
            return self.lose(module);
        }
        let at = self.clock.wall();
        let fresh = {
            let mut all = self.fresh();
            let before = all.get(module).filter(|before| before.body == *body && !asked);
            let recent = |written: &Wall| !older(*written, at, AGAIN);
            let written = before.and_then(|before| before.written).filter(recent);
            let fresh = Fresh { body: body.clone(), at, written };
            all.insert(module.clone(), fresh.clone());
            fresh
        };
        // While the cache is away nobody waits for it: `look` writes this when it is back.
        if fresh.written.is_none() && self.up.load(Ordering::Relaxed) {
            self.write(module, fresh).await;
        }
    }

    /// The module does not answer any more: what is kept of it may expire.
    pub(super) fn lose(&self, module: &SourceName) {
        self.fresh().remove(module);
    }

    async fn write(&self, module: &SourceName, fresh: Fresh) -> bool {
        let Some(mark) = self.mark(module, &fresh.body, fresh.at) else { return false };
        let (key, mark_key) = (Self::key(module), self.mark_key(module));
        let pairs = [(key.as_str(), fresh.body.clone()), (mark_key.as_str(), Bytes::from(mark))];
        if self.answered(self.cache().put(&pairs, LIFE).await).is_none() {
            return false;
        }
        if let Some(now) = self.fresh().get_mut(module).filter(|now| now.body == fresh.body) {
            now.written = Some(fresh.at);
        }
        true
    }

    /// The manifest as it was kept; nothing where there is none or it is too old.
    ///
    /// # Errors
    /// In words, where there is one that this installation did not write.
    pub(super) async fn load(&self, module: &SourceName) -> Result<Option<Remembered>, String> {
        let (key, mark_key) = (Self::key(module), self.mark_key(module));
        let body = self.answered(self.cache().get(&key, MOST).await).flatten();
        let Some(body) = body else { return Ok(None) };
        let mark = self.answered(self.cache().get(&mark_key, 256).await).flatten();
        let forged = || format!("`{key}` in the cache was not written by this installation");
        let mark = mark.ok_or_else(forged)?;
        let at = self.read_mark(module, &body, &mark).ok_or_else(forged)?;
        let now = self.clock.wall();
        let due = !older(at, now, LIFE) && !older(now, at, SKEW);
        Ok(due.then_some(Remembered { body, at }))
    }

    /// When it was written and a hash over that, the module and the manifest.
    fn mark(&self, module: &SourceName, body: &Bytes, at: Wall) -> Option<String> {
        let time = at.0.to_string();
        let parts = [module.as_str().as_bytes(), time.as_bytes(), body];
        Some(format!("{time}.{}", finish(hash(&self.secret, &parts)?)))
    }

    fn read_mark(&self, module: &SourceName, body: &Bytes, mark: &[u8]) -> Option<Wall> {
        let (time, digits) = std::str::from_utf8(mark).ok()?.split_once('.')?;
        let at = Wall(time.parse().ok()?);
        let parts = [module.as_str().as_bytes(), time.as_bytes(), body];
        // In constant time.
        hash(&self.secret, &parts)?.verify_slice(&bytes_of(digits)?).ok()?;
        Some(at)
    }

    /// What the cache answered, and a line in the log when it goes or comes back.
    fn answered<T>(&self, answer: Result<T, StoreError>) -> Option<T> {
        let was_up = self.up.swap(answer.is_ok(), Ordering::Relaxed);
        match &answer {
            Ok(_) if !was_up => tracing::info!("module_cache_available"),
            Err(error) if was_up => tracing::warn!(%error, "module_cache_unavailable"),
            _ => {}
        }
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

/// Over the parts with their lengths, so that none can pass for another.
fn hash(secret: &Secret, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut hash = Hmac::<Sha256>::new_from_slice(secret.open().as_bytes()).ok()?;
    hash.update(b"toolkeep module manifest 1\n");
    for part in parts {
        hash.update(&part.len().to_be_bytes());
        hash.update(part);
    }
    Some(hash)
}

fn finish(hash: Hmac<Sha256>) -> String {
    hash.finalize().into_bytes().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let at = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
    (0..digits.len() / 2).map(at).collect()
}
