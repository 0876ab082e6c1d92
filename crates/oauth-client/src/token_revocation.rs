//! Logout: removes the stored tokens of a source and revokes them at the authorization server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::TokenError;
use super::discovery::discover_server;
use super::http_client::RequestTarget;
use super::stored_credentials::{StoredCredentials, remove_credentials, save_credentials};
use super::token_provider::{TokenProvider, TokenState};

/// Time limit of a token revocation.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(5);

impl TokenProvider {
    /// Forgets the tokens of the source and revokes them. Returns whether there were any.
    pub(super) async fn log_out(&self) -> Result<bool, TokenError> {
        let _turn = Arc::clone(&self.renewal_lock)
            .acquire_owned()
            .await
            .map_err(|_| TokenError::closed())?;
        self.load_stored().await?;
        let (stored, store_version) = {
            let state = self.lock_state();
            (state.stored.clone(), state.store_version)
        };
        // Whom the operator's own client was shown to is no secret, and outlives what was given.
        let pinned = stored.as_ref().filter(|_| self.settings.client.is_some());
        let pinned =
            pinned.map(|stored| StoredCredentials::new(&stored.source_url, &stored.issuer));
        let mut remaining_version = None;
        if let Some(store) = &self.dependencies.store {
            let (store, source) = (store.as_ref(), &self.settings.source);
            let written = match &pinned {
                Some(pinned) => save_credentials(store, source, pinned, store_version).await,
                None => remove_credentials(store, source, store_version).await.map(|()| None),
            };
            remaining_version = written.map_err(|error| TokenError::store_failed(&error))?;
        }
        *self.lock_state() = TokenState {
            is_loaded: true,
            stored: pinned,
            store_version: remaining_version,
            ..TokenState::default()
        };
        let has_tokens = |stored: &StoredCredentials| {
            stored.refresh_token.is_some() || stored.access_token.is_some()
        };
        let Some(stored) = stored.filter(has_tokens) else { return Ok(false) };
        if timeout(REVOCATION_TIMEOUT, self.revoke_tokens(&stored)).await.is_err() {
            tracing::info!(
                source = %self.settings.source,
                "its tokens were deleted here, but not revoked at the authorization server"
            );
        }
        Ok(true)
    }

    /// Revokes the tokens at the authorization server, if it supports that (RFC 7009). Local
    /// credentials are removed regardless of its response.
    async fn revoke_tokens(&self, stored: &StoredCredentials) -> Option<()> {
        let hint = stored.resource_metadata_url.as_deref();
        let known = discover_server(&self.http_client, (&self.settings, &self.source_url), hint)
            .await
            .ok()?;
        let url = known.server.revocation_endpoint.as_deref();
        let url = url.filter(|_| known.server.issuer == stored.issuer)?;
        let client = self
            .client_for(&known, None)
            .or_else(|| Some(stored.registration.as_ref()?.to_client()))?;
        let mut authenticated =
            client.authenticate_request(&known.server, self.dependencies.clock.wall_now()).ok()?;
        let token = stored.refresh_token.clone().or_else(|| stored.access_token.clone())?;
        authenticated.fields.push(("token", token));
        let at = RequestTarget {
            url,
            role: "the revocation endpoint",
            named_by: "the authorization server",
        };
        self.http_client
            .post_form(at, authenticated.headers, &authenticated.fields)
            .await
            .ok()
            .map(drop)
    }
}
