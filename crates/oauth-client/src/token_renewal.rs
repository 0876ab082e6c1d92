//! Renewal of a token: from the store, with client credentials, or with a refresh token.
//!
//! One renewal runs at a time and serves all waiting requests. It continues if a request is
//! cancelled, because a refresh token can often be used only once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tool::{Secret, WallTime};

use super::discovery::discover_server;
use super::metadata::DiscoveredServer;
use super::stored_credentials::{self, StoredCredentials};
use super::token_provider::{FAILURE_BACKOFF, TokenProvider};
use super::token_request::{IssuedTokens, TokenRequestError, request_token};
use super::{AccessToken, GrantType, TokenError};

impl TokenProvider {
    /// Returns a token of another generation than the rejected one, renewed if necessary, or
    /// `None` if none is required yet.
    pub(super) async fn obtain_token(
        self: &Arc<Self>,
        rejected_generation: Option<u64>,
    ) -> Result<Option<Arc<AccessToken>>, TokenError> {
        let permit = Arc::clone(&self.renewal_lock)
            .acquire_owned()
            .await
            .map_err(|_| TokenError::closed())?;
        if let Some(token) = self.current_token_except(rejected_generation) {
            return Ok(Some(token));
        }
        if let Some((at, fault)) = self.lock_state().last_failure.clone()
            && at.elapsed() < FAILURE_BACKOFF
        {
            return Err(fault);
        }
        let this = Arc::clone(self);
        let obtained = self.tasks.spawn(async move {
            let asked = this.obtain_token_locked(rejected_generation).await;
            this.lock_state().last_failure = match &asked {
                Err(fault) => Some((Instant::now(), fault.clone())),
                Ok(_) => None,
            };
            drop(permit);
            asked
        });
        obtained.await.unwrap_or_else(|_| Err(TokenError::closed()))
    }

    fn current_token_except(&self, rejected_generation: Option<u64>) -> Option<Arc<AccessToken>> {
        let token = self.lock_state().token.clone()?;
        (Some(token.generation) != rejected_generation && token.is_fresh()).then_some(token)
    }

    async fn obtain_token_locked(
        self: &Arc<Self>,
        rejected_generation: Option<u64>,
    ) -> Result<Option<Arc<AccessToken>>, TokenError> {
        self.load_stored().await?;
        if let Some(token) = self.current_token_except(rejected_generation) {
            return Ok(Some(token));
        }
        match self.settings.grant_type {
            GrantType::ClientCredentials => {
                let wanted = rejected_generation.is_some() || self.lock_state().server.is_some();
                if wanted {
                    self.request_with_client_credentials().await.map(Some)
                } else {
                    Ok(None)
                }
            }
            GrantType::AuthorizationCode => {
                match (self.request_with_refresh_token().await?, rejected_generation) {
                    (None, Some(_)) => Err(self.login_required_error()),
                    (token, _) => Ok(token),
                }
            }
        }
    }

    /// Loads the stored credentials once.
    pub(super) async fn load_stored(&self) -> Result<(), TokenError> {
        if self.lock_state().is_loaded {
            return Ok(());
        }
        let mut found = (None, None);
        if let Some(store) = &self.dependencies.store {
            let (source, url) = (&self.settings.source, &self.settings.source_url);
            let read = stored_credentials::load_credentials(store.as_ref(), source, url).await;
            found = read.map_err(|error| TokenError::store_failed(&error))?;
        }
        let now = self.dependencies.clock.wall_now();
        let mut state = self.lock_state();
        state.is_loaded = true;
        (state.stored, state.store_version) = found;
        let Some(kept) = state.stored.clone() else { return Ok(()) };
        state.requested_scopes = kept.scopes.iter().cloned().collect();
        state.resource_metadata_url =
            state.resource_metadata_url.take().or(kept.resource_metadata_url);
        let remaining =
            kept.expires_at.map(|end| Duration::from_millis(end.0.saturating_sub(now.0)));
        if let Some(access) =
            kept.access_token.filter(|_| remaining.is_none_or(|left| !left.is_zero()))
        {
            state.token_count += 1;
            let token = AccessToken::new(&access, state.token_count, remaining).map(Arc::new);
            // It may have been revoked meanwhile, which does not discredit the next one.
            state.token = token.inspect(|token| token.mark_accepted());
        }
        Ok(())
    }

    /// Returns the authorization server, discovered if it is not known.
    pub(super) async fn discovered_server(&self) -> Result<Arc<DiscoveredServer>, TokenError> {
        let hint = {
            let state = self.lock_state();
            if let Some(known) = &state.server {
                return Ok(Arc::clone(known));
            }
            state.resource_metadata_url.clone()
        };
        let found =
            discover_server(&self.http_client, (&self.settings, &self.source_url), hint.as_deref())
                .await?;
        let found = Arc::new(found);
        self.lock_state().server = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Requests a token with client credentials.
    async fn request_with_client_credentials(&self) -> Result<Arc<AccessToken>, TokenError> {
        let known = self.discovered_server().await?;
        self.pin_issuer(&known).await?;
        let issuer = &known.server.issuer;
        let Some(client) = self.client_for(&known, None) else {
            return Err(TokenError::request_refused("has no client ID to request tokens with")
                .with_help("set `client_id`"));
        };
        let scopes = self.lock_state().scopes_to_request(&self.settings, &known);
        let mut grant =
            vec![("grant_type", "client_credentials".to_owned()), known.resource_parameter()];
        grant.extend(scope_parameter(&scopes));
        let now = self.dependencies.clock.wall_now();
        let response = request_token(&self.http_client, &known.server, (&client, now), grant).await;
        let grant_response = response.inspect_err(|_| {
            let mut state = self.lock_state();
            state.server = None;
            state.missing_scopes.clear();
        })?;
        let mut kept = self.lock_state().stored.clone().unwrap_or_default();
        if (kept.source_url.as_str(), &kept.issuer) != (&self.settings.source_url, issuer) {
            // Only the server is stored: the next process requests a token of its own.
            kept = StoredCredentials::new(&self.settings.source_url, issuer);
            self.store_credentials(kept).await;
        }
        self.adopt_token(&grant_response, scopes)
    }

    /// Requests a token with the refresh token, or returns `None` if there is none.
    async fn request_with_refresh_token(&self) -> Result<Option<Arc<AccessToken>>, TokenError> {
        for is_last_try in [false, true] {
            let Some(kept) = self.lock_state().stored.clone() else { return Ok(None) };
            let Some(refresh) = kept.refresh_token.clone() else { return Ok(None) };
            let known = self.discovered_server().await?;
            if known.server.issuer != kept.issuer {
                // A refresh token is sent only to the server that issued it.
                return Err(self.login_required_error());
            }
            let Some(client) = self.client_for(&known, None) else {
                return Err(self.login_required_error());
            };
            let grant = vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", refresh.clone()),
                known.resource_parameter(),
            ];
            let now = self.dependencies.clock.wall_now();
            match request_token(&self.http_client, &known.server, (&client, now), grant).await {
                Ok(given) => {
                    let scopes = kept.scopes.iter().cloned().collect();
                    self.store_grant(kept, &given, now).await;
                    return self.adopt_token(&given, scopes).map(Some);
                }
                Err(TokenRequestError::Other(fault)) => {
                    // The failure may be temporary, so the refresh token is kept.
                    self.lock_state().server = None;
                    return Err(fault);
                }
                Err(TokenRequestError::InvalidGrant(_)) => {
                    // Another process of this installation may have renewed it first.
                    self.lock_state().is_loaded = false;
                    self.load_stored().await?;
                    let newer = self.lock_state().stored.as_ref().is_some_and(|kept| {
                        kept.refresh_token.is_some()
                            && kept.refresh_token.as_ref() != Some(&refresh)
                    });
                    if newer && !is_last_try {
                        if let Some(token) = self.current_token_except(None) {
                            return Ok(Some(token));
                        }
                        continue;
                    }
                    self.store_credentials(StoredCredentials {
                        refresh_token: None,
                        access_token: None,
                        ..kept
                    })
                    .await;
                    self.lock_state().token = None;
                    return Err(self.login_required_error());
                }
            }
        }
        Ok(None)
    }

    /// Stores the issued tokens.
    pub(super) async fn store_grant(
        &self,
        credentials: StoredCredentials,
        tokens: &IssuedTokens,
        now: WallTime,
    ) {
        let open = |secret: &Secret| secret.expose().to_owned();
        let refresh = tokens.refresh_token.as_ref().map(open).or(credentials.refresh_token);
        let (access, expires) = (Some(open(&tokens.access_token)), tokens.expires_at(now));
        self.store_credentials(StoredCredentials {
            refresh_token: refresh,
            access_token: access,
            expires_at: expires,
            ..credentials
        })
        .await;
    }

    /// Stores the credentials. If the store is unavailable, only the next process lacks its token.
    pub(super) async fn store_credentials(&self, credentials: StoredCredentials) {
        let expected_version = {
            let mut state = self.lock_state();
            state.stored = Some(credentials.clone());
            state.store_version
        };
        let Some(store) = &self.dependencies.store else { return };
        let source = &self.settings.source;
        match stored_credentials::save_credentials(
            store.as_ref(),
            source,
            &credentials,
            expected_version,
        )
        .await
        {
            Ok(version) => self.lock_state().store_version = version,
            Err(error) => tracing::warn!(source = %source, %error, "cannot store credentials"),
        }
    }

    /// Makes the issued token the current one.
    pub(super) fn adopt_token(
        &self,
        grant_response: &IssuedTokens,
        requested_scopes: BTreeSet<String>,
    ) -> Result<Arc<AccessToken>, TokenError> {
        let unfit = || TokenError::malformed("got a token that is not a valid header value");
        let mut state = self.lock_state();
        state.token_count += 1;
        let token = AccessToken::new(
            grant_response.access_token.expose(),
            state.token_count,
            grant_response.lifetime,
        )
        .ok_or_else(unfit)?;
        let token = Arc::new(token);
        state.requested_scopes = requested_scopes;
        state.requested_scopes.extend(
            grant_response
                .scope
                .as_deref()
                .map(super::bearer_challenge::parse_scopes)
                .unwrap_or_default(),
        );
        state.missing_scopes.clear();
        state.token = Some(Arc::clone(&token));
        state.last_failure = None;
        Ok(token)
    }
}

/// Returns the scope parameter, or `None` without scopes.
pub(super) fn scope_parameter(scopes: &BTreeSet<String>) -> Option<(&'static str, String)> {
    let text = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(("scope", text))
}
