//! Access token of one source: provided to requests, renewed, and replaced if the server rejects
//! it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tool::{Problem, Version};
use url::Url;

use super::client::Client;
use super::consent::Pending;
use super::kept::Kept;
use super::metadata::Known;
use super::places::Places;
use super::web::Web;
use super::{Challenge, Fault, Grant, Means, Settings, Token};
use tool::display_text::shown;

/// Time before a failed request is repeated; until then all waiting requests get the same error.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// Maximum step-up authorizations of one request.
const STEPS: u32 = 3;
/// Maximum scopes that are remembered.
const SCOPES: usize = 256;

/// Provider of the access tokens of one source.
pub struct Account {
    pub(super) settings: Settings,
    pub(super) url: Url,
    pub(super) means: Means,
    pub(super) web: Web,
    /// Whether a server ever required a token.
    awake: AtomicBool,
    /// Permits one token request at a time.
    pub(super) turn: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
    state: Mutex<State>,
}

/// Current token state of a source.
#[derive(Default)]
pub(super) struct State {
    /// Whether the store was read.
    pub(super) loaded: bool,
    pub(super) kept: Option<Kept>,
    pub(super) version: Option<Version>,
    pub(super) token: Option<Arc<Token>>,
    /// Number of tokens so far.
    pub(super) tokens: u64,
    /// Scopes that the token was requested with.
    pub(super) asked: BTreeSet<String>,
    /// Further scopes that a request needed.
    pub(super) wanted: BTreeSet<String>,
    /// Metadata URL and scopes of the last challenge.
    pub(super) metadata: Option<String>,
    pub(super) first: Option<Vec<String>>,
    pub(super) known: Option<Arc<Known>>,
    pub(super) failed: Option<(Instant, Fault)>,
    pub(super) pending: Vec<Pending>,
}

/// Retries of one request.
#[derive(Debug, Default)]
pub struct Tries {
    renewed: u32,
    steps: u32,
}

impl Account {
    /// Creates the provider without sending a request.
    ///
    /// # Errors
    /// A [`Problem`] if a URL cannot be used.
    pub fn new(settings: Settings, means: Means) -> Result<Arc<Self>, Problem> {
        let (url, named) = settings.check()?;
        let web = Web {
            egress: means.egress.apart(),
            places: Places::new(named, settings.any_loopback_port),
        };
        Ok(Arc::new(Self {
            settings,
            url,
            means,
            web,
            awake: AtomicBool::new(false),
            turn: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            state: Mutex::default(),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether requests may need a token.
    pub fn is_awake(&self) -> bool {
        self.awake.load(Ordering::Relaxed)
    }

    /// Marks the source as requiring tokens.
    pub fn wake(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    /// Clears the last failure, so that the next request tries again at once.
    pub fn forgive(&self) {
        self.state().failed = None;
    }

    /// Returns a problem if the source works but lacks consent to some scopes.
    pub fn problem(&self, place: &str) -> Option<Problem> {
        if self.settings.grant == Grant::ClientCredentials {
            return None;
        }
        let wanted = self.state().wanted.iter().cloned().collect::<Vec<_>>().join(" ");
        (!wanted.is_empty()).then(|| self.further(&wanted).problem(place))
    }

    fn further(&self, wanted: &str) -> Fault {
        let why = format!("needs a person's consent to more: `{}`", shown(wanted, 300));
        Fault::consent(&self.settings.source, &why)
    }

    /// Builds the error for a login that is required.
    pub(super) fn consent(&self) -> Fault {
        let (source, why) = (&self.settings.source, "needs the consent of a person");
        if self.settings.said {
            return Fault::consent(source, why);
        }
        let fault = Fault::consent(source, &format!("{why}, or another credential (HTTP 401)"));
        let login = fault.fix.clone().unwrap_or_default();
        fault.fix(format!("{login}, or give the credential it wants in `headers`"))
    }

    /// Returns the token to send, or `None` if none was required yet.
    pub async fn bearer(self: &Arc<Self>) -> Result<Option<Arc<Token>>, Fault> {
        let alive = {
            let state = self.state();
            let token = state.token.clone();
            if token.as_ref().is_some_and(|token| token.is_fresh())
                || state.loaded && !self.can_renew(&state)
            {
                return Ok(token);
            }
            token.filter(|token| token.is_alive())
        };
        match (self.renewed(None).await, alive) {
            // The old token is still valid, so a failed renewal is not an error yet.
            (Err(fault), Some(token)) => {
                tracing::debug!(source = %self.settings.source, fault = %fault.message, "a token is not renewed yet");
                Ok(Some(token))
            }
            (renewed, _) => renewed,
        }
    }

    fn can_renew(&self, state: &State) -> bool {
        match self.settings.grant {
            Grant::ClientCredentials => state.known.is_some(),
            Grant::AuthorizationCode => state.kept.as_ref().is_some_and(|it| it.refresh.is_some()),
        }
    }

    /// Handles a request that was rejected with token `used`. Resolves if the request may be
    /// repeated; the server did nothing.
    ///
    /// # Errors
    /// A [`Fault`] if repeating the request is useless.
    pub async fn refused(
        self: &Arc<Self>,
        used: Option<&Token>,
        (status, challenge): (StatusCode, Challenge),
        tries: &mut Tries,
    ) -> Result<(), Fault> {
        let number = used.map(|token| token.number);
        if status == StatusCode::FORBIDDEN {
            return self.step_up(number, challenge, tries).await;
        }
        let denied = {
            let mut state = self.state();
            state.hear(challenge);
            match &state.token {
                Some(now) if Some(now.number) != number && tries.renewed <= STEPS => {
                    tries.renewed += 1;
                    return Ok(());
                }
                Some(now) => {
                    let proved = now.proved.load(Ordering::Relaxed);
                    let denied = (!proved).then(|| denied(&state));
                    state.token = None;
                    state.known = None;
                    if let Some(kept) = &mut state.kept {
                        kept.access = None;
                    }
                    denied
                }
                None => None,
            }
        };
        if let Some(fault) = denied.or_else(|| (tries.renewed > STEPS).then(|| self.consent())) {
            self.state().failed = Some((Instant::now(), fault.clone()));
            return Err(fault);
        }
        tries.renewed += 1;
        match self.renewed(Some(number.unwrap_or_default())).await? {
            Some(_) => Ok(()),
            None => Err(self.consent()),
        }
    }

    async fn step_up(
        self: &Arc<Self>,
        used: Option<u64>,
        challenge: Challenge,
        tries: &mut Tries,
    ) -> Result<(), Fault> {
        tries.steps += 1;
        let wanted = challenge.scopes.clone().unwrap_or_default();
        {
            let mut state = self.state();
            state.metadata = challenge.metadata.or_else(|| state.metadata.take());
            if tries.steps <= STEPS
                && state.token.as_ref().is_some_and(|it| Some(it.number) != used)
            {
                return Ok(());
            }
            if self.settings.grant == Grant::ClientCredentials && !self.settings.scopes.is_empty() {
                let wanted = shown(&wanted.join(" "), 300);
                let message =
                    format!("wants `{wanted}`, which is not among its `scopes` (HTTP 403)");
                let fix = "add it to `scopes`, where the server should have that right";
                return Err(Fault::refused(message).fix(fix));
            }
            let new = wanted.iter().any(|scope| !state.asked.contains(scope));
            if !new || tries.steps > STEPS || state.wanted.len() + wanted.len() > SCOPES {
                let wanted = shown(&wanted.join(" "), 300);
                let message = format!(
                    "refuses the request for want of `{wanted}`, which was asked for (HTTP 403)"
                );
                let fix = "ask who runs it which rights the account has";
                return Err(Fault::refused(message).fix(fix));
            }
            state.wanted.extend(wanted.iter().cloned());
        }
        if self.settings.grant == Grant::AuthorizationCode {
            return Err(self.further(&wanted.join(" ")));
        }
        self.renewed(Some(used.unwrap_or_default())).await.map(drop)
    }

    /// Returns whether the operator configured the authorization server.
    pub(super) fn has_configured_issuer(&self) -> bool {
        self.settings.issuer.is_some() || self.settings.token_endpoint.is_some()
    }

    /// Verifies that the configured client may be shown to this authorization server: the
    /// configured one, or the first that it was shown to.
    pub(super) fn check_pin(&self, known: &Known) -> Result<(), Fault> {
        let issuer = &known.server.issuer;
        let pinned = self.state().kept.as_ref().map(|kept| kept.issuer.clone());
        let other = pinned.filter(|pinned| pinned != issuer);
        let other = other.filter(|_| self.settings.client.is_some());
        let Some(pinned) = other.filter(|_| !self.has_configured_issuer()) else { return Ok(()) };
        let message = format!(
            "has the authorization server `{}` now, not `{}`: the client's credential is not sent there",
            shown(issuer, 200),
            shown(&pinned, 200)
        );
        let fix = "where that is right, write it as `issuer`, with the client that it knows";
        Err(Fault::blocked(message).fix(fix))
    }

    /// Verifies the authorization server, and stores it as the first. Called before the client's
    /// credential is sent.
    pub(super) async fn pin(&self, known: &Known) -> Result<(), Fault> {
        self.check_pin(known)?;
        let first = self.settings.client.is_some() && self.state().kept.is_none();
        if first && !self.has_configured_issuer() {
            self.keep(Kept::new(&self.settings.url, &known.server.issuer)).await;
        }
        Ok(())
    }

    /// Returns the client for this authorization server, if one is known.
    pub(super) fn client(&self, known: &Known, redirect: Option<&str>) -> Option<Client> {
        if let Some(registered) = &self.settings.client {
            let (id, proof) = (registered.id.clone(), registered.proof.clone());
            return Some(Client { id, proof, method: None });
        }
        if let Some(document) = self.document(known) {
            return Some(document);
        }
        let state = self.state();
        let kept = state.kept.as_ref().filter(|kept| kept.issuer == known.server.issuer)?;
        let client = kept.client.as_ref();
        let client = client.filter(|it| redirect.is_none_or(|redirect| redirect == it.redirect));
        client.map(super::kept::Registration::client)
    }

    fn document(&self, known: &Known) -> Option<Client> {
        let id =
            self.settings.client_metadata.clone().filter(|_| known.server.reads_documents())?;
        Some(Client { id, proof: super::Proof::None, method: None })
    }
}

impl State {
    /// Applies the parameters of a challenge.
    fn hear(&mut self, challenge: Challenge) {
        if challenge.metadata.is_some() {
            self.metadata = challenge.metadata;
        }
        if challenge.scopes.is_some() {
            self.first = challenge.scopes;
        }
    }

    /// Returns the scopes to request.
    ///
    /// The configured scopes take precedence over those of the challenge and those of the resource
    /// metadata. Scopes of earlier requests are added.
    pub(super) fn scopes(&self, settings: &Settings, known: &Known) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = if settings.scopes.is_empty() {
            let first = self.first.as_ref().or(known.scopes.as_ref());
            first.into_iter().flatten().cloned().collect()
        } else {
            settings.scopes.iter().cloned().collect()
        };
        all.extend(self.asked.iter().chain(&self.wanted).cloned());
        all.into_iter().take(SCOPES).collect()
    }
}

/// Builds the error for a fresh token that was rejected: another one would be rejected too.
fn denied(state: &State) -> Fault {
    let issuer = state.known.as_ref().map(|known| known.server.issuer.clone());
    let issuer = issuer.or_else(|| Some(state.kept.as_ref()?.issuer.clone()));
    let issuer = shown(&issuer.unwrap_or_default(), 200);
    let message = format!("refuses the token that `{issuer}` has just given for it (HTTP 401)");
    Fault::refused(message).fix("ask who runs it which audience, scopes and client it wants")
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("source", &self.settings.source).finish_non_exhaustive()
    }
}
