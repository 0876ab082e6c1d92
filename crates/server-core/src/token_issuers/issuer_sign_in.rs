//! Signing people in with a trusted issuer: where to send the browser, and who came back.
//!
//! The issuer is asked through a port. Its ID token is verified as access tokens are, with the same
//! keys, grants and directory.

use std::sync::Arc;

use bytes::Bytes;
use identity::{Directory, Principal, SignInExpectation, SignedInUser, UnverifiedJwt};
use tokio::sync::Semaphore;
use tool::{BoxFuture, Clock, ErrorCode, Secret, WallTime};

use super::issuer_keys::IssuerKeys;
use super::{ActiveIssuers, TokenIssuers, TokenRejection};
use crate::error::ApiError;

/// Maximum number of requests to issuers at a time: whoever opens a sign-in page can cause one.
const MAX_REQUESTS: usize = 16;

/// Port to the issuers with which people sign in.
pub trait SignInProvider: Send + Sync + std::fmt::Debug {
    /// Returns the URL to send a browser to, within ten seconds.
    ///
    /// # Errors
    /// Returns the reason for the failure, for the log.
    fn authorization_url<'a>(
        &'a self,
        issuer: &'a str,
        request: AuthorizationRequest<'a>,
    ) -> BoxFuture<'a, Result<String, String>>;

    /// Exchanges a code for what the issuer says of the person, within thirty seconds.
    ///
    /// # Errors
    /// Returns the reason for the failure, for the log.
    fn exchange_code<'a>(
        &'a self,
        issuer: &'a str,
        returned: ReturnedCode<'a>,
    ) -> BoxFuture<'a, Result<IssuedIdentity, String>>;
}

/// The parts of an authorization request that differ with each sign-in.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationRequest<'a> {
    /// The URL that the browser comes back to.
    pub redirect_uri: &'a str,
    /// The value that ties the answer to the browser.
    pub state: &'a str,
    /// The value that the ID token must repeat.
    pub nonce: &'a str,
    /// The challenge of PKCE by the method S256.
    pub code_challenge: &'a str,
}

/// The code that a browser brought back, and what it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct ReturnedCode<'a> {
    /// The code.
    pub code: &'a str,
    /// The `iss` parameter beside it (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The redirect URL of the authorization request.
    pub redirect_uri: &'a str,
    /// The verifier of PKCE.
    pub code_verifier: &'a str,
    /// The nonce of the authorization request.
    pub nonce: &'a str,
}

/// Statement of an issuer about a person; unverified.
#[derive(Debug)]
pub struct IssuedIdentity {
    /// The ID token.
    pub id_token: Secret,
    /// The JSON of the user info endpoint, if the configuration asks for it.
    pub user_info: Option<Bytes>,
}

/// Bounds the requests to issuers.
#[derive(Debug)]
pub(super) struct SignInSlots(Semaphore);

impl Default for SignInSlots {
    fn default() -> Self {
        Self(Semaphore::new(MAX_REQUESTS))
    }
}

impl TokenIssuers {
    /// The names of the issuers with which people sign in, in the order of the configuration.
    pub fn sign_in_issuers(&self) -> Vec<String> {
        let inner = self.current.load();
        let all = inner.iter().flat_map(|inner| &inner.issuer_keys);
        let with_client = all.filter(|kept| kept.issuer.client_id.is_some());
        with_client.map(|kept| kept.issuer.name.clone()).collect()
    }

    /// The URL of this server as browsers use it; `None` without issuers.
    pub fn public_url(&self) -> Option<String> {
        self.current.load().as_ref().map(|inner| inner.base_url().to_owned())
    }

    /// Returns the URL to send a browser to, for the issuer of this name.
    ///
    /// # Errors
    /// [`ErrorCode::NotFound`] if nobody signs in with it, [`ErrorCode::Busy`] if many do at once,
    /// [`ErrorCode::UpstreamLost`] if it cannot be reached.
    pub async fn authorization_url(
        &self,
        name: &str,
        request: AuthorizationRequest<'_>,
    ) -> Result<String, ApiError> {
        let (inner, kept) = self.find_sign_in_issuer(name)?;
        let provider = inner.sign_in.as_ref().ok_or_else(no_issuer)?;
        let _slot = self.take_slot()?;
        let url = provider.authorization_url(&kept.issuer.iss, request).await;
        url.map_err(|reason| issuer_failed(name, &reason))
    }

    /// Exchanges a code at the issuer of this name, and returns the person who signed in.
    ///
    /// # Errors
    /// As [`Self::authorization_url`]; [`ErrorCode::Unauthenticated`] if what the issuer says is not
    /// valid for this sign-in.
    pub async fn finish_sign_in(
        &self,
        name: &str,
        returned: ReturnedCode<'_>,
        clock: &Arc<dyn Clock>,
    ) -> Result<SignedInUser, ApiError> {
        let (inner, kept) = self.find_sign_in_issuer(name)?;
        let provider = inner.sign_in.as_ref().ok_or_else(no_issuer)?;
        let slot = self.take_slot()?;
        let issued = provider.exchange_code(&kept.issuer.iss, returned).await;
        let issued = issued.map_err(|reason| issuer_failed(name, &reason))?;
        let parsed = UnverifiedJwt::parse_token(issued.id_token.expose());
        let token = parsed.map_err(|reason| rejected(&TokenRejection::Invalid(reason.into())))?;
        let expected = SignInExpectation { nonce: returned.nonce, now: clock.wall_now() };
        let verify = |keys: &_| kept.issuer.verify_id_token(&token, keys, expected);
        let verified = inner.verify_with_keys(&kept, clock, verify).await;
        drop(slot);
        let mut user = verified.map_err(|refused| rejected(&refused))?;
        if let Some(text) = issued.user_info {
            let claims = serde_json::from_slice(&text)
                .map_err(|error| issuer_failed(name, &format!("user info: {error}")))?;
            user.add_user_info(claims)
                .map_err(|reason| rejected(&TokenRejection::Invalid(reason.into())))?;
        }
        Ok(user)
    }

    /// Returns the principal of a person who signed in, with the rights of now.
    ///
    /// # Errors
    /// [`ErrorCode::Unauthenticated`] once the sign-in is over; [`ErrorCode::Forbidden`] if no grant
    /// fits the person's claims.
    pub(crate) fn resume_user(
        &self,
        user: &SignedInUser,
        directory: &Directory,
        now: WallTime,
    ) -> Result<Principal, ApiError> {
        let over = || ApiError::new(ErrorCode::Unauthenticated, "the sign-in is over");
        let inner = self.current.load();
        let all = inner.iter().flat_map(|inner| &inner.issuer_keys);
        let kept = all.into_iter().find(|kept| kept.issuer.iss == user.issuer());
        let resolved = kept.ok_or_else(over)?.issuer.resolve_user(user, directory, now);
        resolved.map_err(|error| rejected(&TokenRejection::Invalid(error)))
    }

    fn find_sign_in_issuer(
        &self,
        name: &str,
    ) -> Result<(Arc<ActiveIssuers>, Arc<IssuerKeys>), ApiError> {
        let inner = self.current.load_full().ok_or_else(no_issuer)?;
        let is_named =
            |kept: &&Arc<IssuerKeys>| kept.issuer.name == name && kept.issuer.client_id.is_some();
        let kept = inner.issuer_keys.iter().find(is_named).cloned().ok_or_else(no_issuer)?;
        Ok((inner, kept))
    }

    fn take_slot(&self) -> Result<tokio::sync::SemaphorePermit<'_>, ApiError> {
        self.sign_in_slots.0.try_acquire().map_err(|_| {
            ApiError::new(ErrorCode::Busy, "many people sign in at this moment")
                .with_help("try again in a few seconds")
        })
    }
}

fn no_issuer() -> ApiError {
    ApiError::new(ErrorCode::NotFound, "nobody signs in with this issuer")
}

/// The error of an issuer that does not do its part. The reason may name addresses of this network,
/// so it is only logged: nobody is signed in yet.
fn issuer_failed(name: &str, reason: &str) -> ApiError {
    tracing::warn!(issuer = name, reason, "cannot sign a person in");
    let message = format!("`{name}` could not sign you in");
    ApiError::new(ErrorCode::UpstreamLost, message)
        .with_help("try again; the reason is in the log of this server")
}

fn rejected(refused: &TokenRejection) -> ApiError {
    match refused.reason() {
        Ok(reason) => {
            tracing::info!(reason = reason.as_str(), "sign-in rejected");
            ApiError::new(ErrorCode::Unauthenticated, "the sign-in is not valid, or is over")
                .with_help("sign in again")
        }
        Err(error) => error,
    }
}
