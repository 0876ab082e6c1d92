//! Renewal of a token: from the store, with client credentials, or with a refresh token.
//!
//! One renewal runs at a time and serves all waiting requests. It continues if a request is
//! cancelled, because a refresh token can often be used only once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tool::{Secret, Wall};

use super::account::{AGAIN, Account};
use super::discover::discover;
use super::kept::{self, Kept};
use super::metadata::Known;
use super::token::{Denied, Given, ask};
use super::{Fault, Grant, Token};

impl Account {
    /// Returns a token other than `refused`, renewed if necessary, or `None` if none is required
    /// yet.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        refused: Option<u64>,
    ) -> Result<Option<Arc<Token>>, Fault> {
        let closed = || Fault::refused("asks for no token any more");
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| closed())?;
        if let Some(token) = self.another(refused) {
            return Ok(Some(token));
        }
        if let Some((at, fault)) = self.state().failed.clone()
            && at.elapsed() < AGAIN
        {
            return Err(fault);
        }
        let this = Arc::clone(self);
        let asked = self.tasks.spawn(async move {
            let asked = this.asked(refused).await;
            this.state().failed = match &asked {
                Err(fault) => Some((Instant::now(), fault.clone())),
                Ok(_) => None,
            };
            drop(turn);
            asked
        });
        asked.await.unwrap_or_else(|_| Err(closed()))
    }

    fn another(&self, refused: Option<u64>) -> Option<Arc<Token>> {
        let token = self.state().token.clone()?;
        (Some(token.number) != refused && token.is_fresh()).then_some(token)
    }

    async fn asked(self: &Arc<Self>, refused: Option<u64>) -> Result<Option<Arc<Token>>, Fault> {
        self.load().await?;
        if let Some(token) = self.another(refused) {
            return Ok(Some(token));
        }
        match self.settings.grant {
            Grant::ClientCredentials => {
                let wanted = refused.is_some() || self.state().known.is_some();
                if wanted { self.by_itself().await.map(Some) } else { Ok(None) }
            }
            Grant::AuthorizationCode => match (self.refresh().await?, refused) {
                (None, Some(_)) => Err(self.consent()),
                (token, _) => Ok(token),
            },
        }
    }

    /// Loads the stored credentials once.
    pub(super) async fn load(&self) -> Result<(), Fault> {
        if self.state().loaded {
            return Ok(());
        }
        let mut found = (None, None);
        if let Some(store) = &self.means.store {
            let (source, url) = (&self.settings.source, &self.settings.url);
            let read = kept::read(store.as_ref(), source, url).await;
            found = read.map_err(|error| Fault::store(&error))?;
        }
        let now = self.means.clock.wall();
        let mut state = self.state();
        state.loaded = true;
        (state.kept, state.version) = found;
        let Some(kept) = state.kept.clone() else { return Ok(()) };
        state.asked = kept.scopes.iter().cloned().collect();
        state.metadata = state.metadata.take().or(kept.metadata);
        let left = kept.expires.map(|end| Duration::from_millis(end.0.saturating_sub(now.0)));
        if let Some(access) = kept.access.filter(|_| left.is_none_or(|left| !left.is_zero())) {
            state.tokens += 1;
            let token = Token::new(&access, state.tokens, left).map(Arc::new);
            // It may have been revoked meanwhile, which does not discredit the next one.
            state.token = token.inspect(|token| token.prove());
        }
        Ok(())
    }

    /// Returns the authorization server, discovered if it is not known.
    pub(super) async fn known(&self) -> Result<Arc<Known>, Fault> {
        let hint = {
            let state = self.state();
            if let Some(known) = &state.known {
                return Ok(Arc::clone(known));
            }
            state.metadata.clone()
        };
        let found = discover(&self.web, (&self.settings, &self.url), hint.as_deref()).await?;
        let found = Arc::new(found);
        self.state().known = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Requests a token with client credentials.
    async fn by_itself(&self) -> Result<Arc<Token>, Fault> {
        let known = self.known().await?;
        self.pin(&known).await?;
        let issuer = &known.server.issuer;
        let Some(client) = self.client(&known, None) else {
            return Err(
                Fault::refused("has no client to ask for tokens as").fix("write its `client_id`")
            );
        };
        let scopes = self.state().scopes(&self.settings, &known);
        let mut grant = vec![("grant_type", "client_credentials".to_owned())];
        grant.extend(scope_field(&scopes));
        let now = self.means.clock.wall();
        let asked = ask(&self.web, &known, (&client, now), grant).await;
        let given = asked.inspect_err(|_| {
            let mut state = self.state();
            state.known = None;
            state.wanted.clear();
        })?;
        let mut kept = self.state().kept.clone().unwrap_or_default();
        if (kept.url.as_str(), &kept.issuer) != (&self.settings.url, issuer) {
            // Only the server is stored: the next process requests a token of its own.
            kept = Kept::new(&self.settings.url, issuer);
            self.keep(kept).await;
        }
        self.take(&given, scopes)
    }

    /// Requests a token with the refresh token, or returns `None` if there is none.
    async fn refresh(&self) -> Result<Option<Arc<Token>>, Fault> {
        for last in [false, true] {
            let Some(kept) = self.state().kept.clone() else { return Ok(None) };
            let Some(refresh) = kept.refresh.clone() else { return Ok(None) };
            let known = self.known().await?;
            if known.server.issuer != kept.issuer {
                // A refresh token is sent only to the server that issued it.
                return Err(self.consent());
            }
            let Some(client) = self.client(&known, None) else { return Err(self.consent()) };
            let grant = vec![
                ("grant_type", "refresh_token".to_owned()),
                ("refresh_token", refresh.clone()),
            ];
            let now = self.means.clock.wall();
            match ask(&self.web, &known, (&client, now), grant).await {
                Ok(given) => {
                    let scopes = kept.scopes.iter().cloned().collect();
                    self.keep_given(kept, &given, now).await;
                    return self.take(&given, scopes).map(Some);
                }
                Err(Denied::Other(fault)) => {
                    // The failure may be temporary, so the refresh token is kept.
                    self.state().known = None;
                    return Err(fault);
                }
                Err(Denied::Grant(_)) => {
                    // Another process of this installation may have renewed it first.
                    self.state().loaded = false;
                    self.load().await?;
                    let newer = self.state().kept.as_ref().is_some_and(|kept| {
                        kept.refresh.is_some() && kept.refresh.as_ref() != Some(&refresh)
                    });
                    if newer && !last {
                        if let Some(token) = self.another(None) {
                            return Ok(Some(token));
                        }
                        continue;
                    }
                    self.keep(Kept { refresh: None, access: None, ..kept }).await;
                    self.state().token = None;
                    return Err(self.consent());
                }
            }
        }
        Ok(None)
    }

    /// Stores the issued tokens.
    pub(super) async fn keep_given(&self, kept: Kept, given: &Given, now: Wall) {
        let open = |secret: &Secret| secret.open().to_owned();
        let refresh = given.refresh.as_ref().map(open).or(kept.refresh);
        let (access, expires) = (Some(open(&given.access)), given.expires(now));
        self.keep(Kept { refresh, access, expires, ..kept }).await;
    }

    /// Stores the credentials. If the store is unavailable, only the next process lacks its token.
    pub(super) async fn keep(&self, kept: Kept) {
        let seen = {
            let mut state = self.state();
            state.kept = Some(kept.clone());
            state.version
        };
        let Some(store) = &self.means.store else { return };
        let source = &self.settings.source;
        match kept::write(store.as_ref(), source, (Some(&kept), seen)).await {
            Ok(version) => self.state().version = version,
            Err(error) => tracing::warn!(source = %source, %error, "credentials are not kept"),
        }
    }

    /// Makes the issued token the current one.
    pub(super) fn take(&self, given: &Given, asked: BTreeSet<String>) -> Result<Arc<Token>, Fault> {
        let unfit = || Fault::malformed("was given a token that cannot be sent");
        let mut state = self.state();
        state.tokens += 1;
        let token = Token::new(given.access.open(), state.tokens, given.life).ok_or_else(unfit)?;
        let token = Arc::new(token);
        state.asked = asked;
        state
            .asked
            .extend(given.scope.as_deref().map(super::challenge::scopes).unwrap_or_default());
        state.wanted.clear();
        state.token = Some(Arc::clone(&token));
        state.failed = None;
        Ok(token)
    }
}

/// Returns the scope parameter, or `None` without scopes.
pub(super) fn scope_field(scopes: &BTreeSet<String>) -> Option<(&'static str, String)> {
    let text = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(("scope", text))
}
