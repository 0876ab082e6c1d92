//! One source's standing with its authorization server: the token it has, and what is done where a
//! server wants another.

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

/// What failed is not tried again sooner than this: all who wait are told the same.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// Scopes that one request may ask for one after the other.
const STEPS: u32 = 3;
/// Scopes kept in mind.
const SCOPES: usize = 256;

/// One source's standing.
pub struct Account {
    pub(super) settings: Settings,
    pub(super) url: Url,
    pub(super) means: Means,
    pub(super) web: Web,
    /// Whether a server ever wanted a token.
    awake: AtomicBool,
    /// One at a time asks for tokens.
    pub(super) turn: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
    state: Mutex<State>,
}

/// What is known now.
#[derive(Default)]
pub(super) struct State {
    /// Whether the store was read.
    pub(super) loaded: bool,
    pub(super) kept: Option<Kept>,
    pub(super) version: Option<Version>,
    pub(super) token: Option<Arc<Token>>,
    /// Tokens so far.
    pub(super) tokens: u64,
    /// Scopes that the token was asked for with.
    pub(super) asked: BTreeSet<String>,
    /// Further ones that a request wanted.
    pub(super) wanted: BTreeSet<String>,
    /// Where the server says that its metadata are, and what it wants first.
    pub(super) metadata: Option<String>,
    pub(super) first: Option<Vec<String>>,
    pub(super) known: Option<Arc<Known>>,
    pub(super) failed: Option<(Instant, Fault)>,
    pub(super) pending: Vec<Pending>,
}

/// How often one request was tried.
#[derive(Debug, Default)]
pub struct Tries {
    renewed: u32,
    steps: u32,
}

impl Account {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// A [`Problem`] where an address cannot be used.
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

    /// Whether requests carry a token, or may have to.
    pub fn is_awake(&self) -> bool {
        self.awake.load(Ordering::Relaxed)
    }

    /// From here on they may.
    pub fn wake(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    /// What failed is tried again at once.
    pub fn forgive(&self) {
        self.state().failed = None;
    }

    /// What the operator should do, where the source works and could do more.
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

    /// A person has to log in.
    pub(super) fn consent(&self) -> Fault {
        let (source, why) = (&self.settings.source, "needs the consent of a person");
        if self.settings.said {
            return Fault::consent(source, why);
        }
        let fault = Fault::consent(source, &format!("{why}, or another credential (HTTP 401)"));
        let login = fault.fix.clone().unwrap_or_default();
        fault.fix(format!("{login}, or give the credential it wants in `headers`"))
    }

    /// The token to send now; nothing where none was wanted yet.
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
            // It holds for a while yet, and nobody is to suffer before it ends.
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

    /// A server refused a request that carried `used`. When this resolves well, the request may be sent
    /// again; nothing of it was done.
    ///
    /// # Errors
    /// Where another try is of no use.
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

    /// Whether the operator named the authorization server.
    pub(super) fn has_configured_issuer(&self) -> bool {
        self.settings.issuer.is_some() || self.settings.token_endpoint.is_some()
    }

    /// Checks that the operator's own client may be shown to this authorization server: the configured
    /// one, or the first that it was shown to.
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

    /// The same, and stores it as the first: called before the client's credential is sent.
    pub(super) async fn pin(&self, known: &Known) -> Result<(), Fault> {
        self.check_pin(known)?;
        let first = self.settings.client.is_some() && self.state().kept.is_none();
        if first && !self.has_configured_issuer() {
            self.keep(Kept::new(&self.settings.url, &known.server.issuer)).await;
        }
        Ok(())
    }

    /// The client of this authorization server, where one is known for it.
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
    /// What a challenge says.
    fn hear(&mut self, challenge: Challenge) {
        if challenge.metadata.is_some() {
            self.metadata = challenge.metadata;
        }
        if challenge.scopes.is_some() {
            self.first = challenge.scopes;
        }
    }

    /// The scopes to ask for now: the operator's first, else those the server wants, else the least ones
    /// by its metadata; and whatever was asked for before.
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

/// It has just been given and is refused: another one of the same kind would be too.
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
