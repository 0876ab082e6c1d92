//! Admission checks for every HTTP interface, in order: Host and Origin, the credential, then the
//! restrictions of the request.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, Uri};
use identity::Principal;
use tool::WallTime;

use crate::authentication::{self, PrincipalCache, RequestCredentials};
use crate::error::ApiError;
use crate::request_restrictions;
use crate::server_state::ServerState;

/// Parts of a request that admission reads.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The target URI, whose query may restrict the caller's rights.
    pub uri: &'a Uri,
    /// The source of the endpoint, if a token may be limited to it.
    pub source: Option<&'a str>,
}

/// Cached admission result of one request head, for requests with identical bytes.
#[derive(Debug, Default)]
pub struct AdmissionCache {
    /// Whether Host and Origin passed. The result stays valid while the server runs.
    site_passed: AtomicBool,
    principal: PrincipalCache,
}

/// Admission check that failed, with its error.
#[derive(Debug)]
pub enum AdmissionError {
    /// Host or Origin.
    Site(ApiError),
    /// The credential.
    Credential(ApiError),
    /// The restrictions of the request are invalid.
    Restriction(ApiError),
}

impl From<AdmissionError> for ApiError {
    fn from(refused: AdmissionError) -> Self {
        match refused {
            AdmissionError::Site(error)
            | AdmissionError::Credential(error)
            | AdmissionError::Restriction(error) => error,
        }
    }
}

/// Admits a request that needs a credential, and returns its principal with the restrictions of the
/// request. `cache` must belong to this head; `now` is the time of arrival.
///
/// # Errors
/// [`AdmissionError`] of the first check that fails.
pub async fn admit_request(
    state: &ServerState,
    request: AdmissionRequest<'_>,
    cache: Option<&AdmissionCache>,
    now: WallTime,
) -> Result<Principal, AdmissionError> {
    let AdmissionRequest { headers, uri, source } = request;
    admit_site(state, headers, cache).map_err(AdmissionError::Site)?;
    let principal_cache = cache.map(|cache| &cache.principal);
    let credentials = RequestCredentials { headers, source };
    let principal =
        authentication::authenticate_request(state, credentials, principal_cache, now).await;
    let principal = principal.map_err(AdmissionError::Credential)?;
    request_restrictions::restrict_from_request(state, principal, (headers, uri))
        .map_err(AdmissionError::Restriction)
}

/// Checks Host and Origin, which suffices for requests without a credential.
///
/// # Errors
/// As [`Hosts::check`](crate::Hosts::check).
pub fn admit_site(
    state: &ServerState,
    headers: &HeaderMap,
    cache: Option<&AdmissionCache>,
) -> Result<(), ApiError> {
    if cache.is_some_and(|cache| cache.site_passed.load(Ordering::Relaxed)) {
        return Ok(());
    }
    state.components.allowed_hosts.check(headers)?;
    if let Some(cache) = cache {
        cache.site_passed.store(true, Ordering::Relaxed);
    }
    Ok(())
}
