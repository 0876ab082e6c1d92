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

use super::address_policy::AddressPolicy;
use super::authorization_code::PendingLogin;
use super::client_auth::OAuthClient;
use super::http_client::OAuthHttpClient;
use super::metadata::DiscoveredServer;
use super::stored_credentials::StoredCredentials;
use super::{
    AccessToken, BearerChallenge, GrantType, OAuthDependencies, OAuthSettings, TokenError,
};
use tool::display_text::escape_and_truncate;

/// Time before a failed request is repeated; until then all waiting requests get the same error.
pub(super) const FAILURE_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum step-up authorizations of one request.
const MAX_STEP_UPS: u32 = 3;
/// Maximum scopes that are remembered.
const MAX_SCOPES: usize = 256;

/// Provider of the access tokens of one source.
pub struct TokenProvider {
    pub(super) settings: OAuthSettings,
    pub(super) source_url: Url,
    pub(super) dependencies: OAuthDependencies,
    pub(super) http_client: OAuthHttpClient,
    /// Whether a server ever required a token.
    auth_required: AtomicBool,
    /// Permits one token request at a time.
    pub(super) renewal_lock: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
    state: Mutex<TokenState>,
}

/// Current token state of a source.
#[derive(Default)]
pub(super) struct TokenState {
    /// Whether the store was read.
    pub(super) is_loaded: bool,
    pub(super) stored: Option<StoredCredentials>,
    pub(super) store_version: Option<Version>,
    pub(super) token: Option<Arc<AccessToken>>,
    /// Number of tokens so far.
    pub(super) token_count: u64,
    /// Scopes that the token was requested with.
    pub(super) requested_scopes: BTreeSet<String>,
    /// Further scopes that a request needed.
    pub(super) missing_scopes: BTreeSet<String>,
    /// Metadata URL and scopes of the last challenge.
    pub(super) resource_metadata_url: Option<String>,
    pub(super) challenge_scopes: Option<Vec<String>>,
    pub(super) server: Option<Arc<DiscoveredServer>>,
    pub(super) last_failure: Option<(Instant, TokenError)>,
    pub(super) pending_logins: Vec<PendingLogin>,
}

/// Retries of one request.
#[derive(Debug, Default)]
pub struct AuthRetries {
    renewals: u32,
    step_ups: u32,
}

impl TokenProvider {
    /// Creates the provider without sending a request.
    ///
    /// # Errors
    /// A [`Problem`] if a URL cannot be used.
    pub fn new(settings: OAuthSettings, ports: OAuthDependencies) -> Result<Arc<Self>, Problem> {
        let (url, named) = settings.validate_urls()?;
        let web = OAuthHttpClient {
            egress: ports.egress.with_separate_pool(),
            address_policy: AddressPolicy::new(named, settings.any_loopback_port),
        };
        Ok(Arc::new(Self {
            settings,
            source_url: url,
            dependencies: ports,
            http_client: web,
            auth_required: AtomicBool::new(false),
            renewal_lock: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            state: Mutex::default(),
        }))
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether requests may need a token.
    pub fn is_auth_required(&self) -> bool {
        self.auth_required.load(Ordering::Relaxed)
    }

    /// Marks the source as requiring tokens.
    pub fn require_auth(&self) {
        self.auth_required.store(true, Ordering::Relaxed);
    }

    /// Clears the last failure, so that the next request tries again at once.
    pub fn clear_failure(&self) {
        self.lock_state().last_failure = None;
    }

    /// Returns a problem if the source works but lacks consent to some scopes.
    pub fn scope_problem(&self, location: &str) -> Option<Problem> {
        if self.settings.grant_type == GrantType::ClientCredentials {
            return None;
        }
        let missing_scopes =
            self.lock_state().missing_scopes.iter().cloned().collect::<Vec<_>>().join(" ");
        (!missing_scopes.is_empty())
            .then(|| self.missing_scopes_error(&missing_scopes).into_problem(location))
    }

    fn missing_scopes_error(&self, missing_scopes: &str) -> TokenError {
        let why = format!(
            "needs a person's consent to more scopes: `{}`",
            escape_and_truncate(missing_scopes, 300)
        );
        TokenError::login_required(&self.settings.source, &why)
    }

    /// Builds the error for a login that is required.
    pub(super) fn login_required_error(&self) -> TokenError {
        let (source, why) = (&self.settings.source, "needs the consent of a person");
        if self.settings.is_configured {
            return TokenError::login_required(source, why);
        }
        let fault =
            TokenError::login_required(source, &format!("{why} or another credential (HTTP 401)"));
        let login = fault.help.clone().unwrap_or_default();
        fault.with_help(format!("{login}, or set the required credential in `headers`"))
    }

    /// Returns the token to send, or `None` if none was required yet.
    pub async fn access_token(self: &Arc<Self>) -> Result<Option<Arc<AccessToken>>, TokenError> {
        let usable_token = {
            let state = self.lock_state();
            let token = state.token.clone();
            if token.as_ref().is_some_and(|token| token.is_fresh())
                || state.is_loaded && !self.can_renew(&state)
            {
                return Ok(token);
            }
            token.filter(|token| token.is_usable())
        };
        match (self.obtain_token(None).await, usable_token) {
            // The old token is still valid, so a failed renewal is not an error yet.
            (Err(fault), Some(token)) => {
                tracing::debug!(
                    source = %self.settings.source,
                    fault = %fault.message,
                    "cannot renew a token yet"
                );
                Ok(Some(token))
            }
            (renewed, _) => renewed,
        }
    }

    fn can_renew(&self, state: &TokenState) -> bool {
        match self.settings.grant_type {
            GrantType::ClientCredentials => state.server.is_some(),
            GrantType::AuthorizationCode => {
                state.stored.as_ref().is_some_and(|it| it.refresh_token.is_some())
            }
        }
    }

    /// Handles a request that was rejected with `used_token`. Resolves if the request may
    /// be repeated; the server did nothing.
    ///
    /// # Errors
    /// A [`TokenError`] if repeating the request is useless.
    pub async fn handle_rejection(
        self: &Arc<Self>,
        used_token: Option<&AccessToken>,
        (status, challenge): (StatusCode, BearerChallenge),
        tries: &mut AuthRetries,
    ) -> Result<(), TokenError> {
        let generation = used_token.map(|token| token.generation);
        if status == StatusCode::FORBIDDEN {
            return self.step_up(generation, challenge, tries).await;
        }
        let rejection = {
            let mut state = self.lock_state();
            state.apply_challenge(challenge);
            match &state.token {
                Some(now)
                    if Some(now.generation) != generation && tries.renewals <= MAX_STEP_UPS =>
                {
                    tries.renewals += 1;
                    return Ok(());
                }
                Some(now) => {
                    let proved = now.was_accepted.load(Ordering::Relaxed);
                    let denied = (!proved).then(|| rejected_token_error(&state));
                    state.token = None;
                    state.server = None;
                    if let Some(kept) = &mut state.stored {
                        kept.access_token = None;
                    }
                    denied
                }
                None => None,
            }
        };
        if let Some(fault) = rejection
            .or_else(|| (tries.renewals > MAX_STEP_UPS).then(|| self.login_required_error()))
        {
            self.lock_state().last_failure = Some((Instant::now(), fault.clone()));
            return Err(fault);
        }
        tries.renewals += 1;
        match self.obtain_token(Some(generation.unwrap_or_default())).await? {
            Some(_) => Ok(()),
            None => Err(self.login_required_error()),
        }
    }

    async fn step_up(
        self: &Arc<Self>,
        used_generation: Option<u64>,
        challenge: BearerChallenge,
        tries: &mut AuthRetries,
    ) -> Result<(), TokenError> {
        tries.step_ups += 1;
        let missing_scopes = challenge.scopes.clone().unwrap_or_default();
        {
            let mut state = self.lock_state();
            state.resource_metadata_url =
                challenge.resource_metadata_url.or_else(|| state.resource_metadata_url.take());
            if tries.step_ups <= MAX_STEP_UPS
                && state.token.as_ref().is_some_and(|it| Some(it.generation) != used_generation)
            {
                return Ok(());
            }
            if self.settings.grant_type == GrantType::ClientCredentials
                && !self.settings.scopes.is_empty()
            {
                let wanted = escape_and_truncate(&missing_scopes.join(" "), 300);
                let message =
                    format!("requires the scope `{wanted}`, which is not in `scopes` (HTTP 403)");
                let fix = "add it to `scopes` if the server may have this right";
                return Err(TokenError::request_refused(message).with_help(fix));
            }
            let has_new_scope =
                missing_scopes.iter().any(|scope| !state.requested_scopes.contains(scope));
            if !has_new_scope
                || tries.step_ups > MAX_STEP_UPS
                || state.missing_scopes.len() + missing_scopes.len() > MAX_SCOPES
            {
                let wanted = escape_and_truncate(&missing_scopes.join(" "), 300);
                let message = format!(
                    "rejected the request: it requires the scope `{wanted}`, which was requested \
                     but not granted (HTTP 403)"
                );
                let fix = "ask its operator which rights the account has";
                return Err(TokenError::request_refused(message).with_help(fix));
            }
            state.missing_scopes.extend(missing_scopes.iter().cloned());
        }
        if self.settings.grant_type == GrantType::AuthorizationCode {
            return Err(self.missing_scopes_error(&missing_scopes.join(" ")));
        }
        self.obtain_token(Some(used_generation.unwrap_or_default())).await.map(drop)
    }

    /// Returns whether the operator configured the authorization server.
    pub(super) fn has_configured_issuer(&self) -> bool {
        self.settings.issuer.is_some() || self.settings.token_endpoint.is_some()
    }

    /// Verifies that the configured client may be shown to this authorization server: the
    /// configured one, or the first that it was shown to.
    pub(super) fn check_pinned_issuer(&self, server: &DiscoveredServer) -> Result<(), TokenError> {
        let issuer = &server.server.issuer;
        let pinned = self.lock_state().stored.as_ref().map(|kept| kept.issuer.clone());
        let other_issuer = pinned.filter(|pinned| pinned != issuer);
        let other = other_issuer.filter(|_| self.settings.client.is_some());
        let Some(pinned) = other.filter(|_| !self.has_configured_issuer()) else { return Ok(()) };
        let message = format!(
            "now names the authorization server `{}` instead of `{}`, so the client's credential \
             was not sent there",
            escape_and_truncate(issuer, 200),
            escape_and_truncate(&pinned, 200)
        );
        let fix = "if this is correct, set `issuer` to it, and register the client there";
        Err(TokenError::blocked(message).with_help(fix))
    }

    /// Verifies the authorization server, and stores it as the first. Called before the client's
    /// credential is sent.
    pub(super) async fn pin_issuer(&self, server: &DiscoveredServer) -> Result<(), TokenError> {
        self.check_pinned_issuer(server)?;
        let first = self.settings.client.is_some() && self.lock_state().stored.is_none();
        if first && !self.has_configured_issuer() {
            self.store_credentials(StoredCredentials::new(
                &self.settings.source_url,
                &server.server.issuer,
            ))
            .await;
        }
        Ok(())
    }

    /// Returns the client for this authorization server, if one is known.
    pub(super) fn client_for(
        &self,
        server: &DiscoveredServer,
        redirect: Option<&str>,
    ) -> Option<OAuthClient> {
        if let Some(registered) = &self.settings.client {
            let (id, proof) = (registered.client_id.clone(), registered.auth.clone());
            return Some(OAuthClient { client_id: id, auth: proof, auth_method: None });
        }
        if let Some(document) = self.metadata_document_client(server) {
            return Some(document);
        }
        let state = self.lock_state();
        let kept = state.stored.as_ref().filter(|kept| kept.issuer == server.server.issuer)?;
        let client = kept.registration.as_ref();
        let client =
            client.filter(|it| redirect.is_none_or(|redirect| redirect == it.redirect_uri));
        client.map(super::stored_credentials::ClientRegistration::to_client)
    }

    fn metadata_document_client(&self, known: &DiscoveredServer) -> Option<OAuthClient> {
        let id = self
            .settings
            .client_metadata_url
            .clone()
            .filter(|_| known.server.supports_client_metadata())?;
        Some(OAuthClient { client_id: id, auth: super::ClientAuth::Public, auth_method: None })
    }
}

impl TokenState {
    /// Applies the parameters of a challenge.
    fn apply_challenge(&mut self, challenge: BearerChallenge) {
        if challenge.resource_metadata_url.is_some() {
            self.resource_metadata_url = challenge.resource_metadata_url;
        }
        if challenge.scopes.is_some() {
            self.challenge_scopes = challenge.scopes;
        }
    }

    /// Returns the scopes to request: the configured ones, else those of the challenge, else those of
    /// the resource metadata. Scopes of earlier requests are added.
    pub(super) fn scopes_to_request(
        &self,
        settings: &OAuthSettings,
        server: &DiscoveredServer,
    ) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = if settings.scopes.is_empty() {
            let first = self.challenge_scopes.as_ref().or(server.default_scopes.as_ref());
            first.into_iter().flatten().cloned().collect()
        } else {
            settings.scopes.iter().cloned().collect()
        };
        all.extend(self.requested_scopes.iter().chain(&self.missing_scopes).cloned());
        all.into_iter().take(MAX_SCOPES).collect()
    }
}

/// The error for a fresh token that was rejected: another one would be rejected too.
fn rejected_token_error(state: &TokenState) -> TokenError {
    let known = state.server.as_ref().map(|known| known.server.issuer.as_str());
    let issuer = known.or_else(|| Some(state.stored.as_ref()?.issuer.as_str()));
    let issuer = escape_and_truncate(issuer.unwrap_or_default(), 200);
    let message = format!("rejected a new token from `{issuer}` (HTTP 401)");
    TokenError::request_refused(message)
        .with_help("ask its operator which audience, scopes and client it requires")
}

impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenProvider")
            .field("source", &self.settings.source)
            .finish_non_exhaustive()
    }
}
