//! OAuth authorization code flow with PKCE. A person opens the login URL, and the code in the
//! browser's redirect is exchanged for tokens.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{constant_time, digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use egress::Origin;
use tokio::time::Instant;
use tool::source::ConsentFlow;
use tool::{BoxFuture, Problem};
use url::Url;

use super::client_auth::OAuthClient;
use super::discovery::discover_server;
use super::metadata::DiscoveredServer;
use super::stored_credentials::{ClientRegistration, StoredCredentials};
use super::token_provider::{TokenProvider, TokenState};
use super::token_renewal::scope_parameter;
use super::token_request::{IssuedTokens, request_token};
use super::{GrantType, TokenError};
use tool::display_text::escape_and_truncate;

/// Logins that were begun and not ended, and how long one may take.
const PENDING_LOGIN_LIMITS: (usize, Duration) = (8, Duration::from_mins(10));
/// Bytes of the answer that a browser brings.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// Bytes of the hash that stands for an issuer in the address that a browser comes back to.
const ISSUER_HASH_BYTES: usize = 16;

/// A login that was begun.
pub(super) struct PendingLogin {
    state_parameter: String,
    code_verifier: String,
    redirect_uri: String,
    client: OAuthClient,
    registration: Option<ClientRegistration>,
    server: Arc<DiscoveredServer>,
    scopes: BTreeSet<String>,
    started_at: Instant,
}

impl PendingLogin {
    /// Returns whether a callback at this path belongs to this login. If the operator configured
    /// the issuer, the callback need not state it.
    fn is_answered_at(&self, path: Option<&str>, configured: bool) -> bool {
        let own_redirect = Url::parse(&self.redirect_uri);
        match path {
            Some(path) => own_redirect.is_ok_and(|own| own.path() == path),
            None => configured,
        }
    }
}

impl TokenProvider {
    async fn begin_login(&self, redirect: &str) -> Result<String, TokenError> {
        if self.settings.grant_type != GrantType::AuthorizationCode {
            return Err(TokenError::request_refused(
                "uses the credential in the configuration and needs no login",
            ));
        }
        if !is_secure_redirect(redirect) {
            return Err(TokenError::request_refused(
                "supports only redirects to `http://127.0.0.1:PORT/…` and `https://`",
            ));
        }
        self.load_stored().await?;
        self.require_auth();
        // Fetched again: logins are rare, and must use the current server.
        let hint = self.lock_state().resource_metadata_url.clone();
        let known =
            discover_server(&self.http_client, (&self.settings, &self.source_url), hint.as_deref())
                .await?;
        let known = Arc::new(known);
        self.lock_state().server = Some(Arc::clone(&known));
        let mut login_url = self.login_page(&known)?;
        let redirect_uri = self.issuer_redirect_uri(redirect, &known)?;
        let scopes = self.login_scopes(&known);
        let (client, registration) =
            if let Some(client) = self.client_for(&known, Some(&redirect_uri)) {
                (client, None)
            } else {
                let registered = self.register_client(&known, (&redirect_uri, &scopes)).await?;
                (registered.to_client(), Some(registered))
            };
        let (state_parameter, code_verifier) = (random_token()?, random_token()?);
        let challenge = digest::digest(&digest::SHA256, code_verifier.as_bytes());
        login_url
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.client_id)
            .append_pair("redirect_uri", &redirect_uri)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(challenge))
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &state_parameter)
            .append_pair("resource", &known.resource)
            .extend_pairs(scope_parameter(&scopes));
        self.lock_state().add_pending_login(PendingLogin {
            state_parameter,
            code_verifier,
            redirect_uri,
            client,
            registration,
            server: known,
            scopes,
            started_at: Instant::now(),
        });
        Ok(login_url.into())
    }

    /// The page that a person is sent to.
    fn login_page(&self, known: &DiscoveredServer) -> Result<Url, TokenError> {
        if !known.server.supports_pkce() {
            let message =
                "has an authorization server without PKCE (S256), so the login was not started";
            return Err(TokenError::blocked(message));
        }
        let Some(page) = known.server.authorization_endpoint.as_deref() else {
            return Err(TokenError::malformed("has an authorization server without a login page")
                .with_help("use `grant: client_credentials`"));
        };
        self.http_client.address_policy.check_browser_url(page)?;
        self.check_pinned_issuer(known)?;
        if !known.server.has_one_origin() && !self.has_configured_issuer() {
            let message = format!(
                "has the authorization server `{}`, whose login page and token endpoint have \
                 different origins, so the login was not started",
                escape_and_truncate(&known.server.issuer, 200)
            );
            let fix = "if this is correct, set `issuer` to the authorization server";
            return Err(TokenError::blocked(message).with_help(fix));
        }
        Url::parse(page).map_err(|_| {
            TokenError::malformed("has an authorization server whose login page is not a valid URL")
        })
    }

    /// Where the browser comes back to from this authorization server. Each has an address of its own, so
    /// that an answer of one is not taken for another's; a configured one is the only one.
    fn issuer_redirect_uri(
        &self,
        redirect: &str,
        known: &DiscoveredServer,
    ) -> Result<String, TokenError> {
        if self.has_configured_issuer() {
            return Ok(redirect.to_owned());
        }
        let unfit = |_| TokenError::request_refused("got an invalid redirect URL");
        let mut own_redirect = Url::parse(redirect).map_err(unfit)?;
        let hash = digest::digest(&digest::SHA256, known.server.issuer.as_bytes());
        let short_hash = hash.as_ref().get(..ISSUER_HASH_BYTES).unwrap_or_default();
        let path = format!(
            "{}/{}",
            own_redirect.path().trim_end_matches('/'),
            URL_SAFE_NO_PAD.encode(short_hash)
        );
        own_redirect.set_path(&path);
        Ok(own_redirect.into())
    }

    /// Returns the scopes to request, and the one for a refresh token if the server supports it
    /// (SEP-2207).
    fn login_scopes(&self, known: &DiscoveredServer) -> BTreeSet<String> {
        const OFFLINE: &str = "offline_access";
        let mut scopes = self.lock_state().scopes_to_request(&self.settings, known);
        if known.server.supports_scope(OFFLINE) {
            scopes.insert(OFFLINE.to_owned());
        } else {
            scopes.remove(OFFLINE);
        }
        scopes
    }

    async fn finish_login(&self, answer: &str) -> Result<(), TokenError> {
        let _turn = Arc::clone(&self.renewal_lock)
            .acquire_owned()
            .await
            .map_err(|_| TokenError::closed())?;
        let no_match = || {
            let message = "has no login that matches this redirect: it was already used, has \
                expired or belongs to another login";
            TokenError::request_refused(message)
                .with_help(format!("run `toolkeep source login {}` again", self.settings.source))
        };
        let (path, parameters) = parse_answer(answer).ok_or_else(no_match)?;
        let state = parameters.get("state").map(|state| state.as_bytes()).unwrap_or_default();
        let pending = self.lock_state().take_pending_login(state).ok_or_else(no_match)?;
        let server = &pending.server.server;
        // Checked first (RFC 9207, 2.4), because the response may come from another server.
        let issuer_parameter = parameters.get("iss");
        let required = server.authorization_response_iss_parameter_supported == Some(true);
        let is_wrong_path = !pending.is_answered_at(path, self.has_configured_issuer());
        if issuer_parameter.is_some_and(|iss| **iss != *server.issuer)
            || issuer_parameter.is_none() && required
            || is_wrong_path
        {
            let message = format!(
                "ignored the redirect, because it does not identify the issuer `{}`",
                escape_and_truncate(&server.issuer, 200)
            );
            return Err(TokenError::blocked(message).with_help(
                "log in again; if the error persists, ask \
                    the server's operator",
            ));
        }
        if let Some(error) = parameters.get("error") {
            return Err(consent_refused(error, parameters.get("error_description")));
        }
        let code = parameters.get("code").filter(|code| !code.is_empty()).ok_or_else(no_match)?;
        let grant = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.clone().into_owned()),
            ("redirect_uri", pending.redirect_uri.clone()),
            ("code_verifier", pending.code_verifier.clone()),
            pending.server.resource_parameter(),
        ];
        self.pin_issuer(&pending.server).await?;
        let now = self.dependencies.clock.wall_now();
        let grant_response =
            request_token(&self.http_client, server, (&pending.client, now), grant).await?;
        self.store_login(pending, &grant_response, now).await
    }

    async fn store_login(
        &self,
        pending: PendingLogin,
        issued: &IssuedTokens,
        now: tool::WallTime,
    ) -> Result<(), TokenError> {
        let issuer = &pending.server.server.issuer;
        let (resource_metadata_url, former_registration) = {
            let state = self.lock_state();
            let former = state.stored.as_ref().filter(|stored| stored.issuer == *issuer);
            let registration = former.and_then(|stored| stored.registration.clone());
            (state.resource_metadata_url.clone(), registration)
        };
        let credentials = StoredCredentials {
            resource_metadata_url,
            registration: pending.registration.or(former_registration),
            scopes: pending.scopes.iter().cloned().collect(),
            ..StoredCredentials::new(&self.settings.source_url, issuer)
        };
        self.store_grant(credentials, issued, now).await;
        let token = self.adopt_token(issued, pending.scopes)?;
        tracing::info!(source = %self.settings.source, number = token.generation, "a person has logged in");
        Ok(())
    }

    fn describe_error(&self, fault: TokenError) -> Problem {
        fault.into_problem(&format!("`{}`", self.settings.source))
    }
}

impl TokenState {
    fn add_pending_login(&mut self, pending: PendingLogin) {
        self.pending_logins.retain(|login| login.started_at.elapsed() < PENDING_LOGIN_LIMITS.1);
        if self.pending_logins.len() >= PENDING_LOGIN_LIMITS.0 {
            self.pending_logins.remove(0);
        }
        self.pending_logins.push(pending);
    }

    /// The login of this state, once.
    fn take_pending_login(&mut self, state: &[u8]) -> Option<PendingLogin> {
        self.pending_logins.retain(|login| login.started_at.elapsed() < PENDING_LOGIN_LIMITS.1);
        let has_state = |login: &PendingLogin| {
            constant_time::verify_slices_are_equal(login.state_parameter.as_bytes(), state).is_ok()
        };
        let at = self.pending_logins.iter().position(has_state)?;
        Some(self.pending_logins.remove(at))
    }
}

/// Whether nobody else can read what a browser brings back there: on this machine, or by https. The
/// caller answers for the host.
fn is_secure_redirect(redirect: &str) -> bool {
    Origin::parse(redirect).is_ok_and(|origin| origin.is_loopback() || origin.is_https())
}

/// Returns 256 random bits as text.
fn random_token() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)
        .map_err(|_| TokenError::request_refused("cannot get random bytes from the system"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl ConsentFlow for TokenProvider {
    fn begin_consent<'a>(&'a self, redirect: &'a str) -> BoxFuture<'a, Result<String, Problem>> {
        Box::pin(async move {
            self.begin_login(redirect).await.map_err(|fault| self.describe_error(fault))
        })
    }
    fn finish_consent<'a>(&'a self, answer: &'a str) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            self.finish_login(answer).await.map_err(|fault| self.describe_error(fault))
        })
    }
    fn revoke_consent(&self) -> BoxFuture<'_, Result<bool, Problem>> {
        Box::pin(async move { self.log_out().await.map_err(|fault| self.describe_error(fault)) })
    }
}

/// Parameters of the browser's answer by name.
type AnswerParameters<'a> = HashMap<Cow<'a, str>, Cow<'a, str>>;

/// Splits the answer of the browser into its path, if it has one, and its parameters. Returns `None`
/// if it is too long or repeats a parameter.
fn parse_answer(answer: &str) -> Option<(Option<&str>, AnswerParameters<'_>)> {
    if answer.len() > MAX_ANSWER_BYTES {
        return None;
    }
    let (path, query) = match answer.split_once('?') {
        Some((path, query)) if path.starts_with('/') => (Some(path), query),
        _ => (None, answer),
    };
    let mut parameters = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if parameters.insert(name, value).is_some() {
            return None;
        }
    }
    Some((path, parameters))
}

/// The error of an answer with `error` in place of a code.
fn consent_refused(error: &str, description: Option<&Cow<'_, str>>) -> TokenError {
    let description = description.map(|why| escape_and_truncate(why, 200)).unwrap_or_default();
    let message = format!(
        "was denied access by the authorization server: {} \
            {description}",
        escape_and_truncate(error, 60)
    );
    TokenError::request_refused(message.trim_end().to_owned())
}
