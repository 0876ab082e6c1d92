//! Servers over HTTP that speak both eras: a connection of each, so that a caller of either is answered
//! in its own words. Calls choose; lists, and what is told of changes, come from the main one.
//!
//! It costs no process, so it is for HTTP alone.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::mcp::Era;
use tokio::time::{sleep, timeout};
use tool::source::SourceFault;

use super::dial::Fault;
use super::http::Http;
use super::link::Link;
use super::options::Dialect;
use super::session::{Failed, Session};
use super::upstream::{Target, Upstream, closed};

/// How long a server may take to say that it speaks 2026-07-28. One of before may never answer.
const PROBE: Duration = Duration::from_secs(5);
/// How long it is asked alone; one that said nothing the last time is not. And how long it may still
/// take where it answered in the older words meanwhile.
const HEAD: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_millis(500);
/// A connection that ended beside the main one is opened again no sooner than this, and no later than
/// that.
const AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));

/// A start.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) main: Session,
    /// The same server in the other era, where it speaks both.
    pub(super) other: Option<Session>,
    /// Whether it says that it does.
    pub(super) both: bool,
}

impl Begun {
    /// In one era.
    pub(super) fn alone(main: Session) -> Self {
        Self { main, other: None, both: false }
    }
}

/// The connection beside the main one, while there is one.
#[derive(Debug, Default)]
pub(super) struct Other {
    link: Mutex<Option<Arc<Link>>>,
    /// Whether the server said nothing at all when it was asked for 2026-07-28 last.
    mute: AtomicBool,
}

impl Other {
    fn set(&self, link: Option<Arc<Link>>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Ends it.
    pub(super) fn end(&self) {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        link.inspect(|link| link.shared.end.end());
    }

    /// Whether nothing uses it.
    pub(super) fn is_idle(&self) -> bool {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.as_ref().is_none_or(|link| link.is_idle())
    }

    /// The connection, where it is of this era.
    fn of(&self, era: Era) -> Option<Arc<Link>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
        link.filter(|link| link.era() == era && !link.is_over())
    }
}

/// While it lives, the connection is kept. A session that nobody keeps is over. What is stateless needs
/// nobody to keep it: calls find it until the server is met anew.
struct Kept<'a>(&'a Upstream, Arc<Link>);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if self.1.era() == Era::Handshake || self.0.is_closing() {
            self.1.shared.end.end();
        }
    }
}

impl Upstream {
    /// One start, in each dialect that may do.
    ///
    /// Over pipes `initialize` goes first: every server of before 2026-07-28 needs it as its first message, some
    /// end where anything else comes, and those of both eras answer it. A server that refuses it is
    /// met with `server/discover`. What worked is tried first the next time.
    pub(super) async fn begin(&self) -> Result<Begun, Fault> {
        if let (Target::Http(http), Dialect::Probe) = (self.target(), self.setting().dialect) {
            return self.meet(http).await;
        }
        let known = *self.era.lock().unwrap_or_else(PoisonError::into_inner);
        let eras: &[Era] = match (self.setting().dialect, known) {
            (Dialect::Initialize, _) => &[Era::Handshake],
            (Dialect::Discover, _) => &[Era::Stateless],
            (Dialect::Probe, Some(Era::Stateless)) => &[Era::Stateless, Era::Handshake],
            (Dialect::Probe, _) => &[Era::Handshake, Era::Stateless],
        };
        let mut first = None;
        for era in eras {
            match self.attempt(*era).await {
                Ok(session) => {
                    *self.era.lock().unwrap_or_else(PoisonError::into_inner) = Some(*era);
                    return Ok(Begun::alone(session));
                }
                Err(Failed { fault, dialect }) => {
                    let fault = first.get_or_insert(fault);
                    if !dialect {
                        return Err(fault.clone());
                    }
                }
            }
        }
        Err(first.unwrap_or_else(closed))
    }

    pub(super) async fn attempt(&self, era: Era) -> Result<Session, Failed> {
        match self.target() {
            Target::Pipes(dial) => self.setting().pipes(dial, era).await,
            Target::Http(http) => self.setting().endpoint(http, era).await,
        }
    }

    /// The connection of this era, or else the one there is.
    pub(super) async fn link_of(&self, era: Era) -> Result<Arc<Link>, Fault> {
        match self.other.of(era) {
            Some(link) => Ok(link),
            None => self.link().await,
        }
    }

    /// Meets an endpoint in each era it speaks.
    ///
    /// `server/discover` goes first, as MCP has it for HTTP: nothing ends by it, and who speaks
    /// 2026-07-28 says what else it speaks. Whatever does not answer in those words gets `initialize`, and
    /// so does, beside it, who takes long: one that never answers would hold up its own tools.
    pub(super) async fn meet(&self, http: &Arc<Http>) -> Result<Begun, Fault> {
        let initialized = || self.setting().endpoint(http, Era::Handshake);
        let mut probe = pin!(timeout(PROBE, self.setting().endpoint(http, Era::Stateless)));
        let head = if self.other.mute.load(Ordering::Relaxed) { Duration::ZERO } else { HEAD };
        let (mut said, mut met) = (timeout(head, &mut probe).await.ok(), None);
        if said.is_none() {
            tokio::select! {
                answer = &mut probe => said = Some(answer),
                older = initialized() => {
                    let grace = if older.is_ok() { GRACE.min(head) } else { PROBE };
                    said = timeout(grace, &mut probe).await.ok();
                    met = Some(older);
                }
            }
        }
        let met = async || match met {
            Some(met) => met,
            None => initialized().await,
        };
        let said = said.and_then(Result::ok);
        self.other.mute.store(said.is_none(), Ordering::Relaxed);
        let probe = match said {
            Some(Ok(stateless)) if stateless.link.greeted().both => {
                return Ok(match met().await {
                    Ok(main) => Begun { main, other: Some(stateless), both: true },
                    Err(_) => Begun { main: stateless, other: None, both: true },
                });
            }
            Some(Ok(stateless)) => return Ok(Begun::alone(stateless)),
            Some(Err(Failed { fault, .. })) => Some(fault),
            None => None,
        };
        let there =
            |fault: &Fault| !matches!(fault.kind, SourceFault::Unreachable | SourceFault::Blocked);
        if let Some(gone) = probe.clone().filter(|fault| !there(fault) || self.is_closing()) {
            return Err(gone);
        }
        // Where nothing but a login is missing, what the older words came to says nothing.
        let login = probe.filter(Fault::wants_login);
        met().await.map(Begun::alone).map_err(|failed| login.unwrap_or(failed.fault))
    }

    /// Keeps the connection beside the main one of `era`, for as long as this is polled.
    pub(super) async fn keep_other(&self, era: Era, (mut other, both): (Option<Session>, bool)) {
        let era = match era {
            Era::Handshake => Era::Stateless,
            Era::Stateless => Era::Handshake,
        };
        if other.is_none() {
            self.other.set(None);
        }
        let mut wait = AGAIN.0;
        while both && !self.is_closing() {
            if let Some(session) = other.take() {
                tracing::info!(source = %self.name, ?era, "an MCP server is up in both eras");
                self.other.set(Some(Arc::clone(&session.link)));
                let _kept = Kept(self, Arc::clone(&session.link));
                let fault = session.last(self.setting()).await;
                tracing::warn!(source = %self.name, ?era, fault = %fault.message,
                    "an MCP server is left in one of two eras");
                wait = AGAIN.0;
            }
            if !self.is_closing() {
                sleep(wait).await;
                wait = wait.saturating_mul(2).min(AGAIN.1);
                other = self.attempt(era).await.ok();
            }
        }
    }
}
