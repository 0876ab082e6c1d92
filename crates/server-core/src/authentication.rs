//! Authentication. The principal depends on the credential alone and is stored in the request's
//! extensions.

mod principal_cache;

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use gateway::{CredentialStatus, PrincipalResolver as _};
use identity::{Principal, SignedInUser, UnverifiedJwt};
use tool::{Caller, ErrorCode, WallTime};

use crate::error::ApiError;
use crate::pending_connections::mark_authenticated;
use crate::server_state::{ServerComponents, ServerState};
use crate::token_issuers::VerificationContext;
pub use principal_cache::PrincipalCache;

/// The parts of a request that authenticate it.
#[derive(Debug, Clone, Copy)]
pub struct RequestCredentials<'a> {
    /// All headers, of which `Authorization` holds the credential.
    pub headers: &'a HeaderMap,
    /// The source of the endpoint, if a token may be limited to it.
    pub source: Option<&'a str>,
}

/// Authenticates a request by its credential. A key in `cache` that was verified with the current
/// ring is not verified again; `cache` must belong to this credential.
///
/// # Errors
/// [`ErrorCode::Unauthenticated`]; [`ErrorCode::Forbidden`] for a token without grants;
/// [`ErrorCode::StoreUnavailable`] and [`ErrorCode::UpstreamLost`] if verification is impossible.
pub async fn authenticate_request(
    state: &ServerState,
    credentials: RequestCredentials<'_>,
    cache: Option<&PrincipalCache>,
    now: WallTime,
) -> Result<Principal, ApiError> {
    let ServerComponents { keys, clock, .. } = &state.components;
    let ring = keys.key_ring();
    if let Some(principal) = cache.and_then(|cache| cache.get_principal(&ring, now)) {
        keys.check_not_stale(clock.as_ref())?;
        return Ok(principal);
    }
    let principal = verify_credential(state, credentials, now).await?;
    if let Some(cache) = cache {
        cache.store_principal(&ring, &principal);
    }
    Ok(principal)
}

/// Authenticates a credential that is sent in a form instead of a header.
///
/// # Errors
/// As [`authenticate_request`].
pub async fn authenticate_form_key(
    state: &ServerState,
    key: &str,
    now: WallTime,
) -> Result<Principal, ApiError> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| ApiError::new(ErrorCode::Unauthenticated, "the key cannot be read"))?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    authenticate_request(state, RequestCredentials { headers: &headers, source: None }, None, now)
        .await
}

/// A user who was authenticated earlier. It holds no credential.
#[derive(Debug, Clone)]
pub enum SessionUser {
    /// The holder of a key.
    KeyHolder(Caller),
    /// A person who signed in with an issuer.
    IssuerUser(Arc<SignedInUser>),
}

/// Returns the principal of a user who was authenticated earlier: with the current rights, and only
/// while the key or the sign-in is valid.
///
/// # Errors
/// [`ErrorCode::Unauthenticated`] if it is no longer valid, or the credential was an access token;
/// [`ErrorCode::Forbidden`] for a person without grants; [`ErrorCode::StoreUnavailable`] if that cannot
/// be checked.
pub fn resume_principal(
    state: &ServerState,
    user: &SessionUser,
    now: WallTime,
) -> Result<Principal, ApiError> {
    let ServerComponents { keys, clock, issuers, .. } = &state.components;
    keys.check_not_stale(clock.as_ref())?;
    let caller = match user {
        SessionUser::KeyHolder(caller) => caller,
        SessionUser::IssuerUser(user) => {
            let principal = issuers.resume_user(user, keys.key_ring().directory(), now)?;
            mark_authenticated();
            return Ok(principal);
        }
    };
    match keys.resolve_caller(caller, now) {
        CredentialStatus::Valid(principal) => {
            mark_authenticated();
            Ok(principal)
        }
        CredentialStatus::Invalid | CredentialStatus::NotStoredHere => {
            Err(ApiError::new(ErrorCode::Unauthenticated, "the key is no longer valid"))
        }
    }
}

async fn verify_credential(
    state: &ServerState,
    RequestCredentials { headers, source }: RequestCredentials<'_>,
    now: WallTime,
) -> Result<Principal, ApiError> {
    let ServerComponents { keys, clock, issuers, .. } = &state.components;
    let presented =
        parse_bearer_token(headers).map_err(|error| issuers.with_challenge(error, source, None))?;
    keys.check_not_stale(clock.as_ref())?;
    let ring = keys.key_ring();
    if let Some(token) = presented.filter(|presented| UnverifiedJwt::looks_like_jwt(presented)) {
        let context = VerificationContext { key_ring: &ring, clock };
        // Boxed: few requests have a token, and all futures would be larger.
        let verified = Box::pin(issuers.verify_token(token, source, context)).await;
        return verified.inspect(|_| mark_authenticated());
    }
    let verified = ring.verify_key(presented, now).inspect(|_| mark_authenticated());
    verified.map_err(|error| {
        tracing::info!(reason = error.reason().as_str(), "credential rejected");
        let fault = presented.map(|_| "invalid_token");
        let error = ApiError::new(ErrorCode::Unauthenticated, error.to_string()).with_help(
            "send `Authorization: Bearer KEY` with a key from `toolkeep key create`; if \
                 owner.key itself is invalid, run `toolkeep key recover` on the server's machine",
        );
        issuers.with_challenge(error, source, fault)
    })
}

/// Returns the bearer token; `None` without an Authorization header.
fn parse_bearer_token(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (all.next(), all.next());
    let Some(value) = first else { return Ok(None) };
    let unreadable = || {
        ApiError::new(ErrorCode::Unauthenticated, "the Authorization header cannot be read")
            .with_help("send it once, as `Authorization: Bearer KEY`")
    };
    if second.is_some() {
        return Err(unreadable());
    }
    let text = value.to_str().map_err(|_| unreadable())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(unreadable)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(unreadable());
    }
    Ok(Some(token.trim()))
}
