//! One server, and callers with connections of their own: where each has a secret, and where the server asks
//! questions that name no call. Nobody else uses such a connection. What a caller sends is what the
//! credential port gives for it, never anything of the call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::mcp::Era;
use tokio::time::{Instant, sleep};
use tool::executor::Credential;
use tool::{Boxed, Call, Caller, Code, Context, ExecuteError, Secret};

use super::audience::CallerId;
use super::upstream::{State, Target, Upstream};
use oauth_client::Account;

/// Callers of a source at once over HTTP, and by children of ours.
const CALLERS: (usize, usize) = (256, 32);
/// Of these places, one in so many for one key and all keys that were delegated from it.
const SHARE: usize = 4;
/// How long a connection is kept that nothing uses.
const KEPT: Duration = Duration::from_mins(10);
/// Where there is no room, the one that was idle longest goes, once it was that for so long.
const IDLE: Duration = Duration::from_mins(3);

/// The callers of one source.
#[derive(Default)]
pub(super) struct Callers(Mutex<HashMap<CallerId, Own>>);

struct Own {
    upstream: Arc<Upstream>,
    secret: Option<Secret>,
    /// The key that shares are counted by.
    root: String,
    used: Instant,
}

impl Own {
    fn is_idle(&self, since: Duration) -> bool {
        self.used.elapsed() >= since && self.upstream.is_idle()
    }
}

/// A place for a caller.
enum Place {
    Old(Arc<Upstream>),
    New(Arc<Upstream>),
}

impl Callers {
    fn lock(&self) -> MutexGuard<'_, HashMap<CallerId, Own>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server as this caller has it; nothing where there is no room for one more.
    fn of(
        &self,
        caller: &Caller,
        (secret, most): (Option<&Secret>, usize),
        make: impl FnOnce() -> Option<Arc<Upstream>>,
    ) -> Option<Place> {
        let id = CallerId::of(caller);
        let mut all = self.lock();
        let now = Instant::now();
        if let Some(own) = all.get_mut(&id) {
            let same = own.secret.as_ref().map(Secret::open) == secret.map(Secret::open);
            if same && !own.upstream.is_done() {
                own.used = now;
                return Some(Place::Old(Arc::clone(&own.upstream)));
            }
            own.upstream.close();
            all.remove(&id);
        }
        all.retain(|_, own| {
            let kept = !own.upstream.is_done() && !own.is_idle(KEPT);
            if !kept {
                own.upstream.close();
            }
            kept
        });
        let root = caller.root_key();
        let of_root = all.values().filter(|own| own.root == root).count();
        let full = if of_root >= (most / SHARE).max(1) {
            Some(Some(root))
        } else {
            (all.len() >= most).then_some(None)
        };
        if let Some(of) = full {
            let mut idle: Vec<_> = all.iter().collect();
            idle.retain(|(_, own)| of.is_none_or(|root| own.root == root) && own.is_idle(IDLE));
            let oldest = idle.into_iter().min_by_key(|(_, own)| own.used);
            let oldest = oldest.map(|(id, _)| id.clone())?;
            all.remove(&oldest).inspect(|own| own.upstream.close());
        }
        let upstream = make()?;
        let (secret, root) = (secret.cloned(), root.to_owned());
        let own = Own { upstream: Arc::clone(&upstream), secret, root, used: now };
        all.insert(id, own);
        Some(Place::New(upstream))
    }

    /// Ends the connection where nothing has used it for long; whether it has ended.
    fn retire(&self, id: &CallerId, upstream: &Arc<Upstream>) -> bool {
        let mut all = self.lock();
        let found = all.get(id).filter(|own| Arc::ptr_eq(&own.upstream, upstream));
        let Some(own) = found else { return true };
        if !own.upstream.is_done() && !own.is_idle(KEPT) {
            return false;
        }
        own.upstream.close();
        all.remove(id);
        true
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

    /// Whether nothing uses it.
    fn is_idle(&self) -> bool {
        match &*self.state.borrow() {
            State::Up(link) => link.is_idle() && self.other.is_idle(),
            State::Coming => !self.is_started(),
            State::Resting(_) | State::Down(_) | State::Closed => true,
        }
    }

    /// The server as the caller of `ctx` has it; nothing where the connection of all is its own too.
    pub(super) async fn of_caller(
        self: &Arc<Self>,
        call: &Call,
        ctx: &Context<'_>,
    ) -> Result<Option<Arc<Self>>, ExecuteError> {
        if let Some((http, header)) = self.http().and_then(|http| Some((http, http.own_header()?)))
        {
            let secret = self.secret(ctx).await?;
            let make =
                || Some(self.single(Target::Http(Arc::new(http.with_secret(header, &secret)?))));
            let own = self.own(ctx.caller, Some(&secret), make);
            return own.map(Some).ok_or_else(|| self.crowded());
        }
        // What goes on with a call goes on where that is.
        if !self.setting().asking.is_known() || call.continues.is_some() {
            return Ok(None);
        }
        // Boxed: few servers ask.
        Box::pin(self.apart(ctx)).await
    }

    /// The same for a server that asks questions which name no call: each caller is alone on a connection.
    async fn apart(self: &Arc<Self>, ctx: &Context<'_>) -> Result<Option<Arc<Self>>, ExecuteError> {
        self.start();
        let link = tokio::select! {
            biased;
            link = self.link() => link,
            () = ctx.cancel.cancelled() => return Ok(None),
        };
        // Where it is not up, the call finds that out itself; and of 2026-07-28 a server asks by its answer.
        let Ok(link) = link else { return Ok(None) };
        if link.era() == Era::Stateless || link.shared.audience.claim(ctx.caller) {
            return Ok(None);
        }
        match self.own(ctx.caller, None, || Some(self.single(self.target().clone()))) {
            Some(own) => Ok(Some(own)),
            // Nobody is asked anything there.
            None if link.shared.audience.is_shared() => Ok(None),
            None => Err(self.crowded()),
        }
    }

    fn own(
        self: &Arc<Self>,
        caller: &Caller,
        secret: Option<&Secret>,
        make: impl FnOnce() -> Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let most = match self.target() {
            Target::Http(_) => CALLERS.0,
            Target::Pipes(_) => CALLERS.1,
        };
        let own = match self.callers.of(caller, (secret, most), make)? {
            Place::Old(own) => return Some(own),
            Place::New(own) => own,
        };
        let kept = Arc::clone(self).keep(CallerId::of(caller), Arc::clone(&own));
        drop(self.setting().tasks.spawn(kept));
        Some(own)
    }

    /// Keeps a caller's connection until nothing has used it for long.
    async fn keep(self: Arc<Self>, id: CallerId, own: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.setting().closing.cancelled() => own.close(),
                () = own.setting().closing.cancelled() => {}
                () = sleep(KEPT) => if !self.callers.retire(&id, &own) { continue },
            }
            break;
        }
        own.close();
        // Boxed: it is a server too, though one without callers.
        let closed: Boxed<'_, ()> = Box::pin(own.closed());
        closed.await;
    }

    async fn secret(&self, ctx: &Context<'_>) -> Result<Secret, ExecuteError> {
        let name = &self.name;
        let why = match ctx.credentials.for_source(name, ctx.caller).await {
            Credential::Secret(secret) => return Ok(secret),
            Credential::None => "none is configured".to_owned(),
            Credential::Missing(why) => why,
            Credential::NeedsConsent(url) => format!("agree to it first, at {url}"),
        };
        let message = format!("the source `{name}` wants a credential of each caller: {why}");
        Err(ExecuteError::before(Code::CredentialMissing, message))
    }

    fn crowded(&self) -> ExecuteError {
        let message = format!("too many callers use the source `{}` at once; try again", self.name);
        ExecuteError::before(Code::Busy, message)
    }
}
