//! One server, and callers with secrets of their own: each has sessions and connections that nobody else
//! has. What a caller sends is what the credential port gives for it, never anything of the call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tool::executor::Credential;
use tool::{Boxed, Caller, Code, Context, ExecuteError, Org, Secret};

use super::http::Http;
use super::oauth::Account;
use super::upstream::{State, Target, Upstream};

/// Callers at once, and how long one is kept that makes no call.
const CALLERS: (usize, Duration) = (256, Duration::from_mins(10));
/// Where there is no room, the one that was idle longest goes, once it was that for so long: longer than
/// a call may take.
const IDLE: Duration = Duration::from_mins(3);

/// The callers of one source.
#[derive(Default)]
pub(super) struct Callers(Mutex<HashMap<(Org, String), Own>>);

struct Own {
    upstream: Arc<Upstream>,
    secret: Secret,
    used: Instant,
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Org, String), Own>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server as this caller has it; nothing where there is no room for one more.
    fn of(
        &self,
        caller: &Caller,
        secret: &Secret,
        make: impl FnOnce() -> Option<Arc<Upstream>>,
    ) -> Option<Arc<Upstream>> {
        let key = (caller.org.clone(), caller.subject.clone());
        let mut all = self.lock();
        let now = Instant::now();
        if let Some(own) = all.get_mut(&key) {
            if own.secret.open() == secret.open() && !own.upstream.is_done() {
                own.used = now;
                return Some(Arc::clone(&own.upstream));
            }
            own.upstream.close();
            all.remove(&key);
        }
        all.retain(|_, own| {
            let kept = !own.upstream.is_done() && own.used.elapsed() < CALLERS.1;
            if !kept {
                own.upstream.close();
            }
            kept
        });
        if all.len() >= CALLERS.0 {
            let idle = all.iter().min_by_key(|(_, own)| own.used);
            let idle =
                idle.filter(|(_, own)| own.used.elapsed() > IDLE).map(|(key, _)| key.clone())?;
            all.remove(&idle).inspect(|own| own.upstream.close());
        }
        let upstream = make()?;
        let own = Own { upstream: Arc::clone(&upstream), secret: secret.clone(), used: now };
        all.insert(key, own);
        Some(upstream)
    }

    /// Begins to end them.
    pub(super) fn close(&self) {
        self.lock().values().for_each(|own| own.upstream.close());
    }

    /// Resolves when nothing of them is left.
    pub(super) fn closed(&self) -> Boxed<'_, ()> {
        // Boxed: each of them is a server too, though one without callers.
        Box::pin(async {
            let all: Vec<_> = self.lock().drain().map(|(_, own)| own.upstream).collect();
            for upstream in all {
                upstream.closed().await;
            }
        })
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl Upstream {
    /// Its standing with an authorization server, where it may have one.
    pub(super) fn account(&self) -> Option<&Arc<Account>> {
        self.http()?.account()
    }

    /// Whether it has ended, and is not started again by itself.
    fn is_done(&self) -> bool {
        matches!(*self.state.borrow(), State::Down(_) | State::Closed)
    }

    /// For one caller.
    fn single(&self, http: Http) -> Arc<Self> {
        let target = Target::Http(Arc::new(http));
        Self::made(self.name.clone(), self.options.clone(), target, true)
    }

    /// The server as the caller of `ctx` has it; nothing where all callers are alike.
    pub(super) async fn of_caller(
        &self,
        ctx: &Context<'_>,
    ) -> Result<Option<Arc<Self>>, ExecuteError> {
        let Some((http, header)) = self.http().and_then(|http| Some((http, http.own_header()?)))
        else {
            return Ok(None);
        };
        let name = &self.name;
        let missing = |why: &str| {
            let message = format!("the source `{name}` wants a credential of each caller: {why}");
            ExecuteError::before(Code::CredentialMissing, message)
        };
        let secret = match ctx.credentials.for_source(name, ctx.caller).await {
            Credential::Secret(secret) => secret,
            Credential::None => return Err(missing("none is configured")),
            Credential::Missing(why) => return Err(missing(&why)),
            Credential::NeedsConsent(url) => {
                return Err(missing(&format!("agree to it first, at {url}")));
            }
        };
        let make = || Some(self.single(http.with_secret(header, &secret)?));
        let own = self.callers.of(ctx.caller, &secret, make).ok_or_else(|| {
            let message = format!("too many callers use the source `{name}` at once; try again");
            ExecuteError::before(Code::Busy, message)
        })?;
        Ok(Some(own))
    }
}
